"""A frame made by hand is what the definitions and the encoder would write."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.engine import _packets
from coreason_client.server.engine._packets import Frames
from coreason_client.sse import SSEDecoder, encode_event
from coreason_client.sse._decode import DEFAULT_MAX_EVENT_BYTES
from coreason_manifest.definitions.presentation import (
    PresentationEvent,
    PresentationEventType,
    StreamOpCode,
    StreamPacket,
    parse_packet,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.proves("RFC002-3-transmission", "RES2-2a", "R13d")
@given(
    stream_id=st.uuids(),
    seq=st.integers(1, 10**15),
    moment=st.datetimes(
        datetime(1970, 1, 1),
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
    ),
    text=TEXT,
)
def test_a_text_frame_equals_the_model(
    stream_id: UUID, seq: int, moment: datetime, text: str
) -> None:
    packet = StreamPacket(stream_id=stream_id, seq=seq, op=StreamOpCode.DELTA, t=moment, p=text)
    frames = Frames(stream_id, lambda: moment)
    frame = frames.delta(seq, text)
    assert frame == encode_event(packet.to_json(), id=f"{stream_id}:{seq}")
    assert frame == frames.packet(seq, StreamOpCode.DELTA, text)[0]
    (event,) = SSEDecoder().feed(frame)
    assert event.id == f"{stream_id}:{seq}"
    assert parse_packet(event.data_bytes).p == text


@given(st.lists(st.integers(0, 4_102_444_800 * 10**9), min_size=1, max_size=5))
def test_the_present_is_written_as_any_other_moment(moments: list[int]) -> None:
    frames = Frames(uuid4())
    for nanoseconds in moments:
        with patch.object(_packets, "time_ns", lambda now=nanoseconds: now):
            frame = frames.delta(1, "x")
        (event,) = SSEDecoder().feed(frame)
        seconds, rest = divmod(nanoseconds, 10**9)
        expected = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)
        assert parse_packet(event.data_bytes).t == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
)


@given(payload=st.dictionaries(TEXT, JSON, max_size=4))
def test_an_object_comes_back_as_it_was(payload: dict[str, object]) -> None:
    frame, _ = Frames(uuid4()).packet(7, StreamOpCode.EVENT, payload)
    (event,) = SSEDecoder().feed(frame)
    assert frame.count(b"\n") == 3  # id, data, and the end: nothing can break the framing
    assert json.loads(event.data_bytes)["p"] == payload


def test_an_event_keeps_its_type() -> None:
    shown = PresentationEvent(type=PresentationEventType.THOUGHT_TRACE, data={"content": "hm"})
    frame, packet = Frames(uuid4()).packet(1, StreamOpCode.EVENT, shown)
    assert packet.p == shown
    (event,) = SSEDecoder().feed(frame)
    assert parse_packet(event.data_bytes).p == shown


@pytest.mark.parametrize(
    ("op", "payload", "words"),
    [
        (StreamOpCode.EVENT, "text", "an EVENT packet carries"),
        (StreamOpCode.CLOSE, None, "anything but null"),
        (StreamOpCode.ERROR, {"code": "x"}, "not a StreamError"),
        (StreamOpCode.EVENT, {"x": object()}, "cannot be written as JSON"),
        (StreamOpCode.EVENT, {"x": "\ud800"}, "cannot be written as JSON"),
        (StreamOpCode.EVENT, {"x": "y" * 10_000_000}, "in pieces"),
    ],
)
def test_what_does_not_fit_is_refused(op: StreamOpCode, payload: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Frames(uuid4()).packet(1, op, payload)


@pytest.mark.parametrize("check", [lambda f, t: f.delta(1, t), lambda f, t: f.check_delta(t)])
def test_text_that_cannot_be_sent_is_refused(check: Callable[[Frames, Any], object]) -> None:
    frames = Frames(uuid4())
    check(frames, "a")
    check(frames, "\u00e9" * 3)
    with pytest.raises(TypeError, match="got int"):
        check(frames, 7)
    with pytest.raises(ValueError, match="surrogate"):
        check(frames, "\ud83d")
    with pytest.raises(ValueError, match="in pieces"):
        check(frames, "y" * 10_000_000)
    with pytest.raises(ValueError, match="in pieces"):
        check(frames, "\x00" * 2_000_000)


@pytest.mark.parametrize("op", [StreamOpCode.DELTA, StreamOpCode.EVENT])
def test_the_largest_packet_is_one_that_readers_accept(op: StreamOpCode) -> None:
    def frame(size: int) -> bytes:
        frames = Frames(uuid4(), lambda: datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=UTC))
        if op is StreamOpCode.DELTA:
            return frames.delta(10**15, "y" * size)
        return frames.packet(10**15, op, {"x": "y" * size})[0]

    def attempt(size: int) -> bytes | None:
        try:
            return frame(size)
        except ValueError:
            return None

    size = DEFAULT_MAX_EVENT_BYTES
    while (largest := attempt(size)) is None:
        size -= 64
    (event,) = SSEDecoder().feed(largest)
    assert parse_packet(event.data_bytes).seq == 10**15
