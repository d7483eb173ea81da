"""The decoder, against the WHATWG text, against a reference, and at its limits."""

import ast
import json
import sys
import tomllib
import tracemalloc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import coreason_client.sse
from coreason_client.sse import ServerSentEvent, SSEDecoder, SSEEventTooLarge, _decode
from coreason_client.sse._decode import DEFAULT_MAX_EVENT_BYTES
from tests.each import each
from tests.fuzz.strategies import examples
from tests.sse.reference import BOM, Reference, TooLarge

KIB = 1024


@dataclass(frozen=True)
class Outcome:
    """All that can be seen of a decoder: events as (type, data, id), and how it ended."""

    events: list[tuple[str, str, str]]
    last_id: str = ""
    retry: int | None = None
    too_large: bool = False


def decode(chunks: Iterable[bytes], decoder: SSEDecoder | None = None) -> Outcome:
    decoder = decoder or SSEDecoder()
    events: list[ServerSentEvent] = []
    too_large = False
    try:
        for chunk in chunks:
            events += decoder.feed(chunk)
    except SSEEventTooLarge as error:
        events += error.events
        too_large = True
    seen = [(event.event, event.data, event.id) for event in events]
    if too_large:  # the rest has no meaning any more
        return Outcome(seen, too_large=True)
    return Outcome(seen, decoder.last_event_id, decoder.retry_ms)


def pieces(wire: bytes, size: int) -> list[bytes]:
    return [wire[start : start + size] for start in range(0, len(wire), size)]


def cut(wire: bytes, places: Iterable[int]) -> list[bytes]:
    """Cut at these places; two equal places give an empty chunk, which must do no harm."""
    edges = [0, *sorted(min(place, len(wire)) for place in places), len(wire)]
    return [wire[start:end] for start, end in pairwise(edges)]


# Wire tables in `cases`, which the tests of the JavaScript decoder read too: bytes as text or hex,
# the events in them (data alone, or type, data and id), the last id, the reconnection time. Each
# row is decoded whole, in small pieces and with a cut at every place.

param = pytest.param


@dataclass(frozen=True)
class Row:
    wire: bytes
    outcome: Outcome


def load(name: str) -> Any:
    path = Path(__file__).parent / "cases" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["cases"]


def row_of(case: dict[str, Any]) -> Row:
    wire = bytes.fromhex(case["hex"]) if "hex" in case else case["wire"].encode()
    events = [
        ("message", event, "") if isinstance(event, str) else tuple(event)
        for event in case["events"]
    ]
    return Row(wire, Outcome(events, case.get("last_id", ""), case.get("retry")))


ROWS = [
    param(row_of(case), id=case["name"], marks=pytest.mark.proves(*case.get("proves", ())))
    for name in ("standard", "platform", "corners")
    for case in load(name)
]

every_row = pytest.mark.parametrize("row", ROWS)


@every_row
@pytest.mark.proves("A2A-sse-feed")
def test_a_wire_decodes_whole(row: Row) -> None:
    assert decode([row.wire]) == row.outcome


@every_row
@each("size", [1, 2, 3, 4, 7])
@pytest.mark.proves("RES1-drip", "A2A-sse-feed", "A2A-sse-lines", "SSE-bom-split", "SSE-crlf-split")
def test_a_wire_decodes_in_pieces(row: Row, size: int) -> None:
    assert decode(pieces(row.wire, size)) == row.outcome


@every_row
@pytest.mark.proves("A2A-sse-lines", "SSE-bom-split", "SSE-crlf-split")
def test_a_wire_decodes_with_a_cut_at_every_place(row: Row) -> None:
    for place in range(len(row.wire) + 1):
        assert decode(cut(row.wire, [place])) == row.outcome
        assert decode(cut(row.wire, [place, place])) == row.outcome


@every_row
@each("size", [1, 5, 10_000])
def test_a_wire_decodes_line_by_line(row: Row, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_decode, "_MAX_PENDING_BYTES", 3)
    assert decode(pieces(row.wire, size)) == row.outcome


# When events come out


