"""The decoder of AWS's binary framing: every frame whatever the chunks, or one kind of error."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from struct import pack
from typing import Any
from uuid import UUID
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm._eventstream import (
    EventMessage,
    EventStreamDecoder,
    EventStreamError,
    HeaderValue,
)
from tests.llm.eventstream import encode, frame

LIMIT = 100_000
NAMES = st.text(min_size=1, max_size=20).filter(lambda name: len(name.encode()) < 256)
TIMES = st.integers(-(10**13), 10**13).map(
    lambda milliseconds: datetime.fromtimestamp(milliseconds // 1000, UTC)
)
VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.binary(max_size=40),
    st.text(max_size=40),
    TIMES,
    st.uuids(),
)
MESSAGES = st.lists(
    st.tuples(st.dictionaries(NAMES, VALUES, max_size=4), st.binary(max_size=60)), max_size=5
)


def decoded(chunks: Iterable[bytes], limit: int = LIMIT) -> tuple[list[EventMessage], str | None]:
    """Return the messages, and the text of the error that ended the stream, if any."""
    decoder = EventStreamDecoder(limit)
    messages: list[EventMessage] = []
    try:
        for chunk in chunks:
            for message in decoder.messages(chunk):
                messages.append(message)  # noqa: PERF402 - those before an error count
    except EventStreamError as error:
        return messages, str(error)
    return messages, None


def cut(body: bytes, places: Iterable[int]) -> list[bytes]:
    ends = sorted({place % (len(body) + 1) for place in places})
    return [body[a:b] for a, b in zip([0, *ends], [*ends, len(body)], strict=True)]


@given(messages=MESSAGES, places=st.lists(st.integers(0, 2000), max_size=12))
def test_every_message_comes_out_whatever_the_chunks(
    messages: Sequence[tuple[Mapping[str, Any], bytes]], places: list[int]
) -> None:
    body = b"".join(encode(headers, payload) for headers, payload in messages)
    expected = [EventMessage(headers, payload) for headers, payload in messages]
    assert decoded(cut(body, places)) == (expected, None)
    assert decoded(bytes([byte]) for byte in body) == (expected, None)


@pytest.mark.proves("LLM2-bedrock-frames")
@given(
    messages=MESSAGES.filter(bool),
    place=st.integers(0, 10**6),
    change=st.integers(1, 255),
    places=st.lists(st.integers(0, 2000), max_size=4),
)
def test_a_changed_byte_is_one_error_and_the_messages_before_it_come_out(
    messages: Sequence[tuple[Mapping[str, Any], bytes]],
    place: int,
    change: int,
    places: list[int],
) -> None:
    frames = [encode(headers, payload) for headers, payload in messages]
    body = bytearray(b"".join(frames))
    place %= len(body)
    body[place] ^= change
    intact, end = 0, 0
    for one in frames:
        end += len(one)
        if end > place:
            break
        intact += 1
    found, error = decoded(cut(bytes(body), places))
    assert found == [EventMessage(*message) for message in messages[:intact]]
    assert error is not None
    assert "checksum" in error


@given(body=st.binary(max_size=200), places=st.lists(st.integers(0, 200), max_size=4))
def test_any_bytes_are_messages_an_error_or_incomplete(body: bytes, places: list[int]) -> None:
    whole = decoded([body])
    assert decoded(cut(body, places)) == whole


@given(headers=st.binary(max_size=60), payload=st.binary(max_size=10))
def test_any_headers_with_valid_checksums_are_decoded_or_one_error(
    headers: bytes, payload: bytes
) -> None:
    found, error = decoded([frame(headers, payload)])
    assert (len(found) == 1) is (error is None)


def header(kind: int, value: bytes = b"", name: bytes = b"n") -> bytes:
    return bytes([len(name)]) + name + bytes([kind]) + value


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (0, b"", True),
        (1, b"", False),
        (2, b"\xff", -1),
        (3, b"\x01\x00", 256),
        (4, b"\xff\xff\xff\xfe", -2),
        (5, b"\0" * 7 + b"\x05", 5),
        (6, b"\0\x02ab", b"ab"),
        (7, "\0\x02é".encode(), "é"),
        (8, pack(">q", 1_500_000_000_123), datetime(2017, 7, 14, 2, 40, 0, 123000, UTC)),
        (9, bytes(range(16)), UUID(bytes=bytes(range(16)))),
    ],
)
def test_the_types_of_headers(kind: int, value: bytes, expected: HeaderValue) -> None:
    [message], error = decoded([frame(header(kind, value), b"x")])
    assert error is None
    assert message == EventMessage({"n": expected}, b"x")
    assert type(message.headers["n"]) is type(expected)


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (header(10), "unknown type 10"),
        (header(7, b"\0\x09abc"), "longer than the headers"),
        (header(4, b"\0\0"), "longer than the headers"),
        (header(9, b"\0" * 15), "longer than the headers"),
        (b"\x05n", "longer than the headers"),
        (b"\x01n", "longer than the headers"),
        (header(0, name=b""), "a header has no name"),
        (header(0) + header(1), "the header 'n' is repeated"),
        (header(0, name=b"\xff"), "the name of a header is not UTF-8"),
        (header(7, b"\0\x01\xff"), "the value of a header is not UTF-8"),
        (header(8, pack(">q", 2**62)), "out of range"),
    ],
)
def test_wrong_headers(headers: bytes, message: str) -> None:
    found, error = decoded([frame(headers, b"")])
    assert found == []
    assert error is not None
    assert message in error


def prelude(total: int, headers: int) -> bytes:
    lengths = pack(">II", total, headers)
    return lengths + pack(">I", crc32(lengths))


@pytest.mark.parametrize(
    ("total", "headers", "message"),
    [
        (15, 0, "a frame of 15 bytes cannot hold 0 bytes of headers"),
        (0, 0, "a frame of 0 bytes"),
        (20, 5, "a frame of 20 bytes cannot hold 5 bytes of headers"),
        (2**32 - 1, 0, f"more than the limit of {LIMIT}"),
        (LIMIT + 1, 0, f"more than the limit of {LIMIT}"),
        (16, 131_073, "more than the limit of 131072"),
    ],
)
def test_wrong_lengths_are_refused_without_waiting_for_the_rest(
    total: int, headers: int, message: str
) -> None:
    found, error = decoded([prelude(total, headers)])
    assert found == []
    assert error is not None
    assert message in error


def test_a_frame_as_large_as_the_limit_is_accepted() -> None:
    body = frame(b"", b"x" * 84)
    assert decoded([body], limit=100) == ([EventMessage({}, b"x" * 84)], None)
    assert decoded([body], limit=99)[1] is not None


def test_after_an_error_every_call_raises_it() -> None:
    decoder = EventStreamDecoder(LIMIT)
    with pytest.raises(EventStreamError) as first:
        list(decoder.messages(b"\0" * 12))
    with pytest.raises(EventStreamError) as second:
        list(decoder.messages(frame(b"", b"x")))
    assert str(first.value) == str(second.value)


def test_published_frames() -> None:
    """Two test vectors of the AWS SDKs."""
    empty = bytes.fromhex("000000100000000005c248eb7d98c8ff")
    assert decoded([empty]) == ([EventMessage({}, b"")], None)
    assert frame(b"", b"") == empty
    payload = b"{'foo':'bar'}"
    number = b"\x00\x00\x00+\x00\x00\x00\x0e4\x8b\xec{\x08event-id\x04\x00\x00\xa0\x0c"
    number += payload + b"\xd3\x89\x02\x85"
    assert decoded([number]) == ([EventMessage({"event-id": 40972}, payload)], None)
