"""The chunk merger as a network backend of httpcore2, sync and async.

It is set on the pools of a client that we made (see `_internals`). If that is not possible, nothing
is changed and the client works as it is, only slower.
"""

import httpcore2
import httpx2

from ._asyncio import AsyncioBackend
from ._internals import replace_network_backends
from ._merging_async import AsyncMergingBackend
from ._merging_sync import MergingBackend

__all__ = ["merge_chunks"]


def merge_chunks(client: httpx2.Client | httpx2.AsyncClient) -> bool:
    """Put the merging backend under every pool of the client; False if that is not possible."""
    return replace_network_backends(client, _merging)


def _merging(backend: object) -> MergingBackend | AsyncMergingBackend | None:
    if isinstance(backend, httpcore2.NetworkBackend):
        return MergingBackend(backend)
    if isinstance(backend, httpcore2.AsyncNetworkBackend):
        return AsyncMergingBackend(AsyncioBackend(backend))
    return None
