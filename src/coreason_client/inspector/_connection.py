"""Ends the connection of a response abruptly, so that the browser sees a loss and not an end."""

import asyncio
from typing import Final

from starlette.types import Scope

from ..server._internals import SEND, response_cycle

__all__ = ["abort", "abort_soon"]

_TURNS: Final = 10


def abort_soon(scope: Scope) -> None:
    """Close the connection of a request; the server learns it in the next turn of the loop.

    A server other than uvicorn closes it when the application returns too early.
    """
    cycle = response_cycle(scope.get(SEND))
    if cycle is not None:
        cycle.transport.abort()


async def abort(scope: Scope) -> None:
    """Close the connection of the request that this task serves.

    The server knows about it on return, so it does not report a response without an end.
    """
    abort_soon(scope)
    cycle = response_cycle(scope.get(SEND))
    for _ in range(_TURNS):
        if cycle is None or cycle.disconnected:
            return
        await asyncio.sleep(0)
