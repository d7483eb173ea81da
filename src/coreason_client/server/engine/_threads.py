"""Runs plain functions in threads, one new thread for each run.

A thread cannot be stopped from outside. If the task that waits for it is cancelled, it still waits
until the function returns; a second cancellation ends the wait, and the thread keeps running. After
a timeout it keeps running too. The threads are daemons, so they do not keep the process alive.
"""

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import LogError, StreamCancelled, StreamEnded

logger = logging.getLogger("coreason_client.server")

T = TypeVar("T")
# Errors that end a function which was told to stop.
_EXPECTED = (StreamCancelled, StreamEnded, LogError)


async def run_in_thread(function: Callable[[], T], name: str, timeout: float | None = None) -> T:
    """Run a function in a new thread, with the context variables of this task.

    Raises:
        TimeoutError: it did not return within `timeout` seconds.
        RuntimeError: no more threads can be started; or the function raised an exception that
            only event loops, generators or the interpreter may receive.
    """
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    done: asyncio.Future[Any] = loop.create_future()

    def run() -> None:
        result, error = _outcome(lambda: context.run(function))
        try:
            loop.call_soon_threadsafe(_settle, done, result, error)
        except RuntimeError:  # the event loop is closed, so no task waits
            _report(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    try:
        return await _wait(done, timeout)  # type: ignore[no-any-return]
    except StreamCancelled:
        raise asyncio.CancelledError from None


def too_long(timeout: float | None) -> str:
    """Return the message for a function that did not return in time."""
    return f"it took longer than its timeout of {timeout} s"


async def _wait(done: "asyncio.Future[Any]", timeout: float | None) -> Any:
    try:
        await asyncio.wait({done}, timeout=timeout)
    except asyncio.CancelledError:
        await done
        raise
    if not done.done():
        done.cancel()
        raise TimeoutError(too_long(timeout))
    return done.result()


def _outcome(function: Callable[[], T]) -> tuple[T | None, Exception | None]:
    try:
        return function(), None
    except StopIteration as error:  # a future cannot carry it
        return None, _wrapped(error)
    except Exception as error:  # noqa: BLE001 - raised in the waiting task
        return None, error
    except BaseException as error:  # noqa: BLE001 - an agent must not end the server
        return None, _wrapped(error)


def _wrapped(error: BaseException) -> RuntimeError:
    wrapper = RuntimeError(f"the agent raised {type(error).__name__}")
    wrapper.__cause__ = error
    return wrapper


def _settle(done: "asyncio.Future[Any]", result: object, error: Exception | None) -> None:
    if done.done():  # the wait was cancelled
        _report(error)
    elif error is not None:
        done.set_exception(error)
    else:
        done.set_result(result)


def _report(error: Exception | None) -> None:
    if error is not None and not isinstance(error, _EXPECTED):
        logger.error("an agent failed after its stream had ended", exc_info=error)
