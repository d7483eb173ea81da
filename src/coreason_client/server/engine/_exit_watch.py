"""Detects that uvicorn is about to stop.

uvicorn waits for open responses before it ends the lifespan, and the responses here wait for their
producers. `serve` informs the application in time; `uvicorn module:app` does not, so the
application polls the flag that uvicorn sets when a signal arrives.
"""

import asyncio
import threading
from collections.abc import Callable

from .._internals import exit_check

__all__ = ["watch_exit"]

_POLL_INTERVAL = 0.25


def watch_exit(on_exit: Callable[[], None]) -> asyncio.Task[None] | None:
    """Call `on_exit` when the server that handles SIGTERM has to stop.

    Returns the task that polls for it, or None if there is no such server.
    """
    if threading.current_thread() is not threading.main_thread():
        return None
    should_exit = exit_check()
    if should_exit is None:
        return None
    return asyncio.get_running_loop().create_task(_watch(should_exit, on_exit))


async def _watch(should_exit: Callable[[], bool], on_exit: Callable[[], None]) -> None:
    while not should_exit():  # noqa: ASYNC110 - a flag has no event
        await asyncio.sleep(_POLL_INTERVAL)
    on_exit()
