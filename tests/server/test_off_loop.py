"""Work beside the event loop: one thread for each loop, and errors come back."""

import asyncio
import threading

import pytest

from coreason_client.server._off_loop import off_loop

from .aio import aio


@aio
async def test_all_work_of_a_loop_is_done_in_one_other_thread() -> None:
    first, second = await asyncio.gather(
        off_loop(threading.current_thread), off_loop(threading.current_thread)
    )
    assert first is second
    assert first is not threading.current_thread()


@aio
async def test_what_the_work_raises_is_raised_here() -> None:
    def fail() -> None:
        raise ValueError("a mistake")

    with pytest.raises(ValueError, match="a mistake"):
        await off_loop(fail)
