"""Each fault really does on the wire what it says, seen through a plain socket."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import re
import socket
import time
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest

from . import FAULTS, FOREVER, GARBAGE, FaultServer, Run, describe, wire

QUIET = 0.05  # how long a connection is watched before "no byte comes" is believed
LIMIT = 10.0
SILENT = frozenset({"close_then_keeps_open", "stall", "stalled_status_first"})


# A client that hides nothing.


@dataclass
class Reply:
    """The response on one connection, and its end: ``fin``, ``rst`` or ``open``."""

    raw: bytes
    ending: str

    @property
    def status(self) -> int:
        return int(self.raw.split(b" ", 2)[1])

    @property
    def headers(self) -> dict[str, str]:
        lines = self.raw.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
        return {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}

    @property
    def framed(self) -> bytes:
        return self.raw.partition(b"\r\n\r\n")[2]

    @property
    def chunked(self) -> bool:
        return self.headers.get("transfer-encoding") == "chunked"

    @property
    def chunks(self) -> list[bytes]:
        return _dechunk(self.framed)[0]

    @property
    def clean(self) -> bool:
        """True if a chunked body came to its proper end."""
        return _dechunk(self.framed)[1]

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks) if self.chunked else self.framed

    @property
    def stream(self) -> Stream:
        return read_sse(self.body)


def _dechunk(data: bytes) -> tuple[list[bytes], bool]:
    """Return the chunks, the last one perhaps cut short, and whether the body is complete."""
    chunks: list[bytes] = []
    while b"\r\n" in data:
        line, _, data = data.partition(b"\r\n")
        size = int(line, 16)
        if size == 0:
            return chunks, data == b"\r\n"
        chunks.append(data[:size])
        data = data[size + 2 :]
    return chunks, False


@dataclass
class Stream:
    """The events that an SSE decoder of the standard finds in a body."""

    data: list[str] = field(default_factory=list)
    last_id: str = ""
    retry: int | None = None

    @property
    def packets(self) -> list[dict[str, Any]]:
        return [json.loads(item) for item in self.data]

    @property
    def seqs(self) -> list[int]:
        return [packet["seq"] for packet in self.packets]


def read_sse(body: bytes) -> Stream:
    """Decode a whole body; an unfinished last block is dropped."""
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    stream, event_id = Stream(), ""
    data: list[str] = []
    for line in re.split("\r\n|\n|\r", text)[:-1]:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            stream.last_id = event_id
            if data:
                stream.data.append("\n".join(data))
            data.clear()
        elif name == "data":
            data.append(value)
        elif name == "id" and "\0" not in value:
            event_id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            stream.retry = int(value)
    return stream


def connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    assert parts.hostname is not None
    return socket.create_connection((parts.hostname, parts.port or 0), LIMIT)


def post(url: str, *, cursor: str | None = None, connection: str = "close") -> bytes:
    path = url.split("/", 3)[3]
    head = f"POST /{path} HTTP/1.1\r\nHost: test\r\nConnection: {connection}\r\n"
    head += "" if cursor is None else f"Last-Event-ID: {cursor}\r\n"
    return f"{head}Authorization: Bearer k\r\nContent-Length: 2\r\n\r\n{{}}".encode()


def receive(sock: socket.socket, *, limit: float = LIMIT) -> Reply:
    raw = bytearray()
    sock.settimeout(limit)
    try:
        while data := sock.recv(65536):
            raw += data
    except TimeoutError:
        return Reply(bytes(raw), "open")
    except ConnectionResetError:
        return Reply(bytes(raw), "rst")
    return Reply(bytes(raw), "fin")


def ask(run: Run, cursor: str | None = None, *, url: str = "") -> Reply:
    """Send one request on a new connection and read until that ends."""
    target = url or run.url
    with connect(target) as sock:
        sock.sendall(post(target, cursor=cursor))
        return receive(sock)


def ask_in_vain(run: Run) -> Reply:
    """Send one request and read what there is once the server has fallen silent."""
    with connect(run.url) as sock:
        sock.sendall(post(run.url))
        assert run.wait_hanging()
        return receive(sock, limit=QUIET)


def seqs(first: int, last: int) -> list[int]:
    return list(range(first, last + 1))


def at(run: Run, seq: int) -> str:
    return f"{run.stream_id}:{seq}"


def half(run: Run, index: int = 8) -> bytes:
    event = wire.sse(run.packets[index])
    return event[: len(event) // 2]


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


# The wire.


def test_a_packet_is_compact_json_in_one_event() -> None:
    packet = wire.Packet("s", 3, "DELTA", "é ")
    assert wire.sse(packet) == (
        b'id: s:3\ndata: {"stream_id":"s","seq":3,"op":"DELTA",'
        b'"t":"2025-01-01T00:00:00.003+00:00","p":"\xc3\xa9 "}\n\n'
    )
    assert wire.sse(packet, with_id=False, eol=b"\r") == b"data: " + packet.json() + b"\r\r"


def test_a_chunk_never_ends_the_body_by_accident() -> None:
    assert wire.chunk(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"
    assert wire.chunk(b"") == b""


def test_a_head_has_a_reason_even_for_a_status_without_a_name() -> None:
    assert (
        wire.response_head(503, {"A": "b"}) == b"HTTP/1.1 503 Service Unavailable\r\nA: b\r\n\r\n"
    )
    assert wire.response_head(599) == b"HTTP/1.1 599 Unknown\r\n\r\n"


# The correct answer.


def test_correct_sends_all_packets_one_chunk_each(server: FaultServer) -> None:
    run = server.run("correct", packets=3)
    reply = ask(run)
    assert (reply.status, reply.ending, reply.clean) == (200, "fin", True)
    assert reply.headers["content-type"] == "text/event-stream"
    assert reply.chunks == [wire.sse(packet) for packet in run.packets]
    assert [packet["p"] for packet in reply.stream.packets] == [
        "w1 ",
        "w2 ",
        "w3 ",
        {"reason": "done"},
    ]
    assert run.text == "w1 w2 w3 "


@pytest.mark.parametrize(("seq", "owed"), [(0, seqs(1, 21)), (8, seqs(9, 21)), (21, [])])
def test_a_cursor_gets_what_is_still_owed(server: FaultServer, seq: int, owed: list[int]) -> None:
    run = server.run("correct")
    assert ask(run, at(run, seq)).stream.seqs == owed


def test_a_bare_stream_id_gets_everything(server: FaultServer) -> None:
    run = server.run("correct")
    assert ask(run, run.stream_id).stream.seqs == seqs(1, 21)


@pytest.mark.parametrize("cursor", ["", "x", "x:1", "{}:", "{}:-1", "{}:1x", "{}:\xb2"])
def test_a_cursor_that_was_never_given_out_is_a_400(server: FaultServer, cursor: str) -> None:
    run = server.run("correct")
    assert ask(run, cursor.format(run.stream_id)).status == 400


def test_an_unknown_run_is_a_404(server: FaultServer) -> None:
    run = server.run("correct")
    assert ask(run, url=f"{server.origin}/nothing/assist").status == 404
    assert run.requests == []


# The record.


def test_requests_are_recorded(server: FaultServer) -> None:
    run = server.run("correct")
    before = time.monotonic()
    with connect(run.url) as sock:
        sock.sendall(
            f"POST /{run.id}/assist?q=1 HTTP/1.1\r\nX-A: 1\r\nx-a: 2\r\nConnection: close\r\n"
            "Authorization: Bearer hidden\r\nTransfer-Encoding: chunked\r\n\r\n"
            "3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: u\r\n\r\n".encode()
        )
        receive(sock)
    (request,) = run.requests
    assert (request.method, request.path, request.body) == ("POST", "/assist", b"abcde")
    assert request.target == f"/{run.id}/assist?q=1"
    assert request.headers["x-a"] == "1, 2"
    assert request.raw_headers[:2] == (("X-A", "1"), ("x-a", "2"))
    assert request.headers["authorization"] == "Bearer hidden"
    assert "hidden" not in repr(request)
    assert request.last_event_id is None
    assert request.origin == server.origin
    assert before <= request.at <= time.monotonic()


def test_cursors_and_delays_are_recorded(server: FaultServer) -> None:
    run = server.run("correct")
    ask(run)
    ask(run, at(run, 3))
    assert run.last_event_ids == [None, at(run, 3)]
    assert len(run.delays) == 1
    assert run.delays[0] > 0


def test_a_connection_is_kept_after_a_clean_end(server: FaultServer) -> None:
    run = server.run("clean_end_without_close")
    with connect(run.url) as sock:
        for cursor, last in ((None, 8), (at(run, 8), 21)):
            sock.sendall(post(run.url, cursor=cursor, connection="keep-alive"))
            raw = b""
            while not raw.endswith(wire.LAST_CHUNK):
                raw += sock.recv(65536)
            assert Reply(raw, "open").stream.seqs[-1] == last
        assert run.connections_open == 1
    assert run.wait_all_closed()
    assert len({request.connection for request in run.requests}) == 1


def test_a_connection_counts_until_the_client_closes_it(server: FaultServer) -> None:
    run = server.run("fin_mid_event_chunked")
    with connect(run.url) as sock:
        sock.sendall(post(run.url))
        assert receive(sock).ending == "fin"
        assert run.connections_open == 1
        assert not run.wait_all_closed(timeout=0.0)
    assert run.wait_all_closed()


def test_bytes_after_fin_are_answered_with_rst(server: FaultServer) -> None:
    run = server.run("fin_mid_event_chunked")
    with connect(run.url) as sock:
        sock.sendall(post(run.url))
        receive(sock)
        sock.sendall(b"more")
        assert run.wait_all_closed()
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            sock.sendall(b"and more")


def test_a_connection_moves_from_run_to_run(server: FaultServer) -> None:
    runs = [server.run("no_content_first"), server.run("no_content_first")]
    with connect(runs[0].url) as sock:
        for run in runs:
            sock.sendall(post(run.url, connection="keep-alive"))
            assert sock.recv(65536).startswith(b"HTTP/1.1 204 ")
        assert [run.connections_open for run in runs] == [0, 1]
    assert runs[1].wait_all_closed()


# The registry.


def test_every_fault_has_one_sentence() -> None:
    for name, sentence in describe().items():
        assert re.fullmatch(r"[A-Z][^\n]*\.", sentence), name


def test_a_wrong_name_gets_the_closest_ones(server: FaultServer) -> None:
    with pytest.raises(ValueError, match=r"did you mean .*rst_mid_event") as raised:
        server.run("rst_mid_evnt")
    assert str(raised.value).endswith(", got 'rst_mid_evnt'")
    with pytest.raises(ValueError, match=r"see coreason_client.testing.FAULTS"):
        server.run("qqqq")
    with pytest.raises(TypeError, match="stall takes at, every, times, got tims"):
        server.run("stall", tims=2)
    with pytest.raises(RuntimeError, match="not running"):
        FaultServer().run("stall")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("nothing", {}),
        ("stall", {"fault_after": 22}),
        ("stall", {"fault_after": -1}),
        ("stall", {"at": "tail"}),
        ("stall", {"tims": 2}),
        ("correct", {"times": 2}),
    ],
)
def test_a_run_that_would_prove_nothing_is_refused(
    server: FaultServer, name: str, options: dict[str, Any]
) -> None:
    with pytest.raises((TypeError, ValueError)):
        server.run(name, **options)


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_the_bytes_of_a_fault_are_always_the_same(name: str) -> None:
    shorter: dict[str, dict[str, Any]] = {
        "huge_event": {"size": 1000},
        "hung_with_heartbeats": {"beats": 3},
    }
    options = shorter.get(name, {})

    def first_answer() -> tuple[bytes, str]:
        with FaultServer() as server:
            run = server.run(name, packets=5, fault_after=2, **options)
            reply = ask_in_vain(run) if name in SILENT else ask(run)
            assert run.wait_all_closed()
            return reply.raw.replace(server.origin.encode(), b""), reply.ending

    assert first_answer() == first_answer()


# Lost connections: 1..8, then the fault; the next attempt is correct.


@dataclass
class Loss:
    """A loss, the way it shows, and the unfinished bytes that it leaves behind."""

    name: str
    ending: str
    options: dict[str, Any] = field(default_factory=dict)
    chunked: bool = True
    clean: bool = False
    last: int = 8


LOSSES = [
    Loss("rst_mid_event", "rst"),
    Loss("fin_mid_event_chunked", "fin"),
    Loss("fin_mid_event_chunked", "fin", {"whole_chunk": True}),
    Loss("fin_mid_event_close_delimited", "fin", chunked=False),
    Loss("clean_end_without_close", "fin", clean=True),
    Loss("clean_end_close_delimited", "fin", chunked=False),
    Loss("cut_inside_utf8", "fin"),
    Loss("cut_inside_utf8", "rst", {"how": "rst", "keep": 1}),
    Loss("cut_inside_utf8", "fin", {"how": "end", "keep": 3}, clean=True),
    Loss("cut_between_cr_and_lf", "fin", {"line": "id"}),
    Loss("cut_between_cr_and_lf", "fin", {"line": "data"}),
    Loss("cut_between_cr_and_lf", "fin", {"line": "blank"}, last=9),
    Loss("cut_in_chunk_header", "fin"),
    Loss("cut_in_chunk_header", "rst", {"how": "rst", "keep": 3}),
    Loss("burst_then_rst", "rst"),
    Loss("burst_then_rst", "fin", {"how": "fin"}),
    Loss("burst_then_rst", "fin", {"how": "end"}, clean=True),
    Loss("retry_field", "fin"),
    Loss("gzip", "fin", {"cut": True}),
    Loss("status_on_reconnect", "fin", {"times": 0}),
    Loss("html_on_reconnect", "fin", {"times": 0}),
]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.name}-{loss.options}")
def test_a_loss_shows_as_it_should_and_is_healed(server: FaultServer, loss: Loss) -> None:
    run = server.run(loss.name, **loss.options)
    first = ask(run)
    assert (first.ending, first.chunked) == (loss.ending, loss.chunked)
    assert not loss.chunked or first.clean == loss.clean
    assert stream_of(first).seqs == seqs(1, loss.last)
    second = ask(run, at(run, loss.last))
    assert (second.ending, second.clean) == ("fin", True)
    assert stream_of(second).seqs == seqs(loss.last + 1, 21)
    assert run.wait_all_closed()
    assert run.errors == []


def stream_of(reply: Reply) -> Stream:
    packed = reply.headers.get("content-encoding") == "gzip"
    return read_sse(zlib.decompressobj(wbits=31).decompress(reply.body) if packed else reply.body)


@pytest.mark.parametrize("name", ["rst_mid_event", "fin_mid_event_chunked"])
def test_the_cut_is_inside_an_announced_chunk(server: FaultServer, name: str) -> None:
    run = server.run(name)
    event = wire.sse(run.packets[8])
    tail = wire.chunk_header(len(event)) + half(run)
    assert ask(run).framed.endswith(b"\n\n\r\n" + tail)


def test_the_cut_can_be_after_a_whole_chunk(server: FaultServer) -> None:
    run = server.run("fin_mid_event_chunked", whole_chunk=True)
    assert ask(run).framed.endswith(b"\n\n\r\n" + wire.chunk(half(run)))


def test_the_cut_of_a_body_without_length(server: FaultServer) -> None:
    run = server.run("fin_mid_event_close_delimited")
    reply = ask(run)
    assert reply.framed.endswith(b"\n\n" + half(run))
    assert reply.headers["connection"] == "close"


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_cut_inside_a_character(server: FaultServer, keep: int) -> None:
    run = server.run("cut_inside_utf8", keep=keep)
    assert ask(run).raw.endswith(b'"w9 ' + b"\xf0\x9f\x98\x80"[:keep])


@pytest.mark.parametrize(
    ("line", "tail"), [("id", b":9\r"), ("data", b"}\r"), ("blank", b"}\r\n\r")]
)
def test_the_cut_between_cr_and_lf(server: FaultServer, line: str, tail: bytes) -> None:
    reply = ask(server.run("cut_between_cr_and_lf", line=line))
    assert reply.raw.endswith(tail)
    assert b"\n" not in reply.body.replace(b"\r\n", b"")


def test_the_cut_in_a_chunk_header(server: FaultServer) -> None:
    run = server.run("cut_in_chunk_header", keep=1)
    header = wire.chunk_header(len(wire.sse(run.packets[8])))
    assert ask(run).raw.endswith(b"\n\n\r\n" + header[:1])


def test_a_burst_can_hold_the_close_packet_too(server: FaultServer) -> None:
    run = server.run("burst_then_rst", fault_after=21)
    reply = ask(run)
    assert (reply.ending, reply.clean) == ("rst", False)
    assert reply.stream.seqs == seqs(1, 21)


@pytest.mark.parametrize("name", ["rst_mid_event", "fin_mid_event_chunked"])
def test_a_cut_after_the_last_packet_leaves_no_half_event(server: FaultServer, name: str) -> None:
    reply = ask(server.run(name, fault_after=21))
    assert reply.stream.seqs == seqs(1, 21)
    assert reply.framed.endswith(b"}}\n\n\r\n")


def test_a_burst_is_reset_before_the_client_reads(server: FaultServer) -> None:
    run = server.run("burst_then_rst")
    with connect(run.url) as sock:
        sock.sendall(post(run.url))
        assert run.wait_requests(1)
        assert run.wait_all_closed()  # the reset is out, and nothing has been read yet
        assert receive(sock).stream.seqs == seqs(1, 8)


def test_a_retry_line_comes_before_the_cut(server: FaultServer) -> None:
    assert ask(server.run("retry_field", retry=70)).stream.retry == 70


@pytest.mark.parametrize(
    ("where", "tail"), [("head", b""), ("event", b"\n\n\r\n"), ("mid_event", b"")]
)
def test_a_stall_sends_no_byte_and_keeps_the_connection(
    server: FaultServer, where: str, tail: bytes
) -> None:
    run = server.run("stall", at=where)
    reply = ask_in_vain(run)
    assert reply.ending == "open"
    assert reply.raw.endswith(half(run) if where == "mid_event" else tail)
    assert (reply.raw == b"") == (where == "head")
    assert run.wait_all_closed()
    assert ask(run, at(run, 8)).stream.seqs == seqs(9, 21)


def test_a_fault_can_strike_again_without_progress(server: FaultServer) -> None:
    run = server.run("fin_mid_event_chunked", times=2)
    assert ask(run).stream.seqs == seqs(1, 8)
    second = ask(run, at(run, 8))
    assert (second.stream.seqs, second.clean) == ([], False)
    assert ask(run, at(run, 8)).stream.seqs == seqs(9, 21)


def test_a_fault_can_strike_again_with_progress(server: FaultServer) -> None:
    run = server.run("fin_mid_event_chunked", fault_after=1, times=FOREVER, every=5)
    reached, answers = 0, 0
    while reached < 21:
        reached = ask(run, at(run, reached)).stream.seqs[-1]
        answers += 1
    assert answers == 5  # up to 1, 6, 11, 16, and then nothing is left to spoil
    assert run.errors == []


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_a_refused_request_gets_no_byte(server: FaultServer, how: str) -> None:
    run = server.run("refuse_first", how=how)
    assert ask(run) == Reply(b"", how)
    assert ask(run).stream.seqs == seqs(1, 21)


@pytest.mark.parametrize(
    ("options", "ending", "head"),
    [
        ({}, "fin", False),
        ({"how": "rst"}, "rst", False),
        ({"head": True}, "fin", True),
        ({"head": True, "how": "end"}, "fin", True),
    ],
)
def test_accept_and_close_goes_on_for_ever(
    server: FaultServer, options: dict[str, Any], ending: str, head: bool
) -> None:
    run = server.run("accept_and_close", **options)
    for _ in range(5):
        reply = ask(run)
        assert reply.ending == ending
        assert (reply.raw != b"") == head
        assert not head or (reply.status == 200 and reply.body == b"")
        assert reply.clean == (options.get("how") == "end")


# Answers that are not a stream.


@pytest.mark.parametrize("status", [204, 404, 408, 410, 425, 429, 500, 502, 503, 504])
def test_a_status_on_reconnect(server: FaultServer, status: int) -> None:
    run = server.run("status_on_reconnect", status=status, retry_after=2, times=2)
    assert ask(run).stream.seqs == seqs(1, 8)
    for _ in range(2):
        reply = ask(run, at(run, 8))
        assert (reply.status, reply.headers["retry-after"]) == (status, "2")
        assert (reply.framed == b"") == (status == 204)
    assert ask(run, at(run, 8)).stream.seqs == seqs(9, 21)


def test_a_connection_can_be_lost_by_silence(server: FaultServer) -> None:
    for name in ("status_on_reconnect", "different_stream_after_reconnect"):
        run = server.run(name, loss="hang")
        reply = ask_in_vain(run)
        assert (reply.ending, reply.stream.seqs) == ("open", seqs(1, 8))
        assert run.wait_all_answered()  # since the client has left


def test_a_status_first(server: FaultServer) -> None:
    body = b'{"code":"bad_key"}'
    run = server.run("status_first", status=401, body=body, headers={"X-Why": "key"})
    reply = ask(run)
    assert (reply.status, reply.framed, reply.headers["x-why"]) == (401, body, "key")
    assert reply.headers["content-length"] == str(len(body))
    assert ask(run).stream.seqs == seqs(1, 21)


def test_a_status_first_has_a_default_body(server: FaultServer) -> None:
    reply = ask(server.run("status_first", retry_after="soon"))
    assert json.loads(reply.framed) == {"detail": "503 Service Unavailable"}
    assert reply.headers["retry-after"] == "soon"


def test_a_status_with_a_body_that_never_ends(server: FaultServer) -> None:
    run = server.run("stalled_status_first", status=500)
    reply = ask_in_vain(run)
    assert (reply.status, reply.ending, reply.framed) == (500, "open", b'{"detail":')
    assert run.wait_all_closed()


def test_html_on_reconnect(server: FaultServer) -> None:
    run = server.run("html_on_reconnect")
    assert ask(run).stream.seqs == seqs(1, 8)
    reply = ask(run, at(run, 8))
    assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert ask(run, at(run, 8)).stream.seqs == seqs(9, 21)


def test_html_first(server: FaultServer) -> None:
    reply = ask(server.run("html_first"))
    assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")


def test_no_content_first(server: FaultServer) -> None:
    reply = ask(server.run("no_content_first"))
    assert (reply.status, reply.headers, reply.framed) == (204, {}, b"")


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("relative", [False, True])
def test_a_redirect_on_the_same_origin(server: FaultServer, status: int, relative: bool) -> None:
    run = server.run("redirect", status=status, relative=relative)
    reply = ask(run)
    moved = f"{run.base_url}/moved"
    assert reply.status == status
    assert reply.headers["location"] == (f"/{run.id}/moved" if relative else moved)
    assert ask(run, url=moved).stream.seqs == seqs(1, 21)
    assert [request.path for request in run.requests] == ["/assist", "/moved"]


def test_a_redirect_to_another_origin_shows_what_arrives_there(server: FaultServer) -> None:
    run = server.run("redirect", cross_origin=True)
    location = ask(run).headers["location"]
    assert location == f"{run.other_base_url}/moved"
    assert location.startswith(server.other_origin)
    assert server.other_origin != server.origin
    ask(run, url=location)
    here, there = run.requests
    assert (here.origin, there.origin) == (server.origin, server.other_origin)
    assert there.headers["authorization"] == "Bearer k"


def test_a_redirected_answer_can_be_for_pages_of_any_origin(server: FaultServer) -> None:
    run = server.run("redirect", cross_origin=True, cors=True)
    moved = ask(run).headers["location"]
    reply = ask(run, url=moved)
    assert (reply.headers["access-control-allow-origin"], reply.stream.seqs) == ("*", seqs(1, 21))
    with connect(moved) as sock:
        sock.sendall(post(moved).replace(b"POST", b"OPTIONS", 1))
        asked = receive(sock)
    assert (asked.status, asked.headers["access-control-allow-origin"]) == (204, "*")


def test_a_redirected_answer_can_be_lost(server: FaultServer) -> None:
    run = server.run("redirect", cut=True)
    moved = ask(run).headers["location"]
    assert ask(run, url=moved).stream.seqs == seqs(1, 8)
    assert ask(run, at(run, 8)).status == 307
    assert ask(run, at(run, 8), url=moved).stream.seqs == seqs(9, 21)


def test_a_redirect_loop_never_ends(server: FaultServer) -> None:
    run = server.run("redirect_loop", status=308)
    url = run.url
    for hop in range(1, 6):
        reply = ask(run, url=url)
        assert reply.status == 308
        url = reply.headers["location"]
        assert url == f"{run.url}?hop={hop}"


# Numbers and identities.


def test_a_server_can_ignore_the_cursor(server: FaultServer) -> None:
    run = server.run("ignores_last_event_id")
    assert ask(run).stream.seqs == seqs(1, 8)
    assert ask(run, at(run, 8)).stream.seqs == seqs(1, 21)


def test_duplicates(server: FaultServer) -> None:
    got = ask(server.run("duplicates", packets=3, fault_after=2)).stream.seqs
    assert got == [1, 1, 2, 2, 1, 2, 3, 3, 4, 4]


def test_out_of_order(server: FaultServer) -> None:
    run = server.run("out_of_order")
    assert ask(run).stream.seqs == [*seqs(1, 8), 10, 9, *seqs(11, 21)]
    assert ask(run, at(run, 8)).stream.seqs == seqs(9, 21)


def test_a_gap_that_heals(server: FaultServer) -> None:
    run = server.run("gap_once")
    assert ask(run).stream.seqs == [*seqs(1, 8), *seqs(10, 21)]
    assert ask(run, at(run, 8)).stream.seqs == seqs(9, 21)


def test_a_gap_that_stays(server: FaultServer) -> None:
    run = server.run("gap_always", skip=3)
    assert ask(run).stream.seqs == [*seqs(1, 8), *seqs(12, 24)]
    assert ask(run, at(run, 8)).stream.seqs == seqs(12, 24)
    assert run.text.split() == [f"w{n}" for n in range(1, 21)]


def test_a_different_stream_after_a_reconnect(server: FaultServer) -> None:
    run = server.run("different_stream_after_reconnect")
    assert {packet["stream_id"] for packet in ask(run).stream.packets} == {run.stream_id}
    other = ask(run, at(run, 8)).stream
    assert {packet["stream_id"] for packet in other.packets} == {run.other_stream_id}
    assert other.seqs == seqs(1, 21)
    assert other.last_id == f"{run.other_stream_id}:21"


def test_no_ids(server: FaultServer) -> None:
    run = server.run("no_ids")
    for reply, last in ((ask(run), 8), (ask(run, run.stream_id), 21)):
        assert reply.stream.seqs == seqs(1, last)
        assert b"id: " not in reply.body


def test_an_id_in_a_block_of_its_own(server: FaultServer) -> None:
    run = server.run("id_only_cursor")
    reply = ask(run)
    assert (reply.stream.seqs, reply.stream.last_id) == (seqs(1, 8), at(run, 8))
    assert reply.body.count(b"id: ") == 2  # the block without data, and the unfinished one
    assert reply.body.endswith(b"\n\n" + half(run))


# Contents.


def test_garbage_lines_change_nothing(server: FaultServer) -> None:
    run = server.run("garbage_lines")
    reply = ask(run)
    assert reply.stream.seqs == seqs(1, 21)
    assert reply.stream.last_id == at(run, 21)
    assert reply.stream.retry is None
    assert reply.body.count(GARBAGE) == 21


@pytest.mark.parametrize(
    ("name", "options", "wrong"),
    [
        ("truncated_utf8_in_packet", {}, b'"p":"\xf0\x9f\x98"}\n'),
        ("bad_json", {}, b'"p":"w9 "\n'),
        ("unknown_op", {}, b'"op":"PING"'),
        ("missing_field", {}, b'"seq":9,"t":'),
        ("missing_field", {"field": "seq"}, b'","op":"DELTA"'),
        ("string_error", {}, b'"op":"ERROR"'),
    ],
)
def test_a_malformed_packet_stands_in_a_stream_that_goes_on(
    server: FaultServer, name: str, options: dict[str, Any], wrong: bytes
) -> None:
    run = server.run(name, **options)
    reply = ask(run)
    assert wrong in reply.chunks[8]
    expected = [wire.sse(packet) for packet in run.packets]
    assert [*reply.chunks[:8], *reply.chunks[9:]] == [*expected[:8], *expected[9:]]
    assert reply.clean
    assert ask(run, at(run, 8)).stream.seqs == seqs(9, 21)


def test_a_string_under_error(server: FaultServer) -> None:
    packet = ask(server.run("string_error")).stream.packets[8]
    assert (packet["op"], packet["p"]) == ("ERROR", "boom")


def test_a_huge_event_arrives_in_pieces(server: FaultServer) -> None:
    reply = ask(server.run("huge_event", size=200_000))
    assert reply.stream.packets[8]["p"] == "x" * 200_000
    assert reply.stream.seqs == seqs(1, 21)
    assert [len(item) for item in reply.chunks if item.startswith(b"xx")] == [65536] * 3 + [3392]


def test_a_huge_event_in_many_lines(server: FaultServer) -> None:
    data = ask(server.run("huge_event", size=200_000, lines=True)).stream.data[8]
    assert data.count("x") == 200_000
    assert data.count("\n") == 4


def test_a_huge_comment_comes_before_its_packet(server: FaultServer) -> None:
    reply = ask(server.run("huge_event", size=200_000, field=""))
    assert reply.stream.seqs == seqs(1, 21)
    assert b": " + b"x" * 200_000 + b"\n\n" in reply.body


def test_a_huge_event_stops_when_the_client_leaves(server: FaultServer) -> None:
    run = server.run("huge_event")
    with connect(run.url) as sock:
        sock.sendall(post(run.url))
        assert run.wait_bytes_sent(100_000)
    assert run.wait_all_closed()
    assert run.bytes_sent < 32 * 1024 * 1024
    assert run.errors == []


def test_a_slow_drip_has_pieces_of_one_to_four_bytes(server: FaultServer) -> None:
    reply = ask(server.run("slow_drip", packets=3))
    assert reply.stream.seqs == seqs(1, 4)
    assert [len(item) for item in reply.chunks[:8]] == [1, 2, 3, 4, 1, 2, 3, 4]
    assert {len(item) for item in reply.chunks} == {1, 2, 3, 4}


def test_a_slow_drip_can_cut_the_framing(server: FaultServer) -> None:
    run = server.run("slow_drip", packets=3, of="wire")
    assert ask(run).chunks == [wire.sse(packet) for packet in run.packets]


def test_comments_and_ids_without_data_are_no_events(server: FaultServer) -> None:
    run = server.run("keepalive_comments", retry=30)
    stream = ask(run).stream
    assert (stream.seqs, stream.retry, stream.last_id) == (seqs(1, 21), 30, at(run, 21))


@pytest.mark.parametrize(("split", "sizes"), [(False, []), (True, [1, 1, 1])])
def test_a_byte_order_mark(server: FaultServer, split: bool, sizes: list[int]) -> None:
    reply = ask(server.run("bom", split=split))
    assert reply.body.startswith(wire.BOM + b"id: ")
    assert reply.stream.seqs == seqs(1, 21)
    assert [len(item) for item in reply.chunks if len(item) == 1] == sizes


def test_cr_line_ends(server: FaultServer) -> None:
    reply = ask(server.run("cr_line_ends"))
    assert b"\n" not in reply.body
    assert reply.stream.seqs == seqs(1, 21)


@pytest.mark.parametrize("split", [False, True])
def test_crlf_line_ends(server: FaultServer, split: bool) -> None:
    reply = ask(server.run("crlf_line_ends", split=split))
    assert reply.body.count(b"\n") == reply.body.count(b"\r\n") == 3 * 21
    assert any(b"\r\n" in item for item in reply.chunks) != split
    assert reply.stream.seqs == seqs(1, 21)


def test_gzip_is_flushed_after_each_packet(server: FaultServer) -> None:
    run = server.run("gzip")
    reply = ask(run)
    unpack = zlib.decompressobj(wbits=31)
    assert [unpack.decompress(item) for item in reply.chunks] == [
        *(wire.sse(packet) for packet in run.packets),
        b"",
    ]
    assert unpack.eof


# Errors inside the stream, and ends.


def test_a_transient_error_is_numbered_and_heals(server: FaultServer) -> None:
    run = server.run("transient_error", retry_after=0.5)
    packet = ask(run).stream.packets[-1]
    assert (packet["seq"], packet["op"], packet["p"]["severity"]) == (9, "ERROR", "TRANSIENT")
    assert packet["p"]["details"] == {"retry_after": 0.5}
    assert ask(run, at(run, 9)).stream.seqs == seqs(10, 22)
    assert run.text.split() == [f"w{n}" for n in range(1, 21)]


def test_a_transient_error_that_always_comes_has_new_numbers(server: FaultServer) -> None:
    run = server.run("transient_always", retry_after=3)
    assert ask(run).stream.seqs == seqs(1, 9)
    for last in (9, 10, 11):
        (packet,) = ask(run, at(run, last)).stream.packets
        assert (packet["seq"], packet["p"]["severity"]) == (last + 1, "TRANSIENT")
        assert packet["p"]["details"] == {"retry_after": 3}


def test_a_fatal_error_ends_the_stream(server: FaultServer) -> None:
    run = server.run("fatal_error")
    reply = ask(run)
    assert (reply.stream.seqs, reply.clean) == (seqs(1, 9), True)
    assert reply.stream.packets[-1]["p"]["severity"] == "FATAL"


def test_a_warning_stands_in_the_middle(server: FaultServer) -> None:
    run = server.run("warning_error")
    packets = ask(run).stream.packets
    assert [packet["op"] for packet in packets] == ["DELTA"] * 8 + ["ERROR"] + ["DELTA"] * 12 + [
        "CLOSE"
    ]
    assert packets[8]["p"]["severity"] == "WARNING"


@pytest.mark.parametrize(
    ("name", "options", "last"),
    [
        ("close_then_keeps_open", {}, 21),
        ("fatal_error", {"keep_open": True}, 9),
        ("transient_error", {"keep_open": True}, 9),
        ("transient_always", {"keep_open": True}, 9),
    ],
)
def test_the_connection_can_stay_open_after_the_last_packet(
    server: FaultServer, name: str, options: dict[str, Any], last: int
) -> None:
    run = server.run(name, **options)
    reply = ask_in_vain(run)
    assert (reply.ending, reply.clean, reply.stream.seqs) == ("open", False, seqs(1, last))
    assert run.wait_all_closed()


# The server itself.


def test_files_for_a_browser_and_one_request_on_each_connection() -> None:
    with FaultServer(files={"/a.js": wire.File("text/javascript", b"1")}, keep_alive=False) as own:
        run = own.run("correct")
        for url in (f"{own.origin}/a.js", run.url):
            with connect(url) as sock:
                sock.sendall(post(url, connection="keep-alive"))
                reply = receive(sock)
            assert (reply.status, reply.ending) == (200, "fin")
            assert url == run.url or reply.framed == b"1"


def test_a_request_is_being_answered_until_the_client_leaves(server: FaultServer) -> None:
    run = server.run("stall")
    with connect(run.url) as sock:
        sock.sendall(post(run.url))
        assert run.wait_hanging()
        assert not run.wait_all_answered(QUIET)
    assert run.wait_all_answered()


def test_the_server_stops_at_once_and_leaves_nothing_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with warnings.catch_warnings(record=True) as seen, caplog.at_level(logging.WARNING, "asyncio"):
        warnings.simplefilter("always")
        with FaultServer(debug=True) as server:
            runs = [server.run("stall", at=where) for where in ("head", "event", "mid_event")]
            runs += [server.run("close_then_keeps_open"), server.run("huge_event")]
            socks = [connect(run.url) for run in runs]
            socks.append(connect(server.origin))  # a connection that never asks
            for sock, run in zip(socks, runs, strict=False):
                sock.sendall(post(run.url))
            assert all(run.wait_requests(1) for run in runs)
            started = time.monotonic()
        assert time.monotonic() - started < 5.0  # without the stop, the stalls last longer
        for sock in socks:
            sock.close()
        gc.collect()
    assert seen == []
    records = [record for record in caplog.records if record.name == "asyncio"]
    assert [record for record in records if "took" not in record.getMessage()] == []
    assert [run.connections_open for run in runs] == [0] * 5


def fail_inside() -> None:
    """Ask for a fault that has no packet left to bend, so that its script fails."""
    with FaultServer() as server:
        run = server.run("bad_json", fault_after=21)
        ask(run)
        assert run.wait_all_closed()
        assert [type(error) for error in run.errors] == [ValueError]


def test_a_script_that_fails_is_heard_of() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        fail_inside()
    assert [type(error) for error in caught.value.exceptions] == [ValueError]


def fail_on_both_sides() -> None:
    with FaultServer() as server:
        ask(server.run("bad_json", fault_after=21))
        raise KeyError


def test_a_failure_in_the_test_is_not_hidden_by_one_in_the_server() -> None:
    with pytest.raises(KeyError):
        fail_on_both_sides()


def talk_nonsense() -> None:
    with FaultServer() as server, connect(server.origin) as sock:
        sock.sendall(b"nonsense\r\n\r\n")
        assert receive(sock).raw == b""


def test_a_request_that_is_no_http_is_heard_of() -> None:
    with pytest.raises(ExceptionGroup):
        talk_nonsense()


def outlast_the_server() -> None:
    with FaultServer(timeout=QUIET) as server:
        run = server.run("stall")
        assert ask(run).ending == "fin"
        assert run.wait_all_closed()


def test_patience_has_an_end() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        outlast_the_server()
    assert [type(error) for error in caught.value.exceptions] == [TimeoutError]


def test_many_streams_at_once_from_another_event_loop(server: FaultServer) -> None:
    runs = [server.run("correct") for _ in range(100)]

    async def read(run: Run) -> list[int]:
        parts = urlsplit(run.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(post(run.url))
        raw = await reader.read()
        writer.close()
        await writer.wait_closed()
        return Reply(raw, "fin").stream.seqs

    async def read_all() -> list[list[int]]:
        async with asyncio.timeout(LIMIT):
            return await asyncio.gather(*map(read, runs))

    assert asyncio.run(read_all()) == [seqs(1, 21)] * 100
    assert all(run.wait_all_closed() for run in runs)


def test_the_shared_server_saw_no_error(server: FaultServer) -> None:
    assert server.errors == []
