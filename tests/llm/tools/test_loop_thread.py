"""An event loop in a thread."""

import asyncio
import threading

import pytest

from coreason_client.llm.tools._mcp_connection import LoopThread


def test_coroutines_run_in_the_thread() -> None:
    async def where() -> str:
        return threading.current_thread().name

    async def fail() -> None:
        raise ValueError("no")

    thread = LoopThread("loop")
    try:
        assert thread.wait(where()) == "loop"
        with pytest.raises(ValueError, match="no"):
            thread.wait(fail())
    finally:
        thread.close()
    thread.close()


def test_closing_cancels_what_still_runs() -> None:
    cancelled = threading.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def start() -> "asyncio.Task[None]":
        task = asyncio.create_task(endless())
        await asyncio.sleep(0)
        return task

    thread = LoopThread("loop")
    thread.wait(start())
    thread.close()
    assert cancelled.is_set()
