"""A replica that drains keeps no client: behind a TCP balancer, the next question of a pooled
connection is answered by another replica."""

import asyncio
import contextlib
import re
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx2
import pytest
import trustme

from coreason_client import AsyncCAPClient, CAPClient
from coreason_client.server import AgentApp, AgentStream, running
from coreason_client.server.process._draining_server import DrainingServer
from coreason_manifest.definitions.service import ServiceRequest

from .balancer import Balancer
from .peer import LIMIT, Gate, Peer, envelope
from .process.test_connections import PARSERS
from .program import Program

T = TypeVar("T")

COUNT = 20
LOOPS = [
    "asyncio",
    pytest.param("uvloop", marks=pytest.mark.skipif(not find_spec("uvloop"), reason="no uvloop")),
]
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def agent_of(name: str, gate: Gate) -> Any:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write(name)
        if stream.question == "wait":
            await gate.wait()
            await stream.write(" done")

    return agent


class Replica:
    """A server in a thread; it drains from `drain` on, until the gate of its agent is open."""

    def __init__(self, name: str, **options: Any) -> None:
        self.gate = Gate()
        self._app = AgentApp(agent_of(name, self.gate), drain_timeout=6 * LIMIT)
        self._options = options
        self._started, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(LIMIT)
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.open()
        self._stop.set()
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()

    def drain(self) -> None:
        self._stop.set()

    def _serve(self) -> None:
        with running(self._app, timeout_keep_alive=3600, **self._options) as server:
            self.port = server.port
            self._started.set()
            self._stop.wait(LIMIT * 3)


# Clients with pooled connections; each asks, and returns the text of the answer.


def cap_clients(url: str, count: int) -> Iterator[list[Callable[[str], str]]]:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(CAPClient(url, "key", max_retries=0)) for _ in range(count)]
        yield [partial(_cap_text, client) for client in clients]


def _cap_text(client: CAPClient, text: str) -> str:
    return "".join(client.chat(text))


def async_clients(url: str, count: int) -> Iterator[list[Callable[[str], str]]]:
    """The clients are on a running event loop, in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, loop).result(LIMIT)

    async def text_of(client: AsyncCAPClient, text: str) -> str:
        return "".join([part async for part in client.chat(text)])

    def ask(client: AsyncCAPClient, text: str) -> str:
        return run(text_of(client, text))

    clients = [AsyncCAPClient(url, "key", max_retries=0) for _ in range(count)]
    yield [partial(ask, client) for client in clients]
    for client in clients:
        run(client.aclose())
    run(loop.shutdown_default_executor())
    loop.call_soon_threadsafe(loop.stop)
    thread.join(LIMIT)
    loop.close()


def http_clients(url: str, count: int, verify: Any = True) -> Iterator[list[Callable[[str], str]]]:
    with contextlib.ExitStack() as stack:
        peers = [Peer(url) for _ in range(count)]
        for peer in peers:
            peer.http.close()
            peer.http = httpx2.Client(base_url=url, timeout=LIMIT, verify=verify)
            stack.callback(peer.close)
        yield [partial(_peer_text, peer) for peer in peers]


def _peer_text(peer: Peer, text: str) -> str:
    return peer.ask(envelope(text)).text


@pytest.mark.parametrize("make", [cap_clients, async_clients, http_clients])
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("parser", PARSERS)
def test_no_next_question_fails(parser: str, loop: str, make: Any) -> None:
    with (
        Replica("a", http=parser, loop=loop) as first,
        Replica("b", http=parser) as second,
        Balancer(first.port) as balancer,
        contextlib.contextmanager(make)(f"http://127.0.0.1:{balancer.port}", COUNT) as asking,
    ):
        check_next_questions(first, second, balancer, asking)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("parser", PARSERS)
def test_nor_with_tls(parser: str, loop: str, tmp_path: Path) -> None:
    authority = trustme.CA()
    issued, chain, key = authority.issue_cert("127.0.0.1"), tmp_path / "chain", tmp_path / "key"
    chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    options: Any = {
        "http": parser,
        "loop": loop,
        "ssl_certfile": str(chain),
        "ssl_keyfile": str(key),
    }
    with (
        Replica("a", **options) as first,
        Replica("b", **options) as second,
        Balancer(first.port) as balancer,
        contextlib.contextmanager(http_clients)(
            f"https://127.0.0.1:{balancer.port}", COUNT, trusted
        ) as asking,
    ):
        check_next_questions(first, second, balancer, asking, trusted)


def check_next_questions(
    first: Replica,
    second: Replica,
    balancer: Balancer,
    asking: list[Callable[[str], str]],
    trusted: ssl.SSLContext | None = None,
) -> None:
    url = f"{'https' if trusted else 'http'}://127.0.0.1:{balancer.port}"
    assert [ask("hi") for ask in asking] == ["a"] * COUNT
    assert balancer.opened == COUNT
    peer = Peer(url)
    peer.http = httpx2.Client(base_url=url, timeout=LIMIT, verify=trusted or True)
    with peer.open(envelope("wait")) as running_stream:
        running_stream.until(1)
        number = balancer.opened
        balancer.send_to(second.port)  # as after a failed readiness probe
        first.drain()
        if trusted:
            balancer.until_reached()  # with TLS a message says that it has ended
        else:
            balancer.until_others_ended(number)
        assert [ask("next") for ask in asking] == ["b"] * COUNT
        first.gate.open()
        assert running_stream.rest().text == "a done"
    balancer.until_ended(number)  # the connection ends with the stream
    assert peer.ask(envelope("next")).text == "b"
    peer.close()


PROGRAM = """
import asyncio, sys
from pathlib import Path
from coreason_client.server import AgentApp, serve

