"""Time limits: a reached limit is a timeout, and everything else stays a cancellation."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from coreason_client.llm._session_async import NO_LIMIT, TimeLimits

LONG = 3600.0  # these limits share timers


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(coroutine, 10)

    asyncio.run(bounded())


def timers() -> int:
    loop: Any = asyncio.get_running_loop()
    return len(loop._scheduled)


def test_a_reached_limit_cancels_the_task_that_waits() -> None:
    async def go() -> None:
        limit = TimeLimits().begin(0.01)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(5)
        assert limit.end()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0, "the task is not cancelled for others"
        await asyncio.sleep(0)

    run(go())


def test_a_limit_that_has_ended_is_not_reached() -> None:
    async def go() -> None:
        limit = TimeLimits().begin(0.01)
        assert not limit.end()
        await asyncio.sleep(0.05)
        assert not limit.end()

    run(go())


def test_a_cancellation_by_others_is_no_timeout() -> None:
    async def go() -> None:
        ended: list[bool] = []

        async def waits() -> None:
            limit = TimeLimits().begin(LONG)
            try:
                await asyncio.sleep(5)
            finally:
                ended.append(limit.end())

        task = asyncio.create_task(waits())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == [False]

    run(go())


def test_a_cancellation_at_the_same_time_takes_precedence() -> None:
    async def go() -> None:
        ended: list[bool] = []

        async def waits() -> None:
            limit = TimeLimits().begin(LONG)
            try:
                await asyncio.sleep(5)
            finally:
                limit.reach()  # the time is over while the cancellation is on its way
                ended.append(limit.end())

        task = asyncio.create_task(waits())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == [False]

    run(go())


def test_limits_that_end_in_the_same_second_share_a_timer() -> None:
    async def go() -> None:
        limits, before = TimeLimits(), timers()
        begun = [limits.begin(LONG) for _ in range(100)]
        assert timers() - before <= 2  # a second may have passed meanwhile
        assert not any(limit.end() for limit in begun)

    run(go())


def test_all_limits_of_a_second_are_reached_and_the_ended_ones_are_not() -> None:
    async def go() -> None:
        limits = TimeLimits()
        second = 5.2  # longer than an exact limit

        async def waits(*, ends: bool) -> bool:
            limit = limits.begin(second)
            if ends:
                limit.end()
            try:
                await asyncio.sleep(0.2)
            except asyncio.CancelledError:
                return limit.end()
            return limit.end()

        tasks = [asyncio.create_task(waits(ends=ends)) for ends in (False, True, False)]
        await asyncio.sleep(0)
        for known in list(limits._groups):
            limits._reach_group(known)
        assert await asyncio.gather(*tasks) == [True, False, True]
        limits.begin(second).end()  # the group of that second begins anew
        for known in list(limits._groups):
            limits._reach_group(known)

    run(go())


def test_no_limit_is_never_reached() -> None:
    async def go() -> None:
        assert TimeLimits().begin(None) is NO_LIMIT
        assert not NO_LIMIT.end()

    run(go())