@pytest.mark.parametrize(
    "wire",
    [
        b"data: x\n\n",
        b"data: x\r\r",
        b"data: x\r\n\r",
        b"data: x\n\r",
        b"data: x\r\n\n",
        b"id: 1\ndata: x\n\n",
        b"event: e\rdata: x\r\r",
        b":\n\ndata: x\n\n",
        BOM + b"data: x\r\r",
    ],
)
@pytest.mark.proves("SSE-cr-at-once", "A2A-sse-blank")
def test_an_event_comes_out_with_its_last_byte_and_not_before(wire: bytes) -> None:
    decoder = SSEDecoder()
    fed = [decoder.feed(byte) for byte in pieces(wire, 1)]
    assert [len(events) for events in fed] == [0] * (len(wire) - 1) + [1]
    assert fed[-1][0].data == "x"


@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.proves("SSE-cr-at-once", "SSE-crlf-split")
def test_an_lf_after_the_cr_that_ended_an_event_is_swallowed(size: int) -> None:
    decoder = SSEDecoder()
    assert [event.data for event in decoder.feed(b"data: x\r\n\r")] == ["x"]
    assert decode(pieces(b"\ndata: y\r\n\r\n", size), decoder).events == [("message", "y", "")]


@pytest.mark.proves("SSE-crlf-split")
def test_an_empty_chunk_between_cr_and_lf_does_no_harm() -> None:
    chunks = [b"data: x\r", b"", b"\n", b"data: y\r", b"", b"\n", b"\r", b"", b"\n", b""]
    assert decode(chunks).events == [("message", "x\ny", "")]


@pytest.mark.proves("A2A-sse-feed")
def test_each_chunk_gives_the_events_that_it_completes() -> None:
    decoder = SSEDecoder()
    chunks = [b"data: 1\n\nda", b"ta: 2\n", b"\ndata: 3\n\ndata: 4\n\n", b"data: 5"]
    assert [[event.data for event in decoder.feed(chunk)] for chunk in chunks] == [
        ["1"],
        [],
        ["2", "3", "4"],
        [],
    ]


@pytest.mark.parametrize("end", [b"\n\n", b"\r\r", b"\r\n\r\n"])
@pytest.mark.proves("A2A-sse-feed")
def test_each_event_may_come_in_a_chunk_of_its_own(end: bytes) -> None:
    lines = [
        b"data: a",
        b"id: 1\ndata: b",
        b"data: c",
        b"data: ",
        b"data:d",
        b": ping",
        b"data: e\nid",
    ]
    decoder = SSEDecoder()
    found = [[(event.data, event.id) for event in decoder.feed(line + end)] for line in lines]
    assert found == [
        [("a", "")],
        [("b", "1")],
        [("c", "1")],
        [("", "1")],
        [("d", "1")],
        [],
        [("e", "")],
    ]


def test_a_reconnection_time_shows_before_its_block_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    for digest_above in (3, 65_536):
        monkeypatch.setattr(_decode, "_MAX_PENDING_BYTES", digest_above)
        decoder = SSEDecoder()
        seen = []
        for byte in pieces(b"retry: 1\ndata: x\nretry: 22\nid: y\n\nretry: 333\n", 1):
            decoder.feed(byte)
            if decoder.retry_ms not in seen:
                seen.append(decoder.retry_ms)
        assert seen == [None, 1, 22, 333]


# The id in force at the start


@pytest.mark.parametrize(
    ("wire", "events", "last_id"),
    [
        (b"", [], "…"),
        (b"data: x\n\n", [("message", "x", "…")], "…"),
        (b"event: e\ndata: x\n\n", [("e", "x", "…")], "…"),
        (b"id: 2\ndata: x\n\n", [("message", "x", "2")], "2"),
        (b"id\ndata: x\n\n", [("message", "x", "")], ""),
        (b"id: 2\ndata: x\n", [], "…"),
    ],
)
def test_an_id_of_the_connection_before_stays_in_force(
    wire: bytes, events: list[tuple[str, str, str]], last_id: str
) -> None:
    assert decode([wire], SSEDecoder(last_event_id="…")) == Outcome(events, last_id)


# Against a decoder that is slow and obviously right


def referred(wire: bytes, limit: int = sys.maxsize) -> Outcome:
    """Decode the wire with the reference."""
    reference = Reference(limit)
    try:
        events = texts(reference.feed(wire))
    except TooLarge:
        return Outcome(texts(reference.partial), too_large=True)
    last_id = reference.last_event_id.decode("utf-8", "replace")
    return Outcome(events, last_id, reference.retry_ms)


def texts(events: Iterable[tuple[bytes, bytes, bytes]]) -> list[tuple[str, str, str]]:
    found = [ServerSentEvent(data, event_type, event_id) for event_type, data, event_id in events]
    return [(event.event, event.data, event.id) for event in found]


