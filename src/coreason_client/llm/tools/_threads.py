"""Runs plain functions in threads, one thread for each call.

After a call, a few threads wait for the next one: starting a thread costs more than a short call.
A thread cannot be stopped from outside: if nobody waits for its call any more, the call runs to its
end, and its result is dropped. The threads are daemons, so they do not keep the process alive.
"""

import asyncio
import contextvars
import os
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

__all__ = ["run_in_thread", "start_thread"]


async def run_in_thread(function: Callable[[], Any], name: str) -> Any:
    """Run a function in a new thread, with the context variables of this task."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: Exception | None) -> None:
        if done.done():  # the wait was cancelled
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)

    def finished(result: Any, error: Exception | None) -> None:
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:  # the event loop is closed, so no task waits
            return

    start_thread(function, name, finished)
    return await done


def start_thread(
    function: Callable[[], Any],
    name: str,
    finished: Callable[[Any, Exception | None], None],
) -> None:
    """Run a function in a thread; `finished` gets its result or its error, in that thread."""
    context = contextvars.copy_context()

    def run() -> None:
        threading.current_thread().name = name
        try:
            result = context.run(function)
        except BaseException as error:  # noqa: BLE001 - passed to the caller
            finished(None, _carried(error))
        else:
            finished(result, None)

    try:
        _idle.pop().put(run)
    except IndexError:
        jobs: _Jobs = queue.SimpleQueue()
        jobs.put(run)
        threading.Thread(target=_work, args=(jobs,), name=name, daemon=True).start()


_Jobs: TypeAlias = "queue.SimpleQueue[Callable[[], None]]"
_idle: list[_Jobs] = []  # of the threads that wait; the last one is used first
_MAX_IDLE = 8
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_idle.clear)  # a child has no threads


def _work(jobs: _Jobs) -> None:
    while True:
        jobs.get()()
        if len(_idle) >= _MAX_IDLE:
            return
        _idle.append(jobs)


def _carried(error: BaseException) -> Exception:
    """Return an error for the caller; a future cannot carry all, and a tool must not end it."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"the tool raised {type(error).__name__}")
