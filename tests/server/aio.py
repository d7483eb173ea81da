"""Async tests without a plugin: each runs on its own event loop, within a time."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

P = ParamSpec("P")
LIMIT = 60.0  # for a machine that is busy with other work


def aio(test: Callable[P, Coroutine[Any, Any, None]], limit: float = LIMIT) -> Callable[P, None]:
    """Make an async test one that pytest can call."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), limit))

    return run


async def turns(count: int = 20) -> None:
    """Let everything that is ready run."""
    for _ in range(count):
        await asyncio.sleep(0)
