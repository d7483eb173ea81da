"""Notice that uvicorn is about to stop.

uvicorn waits for open responses before it ends the lifespan, and the responses here wait for their
producers. `serve` tells the application in time; under a plain `uvicorn module:app` nobody does,
so the application looks at the flag that uvicorn sets when a signal comes.
"""

import asyncio
import threading
from collections.abc import Callable

from .._internals import exit_check

__all__ = ["watch_exit"]

_LOOK_EVERY = 0.25


def watch_exit(then: Callable[[], None]) -> asyncio.Task[None] | None:
    """Call `then` once the server that handles the signals is told to exit; None if none does."""
    if threading.current_thread() is not threading.main_thread():
        return None
    has_to_stop = exit_check()
    if has_to_stop is None:
        return None
    return asyncio.get_running_loop().create_task(_watch(has_to_stop, then))


async def _watch(has_to_stop: Callable[[], bool], then: Callable[[], None]) -> None:
    while not has_to_stop():  # noqa: ASYNC110 - it is only a flag
        await asyncio.sleep(_LOOK_EVERY)
    then()
