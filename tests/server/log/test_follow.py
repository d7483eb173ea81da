"""Following a stream, on every log: the pages of `read`, and live entries without a task's turn."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from coreason_client.server.errors import PositionGone, UnknownStream
from coreason_client.server.log import MemoryStreamLog, NewStream, Notes, Page, StreamLog
from coreason_client.server.log._live import LocalFollower
from coreason_client.server.log.base import PAGE_BYTES
from coreason_client.server.log.remote._owned import SharedFollower

from ..aio import aio
from .backends import BACKENDS, Clock
from .valkey_logs import until

LONG = 60.0


@pytest.fixture(params=list(BACKENDS.values()), ids=list(BACKENDS))
def log(request: pytest.FixtureRequest, tmp_path: Path) -> StreamLog:
    made: StreamLog = request.param(Clock(), tmp_path)
    return made


@asynccontextmanager
async def stream_of(log: StreamLog) -> AsyncIterator[UUID]:
    await log.start("me")
    try:
        opened = await log.open(NewStream(uuid4(), "ann", uuid4(), "f"), "me")
        yield opened.meta.stream_id
    finally:
        await log.stop("me")


async def begin_append(log: StreamLog, id_: UUID, first: int, entries: Sequence[bytes]) -> bool:
    result = log.begin_append(id_, 1, first, entries)
    return result if isinstance(result, bool) else await result


@aio
async def test_pages_follow_one_another(log: StreamLog) -> None:
    async with stream_of(log) as id_:
        assert await begin_append(log, id_, 1, [b"1", b"2", b"3"]) is False
        with closing(log.follow(id_, 1)) as follower:
            assert list((await follower.next(1, LONG)).entries) == [b"2"]
            assert follower.position == 2
            assert list((await follower.next(10, LONG)).entries) == [b"3"]
            waiting = asyncio.ensure_future(follower.next(10, LONG))
            await asyncio.sleep(0)
            await begin_append(log, id_, 4, [b"4"])
            assert list((await asyncio.wait_for(waiting, 10)).entries) == [b"4"]
            empty = await follower.next(10, 0.01)
            assert (list(empty.entries), empty.ended) == ([], False)
            await log.close(id_, 1, 5, [b"5"], "complete")
            last = await follower.next(10, LONG)
            assert (list(last.entries), last.ended) == ([b"5"], True)
            assert follower.position == 5


@aio
async def test_what_is_written_and_what_is_returned_are_together_everything(
    log: StreamLog,
) -> None:
    """Whichever way an entry takes, it takes one, and in order."""
    async with stream_of(log) as id_:
        got: list[bytes] = []
        refusals = iter([True, True, False] * 40)

        def write(body: bytes) -> bool:
            if taken := next(refusals):
                got.append(body)
            return taken

        async def read() -> None:
            with closing(log.follow(id_, 0)) as follower:
                ended = False
                while not ended:
                    page = await follower.next(10, LONG, write)
                    got.extend(page.entries)
                    ended = page.ended
                    assert follower.position == len(b"".join(got)) // 3

        reading = asyncio.ensure_future(read())
        for number in range(1, 61):
            await begin_append(log, id_, number, [b"%03d" % number])
            if number % 3:
                await asyncio.sleep(0)
        await log.close(id_, 1, 61, [b"061"], "complete")
        await asyncio.wait_for(reading, 20)
        assert b"".join(got) == b"".join(b"%03d" % number for number in range(1, 62))


@pytest.mark.parametrize(
    ("entries", "limit"),
    [([b"%03d" % number for number in range(25)], 10), ([bytes(PAGE_BYTES)] * 4, 10)],
    ids=["many", "large"],
)
@aio
async def test_more_than_a_page_that_comes_at_once_is_given_out_at_once(
    log: StreamLog, entries: list[bytes], limit: int
) -> None:
    """Nothing else is appended, so nothing else would wake the reader."""
    async with stream_of(log) as id_:
        got: list[bytes] = []
        all_came = asyncio.Event()

        def write(body: bytes) -> bool:
            got.append(body)
            if sum(map(len, got)) == sum(map(len, entries)):
                all_came.set()
            return True

        follower = log.follow(id_, 0)
        assert isinstance(follower, LocalFollower | SharedFollower)

        async def read() -> None:
            with closing(follower):
                while not all_came.is_set():
                    write(b"".join((await follower.next(limit, LONG, write)).entries))

        reading = asyncio.ensure_future(read())
        await until(lambda: follower.waiter._future is not None)
        await begin_append(log, id_, 1, entries)
        await asyncio.wait_for(all_came.wait(), 10)
        log.wake_readers()  # or it would wait for more
        await asyncio.wait_for(reading, 10)
        assert b"".join(got) == b"".join(entries)


@aio
async def test_wake_readers_ends_the_wait(log: StreamLog) -> None:
    async with stream_of(log) as id_:
        with closing(log.follow(id_, 0)) as follower:
            waiting = asyncio.ensure_future(follower.next(10, LONG, lambda _: True))
            while not waiting.done():
                await asyncio.sleep(0.01)
                log.wake_readers()
            assert list(waiting.result().entries) == []


@aio
async def test_a_stream_that_does_not_exist_is_said_so(log: StreamLog) -> None:
    async with stream_of(log):
        with closing(log.follow(uuid4(), 0)) as follower, pytest.raises(UnknownStream):
            await follower.next(10, 0)


@aio
async def test_entries_that_go_while_somebody_waits_are_an_error_and_not_a_hang() -> None:
    clock = Clock()
    log = MemoryStreamLog(clock=clock)
    async with stream_of(log) as id_:
        await begin_append(log, id_, 1, [b"1"])
        with closing(log.follow(id_, 1)) as follower:
            waiting = asyncio.ensure_future(follower.next(10, LONG, lambda _: True))
            await asyncio.sleep(0)
            await log.close(id_, 1, 2, [b"2"], "complete")
            clock.forward(1000)
            await log.expire(900, 86400)
            with pytest.raises(PositionGone):
                await asyncio.wait_for(waiting, 10)


@aio
async def test_a_log_that_replaces_append_or_read_is_asked_for_each() -> None:
    class Noting(MemoryStreamLog):
        appended = 0
        reads = 0

        async def append(
            self,
            stream_id: UUID,
            epoch: int,
            first_seq: int,
            entries: Sequence[bytes],
            notes: Notes | None = None,
        ) -> bool:
            self.appended += 1
            return await super().append(stream_id, epoch, first_seq, entries, notes)

        async def read(
            self, stream_id: UUID, after_seq: int, limit: int, wait: float, after_epoch: int = 1
        ) -> Page:
            self.reads += 1
            return await super().read(stream_id, after_seq, limit, wait, after_epoch)

    log = Noting()
    async with stream_of(log) as id_:
        await begin_append(log, id_, 1, [b"1"])
        with closing(log.follow(id_, 0)) as follower:
            assert list((await follower.next(10, 0)).entries) == [b"1"]
    assert (log.appended, log.reads) == (1, 1)