TOKENS = [
    *(b"\n", b"\r", b"\r\n", b"\n\n", b":", b" ", b"\0", b"x", b"yz", b"7", b"12"),
    *(b"data", b"data:", b"data: ", b"id", b"id:", b"id: ", b"event: ", b"retry:", b"retry: "),
    *(b"data: abc\n\n", b"id: 7\ndata: z\n\n", b"data: a\r\rdata: b\r\n\r\n", b": ping\n\n"),
    *(BOM, BOM[:2], BOM[2:], "…".encode(), b"\xff", "\u2028\u0085".encode(), b"\x0b\x0c", b"Data:"),
]
wires = st.lists(st.sampled_from(TOKENS), max_size=30).map(b"".join)
places = st.lists(st.integers(0, 120), max_size=12)


def decoder_with(limit: int, digest_above: int) -> SSEDecoder:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_decode, "_MAX_PENDING_BYTES", digest_above)
        return SSEDecoder(limit)


@pytest.mark.parametrize("digest_above", [2, 9, 30, 65_536])
@given(wire=wires, cuts=places)
@example(wire=BOM + b"data: x\n\n", cuts=[1, 2])
@examples(200)
@pytest.mark.proves("RES1-drip", "A2A-sse-feed")
def test_any_wire_decodes_as_the_reference_says(
    digest_above: int, wire: bytes, cuts: list[int]
) -> None:
    expected = referred(wire)
    for chunks in ([wire], cut(wire, cuts), pieces(wire, 1)):
        assert decode(chunks, decoder_with(10_000, digest_above)) == expected


@given(wire=wires, cuts=places, limit=st.integers(2, 40), digest_above=st.integers(2, 40))
@examples(400)
@pytest.mark.proves("RES1-too-large")
def test_whether_an_event_is_too_large_does_not_depend_on_the_chunking(
    wire: bytes, cuts: list[int], limit: int, digest_above: int
) -> None:
    wire += b"\n\n"  # every block is finished
    expected = referred(wire, limit)
    for chunks in ([wire], cut(wire, cuts), pieces(wire, 1)):
        assert decode(chunks, decoder_with(limit, digest_above)) == expected


# Limits. Data may be as long as the limit; a line, with its field's name, 7 bytes longer.

LIMIT = 100


def ways_to_arrive(wire: bytes) -> Iterator[list[bytes]]:
    yield [wire]
    yield [b"data: before\n\n" + wire]
    yield [b"data: before\n\n", wire]
    for size in (1, 2, 13, LIMIT, LIMIT + 1):
        yield pieces(wire, size)
    for place in range(1, len(wire)):
        yield cut(wire, [place])


@pytest.mark.parametrize("digest_above", [8, 65_536])
@pytest.mark.parametrize("case", load("limits"), ids=lambda case: case["name"])
@pytest.mark.proves("RES1-too-large", "A2A-plan-sse-boundary")
def test_exactly_the_limit_is_fine_and_one_byte_more_is_not(
    case: dict[str, Any], digest_above: int
) -> None:
    fits, passes = case["fits"].encode(), case["passes"].encode()
    for end in (b"\n\n", b"\r\r"):
        for chunks in ways_to_arrive(fits + end):
            assert not decode(chunks, decoder_with(LIMIT, digest_above)).too_large
        for chunks in ways_to_arrive(passes + end):
            assert decode(chunks, decoder_with(LIMIT, digest_above)).too_large


@pytest.mark.parametrize("size", [1, 10, 10_000])
def test_the_limit_counts_for_each_event_alone(size: int) -> None:
    wire = b": ping\n\n" * 50 + (b"id: 1\ndata: " + b"x" * LIMIT + b"\n\n") * 50
    assert len(decode(pieces(wire, size), SSEDecoder(LIMIT)).events) == 50


@pytest.mark.parametrize("size", [1, 10, 10_000])
def test_many_lines_without_data_are_not_too_large(size: int) -> None:
    wire = (b": " + b"x" * 90 + b"\nid: " + b"y" * 90 + b"\n") * 50 + b"data: z\n\n"
    outcome = decode(pieces(wire, size), SSEDecoder(LIMIT))
    assert outcome.events == [("message", "z", "y" * 90)]


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
@pytest.mark.parametrize("rest", [b"\n\n", b""])
@pytest.mark.proves("RES1-too-large")
def test_events_before_a_too_large_one_come_with_the_error(size: int, rest: bytes) -> None:
    wire = b"id: 1\ndata: a\n\ndata: b\r\n\r\ndata: " + b"x" * (2 * LIMIT) + rest
    outcome = decode(pieces(wire, size), SSEDecoder(LIMIT))
    assert outcome.too_large
    assert outcome.events == [("message", "a", "1"), ("message", "b", "1")]


