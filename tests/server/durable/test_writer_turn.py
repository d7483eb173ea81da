"""Steps that wait for their turn to write."""

import asyncio

from coreason_client.server.engine._durable_writer import WriterTurn

from ..aio import aio, turns


@aio
async def test_the_end_of_the_writer_wakes_all_that_wait() -> None:
    turn = WriterTurn(["a#1"])
    waiting = [asyncio.ensure_future(turn.wait(None)) for _ in range(2)]
    await turns()
    assert not turn.ended("b#1")
    await turns()
    assert not any(task.done() for task in waiting)
    assert turn.ended("a#1")
    assert await asyncio.gather(*waiting) == [True, True]


@aio
async def test_a_wait_has_a_limit() -> None:
    assert await WriterTurn(["a#1"]).wait(0.001) is False


@aio
async def test_a_wake_without_a_waiter_is_nothing() -> None:
    turn = WriterTurn()
    turn.wake()
    assert turn.may_write("a#1")
