"""Connections: how many there may be, and how long each may take to send a request head."""

import contextlib
import logging
import signal
import socket
import ssl
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trustme
import uvicorn
from hypothesis import given
from hypothesis import strategies as st

from coreason_client import ArgumentError
from coreason_client._fallback import report_lost_protection
from coreason_client.server import AgentApp, AgentStream, running
from coreason_client.server.process._connections import Connections
from coreason_client.server.process._draining_server import Limits
from coreason_manifest.definitions.service import ServiceRequest

from ..peer import LIMIT, Gate, Peer, envelope
from ..program import Program

PARSERS = [
    "h11",
    pytest.param(
        "httptools", marks=pytest.mark.skipif(not find_spec("httptools"), reason="no httptools")
    ),
]
HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


async def hello(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("hello")


@contextlib.contextmanager
def connected(port: int, count: int = 1, first: bytes = b"") -> Iterator[list[socket.socket]]:
    """Open connections that send nothing, or only this."""
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(count):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), LIMIT))
            if first:
                sock.sendall(first)
            found.append(sock)
        yield found


def closed(sock: socket.socket) -> bytes:
    """Read until the server closes; return what came before."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while data := sock.recv(65536):
            received += data
    return received


# The time for a head.


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("first", [b"", HEAD], ids=["silent", "half a head"])
def test_a_connection_without_a_whole_head_is_closed(parser: str, first: bytes) -> None:
    with (
        running(AgentApp(hello), head_timeout=0.2, http=parser) as server,
        connected(server.port, 2, first) as socks,
    ):
        assert [closed(sock) for sock in socks] == [b"", b""]


@pytest.mark.parametrize("parser", PARSERS)
def test_so_is_one_that_sends_half_a_head_after_a_request(parser: str) -> None:
    options: Any = {"head_timeout": 0.2, "timeout_keep_alive": 3600, "http": parser}
    with (
        running(AgentApp(hello), **options) as server,
        connected(server.port, first=HEAD + b"\r\n") as [sock],
    ):
        assert sock.recv(65536).startswith(b"HTTP/1.1 200 ")
        sock.sendall(HEAD)
        assert closed(sock).count(b"HTTP/1.1") == 0


@pytest.mark.parametrize("parser", PARSERS)
def test_a_head_without_end_is_cut(parser: str) -> None:
    with (
        running(AgentApp(hello), head_timeout=3600, http=parser) as server,
        connected(server.port, first=HEAD) as [sock],
    ):
        with contextlib.suppress(ConnectionError):
            for number in range(1000):
                sock.sendall(b"X-%d: %s\r\n" % (number, b"x" * 1000))
        assert b" 200 " not in closed(sock)


@pytest.mark.parametrize("parser", PARSERS)
def test_a_request_may_take_longer_than_its_head(parser: str) -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await gate.wait()
        await stream.write("b")

    with running(AgentApp(agent), head_timeout=0.2, http=parser) as server:
        peer = Peer(server.url)
        with peer.open() as answer, connected(server.port) as [silent]:
            answer.until(1)
            assert closed(silent) == b""  # the time is over for this one
            gate.open()
            assert answer.rest().text == "ab"
        assert peer.ask().text == "ab"
        peer.close()


# How many.


@pytest.mark.parametrize("parser", PARSERS)
def test_silent_connections_make_way_for_others(parser: str) -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await gate.wait()
        await stream.write("b")

    with running(AgentApp(agent), max_connections=4, http=parser) as server:
        peer = Peer(server.url)
        with peer.open() as answer, connected(server.port, 3) as silent:
            answer.until(1)
            assert httpx2.get(f"{server.url}/health", timeout=LIMIT).status_code == 200
            assert closed(silent[0]) == b""  # the one that has waited longest
            gate.open()
            assert answer.rest().text == "ab"
        peer.close()


def test_when_all_have_a_request_a_new_one_is_closed_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await gate.wait()

    caplog.set_level(logging.WARNING, "coreason_client.server")
    with running(AgentApp(agent), max_connections=2) as server:
        first, second = Peer(server.url), Peer(server.url)
        with first.open() as one, second.open() as two:
            one.until(1)
            two.until(1)
            for _ in range(20):
                with connected(server.port) as [sock]:
                    assert closed(sock) == b""
            gate.open()
            assert (one.rest().text, two.rest().text) == ("a", "a")
        assert first.ask().text == "a"  # there is room again
        first.close()
        second.close()
    lines = [line for line in caplog.messages if "closed at once: 2 are open" in line]
    assert 1 <= len(lines) < 10


# It holds its descriptors down to a low limit, counts while silence surrounds it, and leaves.
PROGRAM = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
from coreason_client.server import AgentApp, SQLiteStreamLog, serve

async def agent(request, stream):
    for number in range(20):
        await stream.write(f"{number} ")
        await asyncio.sleep(0.02)

log = SQLiteStreamLog(sys.argv[1])
most = int(sys.argv[2]) or None
serve(AgentApp(agent, log=log), port=0, log_level="info", max_connections=most, access_log=False)
"""


