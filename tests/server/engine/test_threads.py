"""Plain functions in threads."""

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from uuid import UUID

import pytest

from coreason_client.server import LogUnavailable, StreamCancelled, StreamEnded
from coreason_client.server.engine._threads import run_in_thread

from ..aio import aio, turns
from ..peer import LIMIT

ID = UUID(int=1)


def raises(error: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


class Held:
    """A function that runs until it is released, and then returns or raises."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.thread: threading.Thread | None = None
        self.started, self.go_on = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.thread = threading.current_thread()
        self.started.set()
        assert self.go_on.wait(LIMIT)
        if self.error is not None:
            raise self.error
        return "result"

    def release(self) -> None:
        """Let the function end, and wait for its thread."""
        assert self.started.wait(LIMIT)
        assert self.thread is not None
        self.go_on.set()
        self.thread.join(LIMIT)


@aio
async def test_a_function_runs_in_a_new_named_daemon_thread() -> None:
    threads = [await run_in_thread(threading.current_thread, "named") for _ in range(2)]
    assert threads[0] is not threads[1]
    for thread in threads:
        assert (thread.name, thread.daemon) == ("named", True)


@aio
async def test_a_thread_has_a_copy_of_the_context_variables() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("of the task")
    assert await run_in_thread(variable.get, "t") == "of the task"
    await run_in_thread(lambda: variable.set("of the thread"), "t")
    assert variable.get() == "of the task"


@aio
async def test_an_exception_of_the_function_is_raised() -> None:
    error = ZeroDivisionError("once")
    with pytest.raises(ZeroDivisionError) as caught:
        await run_in_thread(raises(error), "t")
    assert caught.value is error


@pytest.mark.parametrize("kind", [StopIteration, SystemExit, KeyboardInterrupt, GeneratorExit])
@aio
async def test_an_exception_that_would_end_more_than_the_function_is_wrapped(
    kind: type[BaseException],
) -> None:
    error = kind()
    with pytest.raises(RuntimeError, match=f"the agent raised {kind.__name__}$") as caught:
        await run_in_thread(raises(error), "t")
    assert caught.value.__cause__ is error


@aio
async def test_a_cancelled_stream_cancels_the_task() -> None:
    task = asyncio.ensure_future(run_in_thread(raises(StreamCancelled(ID)), "t"))
    await asyncio.wait({task})
    assert task.cancelled()


@pytest.mark.parametrize("error", [None, StreamCancelled(ID)])
@aio
async def test_a_cancelled_task_waits_for_the_function(error: Exception | None) -> None:
    held = Held(error)
    task = asyncio.ensure_future(run_in_thread(held, "t"))
    await turns()
    task.cancel()
    await turns()
    assert not task.done()
    await asyncio.to_thread(held.release)
    await asyncio.wait({task})
    assert task.cancelled()


@aio
async def test_an_error_after_the_cancellation_is_raised() -> None:
    held = Held(ZeroDivisionError())
    task = asyncio.ensure_future(run_in_thread(held, "t"))
    await turns()
    task.cancel()
    await turns()
    await asyncio.to_thread(held.release)
    with pytest.raises(ZeroDivisionError):
        await task


UNEXPECTED = "an agent failed after its stream had ended"


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (None, []),
        (StreamCancelled(ID), []),
        (StreamEnded(ID), []),
        (LogUnavailable("no"), []),
        (ZeroDivisionError(), [UNEXPECTED]),
    ],
)
@pytest.mark.parametrize("loop_closes", [False, True])
def test_an_error_that_no_task_waits_for_is_logged_if_it_is_unexpected(
    caplog: pytest.LogCaptureFixture,
    error: Exception | None,
    lines: list[str],
    loop_closes: bool,
) -> None:
    held = Held(error)

    @aio
    async def cancel_twice() -> None:
        task = asyncio.ensure_future(run_in_thread(held, "t"))
        await turns()
        task.cancel()
        await turns()
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if not loop_closes:
            await asyncio.to_thread(held.release)
            await turns()

    cancel_twice()
    held.release()
    found = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in found] == lines
