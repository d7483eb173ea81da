"""Background tasks of the log: restart after an error, reliable cancellation."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from ..._outage import Outage

__all__ = ["cancel_all", "run_forever"]

logger = logging.getLogger("coreason_client.server")

_CANCEL_INTERVAL = 0.1  # seconds
_RESTART_DELAY = 0.5  # seconds


async def run_forever(work: Callable[[], Awaitable[None]], name: str) -> None:
    """Run `work` until cancelled; start it again if it ends or raises an error.

    Errors are logged at most once a minute.
    """
    outage = Outage()
    while True:
        try:
            await work()
        except Exception:
            if outage.failed(asyncio.get_running_loop().time()):
                logger.exception("%s failed with an unexpected error and is restarted", name)
        await asyncio.sleep(_RESTART_DELAY)


async def cancel_all(tasks: "Iterable[asyncio.Task[None]]") -> None:
    """Cancel tasks and wait until they have ended.

    A cancellation can get lost in the client library while it connects or times out, so it is
    repeated until the task has ended.
    """
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=_CANCEL_INTERVAL)
