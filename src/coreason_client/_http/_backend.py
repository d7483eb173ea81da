"""The chunk merger as a network backend of httpcore2, sync and async.

httpx2 takes no network backend of its own accord, so it is set on the pools of a client that we
made. That leans on two private names; where they are not as expected, nothing is changed and the
client works as it is, only slower.
"""

import httpcore2
import httpx2

from ._asyncio import AsyncioBackend
from ._merging_async import AsyncMergingBackend
from ._merging_sync import MergingBackend

__all__ = ["merge_chunks"]


def merge_chunks(client: httpx2.Client | httpx2.AsyncClient) -> bool:
    """Put the merging backend under every pool of the client; False when it had to step aside."""
    try:
        transports = [client._transport, *client._mounts.values()]
        pools = [transport._pool for transport in transports if transport is not None]
        backends = [pool._network_backend for pool in pools]
    except AttributeError:
        return False
    merging = [_merging(backend) for backend in backends]
    if None in merging:
        return False
    for pool, backend in zip(pools, merging, strict=True):
        pool._network_backend = backend
    return True


def _merging(backend: object) -> MergingBackend | AsyncMergingBackend | None:
    if isinstance(backend, httpcore2.NetworkBackend):
        return MergingBackend(backend)
    if isinstance(backend, httpcore2.AsyncNetworkBackend):
        return AsyncMergingBackend(AsyncioBackend(backend))
    return None
