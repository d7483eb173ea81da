"""A few requests begin, and a few agents go on writing, in each iteration of the event loop."""

import asyncio
from typing import Self

import pytest

from coreason_client.server.engine._limits import Pace, pace_of_writers

from ..aio import aio

EACH_ITERATION = 2


class Iterations:
    """Counts the iterations of the event loop while it is entered."""

    def __init__(self) -> None:
        self.count = 0
        self._stopped = False

    def __enter__(self) -> Self:
        self._next()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True

    def _next(self) -> None:
        if not self._stopped:
            self.count += 1
            asyncio.get_running_loop().call_soon(self._next)


async def begin(pace: Pace, name: int, begun: list[tuple[int, int]], now: Iterations) -> None:
    await pace.wait()
    begun.append((name, now.count))


@aio
async def test_a_few_begin_in_each_iteration_and_in_order() -> None:
    pace, begun = Pace(EACH_ITERATION), list[tuple[int, int]]()
    with Iterations() as now:
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            for name in range(5 * EACH_ITERATION + 1):
                group.create_task(begin(pace, name, begun, now))
    assert [name for name, _ in begun] == list(range(5 * EACH_ITERATION + 1))
    iterations = [iteration for _, iteration in begun]
    counts = [iterations.count(iteration) for iteration in sorted(set(iterations))]
    assert counts == [EACH_ITERATION] * 5 + [1]


@aio
async def test_a_request_alone_does_not_wait() -> None:
    pace = Pace(EACH_ITERATION)
    for _ in range(3):
        waiting = pace.wait()
        with pytest.raises(StopIteration):
            waiting.send(None)
        await asyncio.sleep(0)


@aio
async def test_a_request_that_is_cancelled_takes_nobodys_place() -> None:
    pace, begun = Pace(EACH_ITERATION), list[tuple[int, int]]()
    with Iterations() as now:
        tasks = [
            asyncio.ensure_future(begin(pace, name, begun, now))
            for name in range(3 * EACH_ITERATION)
        ]
        await asyncio.sleep(0)
        for task in tasks[EACH_ITERATION : 2 * EACH_ITERATION]:
            task.cancel()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
    first = begun[EACH_ITERATION - 1][1]
    assert [name for name, _ in begun[EACH_ITERATION:]] == list(
        range(2 * EACH_ITERATION, 3 * EACH_ITERATION)
    )
    assert all(iteration <= first + 2 for _, iteration in begun)


def test_another_event_loop_starts_anew() -> None:
    pace = Pace(EACH_ITERATION)

    async def leave_some_waiting() -> None:
        tasks = [asyncio.ensure_future(pace.wait()) for _ in range(3 * EACH_ITERATION)]
        await asyncio.sleep(0)
        del tasks

    async def wait() -> None:
        await asyncio.wait_for(asyncio.gather(*(pace.wait() for _ in range(20))), 10)

    for _ in range(2):
        asyncio.run(leave_some_waiting())
        asyncio.run(wait())


def test_each_event_loop_has_its_own_pace_of_writers() -> None:
    loops = [asyncio.new_event_loop() for _ in range(2)]
    paces = [pace_of_writers(loop) for loop in loops]
    assert paces[0] is not paces[1]
    assert paces == [pace_of_writers(loop) for loop in loops]
    for loop in loops:
        loop.close()
