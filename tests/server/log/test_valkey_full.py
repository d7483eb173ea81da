"""A store that has reached its maxmemory: what it refuses, what still works, how it recovers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from uuid import UUID, uuid4

import pytest

from coreason_client.server.errors import LogUnavailable, PositionGone, UnknownStream
from coreason_client.server.log import Conversation, LeaseState, NewStream, ValkeyStreamLog

from ..aio import aio, turns
from .backends import Clock
from .valkey_logs import LONG, NEVER, everything, keys_of, logs, new
from .valkey_server import ValkeyServer, fresh_prefix, shared_server

ROOM = 3_000_000  # bytes between an empty store and a full one
FULL = r"is full: it has reached its maxmemory"


@asynccontextmanager
async def full_store(clock: Clock, prefix: str) -> AsyncIterator[tuple[ValkeyServer, list[UUID]]]:
    """A full store with four streams."""
    with ValkeyServer("--maxmemory-policy", "noeviction") as server:
        async with logs(1, server, prefix=prefix, clock=clock) as (log,):
            streams = [new() for _ in range(4)]
            for stream in streams:
                await log.open(stream, "me")
                await log.append(stream.stream_id, 1, 1, [b"first"])
            server.command("CONFIG", "SET", "maxmemory", 1)
            yield server, [stream.stream_id for stream in streams]


async def fill(log: ValkeyStreamLog, stream_id: UUID, size: int) -> None:
    """Append to a stream until the store takes no more."""
    seq = (await log.meta(stream_id)).last_seq
    with pytest.raises(LogUnavailable, match=FULL):
        for number in range(seq + 1, seq + 1000):
            await log.append(stream_id, 1, number, [b"x" * size])


async def once_freed(call: Callable[[], Awaitable[object]]) -> None:
    """Do something as soon as the store allows it: it frees memory in the background."""
    while True:
        with suppress(LogUnavailable):
            await call()
            return
        await asyncio.sleep(0.005)


async def assert_full(log: ValkeyStreamLog) -> None:
    with pytest.raises(LogUnavailable, match=FULL):
        await log.open(new(), "me")


@aio
async def test_a_full_store_refuses_what_is_large() -> None:
    clock, prefix = Clock(), fresh_prefix()
    async with (
        full_store(clock, prefix) as (server, streams),
        logs(1, server, prefix=prefix, clock=clock) as (log,),
    ):
        before = keys_of(prefix, server)
        await assert_full(log)
        with pytest.raises(LogUnavailable, match=FULL):
            await log.append(streams[0], 1, 2, [b"more"])
        with pytest.raises(LogUnavailable, match=FULL):
            await log.add_turn(Conversation("ann", "talk"), streams[0], b"turn")
        assert keys_of(prefix, server) == before
        assert await everything(log, streams[0]) == [b"first"]


@aio
async def test_on_a_full_store_streams_keep_their_leases_and_end() -> None:
    clock, prefix = Clock(), fresh_prefix()
    async with (
        full_store(clock, prefix) as (server, streams),
        # The log of another process, which starts on a full store.
        logs(1, server, prefix=prefix, clock=clock, poll=NEVER) as (log,),
    ):
        held, closed, lost, cancelled = streams
        reading = [asyncio.ensure_future(log.read(id_, 1, 9, LONG)) for id_ in (closed, lost)]
        await turns()
        await log.request_cancel(cancelled)
        clock.forward(log.lease - 1)
        await assert_full(log)
        assert await log.renew({held: 1, cancelled: 1}) == {
            held: LeaseState.HELD,
            cancelled: LeaseState.CANCEL_REQUESTED,
        }
        await log.close(closed, 1, 2, [b"end"], "complete")
        clock.forward(2)
        await assert_full(log)
        claims = {claim.stream_id: claim for claim in await log.claim_lost("me", 10)}
        assert claims.keys() == {lost}  # two others were renewed, and one has ended
        await log.close(lost, claims[lost].epoch, 2, [b"lost"], "producer_lost")
        for page, last in zip(await asyncio.gather(*reading), (b"end", b"lost"), strict=True):
            assert (list(page.entries), page.ended) == ([last], True)
        # The indexes are right too: nothing is claimed twice, and what ended is found by its end.
        assert list(await log.claim_lost("me", 10)) == []
        await assert_full(log)


@aio
async def test_expiry_frees_a_full_store_and_new_streams_open() -> None:
    clock, prefix = Clock(), fresh_prefix()
    with ValkeyServer("--maxmemory-policy", "noeviction") as server:
        async with logs(1, server, prefix=prefix, clock=clock) as (log,):
            large, small, later = new(), new(), new()
            await log.open(large, "me")
            await log.open(small, "me")
            used = int(server.command("INFO", "memory")["used_memory"])
            server.command("CONFIG", "SET", "maxmemory", used + ROOM)
            for final in (500, 50):  # the entries go, and the status stays; or all of it goes
                await fill(log, large.stream_id, 50_000)
                last = (await log.meta(large.stream_id)).last_seq
                await log.close(large.stream_id, 1, last + 1, [b"end"], "complete")
                clock.forward(100)
                await log.renew({small.stream_id: 1})
                await fill(log, small.stream_id, 1_000)
                await log.expire(10, final)
                await once_freed(partial(log.open, later, "me"))
                entry = b"x" * 1_000_000
                await once_freed(partial(log.append, later.stream_id, 1, 1, [entry]))
                if final == 500:
                    with pytest.raises(PositionGone):
                        await log.read(large.stream_id, 0, 9, 0)
                    assert (await log.meta(large.stream_id)).outcome == "complete"
                else:
                    with pytest.raises(UnknownStream):
                        await log.meta(large.stream_id)
                large, later = later, new()


@aio
async def test_expiry_frees_a_store_that_conversations_fill() -> None:
    clock, prefix = Clock(), fresh_prefix()
    with ValkeyServer() as server:
        async with logs(1, server, prefix=prefix, clock=clock) as (log,):
            used = int(server.command("INFO", "memory")["used_memory"])
            server.command("CONFIG", "SET", "maxmemory", used + ROOM)
            with pytest.raises(LogUnavailable, match=FULL):
                for number in range(1000):
                    talk = Conversation("ann", f"{number}")
                    await log.add_turn(talk, uuid4(), b"t" * 50_000)
            clock.forward(100)
            await log.expire(10, 50)
            assert list(await log.turns(Conversation("ann", "0"), 9)) == []
            await once_freed(lambda: log.add_turn(Conversation("ann", "new"), uuid4(), b"turn"))


@aio
async def test_the_index_of_conversations_is_put_right_on_a_full_store() -> None:
    clock, prefix = Clock(), fresh_prefix()
    async with full_store(clock, prefix) as (server, _):
        server.command("CONFIG", "SET", "maxmemory", 0)
        async with logs(1, server, prefix=prefix, clock=clock) as (log,):
            await log.add_turn(Conversation("ann", "talk"), uuid4(), b"turn")
            (index,) = [key for key in keys_of(prefix, server) if "conversations" in key]
            (name,) = server.command("ZRANGE", index, 0, -1)
            server.command("ZADD", index, 1, name)  # it lags behind the conversation
            server.command("CONFIG", "SET", "maxmemory", 1)
            clock.forward(100)
            await assert_full(log)
            await log.expire(10, 500)
            assert float(server.command("ZSCORE", index, name)) == clock() - 100
            assert list(await log.turns(Conversation("ann", "talk"), 9)) == [b"turn"]


@aio
async def test_entries_are_freed_although_an_index_cannot_be_updated() -> None:
    clock, prefix = Clock(), fresh_prefix()
    with ValkeyServer() as server:
        async with logs(1, server, prefix=prefix, clock=clock) as (log,):
            ids = []
            for _ in range(12):  # in all shards
                stream = NewStream(uuid4(), "ann", uuid4(), "f")
                await log.open(stream, "me")
                await log.close(stream.stream_id, 1, 1, [b"x"], "complete")
                ids.append(stream.stream_id)
            talk = Conversation("ann", "talk")
            await log.add_turn(talk, uuid4(), b"turn")
            for key in log._keys.finals:
                server.command("SET", key, "something else")
            clock.forward(100)
            with pytest.raises(LogUnavailable, match="has other data"):
                await log.expire(10, 50)  # everything is old enough to be forgotten
            assert not [key for key in keys_of(prefix, server) if ":entries" in key]
            assert list(await log.turns(talk, 9)) == []  # and so are the conversations


@aio
async def test_something_foreign_in_an_index_does_not_keep_the_rest() -> None:
    clock, prefix = Clock(), fresh_prefix()
    async with logs(prefix=prefix, clock=clock) as (log,):
        stream, talk = new(), Conversation("ann", "talk")
        await log.open(stream, "me")
        await log.close(stream.stream_id, 1, 1, [b"x"], "complete")
        await log.add_turn(talk, uuid4(), b"turn")
        for key in log._keys.bodies:
            shared_server().command("ZADD", key, 0, "something else")
        clock.forward(100)
        with pytest.raises(LogUnavailable, match="has other data"):
            await log.expire(10, 50)
        left = [key for key in keys_of(prefix) if "bodies" not in key]
        assert left == []