async def agent(request, stream):
    await stream.write(sys.argv[1])
    while stream.question == "wait" and not Path(sys.argv[2]).exists():
        await asyncio.sleep(0.01)

serve(AgentApp(agent, drain_timeout=60), port=0, log_level="info", timeout_keep_alive=3600)
"""


def test_nor_after_sigterm(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with Program(PROGRAM, "a", go) as first, Program(PROGRAM, "b", go) as second:
        ports = [int(program.url().rpartition(":")[2]) for program in (first, second)]
        with (
            Balancer(ports[0]) as balancer,
            contextlib.contextmanager(cap_clients)(
                f"http://127.0.0.1:{balancer.port}", COUNT
            ) as asking,
        ):
            peer = Peer(f"http://127.0.0.1:{balancer.port}")
            assert [ask("hi") for ask in asking] == ["a"] * COUNT
            with peer.open(envelope("wait")) as running_stream:
                running_stream.until(1)
                number = balancer.opened
                balancer.send_to(ports[1])
                first.signal(signal.SIGTERM)
                balancer.until_others_ended(number)
                assert [ask("next") for ask in asking] == ["b"] * COUNT
                go.touch()
                assert running_stream.rest().text == "a"
            balancer.until_ended(number)
            assert peer.ask(envelope("next")).text == "b"
            peer.close()
            assert first.end() == 0


# One connection.


def response(sock: socket.socket) -> bytes:
    """Read one response, whose body has a length; return its head in lower case."""
    reader = sock.makefile("rb", buffering=0)
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = reader.readline()
        assert line, head
        head += line.lower()
    length = re.search(rb"content-length: (\d+)", head)
    assert length is not None
    left = int(length[1])
    while left:
        left -= len(reader.read(left) or b"")
    return head


@contextlib.contextmanager
def draining_with_a_stream(parser: str, loop: str) -> Iterator[tuple[Replica, int]]:
    """A server that drains as long as the stream of another connection runs."""
    with Replica("a", http=parser, loop=loop) as replica:
        peer = Peer(f"http://127.0.0.1:{replica.port}")
        with peer.open(envelope("wait")) as answer:
            answer.until(1)
            yield replica, replica.port
            replica.gate.open()
            assert answer.rest().text == "a done"
        peer.close()


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("parser", PARSERS)
def test_every_response_says_that_it_is_the_last(parser: str, loop: str) -> None:
    with draining_with_a_stream(parser, loop) as (replica, port), contextlib.ExitStack() as stack:
        idle, half, silent = (
            stack.enter_context(socket.create_connection(("127.0.0.1", port), LIMIT))
            for _ in range(3)
        )
        idle.sendall(HEALTH)
        assert b"connection: close" not in response(idle)
        half.sendall(HEALTH)
        response(half)
        half.sendall(HEALTH[:-2])  # a request that arrives when the drain begins
        assert httpx2.get(f"http://127.0.0.1:{port}/health", timeout=LIMIT).is_success
        replica.drain()
        assert idle.recv(65536) == b""
        half.sendall(HEALTH[-2:])
        silent.sendall(HEALTH)
        late = stack.enter_context(socket.create_connection(("127.0.0.1", port), LIMIT))
        late.sendall(HEALTH)
        for sock in (half, silent, late):
            head = response(sock)
            assert head.startswith(b"http/1.1 200")
            assert head.count(b"connection: close\r\n") == 1
            with contextlib.suppress(ConnectionResetError):
                assert sock.recv(65536) == b""
        refused = httpx2.post(f"http://127.0.0.1:{port}/assist", json=envelope(), timeout=LIMIT)
        assert (refused.status_code, refused.headers["connection"]) == (503, "close")


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("parser", PARSERS)
def test_so_does_a_response_that_has_not_begun(parser: str, loop: str) -> None:
    body = httpx2.Request("POST", "http://a", json=envelope()).content
    head = b"POST /assist HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with (
        draining_with_a_stream(parser, loop) as (replica, port),
        socket.create_connection(("127.0.0.1", port), LIMIT) as sock,
        socket.create_connection(("127.0.0.1", port), LIMIT) as idle,
    ):
        idle.sendall(HEALTH)
        response(idle)
        sock.sendall(head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body[:10]))
        assert httpx2.get(f"http://127.0.0.1:{port}/health", timeout=LIMIT).is_success
        replica.drain()
        assert idle.recv(65536) == b""
        sock.sendall(body[10:])
        received = response(sock)
        assert received.startswith(b"http/1.1 503")
        assert received.count(b"connection: close\r\n") == 1


@pytest.mark.skipif(not hasattr(socket, "TCP_CORK"), reason="only Linux sends both at once")
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("parser", PARSERS)
def test_a_connection_ends_in_one_segment_with_a_response_that_had_begun(
    parser: str, loop: str
) -> None:
    """Its head does not say that it is the last, so its client could send another request."""
    body = httpx2.Request("POST", "http://a", json=envelope("wait")).content
    head = b"POST /assist HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with contextlib.ExitStack() as stack:
        replica = stack.enter_context(Replica("a", http=parser, loop=loop))
        socks = [
            stack.enter_context(socket.create_connection(("127.0.0.1", replica.port), LIMIT))
            for _ in range(10)
        ]
        for sock in socks:
            sock.sendall(head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            while b"data:" not in sock.recv(65536):
                pass
        replica.drain()
        for sock in socks:
            while b"retry:" not in sock.recv(65536):
                pass
        replica.gate.open()
        for sock in socks:
            received = b""
            while not received.endswith(b"0\r\n\r\n"):
                received += sock.recv(65536)
            sock.setblocking(False)
            assert sock.recv(65536) == b""  # it would raise an error if it had to wait


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("parser", PARSERS)
def test_the_last_of_pipelined_requests_says_it(parser: str, loop: str) -> None:
    """With h11 the first response is the last one, and the client sends the others again."""
    with draining_with_a_stream(parser, loop) as (replica, port):
        idle = socket.create_connection(("127.0.0.1", port), LIMIT)
        with idle:
            idle.sendall(HEALTH)
            response(idle)
            replica.drain()
            assert idle.recv(65536) == b""
        with socket.create_connection(("127.0.0.1", port), LIMIT) as sock:
            sock.sendall(HEALTH * 2)
            received = b""
            with contextlib.suppress(ConnectionResetError):
                while data := sock.recv(65536):
                    received += data.lower()
            assert received.count(b"http/1.1 200") == (1 if parser == "h11" else 2)
            assert received.count(b"connection: close\r\n") == 1
            assert b"connection: close" in received.rpartition(b"http/1.1 200")[2]


def test_the_server_informs_the_application_so_that_it_need_not_poll() -> None:
    """Otherwise it could refuse a request before its response says that it is the last one."""
    server: Any = DrainingServer.__new__(DrainingServer)
    server._app = AgentApp(agent_of("a", Gate()))
    assert server.drains_app
    server._app = None
    assert not server.drains_app
