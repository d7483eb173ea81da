"""A network that exists on paper: connections played from a script, for both shells.

Nothing here touches a socket or a clock; the same script runs through the sync and the async
shell, so that a rule is shown to hold in both.
"""

from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field

import pytest

from coreason_client._drive_async import drive_async
from coreason_client._drive_sync import drive
from coreason_client._http._types import (
    FailureKind,
    Headers,
    Request,
    ResponseHead,
    TransportFailure,
)
from coreason_client._retry import Backoff
from coreason_client.cap._resume import ResumeMachine
from coreason_client.cap.errors import CAPError
from coreason_client.cap.position import Position
from coreason_manifest.definitions.presentation import ClosePacket, Packet

URL = "https://agent.example/assist"
KEY = "sk_very_secret"


class BrokenPipe(Exception):
    """Stands for the HTTP library's own exception."""


def failure(kind: FailureKind = FailureKind.BROKEN, words: str = "reset") -> TransportFailure:
    error = TransportFailure(kind, words)
    error.__cause__ = BrokenPipe(words)
    return error


@dataclass
class Connection:
    """The script of one connection: no response at all, or a head, a body, and an end."""

    chunks: Iterable[bytes] = ()
    end: TransportFailure | None = None  # None: a clean end of body
    refused: TransportFailure | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    body: bytes = b""
    seconds: float = 0.0  # how long it lasts


def status(code: int, body: bytes = b"", **headers: str) -> Connection:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Connection(status=code, headers=names, body=body)


Server = Callable[[Request], Connection]


class Network:
    """Plays connections and writes down what was asked of it."""

    def __init__(self, server: Server | Iterable[Connection]) -> None:
        if callable(server):
            self._server: Server = server
        else:
            script = iter(server)
            self._server = lambda request: next(script)
        self.requests: list[Request] = []
        self.delays: list[float] = []
        self.open_responses = 0
        self.lasted = 0.0

    def clock(self) -> float:
        """The time on paper: all waits, and all connections."""
        return self.lasted + sum(self.delays)

    def play(self, request: Request) -> Connection:
        self.requests.append(request)
        connection = self._server(request)
        self.lasted += connection.seconds
        if connection.refused is not None:
            raise connection.refused
        self.open_responses += 1
        return connection

    @property
    def cursors(self) -> list[str | None]:
        return [request.headers.get("Last-Event-ID") for request in self.requests]


class _Response:
    def __init__(self, network: Network, connection: Connection) -> None:
        self._network = network
        self._connection = connection
        self.head = ResponseHead(connection.status, Headers(connection.headers.items()))

    def _bytes(self) -> Iterator[bytes]:
        yield from self._connection.chunks
        if self._connection.end is not None:
            raise self._connection.end

    def _closed(self) -> None:
        self._network.open_responses -= 1


class SyncScript(_Response):
    def chunks(self) -> Generator[bytes]:
        yield from self._bytes()

    def collect(self, add: Callable[[bytes], None]) -> None:
        for chunk in self._bytes():
            add(chunk)

    def read(self, limit: int) -> bytes:
        return self._connection.body[:limit]

    def close(self) -> None:
        self._closed()


class AsyncScript(_Response):
    async def chunks(self) -> AsyncGenerator[bytes]:
        for chunk in self._bytes():
            yield chunk

    async def collect(self, add: Callable[[bytes], None]) -> None:
        for chunk in self._bytes():
            add(chunk)

    async def read(self, limit: int) -> bytes:
        return self._connection.body[:limit]

    async def aclose(self) -> None:
        self._closed()


class SyncPaper:
    def __init__(self, network: Network) -> None:
        self._network = network

    def open(self, request: Request) -> SyncScript:
        return SyncScript(self._network, self._network.play(request))

    def sleep(self, seconds: float) -> None:
        self._network.delays.append(seconds)


class AsyncPaper:
    def __init__(self, network: Network) -> None:
        self._network = network

    async def open(self, request: Request) -> AsyncScript:
        return AsyncScript(self._network, self._network.play(request))

    async def sleep(self, seconds: float) -> None:
        self._network.delays.append(seconds)


@dataclass
class Outcome:
    """The result of a run."""

    packets: list[Packet]
    error: CAPError | None
    network: Network
    machine: ResumeMachine

    @property
    def seqs(self) -> list[int]:
        return [packet.seq for packet in self.packets]

    @property
    def summary(self) -> tuple[list[Packet], type[CAPError] | None, list[float], list[str | None]]:
        """All that a caller can see, for comparing two runs."""
        error = None if self.error is None else type(self.error)
        return self.packets, error, self.network.delays, self.network.cursors


def machine_for(
    *,
    max_retries: int = 3,
    position: Position | None = None,
    strict_sequence: bool = False,
    max_event_bytes: int = 10_000_000,
    jitter: float = 0.0,
    backoff: Backoff | None = None,
    now: float = 0.0,
    reconnect_for: float = 0.0,
    deadline: float | None = None,
    proxy: str | None = None,
    rewinds: bool = False,
    after: str | None = None,
    clock: Callable[[], float] = lambda: 0.0,
) -> ResumeMachine:
    def attempt(cursor: str | None) -> Request:
        headers = {
            "Authorization": f"Bearer {KEY}",
            "Accept": "text/event-stream",
            "X-Team": "blue",
        }
        if cursor is not None:
            headers["Last-Event-ID"] = cursor
        return Request("POST", URL, headers, b'{"the": "request"}')

    return ResumeMachine(
        attempt,
        position=position,
        max_retries=max_retries,
        strict_sequence=strict_sequence,
        max_event_bytes=max_event_bytes,
        backoff=backoff or Backoff(),
        redact=lambda text: text.replace(KEY, "***"),
        jitter=lambda: jitter,
        now=lambda: now,
        reconnect_for=reconnect_for,
        deadline=deadline,
        proxy_for=lambda url: proxy,
        rewinds=rewinds,
        after=after,
        clock=clock,
    )


def check_position(machine: ResumeMachine, packet: Packet) -> None:
    """The position has moved with the packet; only a CLOSE may have a lower number."""
    assert machine.position is not None
    if not isinstance(packet, ClosePacket):
        assert machine.position.seq == packet.seq
    assert machine.position.seq >= packet.seq


def run_sync(machine: ResumeMachine, network: Network) -> Outcome:
    packets: list[Packet] = []
    error: CAPError | None = None
    try:
        for packet in drive(machine, SyncPaper(network)):
            packets.append(packet)
            check_position(machine, packet)
    except CAPError as raised:
        error = raised
    assert network.open_responses == 0, "a response was left open"
    return Outcome(packets, error, network, machine)


def run_async(machine: ResumeMachine, network: Network) -> Outcome:
    packets: list[Packet] = []

    async def main() -> CAPError | None:
        try:
            async for packet in drive_async(machine, AsyncPaper(network)):
                packets.append(packet)
                check_position(machine, packet)
        except CAPError as raised:
            return raised
        return None

    # Nothing on paper ever waits, so the coroutine runs through without an event loop.
    with pytest.raises(StopIteration) as stopped:
        main().send(None)
    error = stopped.value.value
    assert network.open_responses == 0, "a response was left open"
    return Outcome(packets, error, network, machine)


SHELLS = {"sync": run_sync, "async": run_async}
