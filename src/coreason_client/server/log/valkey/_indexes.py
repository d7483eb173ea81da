"""The indexes by time: where to look for what has run out. They may lag; the streams are right."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

from ._keys import KeyNames, ended_member, shard
from ._scripts import INDEX
from ._store import Store

__all__ = ["Indexes"]

_AT_ONCE = 500  # changes in one script


class Indexes:
    """Sorted sets, each in a few shards. Every change can be repeated without harm."""

    __slots__ = ("_keys", "_store")

    def __init__(self, store: Store, keys: KeyNames) -> None:
        self._store = store
        self._keys = keys

    async def due(self, index: Sequence[str], until: float, limit: int) -> list[bytes]:
        """Return up to `limit` names of each shard whose time has come."""
        found: list[list[bytes]] = await asyncio.gather(
            *(
                self._store.command("ZRANGEBYSCORE", key, "-inf", repr(until), "LIMIT", 0, limit)
                for key in index
            )
        )
        return [name for names in found for name in names]

    async def opened(self, stream_id: UUID, until: float) -> None:
        """Record a new stream; a full store refuses it."""
        key = self._keys.lease_index(stream_id)
        await self._store.command("ZADD", key, "GT", repr(until), stream_id.hex)

    async def leased(self, streams: Sequence[UUID], until: float) -> None:
        """Record until when streams are held; this works on a full store too."""
        by_key: dict[str, list[str]] = {}
        for stream_id in streams:
            key = self._keys.lease_index(stream_id)
            by_key.setdefault(key, []).extend((repr(until), stream_id.hex))
        # Only ever later: what comes late must not hide a renewal.
        await asyncio.gather(
            *(
                self._store.script(INDEX, [key], "GT", *pairs[start : start + 2 * _AT_ONCE])
                for key, pairs in by_key.items()
                for start in range(0, len(pairs), 2 * _AT_ONCE)
            )
        )

    async def unleased(self, stream_id: UUID) -> None:
        """Forget a lease."""
        await self._store.command("ZREM", self._keys.lease_index(stream_id), stream_id.hex)

    async def ended(self, stream_id: UUID, request: str, at: float) -> None:
        """Move a stream from those that run to those that have ended."""
        await self._add(self._keys.bodies, stream_id, request, at)
        await self.unleased(stream_id)

    async def bare(self, stream_id: UUID, request: str, at: float) -> None:
        """Move a stream to those without entries."""
        await self._add(self._keys.finals, stream_id, request, at)
        await self._remove(self._keys.bodies, stream_id, request)

    async def forgotten(self, stream_id: UUID, request: str) -> None:
        """Remove a stream from those that have ended."""
        await self._remove(self._keys.bodies, stream_id, request)
        await self._remove(self._keys.finals, stream_id, request)

    async def touched(self, conversation: str, at: float) -> None:
        """Record that a conversation went on; a full store refuses it."""
        key = self._keys.conversations[shard(conversation)]
        await self._store.command("ZADD", key, "GT", repr(at), conversation)

    async def still_touched(self, conversation: str, at: float) -> None:
        """Put the time of a conversation right; this works on a full store too."""
        key = self._keys.conversations[shard(conversation)]
        await self._store.script(INDEX, [key], "GT", repr(at), conversation)

    async def untouched(self, conversation: str) -> None:
        """Forget a conversation."""
        key = self._keys.conversations[shard(conversation)]
        await self._store.command("ZREM", key, conversation)

    async def _add(self, index: Sequence[str], stream_id: UUID, request: str, at: float) -> None:
        member = ended_member(stream_id, request)
        await self._store.script(INDEX, [index[shard(stream_id.hex)]], "", repr(at), member)

    async def _remove(self, index: Sequence[str], stream_id: UUID, request: str) -> None:
        member = ended_member(stream_id, request)
        await self._store.command("ZREM", index[shard(stream_id.hex)], member)
