"""The merger changes nothing but the framing: h11 behind it ends up where direct h11 does.

Two real h11 clients are driven as httpcore2 drives its own, the one fed with what was read and the
other through the merger. After every single read both must have the same heads, the same body, the
same end or error: then nothing is changed, and nothing is held back.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import h11
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from coreason_client._http._merge import ChunkMerger
from tests.fuzz.strategies import examples

LONGEST_INCOMPLETE_EVENT = 100 * 1024  # what httpcore2 allows
PLAIN_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKS = b"1\r\na\r\n1\r\nb\r\n"
EOF = b""


class Client:
    """An h11 client, with the merger in front of it or without.

    `seen` has what a caller of httpcore2 would see, in order: heads, ends and errors.
    """

    def __init__(self, merger: ChunkMerger | None = None, *, bypass: bool = False) -> None:
        self._bypass = bypass
        self.seen: list[object] = []
        self.body = b""
        self.data_events = 0
        self.waiting = False
        self._merger = merger
        self._connection = h11.Connection(h11.CLIENT, LONGEST_INCOMPLETE_EVENT)

    def send(self, method: str, content: bytes = b"") -> None:
        """Send a request, with a write for each event, the empty one at its end included."""
        headers = [("Host", "test"), ("Content-Length", str(len(content)))]
        events: list[h11.Request | h11.Data | h11.EndOfMessage] = [
            h11.Request(method=method, target="/", headers=headers)
        ]
        events += [h11.Data(data=content)] if content else []
        for item in [*events, h11.EndOfMessage()]:
            written = self._connection.send(item)
            if self._merger is not None:
                self._merger.request_sent(written or b"")
        self.body = b""
        self._take_events()

    def read(self, data: bytes) -> None:
        """Take what one read of the socket brought; nothing means the end of the connection."""
        if data and self._merger is not None:
            if self._bypass and self._merger.in_body:
                body, data = self._merger.unframe(data)
                self.body += body
            else:
                data = self._merger.receive(data)
            if not data:
                return  # the backend reads again
        if data == EOF and self._connection.their_state is h11.SEND_RESPONSE:
            self._fail("RemoteProtocolError")  # httpcore2 does not ask h11 in this case
            return
        self._connection.receive_data(data)
        self._take_events()

    def next_cycle(self) -> bool:
        """Make ready for another request, if the connection can carry one."""
        states = self._connection.states
        if states != {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}:
            return False
        self._connection.start_next_cycle()
        return True

    def state(self) -> tuple[list[object], bytes, bool]:
        return self.seen, self.body, self.waiting

    def _take_events(self) -> None:
        self.waiting = True
        try:
            while self.waiting and (item := self._connection.next_event()) is not h11.NEED_DATA:
                self._take(item)
        except h11.RemoteProtocolError as error:
            self._fail(type(error).__name__)

    def _take(self, item: object) -> None:
        if isinstance(item, h11.Data):
            self.data_events += 1
            self.body += item.data
        elif isinstance(item, h11.Response | h11.InformationalResponse):
            self.seen.append((item.status_code, item.reason, item.headers.raw_items()))
        elif isinstance(item, h11.EndOfMessage):
            self._end("end", self.body, item.headers.raw_items())
        else:
            self._end(str(item), self.body)

    def _fail(self, error: str) -> None:
        self._end(error, self.body)

    def _end(self, *what: object) -> None:
        self.waiting = False
        self.seen.append(what)


@dataclass(frozen=True)
class Exchange:
    """A request and the reads in which its response arrives."""

    reads: Sequence[bytes]
    method: str = "GET"
    content: bytes = b""


def compare(exchanges: Iterable[Exchange], *, closed: bool = True) -> Client:
    """Play the exchanges on one connection with all clients; return the one with the merger."""
    direct, merged = Client(), Client(ChunkMerger())
    clients = [direct, merged, Client(ChunkMerger(), bypass=True)]
    left: list[bytes] = []  # bytes that a response did not want stay in the socket
    for exchange in exchanges:
        for client in clients:
            client.send(exchange.method, exchange.content)
        left = play(clients, [*left, *exchange.reads])
        if direct.waiting or not _go_on(clients):
            break
    if direct.waiting and closed:
        play(clients, [EOF])
    return merged


def _go_on(clients: list[Client]) -> bool:
    ready = [client.next_cycle() for client in clients]
    return all(ready)


def play(clients: list[Client], reads: list[bytes]) -> list[bytes]:
    """Feed the clients read by read and return the reads that are left at the end."""
    direct, *others = clients
    assert all(client.state() == direct.state() for client in others)
    for number, data in enumerate(reads, 1):
        if not direct.waiting:
            return reads[number - 1 :]
        for client in clients:
            client.read(data)
        for client in others:
            assert client.state() == direct.state(), f"after read {number}: {data!r}"
    return []


def cut(data: bytes, positions: Iterable[int]) -> list[bytes]:
    """Cut data at the positions."""
    return [data[start:end] for start, end in pairwise(sorted({0, *positions, len(data)}))]


def bytewise(data: bytes) -> list[bytes]:
    return [bytes([byte]) for byte in data]


# What the wire can look like.

LOOKS_LIKE_FRAMING = [
    b"\r",
    b"\n",
    b"\r\n",
    b"5",
    b"5\r\n",
    b"\r\n5\r\n",
    b"\r\n0\r\n\r\n",
    b"0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n",
    b"data: \xe2\x82\xac\n\n",
    PLAIN_HEAD + CHUNKS,
]
data_pieces = st.binary(min_size=1, max_size=40) | st.sampled_from(LOOKS_LIKE_FRAMING)
odd_sizes = st.sampled_from(["", "", "", "0", "000", "0" * 13, "0" * 15, "0" * 18, "0" * 19])
extensions = st.sampled_from(["", "", "", "", ";", ";a=b", ';a="\r"', "; ", ";0"])
blanks = st.sampled_from(["", "", "", "", " ", "\t ", "  "])
header_names = st.sampled_from(["X-A", "x-b", "Server", "Set-Cookie"])
header_values = st.sampled_from(["", "1", "a b", "é", "chunked", "a:b", "x" * 200])
plain_headers = st.tuples(header_names, header_values)
encodings = st.sampled_from(
    [
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: chunked",
        "transfer-encoding:chunked",
        "TRANSFER-ENCODING:  CHUNKED \t",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\n folded: yes",
        "X-Transfer-Encoding: chunked",
        "Content-Length: 3\r\nTransfer-Encoding: chunked",
    ]
)
status_lines = st.sampled_from(
    [
        "HTTP/1.1 200 OK",
        "HTTP/1.1 200 OK",
        "HTTP/1.1 200 OK",
        "HTTP/1.1 200",
        "HTTP/1.1 200 ",
        "HTTP/1.1 200 Très bien",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 201 Created",
        "HTTP/1.1 204 No Content",
        "HTTP/1.1 503 Service Unavailable",
        "HTTP/1.0 200 OK",
        "http/1.1 200 OK",
    ]
)
informational = st.sampled_from(
    [
        b"",
        b"",
        b"",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n",
    ]
)
line_ends = st.sampled_from(["\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\n"])


@st.composite
def chunk_headers(draw: st.DrawFn, size: int) -> bytes:
    digits = f"{size:x}" if draw(st.booleans()) else f"{size:X}"
    return (draw(odd_sizes) + digits + draw(extensions) + draw(blanks) + "\r\n").encode()


@st.composite
def chunked_bodies(draw: st.DrawFn) -> bytes:
    body = b""
    for piece in draw(st.lists(data_pieces, max_size=8)):
        body += draw(chunk_headers(len(piece))) + piece + b"\r\n"
    trailers = draw(st.lists(plain_headers, max_size=2))
    lines = "".join(f"{name}: {value}\r\n" for name, value in trailers)
    return body + draw(chunk_headers(0)) + lines.encode() + b"\r\n"


@st.composite
def plain_chunked_bodies(draw: st.DrawFn) -> bytes:
    pieces = draw(st.lists(data_pieces, max_size=12))
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@st.composite
def heads(draw: st.DrawFn, framing: str) -> bytes:
    around = [
        [f"{name}: {value}" for name, value in draw(st.lists(plain_headers, max_size=2))]
        for _ in range(2)
    ]
    lines = [draw(status_lines), *around[0], framing, *around[1], "", ""]
    return draw(line_ends).join(lines).encode()


@st.composite
def responses(draw: st.DrawFn) -> bytes:
    match draw(st.sampled_from(["plain", "plain", "chunked", "length", "close"])):
        case "plain":
            wire = PLAIN_HEAD + draw(plain_chunked_bodies())
        case "chunked":
            wire = draw(heads(draw(encodings))) + draw(chunked_bodies())
        case "length":
            body = b"".join(draw(st.lists(data_pieces, max_size=4)))
            wire = draw(heads(f"Content-Length: {len(body)}")) + body
        case _:
            body = b"".join(draw(st.lists(data_pieces, max_size=4)))
            wire = draw(heads("Connection: close")) + body
    return draw(informational) + wire


@st.composite
def damaged(draw: st.DrawFn, wires: st.SearchStrategy[bytes]) -> bytes:
    """Change, drop or put in some bytes, or cut the end off."""
    wire = bytearray(draw(wires))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, max(len(wire) - 1, 0)))
        new = draw(st.sampled_from([b"\r", b"\n", b"0", b"f", b" ", b";", b"\0"]) | data_pieces)
        match draw(st.sampled_from(["change", "drop", "put in", "cut"])):
            case "change":
                wire[at : at + 1] = new[:1]
            case "drop":
                del wire[at : at + draw(st.integers(1, 3))]
            case "put in":
                wire[at:at] = new
            case _:
                del wire[at:]
    return bytes(wire)


@st.composite
def places(draw: st.DrawFn, wire: bytes) -> int:
    """Return a place in the wire, often one where something ends."""
    ends = [match.end() for match in re.finditer(rb"\r\n", wire)]
    return draw(st.integers(0, len(wire)) | st.sampled_from([0, *ends]))


@st.composite
def reads(draw: st.DrawFn, wire: bytes) -> list[bytes]:
    match draw(st.sampled_from(["whole", "cut", "cut", "cut", "bytes"])):
        case "whole":
            return [wire] if wire else []
        case "cut":
            return cut(wire, draw(st.lists(places(wire), max_size=12)))
        case _:
            return bytewise(wire)


@st.composite
def exchanges(draw: st.DrawFn, wires: st.SearchStrategy[bytes]) -> list[Exchange]:
    """Several requests on one connection; a server may send ahead of the next one."""
    rest = draw(st.lists(wires, min_size=1, max_size=4))
    found = []
    while rest:
        read = draw(reads(rest.pop(0)))
        if rest and draw(st.integers(0, 3)) == 0:
            early = draw(places(rest[0]))
            ahead, rest[0] = rest[0][:early], rest[0][early:]
            read = (
                [*read[:-1], b"".join(read[-1:]) + ahead] if draw(st.booleans()) else [*read, ahead]
            )
        method = draw(st.sampled_from(["GET", "POST", "POST", "POST", "HEAD"]))
        found.append(Exchange([*filter(None, read)], method, b"{}" if method == "POST" else b""))
    return found


# With and without the merger, the result is the same.


@pytest.mark.proves("R04c")
@examples(150)
@given(exchanges(responses()), st.booleans())
def test_equals_direct_h11_on_every_response(played: list[Exchange], closed: bool) -> None:
    client = compare(played, closed=closed)
    for item in client.seen:
        event(str(item[0]) if isinstance(item, tuple) else str(item))


@pytest.mark.proves("R04c")
@examples(150)
@given(exchanges(damaged(responses())), st.booleans())
def test_equals_direct_h11_on_damaged_responses(played: list[Exchange], closed: bool) -> None:
    client = compare(played, closed=closed)
    for item in client.seen:
        event(str(item[0]) if isinstance(item, tuple) else str(item))


@pytest.mark.proves("R04c")
@examples(250)
@given(damaged(plain_chunked_bodies()), st.data())
def test_equals_direct_h11_on_damaged_chunks(body: bytes, data: st.DataObject) -> None:
    compare([Exchange([PLAIN_HEAD, *data.draw(reads(body))])])


@pytest.mark.proves("R04c")
@examples(250)
@given(st.lists(st.binary(max_size=30) | st.sampled_from(LOOKS_LIKE_FRAMING), max_size=10))
def test_equals_direct_h11_on_any_bytes_after_a_head(pieces: list[bytes]) -> None:
    compare([Exchange([PLAIN_HEAD, *filter(None, pieces)])])


@pytest.mark.proves("R04c")
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7])
def test_equals_direct_h11_wherever_the_connection_ends(size: int) -> None:
    wire = PLAIN_HEAD + b"3\r\nabc\r\n0A\r\n0123456789\r\n1;x\r\nz\r\n0\r\nX-T: 1\r\n\r\n"
    for length in range(len(wire) + 1):
        kept = wire[:length]
        compare([Exchange([kept[at : at + size] for at in range(0, length, size)])])


@pytest.mark.proves("R04c")
@pytest.mark.parametrize("padding", [65_000, 65_536, 70_000, 120_000])
def test_equals_direct_h11_on_a_long_head(padding: int) -> None:
    head = b"HTTP/1.1 200 OK\r\nX-Long: %b\r\nTransfer-Encoding: chunked\r\n\r\n" % (b"x" * padding)
    wire = head + b"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"
    compare([Exchange([wire])])
    compare([Exchange([wire[at : at + 9_000] for at in range(0, len(wire), 9_000)])])


LENGTHS = ["3", "003", "0" * 16 + "3", "9" * 15, "9" * 20, "9" * 30, "-1", "+3", "1_0", "٣", "3, 3"]


@pytest.mark.proves("R04c")
@pytest.mark.parametrize("length", [*LENGTHS, "3,3", "", " 3\t", "3\r\nContent-Length: 3", "0x3"])
def test_equals_direct_h11_on_odd_lengths(length: str) -> None:
    wire = f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\nabc".encode()
    for read in ([wire], bytewise(wire)):
        compare([Exchange(read), Exchange([PLAIN_HEAD + CHUNKS + b"0\r\n\r\n"])])


# Separators, byte for byte: what was read, and what is passed to h11.

JOINTS: dict[str, tuple[list[bytes], list[bytes]]] = {
    "several chunks become one": (
        [b"3\r\nabc\r\n4\r\ndefg\r\n1\r\nh\r\n"],
        [b"8\r\nabcdefgh"],
    ),
    "the footer of a chunk is written when the next one comes": (
        [b"3\r\nabc\r\n", b"3\r\ndef\r\n"],
        [b"3\r\nabc", b"\r\n3\r\ndef"],
    ),
    "a chunk that is cut goes out in parts": (
        [b"a\r\n012", b"345", b"6789\r\n"],
        [b"3\r\n012", b"\r\n3\r\n345", b"\r\n4\r\n6789"],
    ),
    "a header may come with nothing behind it": (
        [b"3\r\n", b"abc"],
        [b"", b"3\r\nabc"],
    ),
    "a first header may be cut anywhere": (
        [b"0", b"A", b"\r", b"\n", b"x"],
        [b"", b"", b"", b"", b"1\r\nx"],
    ),
    "a separator may be cut anywhere": (
        [b"1\r\nx", b"\r", b"\n", b"0", b"b", b"\r", b"\n", b"y"],
        [b"1\r\nx", b"", b"", b"", b"", b"", b"", b"\r\n1\r\ny"],
    ),
    "upper case, lower case and leading zeros": (
        [b"00a\r\n0123456789\r\n0B\r\n0123456789a\r\n"],
        [b"15\r\n01234567890123456789a"],
    ),
    "the last chunk is left as it is": (
        [b"3\r\nabc\r\n0\r\n\r\n"],
        [b"3\r\nabc\r\n0\r\n\r\n"],
    ),
    "so are a last chunk in parts and its trailers": (
        [b"3\r\nabc\r", b"\n00", b"\r\nX-T: 1\r\n\r\n"],
        [b"3\r\nabc", b"", b"\r\n00\r\nX-T: 1\r\n\r\n"],
    ),
    "an empty body": (
        [b"0\r\n", b"\r\n"],
        [b"0\r\n", b"\r\n"],
    ),
    "from an extension on, all is left as it is": (
        [b"1\r\na\r\n1;x=y\r\nb\r\n1\r\nc\r\n", b"1\r\nd\r\n"],
        [b"1\r\na\r\n1;x=y\r\nb\r\n1\r\nc\r\n", b"1\r\nd\r\n"],
    ),
    "and from a blank after the size on": (
        [b"1\r\na\r\n1 ", b"\r\nb\r\n"],
        [b"1\r\na\r\n1 ", b"\r\nb\r\n"],
    ),
    "a size of fifteen digits is read": (
        [b"000000000000001\r\na\r\n000000000000001\r\nb"],
        [b"2\r\nab"],
    ),
    "a longer one is left as it is": (
        [b"1\r\na\r\n000000000000000", b"1\r\nb\r\n"],
        [b"1\r\na", b"\r\n0000000000000001\r\nb\r\n"],
    ),
    "a footer that is none": (
        [b"1\r\na\rX", b"1\r\nb"],
        [b"1\r\na\rX", b"1\r\nb"],
    ),
    "a footer that turns out to be none": (
        [b"1\r\na\r", b"\r\n1\r\nb"],
        [b"1\r\na", b"\r\r\n1\r\nb"],
    ),
    "a bare line feed is no separator": (
        [b"1\r\na\n1\nb\n"],
        [b"1\r\na\n1\nb\n"],
    ),
    "a size that is none": (
        [b"1\r\na\r\n", b"1g\r\nb"],
        [b"1\r\na", b"\r\n1g\r\nb"],
    ),
    "no size at all": (
        [b"1\r\na\r\n", b"\r\nb"],
        [b"1\r\na", b"\r\n\r\nb"],
    ),
}


@pytest.mark.proves("R04c")
@pytest.mark.parametrize(("read", "given_to_h11"), JOINTS.values(), ids=JOINTS)
def test_separators(read: list[bytes], given_to_h11: list[bytes]) -> None:
    merger = ChunkMerger()
    merger.request_sent(b"GET / HTTP/1.1\r\n\r\n")
    assert merger.receive(PLAIN_HEAD) == PLAIN_HEAD
    assert [merger.receive(data) for data in read] == given_to_h11
    compare([Exchange([PLAIN_HEAD, *read])])
    compare([Exchange([PLAIN_HEAD + b"".join(read)])])
    compare([Exchange(bytewise(PLAIN_HEAD + b"".join(read)))])


HEADS_LEFT_ALONE = {
    "no chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n",
    "another status": b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n",
    "a status with more digits": b"HTTP/1.1 2000 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "another version": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "an informational head before": b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN_HEAD,
    "two encodings": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "the encoding twice": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"
    ),
    "a folded line": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n x\r\n\r\n",
    "bare line feeds": b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n",
    "one bare line feed": b"HTTP/1.1 200 OK\r\nX: 1\nTransfer-Encoding: chunked\r\n\r\n",
    "a blank line with a bare line feed": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 40\n\r\nTransfer-Encoding: chunked\r\n\r\n"
    ),
}


@pytest.mark.proves("R04c")
@pytest.mark.parametrize("head", HEADS_LEFT_ALONE.values(), ids=HEADS_LEFT_ALONE)
def test_a_response_with_another_head_is_left_as_it_is(head: bytes) -> None:
    for read in ([head + CHUNKS], [head, CHUNKS], bytewise(head + CHUNKS)):
        merger = ChunkMerger()
        merger.request_sent(b"GET / HTTP/1.1\r\n\r\n")
        assert [merger.receive(data) for data in read] == read
        compare([Exchange(read)])


@pytest.mark.proves("R04c")
@pytest.mark.parametrize("method", ["HEAD", "CONNECT"])
def test_a_response_without_a_body_is_left_as_it_is(method: str) -> None:
    merger = ChunkMerger()
    merger.request_sent(f"{method} / HTTP/1.1\r\n\r\n".encode())
    assert merger.receive(PLAIN_HEAD + CHUNKS) == PLAIN_HEAD + CHUNKS


@pytest.mark.proves("R04c")
@pytest.mark.parametrize("method", ["HEAD", "CONNECT"])
def test_a_response_without_a_body_is_left_as_it_is_though_an_empty_write_ended_the_request(
    method: str,
) -> None:
    merger = ChunkMerger()
    merger.request_sent(f"{method} / HTTP/1.1\r\n\r\n".encode())
    merger.request_sent(b"")  # httpcore2 writes what h11 makes of EndOfMessage
    assert merger.receive(PLAIN_HEAD + CHUNKS) == PLAIN_HEAD + CHUNKS


@pytest.mark.proves("R04c")
def test_stray_bytes_behind_the_answer_to_head_reach_h11() -> None:
    compare([Exchange([PLAIN_HEAD + b"5"], "HEAD"), Exchange([PLAIN_HEAD + CHUNKS])])


@pytest.mark.proves("R04c")
def test_a_body_that_looks_like_a_response_is_not_touched_when_its_head_came_early() -> None:
    lookalike = PLAIN_HEAD + CHUNKS
    first = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    second = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(lookalike)
    client = compare([Exchange([first + second]), Exchange([lookalike])])
    assert client.seen[-1] == ("end", lookalike, [])


CHUNKED = PLAIN_HEAD + CHUNKS + b"0\r\n\r\n"
COUNTED = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.proves("R04a")
@pytest.mark.parametrize("first", [CHUNKED, COUNTED, EMPTY], ids=["chunked", "counted", "empty"])
def test_the_next_response_on_a_connection_is_merged_too(first: bytes) -> None:
    for read in ([first], [first[:-1], first[-1:]], bytewise(first)):
        merger = ChunkMerger()
        for _ in range(3):
            merger.request_sent(b"POST / HTTP/1.1\r\n\r\n")
            merger.request_sent(b"{}")
            merger.request_sent(b"")
            for data in read:
                merger.receive(data)
        merger.request_sent(b"GET / HTTP/1.1\r\n\r\n")
        merger.request_sent(b"")
        assert merger.receive(CHUNKED) == PLAIN_HEAD + b"2\r\nab\r\n0\r\n\r\n"
        compare([Exchange(read), Exchange(read, "POST", b"{}"), Exchange([CHUNKED])])


@pytest.mark.proves("R04c")
@pytest.mark.parametrize("first", [CHUNKED, COUNTED, EMPTY], ids=["chunked", "counted", "empty"])
@pytest.mark.parametrize("stray", [b"x", b"\r\n", b"HTTP/1.1 200 OK\r\n", EMPTY])
def test_after_stray_bytes_nothing_is_touched(first: bytes, stray: bytes) -> None:
    for read in ([first + stray], [first, stray], bytewise(first + stray)):
        merger = ChunkMerger()
        merger.request_sent(b"GET / HTTP/1.1\r\n\r\n")
        for data in read:
            merger.receive(data)
        merger.request_sent(b"GET / HTTP/1.1\r\n\r\n")
        assert merger.receive(CHUNKED) == CHUNKED
        compare([Exchange(read), Exchange([CHUNKED])])


def test_before_a_request_nothing_is_touched() -> None:
    assert ChunkMerger().receive(PLAIN_HEAD + CHUNKS) == PLAIN_HEAD + CHUNKS


# Merging really happens.


def data_events_of(read: Sequence[bytes], merger: ChunkMerger | None) -> Iterator[int]:
    client = Client(merger)
    client.send("GET")
    for data in read:
        before = client.data_events
        client.read(data)
        yield client.data_events - before


@pytest.mark.proves("R04a")
def test_h11_sees_one_chunk_for_each_read() -> None:
    packets = b"".join(b"%x\r\n%b\r\n" % (size, b"x" * size) for size in range(1, 101))
    read = [PLAIN_HEAD + packets, packets, packets[:2_000], packets[2_000:] + b"0\r\n\r\n"]
    assert list(data_events_of(read, ChunkMerger())) == [1, 1, 1, 1]
    assert all(count > 20 for count in data_events_of(read, None))


@pytest.mark.proves("R04a")
@examples(200)
@given(plain_chunked_bodies(), st.data())
def test_h11_never_sees_more_than_one_chunk_for_a_read(body: bytes, data: st.DataObject) -> None:
    read = data.draw(reads(PLAIN_HEAD + body))
    assert max(data_events_of(read, ChunkMerger())) <= 1
