"""A provider on loopback: it replies what it is told, byte for byte, and keeps what it was sent."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Provider", "Received", "Replied", "ServerInThread", "provider"]

_REASONS = {200: "OK"}
_WRITTEN_TOGETHER = 16_384  # bytes


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    method: str = "POST"

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Replied:
    """The reply. A stream is a list of chunks; `cut` ends it without its proper end.

    `hold` keeps the connection open and silent after the chunks, until the peer goes away; `silent`
    does so before a byte is sent. `slow` takes that many seconds before the reply, `late` that many
    before the end of the chunks.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    chunks: Sequence[bytes] | None = None
    cut: bool = False
    hold: bool = False
    silent: bool = False
    slow: float = 0.0
    late: float = 0.0


class Provider:
    """The server; `replies` are used up in order, the last one for ever."""

    def __init__(self) -> None:
        self.url = ""
        self.received: list[Received] = []
        self.replies: list[Replied] = [Replied()]
        self.reply: Callable[[Received], Replied] | None = None
        self.connections = 0
        self.open_connections = 0
        self.under_way = 0
        self.most_under_way = 0
        self.left = asyncio.Event()  # set when a peer went away from a reply that was held
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        self.open_connections += 1
        try:
            while (received := await _read(reader)) is not None:
                self.received.append(received)
                self.under_way += 1
                self.most_under_way = max(self.most_under_way, self.under_way)
                try:
                    if not await self._answer(self._next(received), reader, writer):
                        break
                finally:
                    self.under_way -= 1
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.open_connections -= 1
            self._tasks.discard(task)
            writer.close()

    def _next(self, received: Received) -> Replied:
        if self.reply is not None:
            return self.reply(received)
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    async def _answer(
        self, reply: Replied, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Send a reply; say whether the connection goes on."""
        if reply.silent:
            await self._hold(reader)
            return False
        await asyncio.sleep(reply.slow)
        headers = {"content-type": "application/json", **reply.headers}
        if reply.chunks is None:
            headers["content-length"] = str(len(reply.body))
        else:
            headers["transfer-encoding"] = "chunked"
        reason = _REASONS.get(reply.status, "Other")
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {reply.status} {reason}\r\n{head}\r\n".encode())
        if reply.chunks is None:
            writer.write(reply.body[: -1 or None] if reply.cut else reply.body)
        else:
            for written in _framed(reply.chunks):
                writer.write(written)
                await writer.drain()
            if not reply.cut and not reply.hold:
                await asyncio.sleep(reply.late)
                writer.write(b"0\r\n\r\n")
        await writer.drain()
        if reply.hold:
            await self._hold(reader)
        return not reply.cut and not reply.hold

    async def _hold(self, reader: asyncio.StreamReader) -> None:
        while await reader.read(1000):
            pass
        self.left.set()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _framed(chunks: Sequence[bytes]) -> Iterator[bytes]:
    """Frame the chunks; small ones of a list are written together, which is much faster.

    Other sequences may wait between two chunks.
    """
    together, size = [], 0
    for chunk in chunks:
        together.append(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        size += len(chunk)
        if size > _WRITTEN_TOGETHER or not isinstance(chunks, list):
            yield b"".join(together)
            together, size = [], 0
    yield b"".join(together)


async def _read(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    method, path, _ = first.split(" ")
    return Received(path, headers, body, method)


@asynccontextmanager
async def provider(*replies: Replied) -> AsyncIterator[Provider]:
    """Serve while the block runs."""
    served = Provider()
    if replies:
        served.replies = list(replies)
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0, backlog=2000)
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield served
    finally:
        server.close()
        await served.close()
        await server.wait_closed()


class ServerInThread:
    """A provider in a separate thread, so that the loops of a test can come and go."""

    def __init__(self, *replies: Replied) -> None:
        self._replies = replies
        self._ready: Future[Provider] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with provider(*self._replies) as server:
            self._ready.set_result(server)
            await self._over.wait()

    def __enter__(self) -> Provider:
        self._thread.start()
        return self._ready.result(10)

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)
