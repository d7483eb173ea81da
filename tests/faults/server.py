"""A real HTTP/1.1 server on loopback, in a thread of its own, that answers with faults.

It works on plain sockets, without any HTTP library: each byte, each FIN and each RST is written
here, so a test knows exactly what its client was given.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import struct
import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from . import wire
from .scripts import FAULTS, Plan
from .wire import EVENT_STREAM, File, Packet, sse

HOST: Final = "127.0.0.1"
BACKLOG: Final = 1024
READ_SIZE: Final = 64 * 1024
MAX_REQUEST: Final = 64 * 1024 * 1024
STOP_TIMEOUT: Final = 10.0
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class BadCursorError(ValueError):
    """The Last-Event-ID is not one that this stream has given out."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request as it arrived; ``path`` is relative to the base URL, ``at`` is monotonic."""

    method: str
    target: str
    path: str
    headers: Mapping[str, str]
    raw_headers: tuple[tuple[str, str], ...]
    body: bytes
    origin: str
    connection: int
    at: float

    @property
    def last_event_id(self) -> str | None:
        """The position from which the client asks to go on."""
        return self.headers.get("last-event-id")

    @property
    def keeps_alive(self) -> bool:
        """Whether the client wants to use the connection again."""
        return "close" not in self.headers.get("connection", "").lower()


