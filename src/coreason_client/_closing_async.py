"""An async context manager for anything that has an `aclose` method, and the closing of streams."""

from collections.abc import AsyncGenerator
from typing import Any, Self

from ._drive import Reading, is_running

__all__ = ["AsyncClosing", "close_items_async"]


class AsyncClosing:
    """An async context manager that calls `aclose` on exit."""

    async def aclose(self) -> None:
        """Release all resources; may be called more than once."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def close_items_async(items: AsyncGenerator[Any], reading: Reading) -> None:
    """Close the generator of a stream; while it is running, it ends with the next bytes.

    Raises:
        OtherLoopError: the stream belongs to another event loop, and is not running there.
    """
    # async only: begin
    if not is_running(items) and getattr(items, "ag_frame", None) is not None:
        reading.check_loop()
    # async only: end
    reading.stopped = True
    if is_running(items):
        return
    try:
        await items.aclose()
    except (RuntimeError, ValueError):
        if not is_running(items):  # else a read has begun meanwhile, and will end
            raise
