"""Notice that uvicorn is about to stop.

uvicorn waits for open responses before it ends the lifespan, and the responses here wait for their
producers. `serve` tells the application in time; under a plain `uvicorn module:app` nobody does,
so the application looks at the flag that uvicorn sets when a signal comes.
"""

import asyncio
import signal
import threading
from collections.abc import Callable

__all__ = ["watch_exit"]

_LOOK_EVERY = 0.25


def watch_exit(then: Callable[[], None]) -> asyncio.Task[None] | None:
    """Call `then` once the server that handles the signals is told to exit; None if none does."""
    if threading.current_thread() is not threading.main_thread():
        return None
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    if not hasattr(server, "should_exit"):
        return None
    return asyncio.get_running_loop().create_task(_watch(server, then))


async def _watch(server: object, then: Callable[[], None]) -> None:
    while not getattr(server, "should_exit", True):  # noqa: ASYNC110 - it is only a flag
        await asyncio.sleep(_LOOK_EVERY)
    then()
