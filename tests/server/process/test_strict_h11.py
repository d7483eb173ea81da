"""Request heads that a proxy could read differently are refused, whichever parser is used."""

import socket
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server import AgentApp, AgentStream, running
from coreason_client.server.process._connections import (
    StrictConnection,
    has_bare_lf,
    has_two_lengths,
)
from coreason_manifest.definitions.service import ServiceRequest

from ..peer import LIMIT

PARSERS = [
    "h11",
    pytest.param(
        "httptools", marks=pytest.mark.skipif(not find_spec("httptools"), reason="no httptools")
    ),
]
OK = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
REFUSED = {
    "bare LF everywhere": b"GET /health HTTP/1.1\nHost: localhost\n\n",
    "bare LF after the request line": b"GET /health HTTP/1.1\nHost: localhost\r\n\r\n",
    "bare LF after a header": b"GET /health HTTP/1.1\r\nHost: localhost\nA: b\r\n\r\n",
    "bare LF at the end": b"GET /health HTTP/1.1\r\nHost: localhost\r\n\n",
    "TE, then CL": (
        b"POST /assist HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
        b"Content-Length: 5\r\n\r\n0\r\n\r\n"
    ),
    "CL, then TE": (
        b"POST /assist HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
        b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    "two lengths": (
        b"POST /assist HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
        b"Content-Length: 3\r\n\r\n{}"
    ),
}


async def hello(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("hello")


@pytest.fixture(scope="module", params=PARSERS)
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    with running(AgentApp(hello), http=request.param) as server:
        yield server.port


def exchange(port: int, *pieces: bytes) -> bytes:
    """Send bytes, and return what comes until the server closes."""
    with socket.create_connection(("127.0.0.1", port), LIMIT) as sock:
        for piece in pieces:
            sock.sendall(piece)
        return to_the_end(sock)


def to_the_end(sock: socket.socket) -> bytes:
    received = b""
    while data := sock.recv(65536):
        received += data
    return received


@pytest.mark.parametrize("name", REFUSED)
def test_an_ambiguous_head_is_refused_and_the_connection_closed(port: int, name: str) -> None:
    assert exchange(port, REFUSED[name]).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("name", REFUSED)
def test_so_is_one_that_follows_a_good_one(port: int, name: str) -> None:
    received = exchange(port, OK + REFUSED[name])
    # httptools finds the second one wrong before the first one is answered.
    assert received.count(b"HTTP/1.1 200 ") <= 1
    assert received.count(b"HTTP/1.1 400 ") == 1
    assert received.count(b"HTTP/1.1 ") <= 2


def test_so_is_one_in_two_pieces(port: int) -> None:
    # The first piece ends between the line and its bare LF.
    head = REFUSED["bare LF after a header"]
    cut = head.index(b"\nA")
    with socket.create_connection(("127.0.0.1", port), LIMIT) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(OK + head[:cut])
        assert sock.recv(65536).startswith(b"HTTP/1.1 200 ")
        sock.sendall(head[cut:])
        assert b"HTTP/1.1 400 " in to_the_end(sock)


def test_good_requests_in_one_piece_are_served_in_turn(port: int) -> None:
    body = b"POST /assist HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\n\n\n\n\nab\n\n"
    last = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    received = exchange(port, OK + body + OK + last)
    assert received.count(b"HTTP/1.1 200 ") == 3
    assert received.count(b"HTTP/1.1 415 ") == 1


# The rules by themselves.

_LINES = st.lists(st.binary(min_size=1, max_size=5).filter(lambda b: not set(b) & {10, 13}))


@given(_LINES, _LINES, st.binary(max_size=10))
def test_a_bare_lf_is_found_wherever_it_is(
    before: list[bytes], after: list[bytes], rest: bytes
) -> None:
    good = b"".join(line + b"\r\n" for line in (b"GET / HTTP/1.1", *before, *after))
    assert not has_bare_lf(good + b"\r\n" + rest)
    first = b"".join(line + b"\r\n" for line in (b"GET / HTTP/1.1", *before))
    second = b"".join(line + b"\r\n" for line in after)
    assert has_bare_lf(first + b"A: b\n" + second + b"\r\n" + rest)
    assert has_bare_lf(first + second + b"\n" + rest)


@pytest.mark.parametrize(
    ("names", "both"),
    [
        ([], False),
        ([b"content-length"], False),
        ([b"transfer-encoding", b"host"], False),
        ([b"transfer-encoding", b"host", b"content-length"], True),
    ],
)
def test_two_lengths(names: list[bytes], both: bool) -> None:
    assert has_two_lengths([(name, b"") for name in names]) is both


@given(st.lists(st.integers(0, 100), max_size=6))
def test_pieces_change_nothing(cuts: list[int]) -> None:
    data = OK + REFUSED["bare LF after a header"]
    ends = sorted({*cuts, len(data)})
    pieces = [data[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    connection: Any = StrictConnection(h11.SERVER)
    requests = 0
    with pytest.raises(h11.RemoteProtocolError, match="bare LF"):
        for piece in pieces:
            if piece:
                connection.receive_data(piece)
            while (event := connection.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                requests += isinstance(event, h11.Request)
                if isinstance(event, h11.EndOfMessage):
                    connection.send(h11.Response(status_code=204, headers=[]))
                    connection.send(h11.EndOfMessage())
                    connection.start_next_cycle()
    assert requests == 1
