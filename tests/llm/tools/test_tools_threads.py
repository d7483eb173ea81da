"""Plain functions in threads."""

import asyncio
import contextvars
import os
import queue
import threading
from typing import Any

import pytest

from coreason_client.llm.tools import _perform as _threads
from coreason_client.llm.tools._perform import run_in_thread, start_thread

LIMIT = 10.0


def go(work: Any) -> Any:
    return asyncio.run(asyncio.wait_for(work, LIMIT))


def test_a_function_runs_in_another_thread_with_the_context_of_the_task() -> None:
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user")

    async def work() -> tuple[int, str]:
        user.set("me")
        return await run_in_thread(lambda: (threading.get_ident(), user.get()), "name")  # type: ignore[no-any-return]

    thread, name = go(work())
    assert thread != threading.get_ident()
    assert name == "me"


def test_errors_are_raised_in_the_task() -> None:
    def fail(error: BaseException) -> None:
        raise error

    async def work(error: BaseException) -> None:
        await run_in_thread(lambda: fail(error), "name")

    with pytest.raises(ValueError, match="no"):
        go(work(ValueError("no")))
    for error in (StopIteration(), SystemExit(3), KeyboardInterrupt()):
        with pytest.raises(RuntimeError, match=type(error).__name__):
            go(work(error))


def test_a_cancelled_wait_leaves_the_thread_alone() -> None:
    begun, over, done = threading.Event(), threading.Event(), threading.Event()

    def block() -> None:
        begun.set()
        over.wait(LIMIT)
        done.set()

    async def work() -> None:
        waiting = asyncio.create_task(run_in_thread(block, "name"))
        await asyncio.to_thread(begun.wait, LIMIT)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled()
        over.set()
        assert await asyncio.to_thread(done.wait, LIMIT)

    go(work())


def test_the_loop_may_be_closed_before_the_thread_ends() -> None:
    over, ended = threading.Event(), threading.Event()

    def block() -> None:
        over.wait(LIMIT)

    async def work() -> None:
        waiting = asyncio.create_task(run_in_thread(block, "name"))
        await asyncio.sleep(0)
        waiting.cancel()

    go(work())
    over.set()
    start_thread(ended.set, "name", lambda *_: None)
    assert ended.wait(LIMIT)


def test_threads_are_used_again() -> None:
    used: queue.SimpleQueue[int] = queue.SimpleQueue()
    threads = set()
    for _ in range(20):
        start_thread(threading.get_ident, "name", lambda thread, _: used.put(thread))
        threads.add(used.get(timeout=LIMIT))
    assert len(threads) < 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_process_starts_its_own_threads() -> None:
    used: queue.SimpleQueue[int] = queue.SimpleQueue()
    _threads._idle.append(queue.SimpleQueue())  # of a thread that the child does not have
    child = os.fork()
    if child == 0:
        start_thread(lambda: 7, "name", lambda value, _: used.put(value))
        os._exit(used.get(timeout=LIMIT))
    _threads._idle.pop()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