@pytest.mark.parametrize("most", [0, 100_000], ids=["our limit", "the system's limit"])
def test_silent_connections_do_not_stop_streams(tmp_path: Path, most: int) -> None:
    expected = "".join(f"{number} " for number in range(20))
    with Program(PROGRAM, tmp_path / "log.db", most) as program:
        url = program.url()
        peer = Peer(url)
        with peer.open() as answer:
            answer.until(1)
            with connected(int(url.rpartition(":")[2]), 200):
                assert answer.rest().text == expected
                other = Peer(url)
                assert other.ask().text == expected  # others get in
                other.close()
        assert peer.ask().text == expected
        peer.close()
        assert len(program.errors) < 3000
        assert "Traceback" not in program.errors
        assert ("cannot accept connections: Too many open files" in program.errors) == bool(most)


# Lines about what strangers send.


def test_malformed_requests_do_not_fill_the_log(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    malformed = b"GET / HTTP/1.1\nHost: localhost\n\n"
    upgrade = HEAD + b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\n"
    logger = logging.getLogger("uvicorn.error")  # uvicorn may have cut it off from the root
    logger.addHandler(caplog.handler)
    request.addfinalizer(lambda: logger.removeHandler(caplog.handler))
    with running(AgentApp(hello), http="h11", log_config=None) as server:
        for _ in range(30):
            with connected(server.port, first=malformed) as [sock]:
                assert b" 400 " in closed(sock)
            with connected(server.port, first=upgrade) as [sock]:
                assert b" 200 " in sock.recv(65536)
    for line in ("Invalid HTTP request received.", "Unsupported upgrade request."):
        assert 1 <= sum(message.startswith(line) for message in caplog.messages) < 10


# Trailers.


def chunked(head: bytes, trailers: bytes, body: bytes) -> bytes:
    return (
        b"POST /assist HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"
        + head
        + b"\r\n%x\r\n%b\r\n0\r\n%b\r\n" % (len(body), body, trailers)
    )


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("at_once", [True, False], ids=["one segment", "body later"])
@pytest.mark.parametrize(
    ("header", "status"),
    [
        (b"Authorization: Bearer k\r\n", b"401"),
        (b"Content-Type: application/json\r\n", b"415"),
        (b"Last-Event-ID: nonsense\r\n", b"200"),
        (b"X-Request-ID: 00000000-0000-0000-0000-000000000001\r\n", b"200"),
        (b"Host: other.example\r\n", b"200"),
        (b"Connection: upgrade\r\nUpgrade: websocket\r\n", b"200"),
        (b"X-A: 1\r\nX-B: 2\r\n", b"200"),
    ],
    ids=lambda value: value.partition(b":")[0].decode(),
)
def test_trailers_are_dropped(parser: str, header: bytes, status: bytes, at_once: bool) -> None:
    body = httpx2.Request("POST", "http://a", json=envelope()).content
    usual = [b"Host: localhost\r\n", b"Authorization: Bearer k\r\n"]
    usual.append(b"Content-Type: application/json\r\n")
    head = b"".join(line for line in usual if line != header)
    request = chunked(head, header, body)
    first = len(request) if at_once else request.index(b"\r\n\r\n") + 4
    keys = None if header.startswith(b"Host") else ["k"]  # with keys, any host is accepted
    with (
        running(AgentApp(hello, api_keys=keys), http=parser) as server,
        connected(server.port, first=request[:first]) as [sock],
    ):
        sock.sendall(request[first:])
        assert closed(sock)[9:12] == status


@pytest.mark.parametrize("parser", PARSERS)
def test_the_headers_after_a_request_with_trailers_count(parser: str) -> None:
    body = httpx2.Request("POST", "http://a", json=envelope()).content
    head = b"Host: localhost\r\nContent-Type: application/json\r\n"
    first = chunked(head, b"Authorization: Bearer k\r\n", body).replace(
        b"Connection: close", b"A: b"
    )
    second = HEAD + b"Authorization: Bearer k\r\nConnection: close\r\n\r\n"
    second = second.replace(b"/health", b"/assist")  # a GET, so the key is checked or not
    with (
        running(AgentApp(hello, api_keys=["k"]), http=parser) as server,
        connected(server.port, first=first) as [sock],
    ):
        assert sock.recv(65536)[9:12] == b"401"
        sock.sendall(second)
        assert b"HTTP/1.1 405" in closed(sock)


# Limits that the installed uvicorn does not allow.


def renamed_class(patch: pytest.MonkeyPatch, base: Any) -> None:
    renamed = type("Renamed", (base,), {"__module__": base.__module__})
    patch.setattr(sys.modules[base.__module__], base.__name__, renamed)


def renamed_attribute(patch: pytest.MonkeyPatch, base: Any) -> None:
    patch.delattr(base, "on_response_complete")


def renamed_parser(patch: pytest.MonkeyPatch, base: Any) -> None:
    """The connection of h11, or the callback of httptools."""
    if base.__name__ == "HttpToolsProtocol":
        patch.delattr(base, "on_header")
        return
    made = base.__init__

    def without(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        del self.conn

    patch.setattr(base, "__init__", without)


def renamed_response(patch: pytest.MonkeyPatch, base: Any) -> None:
    patch.delattr(sys.modules[base.__module__], "RequestResponseCycle")


def renamed_response_attribute(patch: pytest.MonkeyPatch, base: Any) -> None:
    cycle = sys.modules[base.__module__].RequestResponseCycle
    patch.setattr(cycle, "__init__", lambda self, **_: None)


def renamed_argument(patch: pytest.MonkeyPatch, base: Any) -> None:
    patch.setattr(base, "__init__", lambda self, settings: None)


def renamed_servers(patch: pytest.MonkeyPatch, base: Any) -> None:
    async def startup(self: Any, sockets: Any = None) -> None:
        await original(self, sockets)

    original = uvicorn.Server.startup
    patch.setattr(uvicorn.Server, "startup", startup)


OF_CONNECTIONS = [
    renamed_class,
    renamed_attribute,
    renamed_parser,
    renamed_response,
    renamed_response_attribute,
    renamed_argument,
]


@pytest.fixture
def fresh_reports() -> Iterator[None]:
    report_lost_protection.cache_clear()
    yield
    report_lost_protection.cache_clear()


def protocol_of(parser: str) -> Any:
    config = uvicorn.Config(hello, http=parser)
    config.load()
    return config.http_protocol_class


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record for record in caplog.records if "not as expected" in record.message]
    assert {record.levelname for record in found} <= {"WARNING"}
    return [record.message for record in found]


async def not_asked(scope: Any, receive: Any, send: Any) -> None:
    """An application that is only started."""


@pytest.mark.usefixtures("fresh_reports")
@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("rename", [*OF_CONNECTIONS, renamed_servers])
def test_a_limit_that_is_lost_is_one_warning_at_the_start(
    rename: Any,
    parser: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    rename(monkeypatch, protocol_of(parser))
    for _ in range(2):
        with running(not_asked, http=parser, lifespan="off"):
            pass
    [line] = warnings_of(caplog)
    if rename is renamed_servers:
        assert line.startswith("the servers of uvicorn are not as expected")
        assert line.endswith("max_connections is off")
    else:
        assert line.startswith("the connections of uvicorn are not as expected")
        for lost in ("max_connections", "head_timeout", "128 KiB", "trailers", "a drain"):
            assert lost in line


@pytest.mark.usefixtures("fresh_reports")
@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize(
    ("rename", "limit"),
    [
        *((rename, {"head_timeout": 10.0}) for rename in OF_CONNECTIONS),
        (renamed_class, {"max_connections": 100}),
        (renamed_servers, {"max_connections": 100}),
    ],
)
def test_a_limit_that_was_set_and_is_lost_is_an_error_of_the_start(
    rename: Any,
    limit: dict[str, Any],
    parser: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    rename(monkeypatch, protocol_of(parser))
    app = AgentApp(hello)
    with (
        pytest.raises(ArgumentError, match="cannot be applied, because the ") as caught,
        running(app, http=parser, **limit),
    ):
        pass
    [name] = limit
    assert (caught.value.argument, caught.value.value) == (name, limit[name])
    assert "\n" not in str(caught.value)
    assert not warnings_of(caplog)


@pytest.mark.usefixtures("fresh_reports")
def test_a_lost_listener_leaves_the_other_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    renamed_servers(monkeypatch, None)
    with (
        running(AgentApp(hello), head_timeout=0.2) as server,
        connected(server.port, 2, HEAD) as socks,
    ):
        assert [closed(sock) for sock in socks] == [b"", b""]


LOST = """
import logging, sys
from uvicorn.protocols.http import h11_impl
from coreason_client.server import AgentApp, serve
h11_impl.H11Protocol.__name__ = "Renamed"
async def agent(request, stream): ...
logging.basicConfig(level=logging.INFO)
limits = {} if sys.argv[1] == "default" else {"max_connections": 100}
serve(AgentApp(agent), port=0, http="h11", log_level="info", **limits)
"""


def test_the_process_says_so() -> None:
    with Program(LOST, "default") as program:
        program.url()
        program.expect("WARNING:coreason_client:the connections of uvicorn are not as expected")
        program.signal(signal.SIGTERM)
        assert program.end() == 0
    with Program(LOST, "set") as program:
        assert program.end() == 1
        assert "ArgumentError: max_connections cannot be applied" in program.errors
        assert "startup complete" not in program.errors


# The limits by themselves.


@pytest.mark.parametrize("limits", [{"max_connections": 0}, {"head_timeout": 0}])
def test_wrong_limits_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(limits))} must be"):
        Limits(**limits)
    with pytest.raises(ValueError, match="must be"), running(AgentApp(hello), **limits):
        pass


class Line:
    """A connection that remembers whether it was closed."""

    def __init__(self) -> None:
        self.transport = self
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


@given(st.lists(st.tuples(st.sampled_from(["new", "work", "wait", "end"]), st.integers(0, 9))))
def test_the_limit_holds_and_only_waiting_connections_are_closed(
    steps: list[tuple[str, int]],
) -> None:
    connections, most = Connections(3, 1.0), 3
    alive: list[Line] = []
    working: set[Line] = set()
    for step, number in steps:
        chosen = alive[number % len(alive)] if alive else None
        if step == "new":
            waiting = [line for line in alive if line not in working]
            room = len(alive) < most or bool(waiting)
            assert connections.reserve() is room
            if room:
                alive.append(Line())
                connections.add(alive[-1])
        elif chosen is not None and step == "work":
            working.add(chosen)
            connections.mark_busy(chosen)
        elif chosen is not None and step == "wait":
            working.discard(chosen)
            connections.mark_waiting(chosen)
        elif chosen is not None:
            alive.remove(chosen)
            working.discard(chosen)
            connections.forget(chosen)
        assert not any(line.aborted for line in working)
        alive = [line for line in alive if not line.aborted]
        assert len(connections) == len(alive) <= most


def test_the_one_that_has_waited_longest_is_closed_first() -> None:
    connections, lines = Connections(3, 1.0), [Line() for _ in range(3)]
    for line in lines:
        assert connections.reserve()
        connections.add(line)
    connections.mark_busy(lines[0])
    connections.mark_waiting(lines[0])  # from now on
    assert connections.reserve()
    assert [line.aborted for line in lines] == [False, True, False]
    connections.release()
    assert len(connections) == 2


# Other sockets.


def test_with_tls_a_handshake_must_come_in_time_too(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    chain.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    key.write_bytes(certificate.private_key_pem.bytes())
    context = ssl.create_default_context()
    authority.configure_trust(context)
    options: Any = {"ssl_certfile": str(chain), "ssl_keyfile": str(key)}
    with running(AgentApp(hello), head_timeout=0.3, **options) as server:
        url = f"https://127.0.0.1:{server.port}/health"
        assert httpx2.get(url, verify=context, timeout=LIMIT).status_code == 200
        with connected(server.port) as [silent], connected(server.port, first=HEAD) as [plain]:
            assert closed(silent) == b""
            assert b"HTTP" not in closed(plain)
        raw = socket.create_connection(("127.0.0.1", server.port), LIMIT)
        with context.wrap_socket(raw, server_hostname="127.0.0.1") as idle:
            assert idle.recv(100) == b""


UNIX = """
import sys
from coreason_client.server import AgentApp, serve
async def agent(request, stream): ...
serve(AgentApp(agent), uds=sys.argv[1], http="h11", log_level="info", head_timeout=0.2)
"""


def test_a_unix_socket_is_guarded_too(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with Program(UNIX, path) as program:
        program.expect("startup complete")
        for sent, received in (
            (HEAD + b"Connection: close\r\n\r\n", b"HTTP/1.1 200 "),
            (HEAD + b"A: b\n\r\n", b"HTTP/1.1 400 "),
            (HEAD, b""),
        ):
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(LIMIT)
                sock.connect(path)
                sock.sendall(sent)
                assert closed(sock)[:13] == received
        program.signal(signal.SIGTERM)
        assert program.end() == 0
