"""A small HTTP/1.1 server on loopback, in its own thread, whose answers may also break off.

Real servers hide the boundaries of chunks and repair what is wrong; this one sends exactly what its
handler writes.
"""

import asyncio
import json
import socket
import ssl
import struct
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http.client import responses as _PHRASES  # noqa: N812 - a table
from typing import Any

_MAX_HEAD = 1024 * 1024
_JOIN_TIMEOUT = 10.0
_CLOSE_TIMEOUT = 1.0


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """A request; the names of the headers are in lower case."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def json(self) -> dict[str, Any]:
        """The JSON object in the body, an empty one if there is none."""
        try:
            found = json.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


class ResponseWriter:
    """Sends one response; a response that is not finished is cut off."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, has_body: bool
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._has_body = has_body
        self.started = False
        self.finished = False
        self.reusable = True

    async def whole(self, status: int, headers: Iterable[tuple[str, str]], body: bytes) -> None:
        """Send a response with a length."""
        self._head(status, [*headers, ("content-length", str(len(body)))])
        if self._has_body:
            self._writer.write(body)
        await self._writer.drain()
        self.finished = True

    async def broken(self, status: int, headers: Iterable[tuple[str, str]], body: bytes) -> None:
        """Send a response with a length whose body breaks off after these bytes."""
        self._head(status, [*headers, ("content-length", str(len(body) + 1))])
        self._writer.write(body)
        await self._writer.drain()

    async def start(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """Send the head of a response in chunks."""
        self._head(status, [*headers, ("transfer-encoding", "chunked")])
        await self._writer.drain()

    async def send(self, data: bytes) -> None:
        """Send one chunk; an empty one would be the end, and is left out."""
        if data and self._has_body:
            self._writer.write(b"%x\r\n%b\r\n" % (len(data), data))
            await self._writer.drain()

    async def finish(self) -> None:
        """End a response in chunks."""
        if self._has_body:
            self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()
        self.finished = True

    async def until_disconnected(self) -> None:
        """Wait until the client closes the connection, which cannot be used again."""
        self.reusable = False
        while await self._reader.read(65536):
            pass

    def _head(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        lines = [
            f"HTTP/1.1 {status} {_PHRASES.get(status, 'Unknown')}",
            *(f"{name}: {value}" for name, value in headers),
        ]
        self._writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        self.started = True


Handler = Callable[[HTTPRequest, ResponseWriter], Awaitable[None]]


class ServerThread:
    """Serves connections to ports of loopback in a thread with its own event loop.

    `serve` gets the streams of each connection. It is cancelled by `stop`, and the connection is
    closed when it returns.
    """

    def __init__(
        self,
        name: str,
        serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]],
        *,
        context: ssl.SSLContext | None = None,
        ports: int = 1,
        debug: bool = False,
    ) -> None:
        self._serve = serve
        self._context = context
        self._sockets = [loopback_socket() for _ in range(ports)]
        scheme = "http" if context is None else "https"
        self.urls = [f"{scheme}://127.0.0.1:{found.getsockname()[1]}" for found in self._sockets]
        self._tasks: set[asyncio.Task[None]] = set()
        self.loop = asyncio.new_event_loop()
        self.loop.set_debug(debug)
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def url(self) -> str:
        """The URL of the first port."""
        return self.urls[0]

    def start(self) -> None:
        """Start the thread; the sockets accept connections already."""
        self._thread.start()

    def stop(self) -> bool:
        """Close all connections and end the thread; return False if it did not end in time."""
        if self._thread.ident is None:  # never started
            for found in self._sockets:
                found.close()
            self.loop.close()
        elif self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(_JOIN_TIMEOUT)
        return not self._thread.is_alive()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._serve_until_stopped())

    async def _serve_until_stopped(self) -> None:
        servers = [
            await asyncio.start_server(self._accept, sock=found, limit=_MAX_HEAD, ssl=self._context)
            for found in self._sockets
        ]
        await self._stopping.wait()
        for server in servers:
            server.close()
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Later versions of Python wait here for clients that do not read what was sent to them.
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                for server in servers:
                    await server.wait_closed()
        await asyncio.sleep(0)  # aborted connections are closed in the next turn of the loop

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A coroutine function here would be reported as an error when it is cancelled.
        task = self.loop.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(partial(self._close, writer))

    def _close(self, writer: asyncio.StreamWriter, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            writer.transport.abort()
        else:
            writer.close()


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection by RST."""
    sock: socket.socket | None = writer.get_extra_info("socket")
    if sock is not None and sock.fileno() != -1:
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class LoopbackServer(ServerThread):
    """Serves with a handler from `start` to `stop`; `errors` has the handler's own failures."""

    def __init__(self, handler: Handler, name: str, context: ssl.SSLContext | None = None) -> None:
        super().__init__(name, self._connected, context=context)
        self._handler = handler
        self.errors: list[Exception] = []

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, MalformedHTTP):
            while await self._exchange(reader, writer):
                pass

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request, and return True if the connection can be used for another."""
        head = await read_head(reader)
        if head is None:
            return False
        if head.get("expect").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        method, target = _request_line(head)
        body = b"".join([piece async for piece in read_body(reader, head)])
        request = HTTPRequest(method, target, head.headers, body)
        response = ResponseWriter(reader, writer, has_body=method != "HEAD")
        try:
            await self._handler(request, response)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - a failure of the test's own code
            self.errors.append(error)
            if response.started:
                return False
            message = f"the test server failed: {type(error).__name__}: {error}"
            await response.whole(501, _TEXT.items(), message.encode())
        again = response.finished and response.reusable
        return again and head.get("connection").lower() != "close"


def loopback_socket() -> socket.socket:
    """Return a socket that listens on a free port, whose connections send small writes at once.

    asyncio sets TCP_NODELAY only for sockets with an explicit protocol, which this one lacks.
    """
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted sockets inherit it
    return listener


_TEXT: Mapping[str, str] = {"content-type": "text/plain; charset=utf-8", "x-should-retry": "false"}


def _request_line(head: "HTTPHead") -> tuple[str, str]:
    parts = head.start.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise MalformedHTTP("the request line must be METHOD TARGET HTTP/1.1")
    return parts[0], parts[1]


# Reading: heads and bodies of HTTP/1.1 messages, with the boundaries of their chunks.

_BLOCK = 64 * 1024
_MAX_DIGITS = 15  # of a length; more cannot be meant


class MalformedHTTP(Exception):
    """A message that is not HTTP/1.1."""


@dataclass(frozen=True, slots=True)
class HTTPHead:
    """The first line and the headers of a message; their names are in lower case, or as `sent`."""

    start: str
    headers: tuple[tuple[str, str], ...]
    sent: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def get(self, name: str) -> str:
        """Return the value of a header, empty if there is none."""
        return next((value for known, value in self.headers if known == name), "")

    @property
    def is_chunked(self) -> bool:
        """True if the body comes in chunks."""
        return self.get("transfer-encoding").lower() == "chunked"


async def read_head(reader: asyncio.StreamReader) -> HTTPHead | None:
    """Read the head of a message; None if the connection ended before it.

    Raises:
        MalformedHTTP: it is not a head, or too long.
    """
    try:
        data = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise MalformedHTTP("the connection ended within the head of a message") from None
        return None
    except asyncio.LimitOverrunError:
        raise MalformedHTTP("the head of a message is too long") from None
    start, *lines = data[:-4].decode("latin-1").split("\r\n")
    pairs = [line.partition(":") for line in lines]
    sent = tuple((name, value.strip()) for name, _, value in pairs)
    return HTTPHead(start, tuple((name.lower(), value) for name, value in sent), sent)


async def read_body(
    reader: asyncio.StreamReader, head: HTTPHead, *, until_closed: bool = False
) -> AsyncIterator[bytes]:
    """Yield the body of a message as it arrives: each HTTP chunk, or each block that was read.

    `until_closed`: a body without a length lasts until the connection ends, as in responses.

    Raises:
        IncompleteReadError: the connection ended before the body did.
        MalformedHTTP: a length is not a number.
    """
    if head.is_chunked:
        async for chunk in _chunks(reader):
            yield chunk
    elif length := head.get("content-length"):
        left = _number(length, 10)
        while left:
            block = await reader.read(min(left, _BLOCK))
            if not block:
                raise asyncio.IncompleteReadError(b"", left)
            left -= len(block)
            yield block
    elif until_closed:
        while block := await reader.read(_BLOCK):
            yield block


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := _number((await _line(reader)).partition(";")[0], 16):
        yield await reader.readexactly(size)
        await _line(reader)
    while await _line(reader):  # trailers
        pass


async def _line(reader: asyncio.StreamReader) -> str:
    return (await reader.readuntil(b"\n"))[:-1].decode("latin-1").rstrip("\r")


def _number(text: str, base: int) -> int:
    digits = text.strip()
    if not digits.isascii() or not digits.isalnum() or len(digits) > _MAX_DIGITS:
        raise MalformedHTTP("the length of a body must be a number")
    try:
        return int(digits, base)
    except ValueError:
        raise MalformedHTTP("the length of a body must be a number") from None
