"""Only the memory log makes room, and works for several event loops at once."""

import asyncio
import gc
import sys
import threading
import tracemalloc
from itertools import pairwise
from random import randbytes
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coreason_client.server.errors import PositionGone, UnknownStream
from coreason_client.server.log import Conversation, MemoryStreamLog, NewStream
from coreason_client.server.log import _memory_store as _memory_records
from tests.each import each

from ..aio import aio
from .backends import Clock


@pytest.fixture
def payload_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count payload alone, so that the sizes of a test are those that it writes."""
    for name in ("_ENTRY", "_STREAM", "_TURN", "_CONVERSATION"):
        monkeypatch.setattr(_memory_records, name, 0)


def new() -> NewStream:
    return NewStream(uuid4(), "p", uuid4(), "f")


@pytest.mark.usefixtures("payload_only")
@aio
async def test_makes_room_by_dropping_what_ended_first() -> None:
    log = MemoryStreamLog(max_bytes=1000)
    running, ended = new(), [new() for _ in range(5)]
    await log.open(running, "me")
    await log.append(running.stream_id, 1, 1, [b"x" * 300])
    for stream in ended:
        await log.open(stream, "me")
        await log.close(stream.stream_id, 1, 1, [b"x" * 300], "complete")
    for stream in ended[:3]:
        with pytest.raises(PositionGone):
            await log.read(stream.stream_id, 0, 10, 0)
    for stream in [*ended[3:], running]:
        assert len((await log.read(stream.stream_id, 0, 10, 0)).entries) == 1
    await log.append(running.stream_id, 1, 2, [b"x" * 2000])  # one at work is never dropped
    assert len((await log.read(running.stream_id, 0, 10, 0)).entries) == 2


@pytest.mark.usefixtures("payload_only")
@aio
async def test_the_end_of_a_stream_frees_its_question() -> None:
    log = MemoryStreamLog()
    stream = NewStream(uuid4(), "p", uuid4(), "f", b"a question")
    await log.open(stream, "me")
    assert log._store.streams[stream.stream_id].new.question == b"a question"
    assert log._store.size == len(b"a question")
    await log.close(stream.stream_id, 1, 1, [b"x"], "complete")
    assert log._store.streams[stream.stream_id].new.question == b""
    assert log._store.size == 1


async def ended(log: MemoryStreamLog, size: int) -> NewStream:
    stream = new()
    await log.open(stream, "me")
    await log.close(stream.stream_id, 1, 1, [bytes(size)], "complete")
    return stream


@pytest.mark.usefixtures("payload_only")
@aio
async def test_the_stream_that_ended_last_is_kept_whatever_its_size() -> None:
    log = MemoryStreamLog(max_bytes=1000)
    await ended(log, 100)
    last = await ended(log, 5000)
    assert len((await log.read(last.stream_id, 0, 10, 0)).entries) == 1
    await log.add_turn(Conversation("p", "s"), uuid4(), bytes(500))
    assert len((await log.read(last.stream_id, 0, 10, 0)).entries) == 1


@pytest.mark.usefixtures("payload_only")
@aio
async def test_questions_count_while_their_streams_run() -> None:
    log = MemoryStreamLog(max_bytes=1000)
    first, last = await ended(log, 400), await ended(log, 400)
    await log.open(NewStream(uuid4(), "p", uuid4(), "f", bytes(300)), "me")
    with pytest.raises(PositionGone):
        await log.read(first.stream_id, 0, 10, 0)
    assert len((await log.read(last.stream_id, 0, 10, 0)).entries) == 1


@pytest.mark.usefixtures("payload_only")
@aio
async def test_turns_count_and_those_of_idle_conversations_go_first() -> None:
    log = MemoryStreamLog(max_bytes=1000)
    stream = await ended(log, 10)
    a, b = Conversation("p", "a"), Conversation("p", "b")
    first = uuid4()
    for talk, id_, size in ((a, first, 301), (b, uuid4(), 302), (a, uuid4(), 303)):
        await log.add_turn(talk, id_, bytes(size))
    await log.add_turn(b, uuid4(), bytes(304))  # b has changed last
    assert [len(turn) for turn in await log.turns(a, 9)] == [303]
    assert [len(turn) for turn in await log.turns(b, 9)] == [302, 304]
    await log.add_turn(a, first, bytes(300))  # it was dropped, so it is new
    assert [len(turn) for turn in await log.turns(b, 9)] == [304]
    assert [len(turn) for turn in await log.turns(a, 9)] == [303, 300]
    await log.add_turn(b, uuid4(), bytes(2000))
    assert [len(turn) for turn in await log.turns(b, 9)] == [2000]  # the newest one is kept
    assert list(await log.turns(a, 9)) == []
    assert len((await log.read(stream.stream_id, 0, 10, 0)).entries) == 1


@pytest.mark.usefixtures("payload_only")
@aio
async def test_entries_are_dropped_before_turns() -> None:
    log = MemoryStreamLog(max_bytes=1000)
    talk = Conversation("p", "a")
    await log.add_turn(talk, uuid4(), bytes(400))
    first, last = await ended(log, 400), await ended(log, 400)
    with pytest.raises(PositionGone):
        await log.read(first.stream_id, 0, 10, 0)
    assert len((await log.read(last.stream_id, 0, 10, 0)).entries) == 1
    assert len(await log.turns(talk, 9)) == 1


@aio
async def test_many_large_requests_stay_within_the_bound() -> None:
    """Bodies of megabytes, each with its turn, in one conversation or in many."""
    log = MemoryStreamLog(max_bytes=10_000_000)
    body = bytes(1_000_000)
    for number in range(50):
        stream = NewStream(uuid4(), "p", uuid4(), "f", body)
        await log.open(stream, "me")
        await log.add_turn(Conversation("p", str(number % 20)), stream.stream_id, body)
        await log.close(stream.stream_id, 1, 1, [b"x"], "complete")
        assert held_bytes(log) == log._store.size <= 10_000_000


def held_bytes(log: MemoryStreamLog) -> int:
    streams = sum(
        stream.record_size + _memory_records.memory_of(stream.entries)
        for stream in log._store.streams.values()
    )
    return streams + sum(turns.memory for turns in log._store.conversations.values())


@each(
    ("streams", "packets", "size", "turns"),
    [(600, 1, 100, 0), (600, 10, 60, 0), (60, 200, 30, 0), (60, 50, 210, 1), (30, 1, 10, 30)],
)
def test_the_size_is_that_in_memory(streams: int, packets: int, size: int, turns: int) -> None:
    log = MemoryStreamLog()

    async def fill() -> None:
        for number in range(streams):
            stream = NewStream(
                uuid4(), f"agent/{number}", uuid4(), randbytes(32).hex(), randbytes(99)
            )
            await log.open(stream, "me")
            for seq in range(1, packets):
                await log.append(stream.stream_id, 1, seq, [randbytes(size)])
            await log.close(stream.stream_id, 1, packets, [randbytes(size)], "complete")
            for _ in range(turns):
                talk = Conversation(f"agent/{number}", f"session {number}")
                await log.add_turn(talk, uuid4(), randbytes(300))

    gc.collect()  # empties the lists of free objects, which would not be measured when used again
    tracemalloc.start()
    try:
        asyncio.run(fill())
        gc.collect()
        measured, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.8 * log._store.size < measured < 1.05 * log._store.size


@aio
async def test_streams_without_entries_are_forgotten_when_they_alone_are_too_large() -> None:
    """Otherwise a busy server grows for the whole final retention, whatever its limit."""
    log, running = MemoryStreamLog(max_bytes=100_000), new()
    talk = Conversation("p", "a")
    await log.open(running, "me")
    await log.add_turn(talk, uuid4(), bytes(1000))
    streams = [await ended(log, 10) for _ in range(300)]
    assert held_bytes(log) == log._store.size <= 100_000
    for stream in (streams[0], streams[200]):
        with pytest.raises(UnknownStream):
            await log.meta(stream.stream_id)
        assert await log.find("p", stream.request_id) is None
    assert (await log.meta(streams[290].stream_id)).outcome == "complete"
    assert len((await log.read(streams[299].stream_id, 0, 10, 0)).entries) == 1
    assert (await log.meta(running.stream_id)).outcome is None
    assert len(await log.turns(talk, 9)) == 1
    await log.expire(0, 0)
    assert log._store.streams.keys() == {running.stream_id}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["open", "append", "close", "turn", "wait", "expire"]),
            st.integers(0, 3),
            st.integers(0, 600),
        ),
        max_size=60,
    )
)
def test_the_size_is_that_of_what_is_kept(steps: list[tuple[str, int, int]]) -> None:
    async def run() -> None:
        clock = Clock()
        log = MemoryStreamLog(clock=clock, max_bytes=7000)
        streams: dict[int, tuple[UUID, int]] = {}
        for step, which, size in steps:
            if step == "open":
                stream = NewStream(uuid4(), "p", uuid4(), "f", bytes(size))
                await log.open(stream, "me")
                streams[which] = (stream.stream_id, 1)
            elif step in ("append", "close") and which in streams:
                id_, seq = streams[which]
                if step == "append":
                    await log.append(id_, 1, seq, [bytes(size)])
                    streams[which] = (id_, seq + 1)
                else:
                    await log.close(id_, 1, seq, [bytes(size)], "complete")
                    del streams[which]
            elif step == "turn":
                await log.add_turn(Conversation("p", str(which)), uuid4(), bytes(size))
            elif step == "wait":
                clock.forward(size - 50)  # the clock may be set back
            elif step == "expire":
                await log.expire(100, 400)
            assert log._store.size == held_bytes(log)
        clock.forward(10_000)
        for id_, seq in streams.values():
            await log.close(id_, 1, seq, [b"end"], "complete")
        clock.forward(100_000)
        await log.expire(100, 400)
        running = sum(s.record_size + s.size for s in log._store.running.values())
        assert (log._store.size, len(log._store.conversations)) == (running, 0)
        assert len(log._store.streams) == len(log._store.running)

    asyncio.run(run())


# Expiry.


async def calls_of_expiry(log: MemoryStreamLog) -> int:
    """Return how many functions an expiry calls."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        await log.expire(900, 86_400)
    finally:
        sys.setprofile(None)
    return calls


