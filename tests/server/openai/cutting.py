"""A TCP proxy on loopback that ends connections at an exact place."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from coreason_client.testing._loopback import ServerThread

from ..peer import LIMIT


@dataclass(slots=True)
class _Plan:
    """The number of events after which a response ends, None for never."""

    after: int | None
    half: bool


class CuttingProxy:
    """Passes bytes on, and ends each connection as it was told when the last request came.

    `after` is the number of server-sent events after which a connection ends; None for never. With
    `half`, half of the bytes that follow them arrive too. With `once`, only the next request ends
    so. `cut_all` ends the open connections.
    """

    def __init__(self, upstream: str) -> None:
        self.route_to(upstream)
        self.after: int | None = None
        self.half = False
        self.once = False
        self.connections = 0
        self.cuts = 0
        self._changed = threading.Condition()
        self._open: set[asyncio.StreamWriter] = set()  # on both sides
        self._thread = ServerThread("cutting-proxy", self._serve)
        self.url = self._thread.url

    @property
    def api(self) -> str:
        """The URL for clients of OpenAI."""
        return f"{self.url}/v1"

    def route_to(self, upstream: str) -> None:
        """Pass new connections to this server."""
        self._upstream = urlsplit(upstream)

    def cut_all(self) -> None:
        """End all open connections, before any further byte is passed on."""
        done = threading.Event()

        def cut() -> None:
            for writer in self._open:
                writer.transport.abort()
            self._open.clear()
            done.set()

        self._thread.loop.call_soon_threadsafe(cut)
        assert done.wait(LIMIT)

    def until_connected(self, count: int) -> None:
        """Wait until there have been so many connections."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.connections >= count, LIMIT)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        assert self._thread.stop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = await asyncio.open_connection(self._upstream.hostname, self._upstream.port)
        self._open |= {writer, upstream[1]}
        with self._changed:
            self.connections += 1
            self._changed.notify_all()
        plan = _Plan(None, half=False)
        requests = asyncio.create_task(self._pass_on(reader, upstream[1], plan))
        try:
            with suppress(OSError):
                await self._answer(upstream[0], writer, plan)
        finally:
            self._open -= {writer, upstream[1]}
            requests.cancel()
            upstream[1].transport.abort()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, plan: _Plan
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if self.after is not None:
                    plan.after, plan.half = self.after, self.half
                    self.after = None if self.once else self.after
                writer.write(data)
                await writer.drain()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, plan: _Plan
    ) -> None:
        while data := await reader.read(65536):
            if plan.after is not None:
                end = _end_of(data, plan.after)
                plan.after -= data.count(b"\n\n", 0, end)
                if plan.after == 0 and (end < len(data) or not plan.half):
                    self.cuts += 1
                    writer.write(data[:end] + (_half_event(data[end:]) if plan.half else b""))
                    break
            writer.write(data)
            await writer.drain()
        await writer.drain()


def _end_of(data: bytes, count: int) -> int:
    """Return the position after so many events, or after the last one if there are fewer.

    The end of an event is in none of the lines around the chunks of HTTP.
    """
    end = 0
    for _ in range(min(count, data.count(b"\n\n"))):
        end = data.index(b"\n\n", end) + 2
    return end


def _half_event(data: bytes) -> bytes:
    """Return the first half of the next event, or of what there is of it."""
    return data[: (_end_of(data, 1) or len(data)) // 2]


@contextmanager
def cutting(upstream: str) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(upstream)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
