"""A log that never answers the first request for a stream, which its caller must cancel."""

import asyncio

from coreason_client.server import MemoryStreamLog
from coreason_client.server.log import NewStream, Opened

from .peer import LIMIT


class InterruptedLog(MemoryStreamLog):
    """The first `open` waits until it is cancelled; `opens` is True if it has opened the stream."""

    def __init__(self, *, opens: bool) -> None:
        super().__init__()
        self._reached = asyncio.Event()
        self._opens = opens

    async def open(self, stream: NewStream, owner: str) -> Opened:
        if self._reached.is_set():
            await asyncio.sleep(0.05)  # a store needs some time
            return await super().open(stream, owner)
        if self._opens:
            await super().open(stream, owner)
        self._reached.set()
        await asyncio.Event().wait()
        raise AssertionError("it was not cancelled")

    async def interrupt(self, request: "asyncio.Task[object]") -> None:
        """Cancel a request while it waits for the log."""
        async with asyncio.timeout(LIMIT):
            await self._reached.wait()
            request.cancel()
            await asyncio.wait({request})
        assert request.cancelled()
