"""The turn of a writer: steps that write at the same time wait for each other."""

import asyncio
from collections.abc import Iterable

from ..durable._writers import Writers

__all__ = ["WriterTurn"]


class WriterTurn(Writers):
    """The order of writers, and those that wait for it to change."""

    __slots__ = ("_changed",)

    def __init__(self, writing: Iterable[str] = ()) -> None:
        super().__init__(writing)
        self._changed: asyncio.Future[None] | None = None

    def ended(self, path: str) -> bool:
        """Record the end of a step, and wake those that wait."""
        changed = super().ended(path)
        if changed:
            self.wake()
        return changed

    def wake(self) -> None:
        """Let all that wait look again."""
        if self._changed is not None:
            self._changed.set_result(None)
            self._changed = None

    async def wait(self, timeout: float | None) -> bool:
        """Wait for a change; return False if there was none within the time."""
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait({self._changed}, timeout=timeout)
        return bool(done)
