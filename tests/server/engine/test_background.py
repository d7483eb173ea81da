"""Background tasks: one that fails is reported, and all are over when `stop` returns."""

import asyncio
import logging

import pytest

from coreason_client.server.engine._upkeep import Background

from ..aio import aio, turns


@aio
async def test_all_tasks_have_ended_before_what_is_called_at_the_stop() -> None:
    background, ended = Background(), []

    async def work(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    background.run(work("first"))
    background.watch(asyncio.ensure_future(work("second")))
    background.at_stop(lambda: ended.append("stopped"))

    async def before() -> None:
        ended.append("before")

    background.before_stop(before)
    await turns()
    await background.stop()
    assert ended == ["before", "first", "second", "stopped"]
    assert not background.died


@aio
async def test_services_run_from_the_start_to_the_stop() -> None:
    seen: list[str] = []

    async def work() -> None:
        seen.append("started")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("ended")

    background = Background([work, work])
    await turns()
    assert seen == []
    background.start()
    await turns()
    assert seen == ["started"] * 2
    await background.stop()
    assert seen == ["started"] * 2 + ["ended"] * 2


@aio
async def test_a_task_that_fails_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    background = Background()

    async def fail() -> None:
        raise ValueError("a mistake")

    async def end() -> None:
        pass

    background.run(end())
    await turns()
    assert not background.died
    with caplog.at_level(logging.ERROR, "coreason_client.server"):
        background.run(fail())
        await turns()
    assert background.died
    assert "a background task of the server failed" in caplog.text
    await background.stop()


@aio
async def test_a_task_may_stop_the_others() -> None:
    background, ended = Background(), asyncio.Event()

    async def stop_all() -> None:
        await background.stop()
        ended.set()

    background.run(asyncio.sleep(3600))
    background.run(stop_all())
    await asyncio.wait_for(ended.wait(), 10)


@aio
async def test_what_must_be_finished_is_awaited_while_the_tasks_still_run() -> None:
    background, order = Background(), []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            order.append("task")

    async def finish() -> None:
        order.append("finished")

    background.run(work())
    background.before_stop(finish)
    await turns()
    await background.stop()
    assert order == ["finished", "task"]
