"""Helpers of the HTTP tests: fetching in three ways, certificates, a relay on loopback."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlsplit

import anyio
import httpx
import httpx2
import trustme

from coreason_client._http._async import AsyncSender
from coreason_client._http._sync import SyncSender
from coreason_client._http._types import FailureKind, Request, TransportFailure, timeouts_from
from tests.faults import Run, sse

WAYS: Final = ("sync", "asyncio", "uvloop", "trio")
LIBRARIES: Final = (httpx2, httpx)
HOST: Final = "127.0.0.1"
LIMIT: Final = 10.0  # for what must happen, and soon
PATIENCE: Final = 0.3  # for what cannot happen
SILENCE: Final = 1.0  # after which a server that spoke is taken to have fallen silent

# When a body is not read to its end, httpx leaves some of its generators to the garbage collector,
# of which trio warns. Those of httpx2 are closed.
LEFT_OVER_GENERATOR: Final = (
    r"ignore:Async generator 'http(x|core)\.\S+\.(__aiter__|_receive_response_body)' was"
    ":ResourceWarning"
)

T = TypeVar("T")


def post(url: str, *, timeout: float = LIMIT, **headers: str) -> Request:
    """Make a request as the clients do."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request("POST", url, names, b'{"a":1}', timeouts_from(timeout))


def body_of(run: Run, count: int | None = None) -> bytes:
    """Return the first packets of a run as they stand in the body."""
    return b"".join(sse(packet) for packet in run.packets[:count])


# Fetching.


@dataclass(frozen=True)
class Outcome:
    """The end of a request; `pieces` is how many the body came in."""

    status: int | None
    body: bytes = b""
    failure: FailureKind | None = None
    cause: BaseException | None = field(default=None, compare=False)
    pieces: int = field(default=0, compare=False)


def client_of(library: ModuleType, way: str, **options: Any) -> Any:
    """Make a caller's client of the library, for the way in which it is to be used."""
    return (library.Client if way == "sync" else library.AsyncClient)(**options)


def fetch(way: str, request: Request, make: Callable[[], Any] = lambda: None) -> Outcome:
    """Send a request and read the body to its end; `make` makes a caller's client."""
    if way == "sync":
        return _fetch(request, make())
    return run_async(way, _fetch_async(request, make()))


