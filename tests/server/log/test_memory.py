"""What only the memory log does: it makes room, and works for several event loops at once."""

import asyncio
import threading
from uuid import uuid4

import pytest

from coreason_client.server.errors import PositionGone
from coreason_client.server.log import MemoryStreamLog, NewStream

from ..aio import aio


def new() -> NewStream:
    return NewStream(uuid4(), "p", uuid4(), "f")


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


@aio
async def test_the_end_of_a_stream_frees_its_question() -> None:
    log = MemoryStreamLog()
    stream = NewStream(uuid4(), "p", uuid4(), "f", b"a question")
    await log.open(stream, "me")
    assert log._streams[stream.stream_id].new.question == b"a question"
    await log.close(stream.stream_id, 1, 1, [b"x"], "complete")
    assert log._streams[stream.stream_id].new.question == b""


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
    log.nudge()
