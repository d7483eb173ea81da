"""What makes anything with a `close` or an `aclose` a context manager."""

from types import TracebackType
from typing import Self

__all__ = ["AsyncClosing", "Closing"]


class Closing:
    """A context manager that closes itself at the end."""

    def close(self) -> None:
        """Let go of what is held; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class AsyncClosing:
    """An async context manager that closes itself at the end."""

    async def aclose(self) -> None:
        """Let go of what is held; may be called twice."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()