def run_async(way: str, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a new event loop."""

    async def main() -> T:
        with anyio.fail_after(30):
            return await work

    if way == "uvloop":
        return anyio.run(main, backend="asyncio", backend_options={"use_uvloop": True})
    return anyio.run(main, backend=way)


def _fetch(request: Request, client: Any) -> Outcome:
    sender = SyncSender(client)
    try:
        return read_all(sender, request)
    finally:
        sender.close()
        if client is not None:
            client.close()


async def _fetch_async(request: Request, client: Any) -> Outcome:
    sender = AsyncSender(client)
    try:
        return await read_all_async(sender, request)
    finally:
        await sender.aclose()
        if client is not None:
            await client.aclose()


def read_all(sender: SyncSender, request: Request) -> Outcome:
    """Open, read to the end and close, with a sender that stays open."""
    try:
        response = sender.open(request)
    except TransportFailure as failure:
        return Outcome(None, b"", failure.kind, failure.__cause__)
    pieces: list[bytes] = []
    kind, cause = None, None
    try:
        pieces.extend(response.chunks())
    except TransportFailure as failure:
        kind, cause = failure.kind, failure.__cause__
    finally:
        response.close()
    return Outcome(response.head.status, b"".join(pieces), kind, cause, len(pieces))


async def read_all_async(sender: AsyncSender, request: Request) -> Outcome:
    """Open, read to the end and close, with a sender that stays open."""
    try:
        response = await sender.open(request)
    except TransportFailure as failure:
        return Outcome(None, b"", failure.kind, failure.__cause__)
    pieces: list[bytes] = []
    kind, cause = None, None
    try:
        async with contextlib.aclosing(response.chunks()) as chunks:
            async for piece in chunks:
                pieces.append(piece)  # noqa: PERF401 - what came before a failure is kept
    except TransportFailure as failure:
        kind, cause = failure.kind, failure.__cause__
    finally:
        await response.aclose()
    return Outcome(response.head.status, b"".join(pieces), kind, cause, len(pieces))


# Certificates.


class Authority:
    """A certificate authority, and what servers and clients need of it."""

    def __init__(self, directory: Path) -> None:
        ca = trustme.CA()
        self.file = str(directory / "ca.pem")
        ca.cert_pem.write_to_path(self.file)
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ca.issue_cert(HOST, "localhost").configure_cert(self.server)
        self.elsewhere = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ca.issue_cert("other.example").configure_cert(self.elsewhere)
        self.client = ssl.create_default_context(cafile=self.file)


# A relay.


class Relay:
    """A server on loopback, in a separate thread, that passes bytes on.

    With a target it stands in front of that server, perhaps with TLS; `abrupt` means that it ends
    without a word. Without a target it is an HTTP proxy, for CONNECT and for plain requests;
    `refusal` is what it then says instead of 200.
    """

    def __init__(
        self,
        target: str | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        refusal: bytes | None = None,
        abrupt: bool = False,
    ) -> None:
        self.heads: list[bytes] = []
        self.port = 0
        self._target = None if target is None else _address(target)
        self._tls = tls
        self._refusal = refusal
        self._abrupt = abrupt
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, name="relay", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event

    @property
    def url(self) -> str:
        """The address of the relay."""
        return f"{'http' if self._tls is None else 'https'}://{HOST}:{self.port}"

    @property
    def request_lines(self) -> list[str]:
        """The first lines of the requests that a proxy saw."""
        return [head.partition(b"\r\n")[0].decode() for head in self.heads]

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(LIMIT), "the relay did not start"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(LIMIT)
        assert not self._thread.is_alive(), "the relay did not stop"

    def _main(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        # A client that leaves in the middle of a handshake is none of our business.
        self._loop.set_exception_handler(lambda *_: None)
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._accept, HOST, 0, ssl=self._tls)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)  # for the sockets to be closed

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        task = self._loop.create_task(self._converse(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError):
            try:
                await self._relay(reader, writer)
                if self._abrupt:  # below TLS, so that no goodbye is sent
                    writer.get_extra_info("socket").shutdown(socket.SHUT_WR)
            finally:
                writer.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = b""
        target = self._target
        if target is None:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            if self._refusal is not None:
                writer.write(self._refusal)
                await writer.drain()
                return
            target = _address(head.split(b" ", 2)[1].decode())
        there, upstream = await asyncio.open_connection(*target)
        self._writers.append(upstream)
        if head.startswith(b"CONNECT "):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            head = b""
        forward = self._forward(head, reader, upstream) if head else _pipe(reader, upstream)
        ways = [self._loop.create_task(way) for way in (forward, _pipe(there, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            upstream.close()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _forward(
        self, head: bytes, reader: asyncio.StreamReader, upstream: asyncio.StreamWriter
    ) -> None:
        """Pass requests on, each with its own address instead of a whole URL."""
        while True:
            method, url, rest = head.split(b" ", 2)
            parts = urlsplit(url)
            path = parts.path + (b"?" + parts.query if parts.query else b"")
            size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or b"0")
            body = await reader.readexactly(size)
            upstream.write(b" ".join((method, path, rest)) + body)
            await upstream.drain()
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url if "//" in url else f"//{url}")
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()


# A server for one connection.


@contextlib.contextmanager
def one_answer(answer: bytes, path: str | None = None) -> Iterator[tuple[str, list[bytes]]]:
    """Answer the first connection with these bytes and end when the client does.

    The listener is on loopback, or on a socket file; what was read is in the list afterwards.
    """
    family = socket.AF_INET if path is None else socket.AF_UNIX
    with socket.socket(family) as listener:
        listener.bind((HOST, 0) if path is None else path)
        listener.listen()
        listener.settimeout(LIMIT)
        url = "http://test" if path is not None else f"http://{HOST}:{listener.getsockname()[1]}"
        received: list[bytes] = []
        with thread(lambda: _answer(listener, answer, received)) as raised:
            yield url, received
        assert not raised


def _answer(listener: socket.socket, answer: bytes, received: list[bytes]) -> None:
    connection, _ = listener.accept()
    with connection, contextlib.suppress(ConnectionError):
        connection.settimeout(LIMIT)
        received.append(connection.recv(65_536))
        connection.sendall(answer)
        while data := connection.recv(65_536):
            received.append(data)


# Threads.


@contextlib.contextmanager
def thread(work: Callable[[], object]) -> Iterator[list[BaseException]]:
    """Run work in a thread beside the block, wait for it, and tell what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            raised.append(error)

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    yield raised
    worker.join(LIMIT)
    assert not worker.is_alive(), "the thread did not end"
