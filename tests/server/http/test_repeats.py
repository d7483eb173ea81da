"""A request that an SDK sends again joins its stream; equal requests that are new do not."""

from uuid import UUID, uuid4

from coreason_client.server import MemoryStreamLog
from coreason_client.server.http._repeats import _MAX_KNOWN, Repeats
from coreason_client.server.log.base import NewStream

from ..aio import aio


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_780_000_000.0

    def __call__(self) -> float:
        return self.now


async def started(clock: Clock) -> MemoryStreamLog:
    log = MemoryStreamLog(clock=clock)
    await log.start("o")
    return log


async def opened(log: MemoryStreamLog, request_id: UUID, principal: str = "p") -> UUID:
    new = NewStream(uuid4(), principal, request_id, "digest")
    found = await log.open(new, "o")
    assert found.created
    return found.meta.stream_id


@aio
async def test_a_repetition_finds_the_newest_request() -> None:
    clock = Clock()
    log, repeats = await started(clock), Repeats(clock)
    first, second = repeats.new_id("digest"), repeats.new_id("digest")
    assert first != second
    await opened(log, first)
    assert await repeats.repeated(log, "p", "digest") == first
    await opened(log, second)
    assert await repeats.repeated(log, "p", "digest") == second
    assert await repeats.repeated(log, "p", "other") is None
    assert await repeats.repeated(log, "q", "digest") is None


@aio
async def test_another_process_finds_it_and_takes_no_number_that_is_taken() -> None:
    clock = Clock()
    log, here, there = await started(clock), Repeats(clock), Repeats(clock)
    first = here.new_id("digest")
    await opened(log, first)
    assert await there.repeated(log, "p", "digest") == first
    assert there.new_id("digest") == first  # the log refuses it, and the next one is taken
    second = there.new_id("digest")
    await opened(log, second)
    assert await here.repeated(log, "p", "digest") == second


@aio
async def test_a_repetition_in_the_next_minute_finds_it_for_a_minute() -> None:
    clock = Clock()
    clock.now -= clock.now % 60 - 59.0
    log, repeats = await started(clock), Repeats(clock)
    first = repeats.new_id("digest")
    await opened(log, first)
    clock.now += 60.0
    assert await repeats.repeated(log, "p", "digest") == first
    clock.now += 0.5
    assert await repeats.repeated(log, "p", "digest") is None
    assert repeats.new_id("digest") != first


@aio
async def test_a_response_that_was_written_some_time_ago_is_not_repeated() -> None:
    clock = Clock()
    clock.now -= clock.now % 60
    log, repeats = await started(clock), Repeats(clock)
    first, second = repeats.new_id("digest"), repeats.new_id("digest")
    await opened(log, first)
    stream = await opened(log, second)
    repeats.written(stream)
    clock.now += 10.0  # it may have been lost on its way
    assert await repeats.repeated(log, "p", "digest") == second
    clock.now += 0.1
    assert await repeats.repeated(log, "p", "digest") == first


def test_what_is_known_is_limited_and_forgotten() -> None:
    clock = Clock()
    repeats = Repeats(clock)
    for number in range(_MAX_KNOWN + 2):
        repeats.new_id(str(number))
        repeats.written(uuid4())
    assert len(repeats._next) <= _MAX_KNOWN + 1
    assert len(repeats._written) <= _MAX_KNOWN + 2
    clock.now += 200.0
    repeats.new_id("one")
    assert len(repeats._next) == 1
    assert not repeats._written