class Run:
    """One logical stream under one fault, and the record of what its client did."""

    def __init__(
        self,
        name: str,
        number: int,
        origins: tuple[str, str],
        plan: Plan,
        options: Mapping[str, Any],
    ) -> None:
        """Build the log; the server registers the run."""
        self.name = name
        self.id = f"{number}-{name}"
        self.fault = FAULTS[name]
        self.fault.check(options)
        self.options = dict(options)
        self.fault_after = plan.fault_after
        self.stream_id = plan.stream_id
        self.other_stream_id = str(uuid.uuid5(uuid.UUID(plan.stream_id), "other"))
        self.packets = tuple(self.fault.build(plan, options))
        self.base_url, self.other_base_url = (f"{origin}/{self.id}" for origin in origins)
        self._changed = threading.Condition()
        self._requests: list[RecordedRequest] = []
        self._errors: list[Exception] = []
        self._open = 0
        self._hanging = 0
        self._answering = 0
        self._bytes_sent = 0

    @property
    def url(self) -> str:
        """The address to which a client posts."""
        return f"{self.base_url}/assist"

    @property
    def text(self) -> str:
        """All words of the logical stream."""
        return "".join(str(item.p) for item in self.packets if item.op == "DELTA")

    @property
    def before_fault(self) -> tuple[Packet, ...]:
        """The packets that precede the fault on the first attempt."""
        return self.packets[: self.fault_after]

    @property
    def requests(self) -> list[RecordedRequest]:
        """The requests so far, redirected ones included."""
        with self._changed:
            return list(self._requests)

    @property
    def last_event_ids(self) -> list[str | None]:
        """The Last-Event-ID of each request so far."""
        return [request.last_event_id for request in self.requests]

    @property
    def delays(self) -> list[float]:
        """The seconds from the arrival of each request to that of the next."""
        times = [request.at for request in self.requests]
        return [later - earlier for earlier, later in itertools.pairwise(times)]

    @property
    def errors(self) -> list[Exception]:
        """What went wrong in the server itself; a peer that went away is no error."""
        with self._changed:
            return list(self._errors)

    @property
    def connections_open(self) -> int:
        """The connections that the client has not closed; one that was reset counts as closed."""
        with self._changed:
            return self._open

    @property
    def bytes_sent(self) -> int:
        """The bytes that the server's kernel has accepted."""
        with self._changed:
            return self._bytes_sent

    def wait_all_closed(self, timeout: float = 5.0) -> bool:
        """Wait until the client has closed all its connections, and tell whether it has."""
        with self._changed:
            return self._changed.wait_for(lambda: self._open == 0, timeout)

    def wait_all_answered(self, timeout: float = 5.0) -> bool:
        """Wait until the server sends nothing and waits for nobody, and tell whether it is so.

        A client that keeps idle connections has then left every response that it does not read.
        """
        with self._changed:
            return self._changed.wait_for(lambda: self._answering == 0, timeout)

    def wait_requests(self, count: int, timeout: float = 5.0) -> bool:
        """Wait until this many requests have arrived, and tell whether they have."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._requests) >= count, timeout)

    def wait_bytes_sent(self, count: int, timeout: float = 5.0) -> bool:
        """Wait until this many bytes have been sent, and tell whether they have."""
        with self._changed:
            return self._changed.wait_for(lambda: self._bytes_sent >= count, timeout)

    def wait_hanging(self, count: int = 1, timeout: float = 5.0) -> bool:
        """Wait until this many connections have fallen silent, and tell whether they have."""
        with self._changed:
            return self._changed.wait_for(lambda: self._hanging >= count, timeout)

    # The server's side of the record.

    def add_request(self, request: RecordedRequest) -> int:
        """Record a request and return its number, counted from 1."""
        with self._changed:
            self._requests.append(request)
            self._changed.notify_all()
            return len(self._requests)

    def add_error(self, error: Exception) -> None:
        """Record an error of the server."""
        with self._changed:
            self._errors.append(error)

    def add_sent(self, count: int) -> None:
        """Count bytes that went out."""
        with self._changed:
            self._bytes_sent += count
            self._changed.notify_all()

    def add_open(self, change: int) -> None:
        """Count a connection that was opened (1) or closed (-1)."""
        with self._changed:
            self._open += change
            self._changed.notify_all()

    def add_answering(self, change: int) -> None:
        """Count a request that is being answered (1) or no longer is (-1)."""
        with self._changed:
            self._answering += change
            self._changed.notify_all()

    def add_hanging(self, change: int) -> None:
        """Count a connection on which the server has fallen silent (1) or no longer is (-1)."""
        with self._changed:
            self._hanging += change
            self._changed.notify_all()


class Connection:
    """One accepted socket; only the task that serves it uses it."""

    def __init__(self, sock: socket.socket, origin: str, number: int, patience: float) -> None:
        """Take over a non-blocking socket."""
        self.origin = origin
        self.number = number
        self.is_open = True
        self.finished = False
        self.run: Run | None = None
        self._sock = sock
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()

    def attach(self, run: Run) -> None:
        """Count this connection as one of the run, and no longer of the run before."""
        if run is not self.run:
            self._count(-1)
            self.run = run
            self._count(1)

    def _count(self, change: int) -> None:
        if self.run is not None:
            self.run.add_open(change)

    async def send(self, data: bytes) -> None:
        """Hand bytes to the kernel and let other tasks run."""
        async with asyncio.timeout(self._patience):
            await self._loop.sock_sendall(self._sock, data)
        if self.run is not None:
            self.run.add_sent(len(data))
        await asyncio.sleep(0)  # sock_sendall does not yield when the kernel takes all at once

    def fin(self) -> None:
        """End our direction only, so that it can still be seen when the client closes its own."""
        if self.is_open and not self.finished:
            self.finished = True
            with contextlib.suppress(OSError):  # the client was faster
                self._sock.shutdown(socket.SHUT_WR)

    def rst(self) -> None:
        """Reset the connection."""
        if self.is_open:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self.close()

    def close(self) -> None:
        """Close the socket and count it."""
        if self.is_open:
            self.is_open = False
            self._sock.close()
            self._count(-1)

    async def until_gone(self) -> None:
        """Wait until the client closes; bytes that come after our FIN are answered with RST."""
        async with asyncio.timeout(self._patience):
            while await self._loop.sock_recv(self._sock, READ_SIZE):
                if self.finished:
                    self.rst()
                    return

    async def read_request(self) -> RecordedRequest:
        """Read one request in full, or raise ConnectionError when the client leaves."""
        head = (await self._until(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ")
        pairs = [line.partition(":") for line in lines]
        raw = tuple((name, value.strip()) for name, _, value in pairs)
        headers: dict[str, str] = {}
        for name, value in raw:
            key = name.lower()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        body = await self._body(headers)
        return RecordedRequest(
            method=method,
            target=target,
            path="/" + target.partition("?")[0].lstrip("/").partition("/")[2],
            headers=headers,
            raw_headers=raw,
            body=body,
            origin=self.origin,
            connection=self.number,
            at=time.monotonic(),
        )

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return await self._exactly(int(headers.get("content-length", "0")))
        body = bytearray()
        while size := int((await self._until(b"\r\n")).partition(b";")[0], 16):
            body += await self._exactly(size)
            await self._until(b"\r\n")
        while await self._until(b"\r\n"):
            pass  # trailers, up to the blank line
        return bytes(body)

    async def _until(self, mark: bytes) -> bytes:
        while (at := self._buffer.find(mark)) < 0:
            await self._receive()
        data = bytes(self._buffer[:at])
        del self._buffer[: at + len(mark)]
        return data

    async def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            await self._receive()
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    async def _receive(self) -> None:
        async with asyncio.timeout(self._patience):
            data = await self._loop.sock_recv(self._sock, READ_SIZE)
        if not data:
            raise ConnectionResetError
        self._buffer += data
        if len(self._buffer) > MAX_REQUEST:
            message = f"a request of more than {MAX_REQUEST} bytes"
            raise ValueError(message)


class Exchange:
    """One request and the means to answer it, well or badly."""

    def __init__(self, connection: Connection, run: Run, request: RecordedRequest) -> None:
        """Record the request."""
        self.run = run
        self.request = request
        self.options: Mapping[str, Any] = run.options
        self.attempt = run.add_request(request)
        self.answered = False
        self.complete = False
        self._connection = connection
        self._chunked = True

    # Where this attempt stands.

    @property
    def visit(self) -> int:
        """The number of this request among those for the same path, counted from 1."""
        earlier = self.run.requests[: self.attempt]
        return sum(request.path == self.request.path for request in earlier)

    @property
    def fault_at(self) -> int:
        """The number of packets of the log that precede the fault on this attempt."""
        return self.run.fault_after + (self.attempt - 1) * int(self.options.get("every", 0))

    @property
    def strikes(self) -> bool:
        """Whether a fault that strikes a number of times strikes this attempt."""
        first = self.attempt == 1
        again = self.attempt <= int(self.options.get("times", 1))
        return first or (again and self.fault_at < len(self.run.packets))

    def packets_after(self, last_event_id: str | None) -> list[Packet]:
        """Return what a correct server still owes to a client with this Last-Event-ID."""
        if last_event_id is None or last_event_id == self.run.stream_id:
            return list(self.run.packets)
        stream_id, _, seq = last_event_id.rpartition(":")
        if stream_id != self.run.stream_id or not (seq.isascii() and seq.isdigit()):
            raise BadCursorError(last_event_id)
        return [packet for packet in self.run.packets if packet.seq > int(seq)]

    def owed(self) -> list[Packet]:
        """Return what a correct server still owes on this request."""
        return self.packets_after(self.request.last_event_id)

    def split(self) -> tuple[list[Packet], list[Packet]]:
        """Return what is owed before the fault and what is owed after it."""
        owed = self.owed()
        already = len(self.run.packets) - len(owed)
        at = max(self.fault_at - already, 0)
        return owed[:at], owed[at:]

    # The bytes.

    async def send(self, data: bytes) -> None:
        """Send raw bytes."""
        self.answered = True
        await self._connection.send(data)

    async def head(
        self,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        content_type: str | None = EVENT_STREAM,
        *,
        chunked: bool = True,
    ) -> None:
        """Start a streamed response, chunked or ended by the end of the connection."""
        self._chunked = chunked
        fields = wire.stream_headers(content_type, headers, chunked=chunked)
        await self.send(wire.response_head(status, fields))

    async def chunk(self, data: bytes) -> None:
        """Send data as one HTTP chunk, or as it is when the body has no framing."""
        await self.send(wire.chunk(data) if self._chunked else data)

    async def part(self, data: bytes, keep: int) -> None:
        """Announce all of the data as a chunk, but send only its first bytes."""
        announced = wire.chunk_header(len(data)) if self._chunked and data else b""
        await self.send(announced + data[:keep])

    async def respond(
        self,
        status: int,
        body: bytes = b"",
        *,
        content_type: str = "text/plain",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a whole response with a length."""
        fields = dict(headers or {})
        if wire.has_body(status):
            fields |= {"Content-Type": content_type, "Content-Length": str(len(body))}
        else:
            body = b""
        await self.send(wire.response_head(status, fields) + body)
        self.complete = True

    # The ends.

    async def end(self) -> None:
        """End the body cleanly; the connection stays usable if the framing allows it."""
        if self._chunked:
            await self.send(wire.LAST_CHUNK)
            self.complete = True
        else:
            await self.fin()

    async def fin(self) -> None:
        """End the connection with FIN."""
        self._connection.fin()

    async def rst(self) -> None:
        """End the connection with RST."""
        self._connection.rst()

    async def stop(self, how: str) -> None:
        """End in the way that is named: ``end``, ``fin`` or ``rst``."""
        await {"end": self.end, "fin": self.fin, "rst": self.rst}[how]()

    async def hang(self) -> None:
        """Send nothing until the client goes away or the server stops."""
        self.run.add_hanging(1)
        try:
            await self._connection.until_gone()
        finally:
            self.run.add_hanging(-1)

    # Whole answers.

    async def events(
        self, packets: Iterable[Packet], *, with_id: bool = True, eol: bytes = b"\n"
    ) -> None:
        """Send packets, one event and one chunk each."""
        for packet in packets:
            await self.chunk(sse(packet, with_id=with_id, eol=eol))

    async def until_fault(
        self, *, chunked: bool = True, with_id: bool = True, eol: bytes = b"\n"
    ) -> list[Packet]:
        """Send a head and what precedes the fault, and return the packets that are left."""
        before, rest = self.split()
        await self.head(chunked=chunked)
        await self.events(before, with_id=with_id, eol=eol)
        return rest

    async def serve(
        self,
        packets: Iterable[Packet],
        *,
        with_id: bool = True,
        eol: bytes = b"\n",
        content_type: str = EVENT_STREAM,
        headers: Mapping[str, str] | None = None,
        end: bool = True,
    ) -> None:
        """Send a head, these packets and a clean end, or no end at all."""
        await self.head(headers=headers, content_type=content_type)
        await self.events(packets, with_id=with_id, eol=eol)
        await (self.end() if end else self.hang())

    async def serve_rest(self) -> None:
        """Answer this request correctly."""
        await self.serve(self.owed())