@pytest.mark.proves("RES1-too-large")
def test_the_error_holds_the_limit_and_the_events_of_the_same_call() -> None:
    decoder = SSEDecoder(LIMIT)
    assert len(decoder.feed(b"data: a\n\n")) == 1
    with pytest.raises(SSEEventTooLarge, match="limit of 100 bytes") as caught:
        decoder.feed(b"data: b\n\ndata: " + b"x" * 101 + b"\n\ndata: c\n\n")
    assert caught.value.limit == LIMIT
    assert caught.value.events == [ServerSentEvent(b"b")]


@pytest.mark.parametrize(
    "wire",
    [b"data: ", b"data:", b":", b"id: ", b"event: ", b"", b"data: x\ndata: ", b"data: x\n:"],
)
@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.proves("RES1-too-large", "RES1-too-large-linear")
def test_a_line_that_never_ends_is_refused_at_the_limit(wire: bytes, size: int) -> None:
    decoder = SSEDecoder(LIMIT)
    decoder.feed(wire)
    fed = 0
    with pytest.raises(SSEEventTooLarge):
        while fed < 10 * LIMIT:
            fed += size
            decoder.feed(b"x" * size)
    assert LIMIT - 2 <= fed <= LIMIT + 7 + size


@pytest.mark.parametrize("size", [1, 7, 50, 99, 10_000])
@pytest.mark.proves("RES1-too-large")
def test_an_unfinished_block_beyond_the_limit_is_refused_whatever_the_chunking(size: int) -> None:
    wire = b"data: " + b"x" * 60 + b"\ndata: " + b"y" * 60 + b"\n"
    assert decode(pieces(wire, size), SSEDecoder(LIMIT)).too_large


@pytest.mark.parametrize("cuts", [[], [1], [2], [2, 3], [1, 2, 12], [2, 12], list(range(20))])
def test_a_split_byte_order_mark_does_not_make_short_lines_too_large(cuts: list[int]) -> None:
    wire = BOM + b"a\nbcdefgh\ndata: i\n\n"  # no line is longer than 1 + 7 bytes
    assert decode(cut(wire, cuts), SSEDecoder(1)).events == [("message", "i", "")]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_byte_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        SSEDecoder(limit)


@pytest.mark.parametrize(("extra", "too_large"), [(0, False), (1, True)])
@pytest.mark.parametrize("size", [64 * KIB, 20_000_000])
@pytest.mark.proves("A2A-sse-limit", "A2A-plan-sse-boundary", "R22a", "RES1-too-large")
def test_the_limit_is_10_mb_by_default(size: int, extra: int, too_large: bool) -> None:
    decoder = SSEDecoder()
    assert decoder.max_event_bytes == DEFAULT_MAX_EVENT_BYTES == 10_000_000
    wire = b"data: " + b"x" * (10_000_000 + extra) + b"\n\n"
    events: list[ServerSentEvent] = []
    try:
        for chunk in pieces(wire, size):
            events += decoder.feed(chunk)
    except SSEEventTooLarge:
        assert too_large
    else:
        assert [len(event.data_bytes) for event in events] == [10_000_000]
        assert not too_large


# Memory and work


