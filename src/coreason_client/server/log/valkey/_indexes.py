"""The indexes by time, used to find what has run out. They may be out of date; see the package."""

import asyncio
from collections.abc import Mapping, Sequence
from uuid import UUID

from ._keys import KeyNames, ended_member, parse_name, shard
from ._scripts import INDEX
from ._store import Store

__all__ = ["Indexes"]

_AT_ONCE = 500  # changes in one script


class Indexes:
    """Sorted sets, each in a few shards. Every change may be repeated."""

    __slots__ = ("_keys", "_store")

    def __init__(self, store: Store, keys: KeyNames) -> None:
        self._store = store
        self._keys = keys

    async def due(self, index: Sequence[str], until: float, limit: int) -> list[bytes]:
        """Return up to `limit` members of each shard with a time up to `until`."""
        found: list[list[bytes]] = await asyncio.gather(
            *(
                self._store.command("ZRANGEBYSCORE", key, "-inf", repr(until), "LIMIT", 0, limit)
                for key in index
            )
        )
        return [name for names in found for name in names]

    async def add_new_stream(self, stream_id: UUID, until: float, agent: str = "") -> None:
        """Add a new stream to the leases; a full store rejects it."""
        key = self._keys.lease_index(stream_id, agent)
        await self._store.command("ZADD", key, "GT", repr(until), stream_id.hex)

    async def extend_leases(self, streams: Mapping[UUID, str], until: float) -> None:
        """Set the end of the leases of streams; it works on a full store too.

        Each stream has the digest of its agent if it is durable, otherwise an empty string.
        """
        by_key: dict[str, list[str]] = {}
        for stream_id, agent in streams.items():
            key = self._keys.lease_index(stream_id, agent)
            by_key.setdefault(key, []).extend((repr(until), stream_id.hex))
        # A time only becomes later (GT), so that a delayed command cannot undo a renewal.
        await asyncio.gather(
            *(
                self._store.script(INDEX, [key], "GT", *pairs[start : start + 2 * _AT_ONCE])
                for key, pairs in by_key.items()
                for start in range(0, len(pairs), 2 * _AT_ONCE)
            )
        )

    async def end_lease(self, stream_id: UUID, at: float, agent: str) -> None:
        """Set the end of the lease of a durable stream, which may be earlier than before."""
        key = self._keys.lease_index(stream_id, agent)
        await self._store.script(INDEX, [key], "", repr(at), stream_id.hex)

    async def remove_lease(self, stream_id: UUID, agent: str = "") -> None:
        """Remove a stream from the leases."""
        await self._store.command("ZREM", self._keys.lease_index(stream_id, agent), stream_id.hex)

    async def move_to_ended(
        self, stream_id: UUID, request: str, at: float, agent: str = ""
    ) -> None:
        """Move a stream from the leases to the ended streams."""
        await self._add(self._keys.bodies, stream_id, request, at)
        await self.remove_lease(stream_id, agent)

    async def move_to_without_entries(self, stream_id: UUID, request: str, at: float) -> None:
        """Move an ended stream to those without entries."""
        await self._add(self._keys.finals, stream_id, request, at)
        await self._remove(self._keys.bodies, stream_id, request)

    async def remove_ended(self, stream_id: UUID, request: str) -> None:
        """Remove a stream from the ended streams."""
        await self._remove(self._keys.bodies, stream_id, request)
        await self._remove(self._keys.finals, stream_id, request)

    async def touch_agent(self, agent: str, at: float) -> None:
        """Record that an agent has durable streams; it works on a full store too."""
        await self._store.script(INDEX, [self._keys.agents], "GT", repr(at), agent)

    async def agents(self) -> list[str]:
        """Return the digests of the agents that have durable streams."""
        found: list[bytes] = await self._store.command(
            "ZRANGEBYSCORE", self._keys.agents, "-inf", "+inf"
        )
        return [parse_name(name) for name in found]

    async def touch_conversation(self, conversation: str, at: float) -> None:
        """Set the time of the last turn of a conversation; a full store rejects it."""
        key = self._keys.conversations[shard(conversation)]
        await self._store.command("ZADD", key, "GT", repr(at), conversation)

    async def correct_conversation(self, conversation: str, at: float) -> None:
        """Correct the time of a conversation; it works on a full store too."""
        key = self._keys.conversations[shard(conversation)]
        await self._store.script(INDEX, [key], "GT", repr(at), conversation)

    async def remove_conversation(self, conversation: str) -> None:
        """Remove a conversation."""
        key = self._keys.conversations[shard(conversation)]
        await self._store.command("ZREM", key, conversation)

    async def _add(self, index: Sequence[str], stream_id: UUID, request: str, at: float) -> None:
        member = ended_member(stream_id, request)
        await self._store.script(INDEX, [index[shard(stream_id.hex)]], "", repr(at), member)

    async def _remove(self, index: Sequence[str], stream_id: UUID, request: str) -> None:
        member = ended_member(stream_id, request)
        await self._store.command("ZREM", index[shard(stream_id.hex)], member)