class FaultServer:
    """The server: two origins on loopback, served by one thread with its own event loop."""

    def __init__(
        self,
        *,
        patience: float = 60.0,
        debug: bool = False,
        keeps_alive: bool = True,
        files: Mapping[str, File] | None = None,
    ) -> None:
        """Set the longest wait for a client, and whether asyncio checks itself.

        Without ``keeps_alive`` each connection has one request. ``files`` are for a browser, by
        path, so that its page has the origin of the runs.
        """
        self.patience = patience
        self._keeps_alive = keeps_alive
        self._files = files or {}
        self._debug = debug
        self._runs: dict[str, Run] = {}
        self._errors: list[Exception] = []
        self._lock = threading.Lock()
        self._listeners: list[socket.socket] = []
        self._origins: tuple[str, str] = ("", "")
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, name="fault-server", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepted = 0
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event

    # For tests.

    @property
    def origin(self) -> str:
        """The origin of every ``base_url``."""
        return self._origins[0]

    @property
    def other_origin(self) -> str:
        """A second origin that serves the same runs."""
        return self._origins[1]

    @property
    def errors(self) -> list[Exception]:
        """What went wrong in the server, in any run or outside of them."""
        with self._lock:
            return [*self._errors, *(error for run in self._runs.values() for error in run.errors)]

    def run(
        self,
        name: str,
        *,
        packets: int = 20,
        fault_after: int | None = None,
        word: str = "w{n} ",
        **options: Any,
    ) -> Run:
        """Register a stream of ``packets`` words and a CLOSE; the fault comes after 8 of them."""
        if name not in FAULTS:
            message = f"no fault is called {name!r}; there are {sorted(FAULTS)}"
            raise ValueError(message)
        after = min(8, packets) if fault_after is None else fault_after
        if not 0 <= after <= packets + 1:
            message = f"fault_after must be in 0..{packets + 1}, not {fault_after}"
            raise ValueError(message)
        with self._lock:
            number = len(self._runs) + 1
            stream_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"fault:{number}:{name}"))
            plan = Plan(stream_id, packets, after, word)
            run = Run(name, number, self._origins, plan, options)
            self._runs[run.id] = run
        return run

    def __enter__(self) -> Self:
        """Listen and start the thread."""
        self._listeners = [socket.create_server((HOST, 0), backlog=BACKLOG) for _ in range(2)]
        first, second = (f"http://{HOST}:{item.getsockname()[1]}" for item in self._listeners)
        self._origins = (first, second)
        self._thread.start()
        assert self._ready.wait(STOP_TIMEOUT), "the fault server did not start"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, and raise what went wrong in the server: a fault that failed proves nothing."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(STOP_TIMEOUT)
        assert not self._thread.is_alive(), "the fault server did not stop"
        if error is None and (errors := self.errors):
            message = "the fault server failed"
            raise ExceptionGroup(message, errors)

    # The thread.

    def _main(self) -> None:
        with asyncio.Runner(debug=self._debug) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        for listener, origin in zip(self._listeners, self._origins, strict=True):
            listener.setblocking(False)
            # sock_accept could lose a socket when it is cancelled at the moment of an accept.
            self._loop.add_reader(listener, self._accept, listener, origin)
        self._ready.set()
        await self._stop.wait()
        for listener in self._listeners:
            self._loop.remove_reader(listener)
            listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, listener: socket.socket, origin: str) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while True:
                self._start(listener.accept()[0], origin)

    def _start(self, sock: socket.socket, origin: str) -> None:
        """Serve an accepted socket in a task of its own."""
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._accepted += 1
        connection = Connection(sock, origin, self._accepted, self.patience)
        task = self._loop.create_task(self._converse(connection))
        self._tasks.add(task)
        # Not by the task itself, which may be cancelled before its first step.
        task.add_done_callback(lambda done: self._finish(done, connection))

    def _finish(self, task: asyncio.Task[None], connection: Connection) -> None:
        """Keep the error of a task, if there is one, and close its connection."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._note(connection.run, error)
        connection.close()

    async def _converse(self, connection: Connection) -> None:
        """Serve one connection until either side ends it."""
        with contextlib.suppress(ConnectionError):
            while await self._answer(connection):
                pass
            connection.fin()
            if connection.is_open:
                await connection.until_gone()

    async def _answer(self, connection: Connection) -> bool:
        """Answer one request and tell whether the connection can be used again."""
        try:
            request = await connection.read_request()
        except TimeoutError:
            return False  # an idle connection
        run = self._runs.get(request.target.lstrip("/").partition("/")[0])
        if run is None:
            await connection.send(wire.file_response(self._files.get(request.target)))
            return self._keeps_alive and request.keeps_alive
        connection.attach(run)
        exchange = Exchange(connection, run, request)
        run.add_answering(1)
        try:
            await run.fault.play(exchange)
        except BadCursorError as error:
            if exchange.answered:
                raise
            await exchange.respond(400, f"not a position of this stream: {error}".encode())
        finally:
            run.add_answering(-1)
        return exchange.complete and self._keeps_alive and request.keeps_alive

    def _note(self, run: Run | None, error: Exception) -> None:
        if run is not None:
            run.add_error(error)
        else:
            with self._lock:
                self._errors.append(error)
