"""Installs the chunk merger as the network backend of a client, sync or async.

It is set on the connection pools of clients that this package creates (see `_internals`). If that
is not possible, the client is left unchanged; it works the same, but slower.
"""

import httpcore2
import httpx2

from ._asyncio import AsyncioBackend
from ._internals import replace_network_backends
from ._merging_async import AsyncMergingBackend
from ._merging_sync import MergingBackend

__all__ = ["merge_chunks"]


def merge_chunks(client: httpx2.Client | httpx2.AsyncClient) -> bool:
    """Set the merging backend on every pool of the client; return False if not possible."""
    return replace_network_backends(client, _merging_backend)


def _merging_backend(backend: object) -> MergingBackend | AsyncMergingBackend | None:
    if isinstance(backend, httpcore2.NetworkBackend):
        return MergingBackend(backend)
    if isinstance(backend, httpcore2.AsyncNetworkBackend):
        return AsyncMergingBackend(AsyncioBackend(backend))
    return None
