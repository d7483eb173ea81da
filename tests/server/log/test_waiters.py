"""Waiting and waking: no wake is lost, and one timer serves many waits."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.log._live import Waiter, Waiters, make_wake_callback
from coreason_client.server.log.base import PAGE_BYTES, Page

from ..aio import aio


@dataclass(eq=False, slots=True)
class At:
    """A reader that has read up to a position."""

    waiter: Waiter
    position: int = 0
    epoch: int = 1


@aio
async def test_a_wake_before_the_wait_is_not_lost_unless_cleared() -> None:
    waiter = Waiter()
    waiter.wake(asyncio.get_running_loop())
    await asyncio.wait_for(waiter.wait(60), 5)
    waiter.clear()
    woken = asyncio.ensure_future(waiter.wait(60))
    await asyncio.sleep(0)
    assert not woken.done()
    waiter.wake(asyncio.get_running_loop())
    await asyncio.wait_for(woken, 5)
    waiter.close()


@aio
async def test_a_wait_ends_when_its_time_is_over() -> None:
    waiter = Waiter()
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await asyncio.wait_for(waiter.wait(0.05), 5)
    assert loop.time() - begun >= 0.05
    waiter.close()


@aio
async def test_many_waits_share_a_timer_and_a_later_deadline_counts() -> None:
    waiter, loop = Waiter(), asyncio.get_running_loop()
    timers = set()
    for _ in range(20):
        waiter.clear()
        waiting = asyncio.ensure_future(waiter.wait(60))
        await asyncio.sleep(0)
        timers.add(waiter._timer)
        waiter.wake(loop)
        await waiting
    assert len(timers) == 1
    assert waiter._timer is not None
    waiter._timer.cancel()
    waiter._timer = loop.call_later(0.05, waiter._check_deadline)  # too early for the next wait
    waiter.clear()
    last = loop.time()
    await asyncio.wait_for(waiter.wait(0.2), 5)
    assert loop.time() - last >= 0.2
    waiter.close()


@aio
async def test_a_shorter_wait_does_not_wait_for_an_older_timer() -> None:
    waiter = Waiter()
    waiter.wake(asyncio.get_running_loop())
    await waiter.wait(60)
    waiter.clear()
    long = asyncio.ensure_future(waiter.wait(60))
    await asyncio.sleep(0)
    waiter.wake(asyncio.get_running_loop())
    await long
    waiter.clear()
    await asyncio.wait_for(waiter.wait(0.01), 10)
    waiter.close()


@aio
async def test_a_wake_from_another_thread_arrives() -> None:
    waiters, waiter, stream_id = Waiters(), Waiter(), uuid4()
    reader = At(waiter)
    waiters.add(stream_id, reader)
    for _ in range(50):
        waiter.clear()
        waiting = asyncio.ensure_future(waiter.wait(60))
        threading.Thread(target=waiters.wake, args=(stream_id,)).start()
        await asyncio.wait_for(waiting, 10)
    waiters.remove(stream_id, reader)
    waiters.remove(stream_id, reader)
    waiters.wake(stream_id)
    waiter.close()


def test_the_waiters_of_a_closed_loop_are_left_alone() -> None:
    waiters, stream_id = Waiters(), uuid4()

    async def wait() -> None:
        waiter = Waiter()
        waiters.add(stream_id, At(waiter))
        waiter._future = waiter.loop.create_future()  # as of a task that the end took by surprise

    asyncio.run(wait())
    waiters.wake(stream_id)
    waiters.wake_all()


@given(st.lists(st.sampled_from(["clear", "wake", "wait"]), max_size=30))
def test_whatever_the_order_a_wait_returns_at_once_only_after_a_wake(steps: list[str]) -> None:
    async def go() -> None:
        waiter, woken = Waiter(), False
        for step in steps:
            if step == "clear":
                waiter.clear()
                woken = False
            elif step == "wake":
                waiter.wake(asyncio.get_running_loop())
                woken = True
            else:
                waiting = asyncio.ensure_future(waiter.wait(60))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                assert waiting.done() is woken
                if not woken:
                    waiter.wake(asyncio.get_running_loop())
                    await waiting
                    woken = True
        waiter.close()

    asyncio.run(go())


@aio
async def test_the_lowest_position_of_each_stream() -> None:
    waiters, first, second = Waiters(), uuid4(), uuid4()
    readers = [At(Waiter(), position) for position in (7, 3, 5)]
    waiters.add(first, readers[0])
    waiters.add(first, readers[1])
    waiters.add(second, readers[2])
    assert sorted(waiters.positions()) == sorted([(first, 3), (second, 5)])
    waiters.remove(first, readers[1])
    waiters.remove(second, readers[2])
    assert waiters.positions() == [(first, 7)]
    assert first in waiters
    assert second not in waiters
    assert waiters.wake_all_count == 0
    waiters.wake_all()
    assert waiters.wake_all_count == 1


WAIT = 9.0
BIG = bytes(PAGE_BYTES)


@pytest.mark.parametrize(
    ("page", "takes", "wait_if_empty", "seconds", "written", "position"),
    [
        (Page([b"a", b"b"], ended=False), True, True, WAIT, [b"ab"], 6),
        (Page([b"a", b"b"], ended=False), True, False, WAIT, [b"ab"], 6),
        (Page([b"a"], ended=False), False, True, 0.0, [b"a"], 4),  # it must be read once more
        # A full page: nothing may wake the reader for what is behind it.
        (Page([b"a"] * 100, ended=False), True, True, 0.0, [b"a" * 100], 104),
        (Page([b"a"] * 99, ended=False), True, True, WAIT, [b"a" * 99], 103),
        (Page([BIG, b"a"], ended=False), True, False, 0.0, [BIG + b"a"], 6),
        (Page([b"a"], ended=True), True, True, 0.0, [], 4),
        (Page([], ended=True), True, True, 0.0, [], 4),
        (Page([], ended=False), True, True, WAIT, [], 4),
        (Page([], ended=False), True, False, 0.0, [], 4),
        (None, True, True, 0.0, [], 4),
        (None, True, False, 0.0, [], 4),
    ],
)
@aio
async def test_what_a_woken_reader_writes_and_when_its_wait_ends(
    page: Page | None,
    takes: bool,
    wait_if_empty: bool,
    seconds: float,
    written: list[bytes],
    position: int,
) -> None:
    reader, stream, got = At(Waiter(), 4, 3), uuid4(), []

    def look(stream_id: UUID, after_seq: int, after_epoch: int, limit: int) -> Page | None:
        assert (stream_id, after_seq, after_epoch, limit) == (stream, 4, 3, 100)
        return None if page is None else page._replace(epoch=7)

    def write(data: bytes) -> bool:
        got.append(data)
        return takes

    def woken(write: Callable[[bytes], bool] | None) -> Callable[[], float] | None:
        return make_wake_callback(
            reader, stream, look, 100, WAIT, write, wait_if_empty=wait_if_empty
        )

    assert woken(None) is None
    write_on = woken(write)
    assert write_on is not None
    assert (write_on(), got, reader.position) == (seconds, written, position)
    assert reader.epoch == (3 if position == 4 else 7)  # that of the last entry