@aio
async def test_an_expiry_costs_what_expires() -> None:
    clock = Clock()
    log = MemoryStreamLog(clock=clock)
    idle = await calls_of_expiry(log)
    for number in range(500):
        await ended(log, 1)
        await log.add_turn(Conversation("p", str(number)), uuid4(), b"x")
    clock.forward(1000)
    assert await calls_of_expiry(log) > 500
    for _ in range(500):
        await ended(log, 1)
    assert await calls_of_expiry(log) == idle


@aio
async def test_an_expiry_of_many_lets_others_work_in_between() -> None:
    clock = Clock()
    log = MemoryStreamLog(clock=clock)
    for number in range(1000):
        await ended(log, 1)
        await log.add_turn(Conversation("p", str(number)), uuid4(), b"x")
    clock.forward(100_000)
    expiring = asyncio.ensure_future(log.expire(900, 86_400))
    left: list[int] = []
    while not expiring.done():
        await asyncio.sleep(0)
        left.append(len(log._store.ended) + len(log._store.streams) + len(log._store.conversations))
    assert len(left) > 10
    assert max(before - after for before, after in pairwise([3000, *left])) <= 200
    assert left[-1] == 0


@aio
async def test_a_clock_that_was_set_back_keeps_nothing_for_long() -> None:
    clock = Clock()
    log = MemoryStreamLog(clock=clock)
    clock.forward(10**7)
    future, talk = await ended(log, 1), Conversation("p", "future")
    await log.add_turn(talk, uuid4(), b"x")
    clock.forward(-(10**7))
    past = await ended(log, 1)
    await log.add_turn(Conversation("p", "past"), uuid4(), b"x")
    clock.forward(100_000)
    await log.expire(900, 86_400)
    with pytest.raises(UnknownStream):
        await log.meta(past.stream_id)
    assert list(await log.turns(Conversation("p", "past"), 9)) == []
    assert (await log.meta(future.stream_id)).outcome == "complete"
    assert len(await log.turns(talk, 9)) == 1


