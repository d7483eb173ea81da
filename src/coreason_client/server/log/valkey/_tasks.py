"""How the tasks of a log end."""

import asyncio
from collections.abc import Iterable

__all__ = ["cancel_all"]

_PATIENCE = 0.1


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
