"""The decoder on bytes of any kind: it never fails but for size, and chunks change nothing."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coreason_client.sse import SSEDecoder, SSEEventTooLarge, encode_event, parse_sse_stream
from tests.each import each
from tests.fuzz.corpus import SSE
from tests.fuzz.strategies import damaged

LIMIT = 100_000
FIELDS: tuple[bytes, ...] = (b"error",)

_real = b"".join(
    encode_event(b'{"seq":%d,"p":"w\xc3\xb6rd \xf0\x9f\x99\x82"}' % n, id=f"s:{n}", event=name)
    for n, name in enumerate([None, "delta", None, "message"], 1)
)
WIRES = st.one_of(
    st.binary(max_size=300),
    damaged([_real, _real.replace(b"\n", b"\r\n"), _real.replace(b"\n", b"\r"), *SSE[:-6]]),
    st.lists(
        st.sampled_from(
            [
                *(b"data", b"id", b"event", b"retry", b"error", b":", b" ", b"\n", b"\r", b"\r\n"),
                *(b"\n\n", b"\0", b"\xff", b"\xef\xbb\xbf", b"x", b"7", b"data: x\n\n"),
                *(b"id: 1\ndata: y\n\n", b"error: z\n\n"),
            ]
        ),
        max_size=30,
    ).map(b"".join),
)

Seen = tuple[list[tuple[str, str, str]], str, int | None, bool]


def seen(chunks: list[bytes], limit: int, fields: tuple[bytes, ...]) -> Seen:
    """All that a reader of the chunks can see."""
    decoder = SSEDecoder(limit, event_fields=fields)
    events = []
    too_large = False
    for chunk in chunks:
        try:
            events += decoder.feed(chunk)
        except SSEEventTooLarge as error:
            events += error.events
            too_large = True
            break
    told = [(event.event, event.data, event.id) for event in events]
    if too_large:  # of no use afterwards, and it need not have seen the same part of the rest
        return told, "", None, True
    return told, decoder.last_event_id, decoder.retry_ms, False


def cut(wire: bytes, places: list[int]) -> list[bytes]:
    places = sorted({place % (len(wire) + 1) for place in places})
    return [wire[a:b] for a, b in zip([0, *places], [*places, len(wire)], strict=True)]


@given(
    wire=WIRES,
    places=st.lists(st.integers(0, 400), max_size=6),
    fields=st.sampled_from([(), FIELDS]),
)
@example(wire=b"\xef\xbb\xbfdata: x\n\n", places=[1, 2], fields=())
@example(wire=b"data: x\r\n\r\nid: 1\r\n\r\n", places=[8, 9, 10, 11, 16], fields=())
@example(wire=b"error: x\n\nerror\n\n", places=[3], fields=FIELDS)
def test_any_bytes_in_any_chunks(wire: bytes, places: list[int], fields: tuple[bytes, ...]) -> None:
    whole = seen([wire], LIMIT, fields)
    assert seen(cut(wire, places), LIMIT, fields) == whole
    assert seen([wire[i : i + 1] for i in range(len(wire))], LIMIT, fields) == whole
    assert not whole[3]
    # An id never adds a line to a header.
    assert not any(c in identifier for _, _, identifier in whole[0] for c in "\r\n\0")


@each("wire", SSE)
@pytest.mark.parametrize("size", [1, 2, 3, 4096])
def test_the_seeds(wire: bytes, size: int) -> None:
    whole = seen([wire], LIMIT, ())
    assert seen([wire[i : i + size] for i in range(0, len(wire), size)], LIMIT, ()) == whole
    assert [(e.event, e.data, e.id) for e in parse_sse_stream([wire])] == whole[0]


@given(wire=WIRES, limit=st.integers(1, 60), places=st.lists(st.integers(0, 400), max_size=6))
def test_the_limit_is_the_only_thing_that_can_go_wrong(
    wire: bytes, limit: int, places: list[int]
) -> None:
    events, _, _, _ = seen(cut(wire, places), limit, ())
    assert all(len(data.encode("utf-8", "replace")) <= 3 * limit for _, data, _ in events)


@given(
    data=st.text() | st.none(),
    event=st.text() | st.none(),
    event_id=st.text() | st.none(),
    retry_ms=st.integers() | st.none(),
)
def test_what_the_encoder_writes_is_one_block(
    data: str | None, event: str | None, event_id: str | None, retry_ms: int | None
) -> None:
    """Whatever the values hold, they make no second event, no second id and no other field."""
    try:
        block = encode_event(data, event=event, id=event_id, retry_ms=retry_ms)
    except (ValueError, UnicodeEncodeError):
        return
    told, last_id, retry, _ = seen([b"data: before\n\n", block, b"data: after\n\n"], LIMIT, ())
    assert len(told) == (2 if data is None else 3)
    assert last_id == (event_id or "")
    assert all(identifier == last_id for _, _, identifier in told[1:])
    if retry_ms is not None and len(str(retry_ms)) <= 18:
        assert retry == retry_ms
    if data is not None:
        assert told[1][0] == (event or "message")
        assert told[1][1] == data.replace("\r\n", "\n").replace("\r", "\n")
