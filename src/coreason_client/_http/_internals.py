"""The undocumented names of httpx2 and httpcore2 that this package uses.

httpx2 has no argument for a network backend, so it is set on the pools of clients that we create.
That needs four private names: `_transport`, `_mounts`, `_pool` and `_network_backend`.
"""

from collections.abc import Callable
from typing import Any

from .._fallback import report_fallback

__all__ = ["replace_network_backends"]


def replace_network_backends(client: Any, replacement: Callable[[object], object | None]) -> bool:
    """Replace the network backends of all pools of a client, or change nothing.

    `replacement` returns the new backend for an old one, None for an unknown one. Return False if
    nothing was changed; the client then works the same, but slower.
    """
    try:
        transports = [client._transport, *client._mounts.values()]
        pools = [transport._pool for transport in transports if transport is not None]
        backends = [replacement(pool._network_backend) for pool in pools]
    except AttributeError:
        pools, backends = [], [None]
    if None in backends:
        report_fallback("the pools of httpx2 are", "packets are read one chunk at a time, slower")
        return False
    for pool, backend in zip(pools, backends, strict=True):
        pool._network_backend = backend
    return True
