"""Clients that send or read as slowly as they can do not stop the others.

There are 200 of them; set `SLOW_CONNECTIONS` for more, up to half the limit of descriptors, since
both ends of each connection are in this process. `make soak` holds 10,000 half-open connections
against replicas in separate processes.
"""

import asyncio
import os
import resource
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from coreason_client.server import AgentApp, AgentStream, running
from coreason_manifest.definitions.service import ServiceRequest
from tests.fuzz.strategies import wire
from tests.server.peer import envelope

LIMIT = 20.0
MOST = 10_000
_AT_ONCE = 200
_SPARE = 300  # descriptors for everything else
_HEAD = (
    b"POST /assist HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer slow\r\n"
    b"Content-Type: application/json\r\n"
)
_FLOOD = 10_000  # packets of a kilobyte: more than the buffers of a connection hold


def affordable(wished: int) -> int:
    """The number of connections that this process can hold, of which it has both ends."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, min(wished, MOST, (soft - _SPARE) // 2))


COUNT = affordable(int(os.environ.get("SLOW_CONNECTIONS", "200")))


async def agent(request: ServiceRequest, stream: AgentStream) -> None:
    assert request.payload.messages is not None
    if request.payload.messages[-1].text == "flood":
        for _ in range(_FLOOD):
            await stream.write("x" * 1024)
    await stream.write("hello")


class Slow:
    """Connections that go on only when the test says so, a byte at a time."""

    def __init__(self, port: int, what: bytes, rest: bytes) -> None:
        self.port = port
        self._what = what
        self._rest = rest
        self.ends: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def open(self, count: int, receive_buffer: int | None = None) -> None:
        for start in range(0, count, _AT_ONCE):
            size = min(_AT_ONCE, count - start)
            self.ends += await asyncio.gather(*(self._one(receive_buffer) for _ in range(size)))

    async def _one(self, buffer: int | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        sock = socket.socket()
        sock.setblocking(False)
        if buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=1024)
        writer.write(self._what)
        return reader, writer

    def drip(self, turn: int) -> None:
        """Send one byte more on each."""
        for _, writer in self.ends:
            if not writer.is_closing():
                writer.write(self._rest[turn : turn + 1])

    async def close(self) -> None:
        for _, writer in self.ends:
            writer.transport.abort()
        await asyncio.sleep(0)


MANNERS: dict[str, tuple[bytes, bytes]] = {
    "say nothing": (b"", b""),
    "a byte of the head at a time": (b"", _HEAD),
    "a byte of a header's value at a time": (_HEAD + b"X-Long: ", b"y" * 100),
    "a byte of the body at a time": (
        _HEAD + b"Content-Length: %d\r\n\r\n" % len(wire(envelope())),
        wire(envelope()),
    ),
    "a byte of a chunk at a time": (
        _HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
        b"1\r\n{\r\n" * 20,
    ),
    "ask and read nothing": (
        _HEAD + b"Content-Length: %d\r\n\r\n" % len(wire(envelope())) + wire(envelope()),
        b"",
    ),
}


@asynccontextmanager
async def slow(port: int, manner: str, count: int) -> AsyncIterator[Slow]:
    clients = Slow(port, *MANNERS[manner])
    try:
        await clients.open(count)
        yield clients
    finally:
        await clients.close()


async def ask(http: httpx2.AsyncClient, text: str = "hi") -> float:
    """Ask as anybody would, and return how long it took."""
    start = time.monotonic()
    answer = await http.post("/assist", json=envelope(text))
    assert answer.status_code == 200
    assert '"op":"CLOSE"' in answer.text
    return time.monotonic() - start


def app(**options: Any) -> AgentApp:
    keys = {"slow": "slow", "quick": "quick"}
    options = {"drain_timeout": 0.0, "cancel_grace": 0.0, **options}
    return AgentApp(agent, api_keys=keys, max_streams_per_key=MOST, **options)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("manner", MANNERS)
def test_slow_clients_do_not_stop_others(manner: str, record_property: Any) -> None:
    async def main(port: int, url: str) -> float:
        headers = {"Authorization": "Bearer quick"}
        async with (
            slow(port, manner, COUNT) as clients,
            httpx2.AsyncClient(base_url=url, headers=headers, timeout=LIMIT) as http,
        ):
            took = []
            for turn in range(10):
                clients.drip(turn)
                took.append(await ask(http))
            assert (await http.get("/health")).json()["status"] == "ok"
            return max(took)

    with running(app(max_readers_per_key=MOST), timeout_graceful_shutdown=1) as server:
        worst = asyncio.run(asyncio.wait_for(main(server.port, server.url), 280))
    line = f"{manner}: {COUNT} connections, slowest answer to others {worst * 1000:.0f} ms"
    record_property("table: slow clients", line)
    assert worst < LIMIT / 2


def test_a_slow_body_is_cut_off_in_time() -> None:
    """The connections that wait for a body are given up, all of them, and with a reason."""

    async def main(port: int) -> list[bytes]:
        async with slow(port, "a byte of the body at a time", 50) as clients:
            return await asyncio.gather(*(reader.read(13) for reader, _ in clients.ends))

    with running(app(body_timeout=0.2), timeout_graceful_shutdown=1) as server:
        heads = asyncio.run(asyncio.wait_for(main(server.port), LIMIT))
    assert set(heads) == {b"HTTP/1.1 408 "}


def test_a_head_without_an_end_is_cut_off_by_its_size() -> None:
    async def main(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_HEAD)
        try:
            while not reader.at_eof() and not writer.is_closing():
                writer.write(b"X-Filler: " + b"y" * 10_000 + b"\r\n")
                await writer.drain()
                if reader._buffer:  # type: ignore[attr-defined] # an answer before the end of ours
                    break
            return await reader.read(100)
        except ConnectionError:
            return b"reset"
        finally:
            writer.transport.abort()

    with running(app(), timeout_graceful_shutdown=1) as server:
        answer = asyncio.run(asyncio.wait_for(main(server.port), LIMIT))
    assert answer == b"reset" or b" 400 " in answer or b" 431 " in answer


def test_readers_that_take_nothing_are_cut_and_hold_nobody_up() -> None:
    """They ask for megabytes and read none: their share is bounded, and in the end they are cut."""
    application = app(send_timeout=0.3)
    body = wire(envelope("flood"))  # one stream for all of them
    begun = Slow(0, _HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body, b"")

    async def main(port: int, url: str) -> None:
        begun.port = port
        headers = {"Authorization": "Bearer quick"}
        async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=LIMIT) as http:
            try:
                await begun.open(10, receive_buffer=4096)
                for _ in range(5):
                    await ask(http)
                while application._runtime.producers.readers:  # type: ignore[union-attr]
                    await ask(http)
                got = await asyncio.gather(
                    *(reader.read() for reader, _ in begun.ends), return_exceptions=True
                )
            finally:
                await begun.close()
            await ask(http)
        for answer in got:
            assert isinstance(answer, bytes | ConnectionError)
            assert isinstance(answer, ConnectionError) or b'"op":"CLOSE"' not in answer

    with running(application, timeout_graceful_shutdown=1) as server:
        asyncio.run(asyncio.wait_for(main(server.port, server.url), LIMIT))