def peak_of(line: bytes, limit: int, total: int) -> int:
    """Feed the line over and over, without an empty line, and return the most memory in use."""
    chunk = line * max(1, 4 * KIB // len(line))
    decoder = SSEDecoder(limit)
    tracemalloc.start()
    try:
        for _ in range(total // len(chunk)):
            decoder.feed(chunk)
    except SSEEventTooLarge:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


MEMORY_LIMIT = 128 * KIB
# A few times the limit, and what it takes to read one stretch of lines.
MOST_MEMORY = 4 * MEMORY_LIMIT + 512 * KIB


@pytest.mark.parametrize(
    "line",
    [
        param(b"x" * 4 * KIB, id="garbage without an end"),
        param(b"data: " + b"x" * 93 + b"\n", id="lines of data"),
        param(b": " + b"x" * 97 + b"\n", id="comments"),
        param(b"id: " + b"x" * 95 + b"\n", id="ids"),
        param(b"event: " + b"x" * 92 + b"\n", id="types"),
        param(b"retry: 00000000000001000\n", id="reconnection times"),
    ],
)
@pytest.mark.proves("RES1-too-large-linear")
def test_memory_is_bounded_by_the_limit(line: bytes) -> None:
    assert peak_of(line, MEMORY_LIMIT, 8 * MEMORY_LIMIT) < MOST_MEMORY


@pytest.mark.parametrize("line", [b"data:xy\n", b"data:\n"])
@pytest.mark.proves("RES1-too-large-linear")
def test_memory_is_bounded_by_the_limit_however_short_the_lines_of_data(line: bytes) -> None:
    assert peak_of(line, MEMORY_LIMIT, 8 * MEMORY_LIMIT) < MOST_MEMORY


class CountingBuffer(bytearray):
    """Counts the bytes that are copied out of it or searched."""

    touched = 0

    def __getitem__(self, key: Any, /) -> Any:
        found = super().__getitem__(key)
        self.touched += len(found) if isinstance(key, slice) else 1
        return found

    def __bytes__(self) -> bytes:
        self.touched += len(self)
        return b"".join([memoryview(self)])

    def find(self, sub: Any, start: Any = 0, end: Any = sys.maxsize, /) -> int:
        self.touched += len(range(len(self))[start:end])
        return super().find(sub, start, end)

    def rfind(self, sub: Any, start: Any = 0, end: Any = sys.maxsize, /) -> int:
        self.touched += len(range(len(self))[start:end])
        return super().rfind(sub, start, end)


# No clock: what would make slow pieces quadratic is to go again and again over what is kept, and
# that is counted. What is read of the chunk itself is linear by nature.
@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("digest_above", [64, 65_536])
@pytest.mark.parametrize(
    "line",
    [
        param(b"x", id="one endless line"),
        param(b"data: xy\n", id="one block of many lines"),
        param(b": xy\n", id="one block of many comments"),
        param(b"data: xy\n\n", id="many blocks"),
        param(b"id: 1\r\ndata: xy\r\n\r\n", id="many blocks with CRLF"),
        param(b"data: " + b"x" * 999 + b"\n\n", id="blocks of a kilobyte"),
    ],
)
@pytest.mark.proves("RES1-drip", "RES1-too-large-linear")
def test_a_slow_drip_is_linear_work(
    line: bytes, digest_above: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_decode, "_MAX_PENDING_BYTES", digest_above)
    decoder = SSEDecoder()
    buffer = decoder._pending = CountingBuffer()
    total = 20_000
    for chunk in pieces(line * (total // len(line)), size):
        decoder.feed(chunk)
    assert decoder._pending is buffer
    assert 0 < buffer.touched < 20 * total


def calls_for(total: int) -> int:
    """Count the function calls that so many bytes cost, one byte at a time."""
    count = 0

    def profile(_frame: object, what: str, _arg: object) -> None:
        nonlocal count
        count += what in ("call", "c_call")

    chunks = pieces((b"data: xy\n" * 9 + b"\n") * (total // 82 + 1), 1)[:total]
    decoder = SSEDecoder()
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        for chunk in chunks:
            decoder.feed(chunk)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.proves("RES1-drip")
def test_a_slow_drip_costs_a_steady_number_of_calls() -> None:
    small, large = calls_for(2_000), calls_for(10_000)
    assert 5 * small * 0.9 < large < 5 * small * 1.1
    assert large < 30 * 10_000


# Our own parser


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


@pytest.mark.proves("A2A-own-parser", "R22a")
def test_the_parser_is_our_own_and_knows_no_protocol_above() -> None:
    assert coreason_client.sse.__file__ is not None
    sources = list(Path(coreason_client.sse.__file__).parent.glob("*.py"))
    assert len(sources) > 1
    found = {name for path in sources for name in imports_of(path)}
    ours = {name for name in found if name.startswith(".")}
    assert ours <= {"._block", "._decode", "._event", "..errors"}
    assert found - ours <= sys.stdlib_module_names | {"collections.abc"}


@pytest.mark.proves("A2A-own-parser")
def test_no_sse_library_is_a_dependency() -> None:
    pyproject = Path(__file__).parents[2] / "pyproject.toml"
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    assert wanted
    assert not [name for name in wanted if "sse" in name.lower() or "eventsource" in name.lower()]
