"""An async context manager for anything that has an `aclose` method."""

from types import TracebackType
from typing import Self

__all__ = ["AsyncClosing"]


class AsyncClosing:
    """An async context manager that calls `aclose` on exit."""

    async def aclose(self) -> None:
        """Release all resources; may be called more than once."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()
