"""How the tasks of a log go on, and how they end."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from ..._outage import Outage

__all__ = ["cancel_all", "run_for_ever"]

logger = logging.getLogger("coreason_client.server")

_PATIENCE = 0.1
_RESTART_AFTER = 0.5


async def run_for_ever(work: Callable[[], Awaitable[None]], name: str) -> None:
    """Run something that should not end before it is cancelled, and again if it does.

    A mistake in it is logged at most once a minute.
    """
    outage = Outage()
    while True:
        try:
            await work()
        except Exception:
            if outage.failed(asyncio.get_running_loop().time()):
                logger.exception("%s made a mistake and starts again", name)
        await asyncio.sleep(_RESTART_AFTER)


async def cancel_all(tasks: "Iterable[asyncio.Task[None]]") -> None:
    """Cancel tasks and wait until they have ended.

    A cancellation that comes while the client library connects or times out can get lost in it,
    so it is repeated until it is heard.
    """
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=_PATIENCE)
