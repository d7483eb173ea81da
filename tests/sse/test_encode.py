"""The encoder, and that the decoder reads back what it writes."""

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coreason_client.sse import ServerSentEvent, SSEDecoder, encode_comment, encode_event
from coreason_manifest.definitions.presentation import DeltaPacket, StreamOpCode, parse_packet
from tests.fuzz.strategies import examples


def with_lf(data: bytes) -> bytes:
    """Line ends of every kind become LF: the wire format cannot tell them apart."""
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


# The bytes


@pytest.mark.parametrize(
    ("fields", "wire"),
    [
        ({"data": "x"}, b"data: x\n\n"),
        ({"data": b"x"}, b"data: x\n\n"),
        ({"data": ""}, b"data: \n\n"),
        ({"data": "ä…"}, "data: ä…\n\n".encode()),
        ({"data": "a\nb"}, b"data: a\ndata: b\n\n"),
        ({"data": "a\r\nb\rc\n"}, b"data: a\ndata: b\ndata: c\ndata: \n\n"),
        ({"data": "\n"}, b"data: \ndata: \n\n"),
        ({"data": "a\u2028b\x0bc"}, "data: a\u2028b\x0bc\n\n".encode()),
        ({"data": "data: x\n\nid: 7"}, b"data: data: x\ndata: \ndata: id: 7\n\n"),
        ({"data": "x", "id": "s:1"}, b"id: s:1\ndata: x\n\n"),
        ({"data": "x", "event": "e"}, b"event: e\ndata: x\n\n"),
        (
            {"data": "x", "event": "e", "id": "7", "retry_ms": 10},
            b"event: e\nid: 7\nretry: 10\ndata: x\n\n",
        ),
        ({"id": "7"}, b"id: 7\n\n"),
        ({"id": ""}, b"id: \n\n"),
        ({"retry_ms": 0}, b"retry: 0\n\n"),
        ({"data": None, "retry_ms": 1500}, b"retry: 1500\n\n"),
        ({}, b"\n"),
    ],
)
def test_the_bytes_of_an_event(fields: dict[str, Any], wire: bytes) -> None:
    assert encode_event(**fields) == wire


@pytest.mark.parametrize(
    ("text", "wire"),
    [
        ("", b":\n\n"),
        ("ping", b": ping\n\n"),
        ("data: x", b": data: x\n\n"),
        ("ä", ": ä\n\n".encode()),
    ],
)
def test_the_bytes_of_a_comment(text: str, wire: bytes) -> None:
    assert encode_comment(text) == wire


def test_a_comment_is_empty_by_default() -> None:
    assert encode_comment() == b":\n\n"


# What is refused


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("around", ["{}", "a{}", "{}b", "a{}data: injected{}"])
def test_a_line_end_in_a_field_of_one_line_is_refused(end: str, around: str) -> None:
    value = around.replace("{}", end)
    for field in ("id", "event"):
        fields: dict[str, Any] = {field: value}
        with pytest.raises(ValueError, match=rf"^{field} must be one line"):
            encode_event("x", **fields)
    with pytest.raises(ValueError, match=r"^text must be one line"):
        encode_comment(value)


@pytest.mark.parametrize("value", ["\0", "a\0", "\0b"])
def test_a_nul_in_an_id_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="NUL"):
        encode_event("x", id=value)


@pytest.mark.parametrize("value", [-1, -(10**20)])
def test_a_negative_reconnection_time_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match="retry_ms must be 0 or more"):
        encode_event("x", retry_ms=value)


@pytest.mark.parametrize("field", ["data", "id", "event"])
def test_half_a_surrogate_pair_is_refused(field: str) -> None:
    fields: dict[str, Any] = {field: "\ud800"}
    with pytest.raises(ValueError, match="surrogates"):
        encode_event(**fields)


# There and back

texts = st.text(max_size=30) | st.lists(
    st.sampled_from(["\n", "\r", "\r\n", " ", ":", "data: ", "\0", "\ufeff", "x", "\u2028", "…"]),
    max_size=12,
).map("".join)
one_line = texts.map(lambda text: text.replace("\r", "").replace("\n", ""))
ids = one_line.map(lambda text: text.replace("\0", ""))
# The decoder ignores longer numbers: they are beyond any time that makes sense.
times = st.integers(0, 10**18 - 1)
events = st.fixed_dictionaries(
    {},
    optional={
        "data": st.none() | texts | st.binary(max_size=30),
        "event": st.none() | one_line,
        "id": st.none() | ids,
        "retry_ms": st.none() | times,
    },
)


@given(st.lists(st.one_of(events, one_line), max_size=5))
@example([{"data": " x"}, {"data": "\n"}, {"data": "\r"}, {"id": " "}, {"data": ""}])
@examples(250)
@pytest.mark.proves("RFC002-3-data-field")
def test_the_decoder_reads_back_what_the_encoder_wrote(
    items: list[dict[str, Any] | str],
) -> None:
    wire, last_id, retry = b"", "", None
    expected = []
    for item in items:
        if isinstance(item, str):
            wire += encode_comment(item)
            continue
        wire += encode_event(**item)
        last_id = last_id if item.get("id") is None else item["id"]
        retry = retry if item.get("retry_ms") is None else item["retry_ms"]
        data = item.get("data")
        if data is not None:
            plain = data.encode() if isinstance(data, str) else data
            event = (item.get("event") or "").encode()
            expected.append(ServerSentEvent(with_lf(plain), event, last_id.encode()))
    decoder = SSEDecoder()
    assert decoder.feed(wire) == expected
    assert decoder.last_event_id == last_id
    assert decoder.retry_ms == retry


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=6))
@examples(50)
@pytest.mark.proves("RFC002-3-data-field")
def test_a_json_text_is_the_data_of_one_event(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert [event.data for event in SSEDecoder().feed(encode_event(text))] == [text]


@pytest.mark.proves("RFC002-3-data-field")
def test_a_packet_is_the_data_of_one_event() -> None:
    packet = DeltaPacket.model_validate(
        {
            "stream_id": UUID(int=1),
            "seq": 7,
            "op": StreamOpCode.DELTA,
            "t": "2023-10-27T10:00:00Z",
            "p": "two\r\nlines, \u2028 and a …",
        }
    )
    wire = encode_event(packet.to_json(), id=f"{packet.stream_id}:{packet.seq}")
    assert wire.count(b"\n") == 3  # the id, one line of data, the end
    [event] = SSEDecoder().feed(wire)
    assert event.id == "00000000-0000-0000-0000-000000000001:7"
    assert parse_packet(event.data_bytes) == packet