@aio
async def test_an_append_in_one_thread_wakes_a_reader_in_another() -> None:
    log, stream = MemoryStreamLog(), new()
    await log.open(stream, "me")
    got: list[bytes] = []
    begun = threading.Event()

    async def read() -> None:
        begun.set()
        while len(got) < 100:
            got.extend((await log.read(stream.stream_id, len(got), 7, 60.0)).entries)

    thread = threading.Thread(target=lambda: asyncio.run(read()))
    thread.start()
    begun.wait(10)
    for seq in range(1, 101):
        await log.append(stream.stream_id, 1, seq, [b"%d" % seq])
        await asyncio.sleep(0)
    await asyncio.to_thread(thread.join, 10)
    assert got == [b"%d" % seq for seq in range(1, 101)]


def test_a_reader_that_died_with_its_loop_is_no_trouble() -> None:
    log, stream = MemoryStreamLog(), new()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(log.open(stream, "me"))
    reading = loop.create_task(log.read(stream.stream_id, 0, 10, 60.0))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    asyncio.run(_append(log, stream))
    reading._log_destroy_pending = False  # type: ignore[attr-defined]


async def _append(log: MemoryStreamLog, stream: NewStream) -> None:
    await log.append(stream.stream_id, 1, 1, [b"x"])
    log.wake_readers()
