"""Events out of bytes: a stream, lines, or one JSON value, whatever the chunks."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm import _frames
from coreason_client.llm._frames import FrameDecoder, FrameTooLarge, Framing
from tests.llm.eventstream import event, frame

SIZES = st.integers(1, 40)


def pieces(body: bytes, size: int) -> Iterable[bytes]:
    return (body[start : start + size] for start in range(0, len(body), size))


@pytest.mark.parametrize("declared_json", [True, False])
@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b"\n\n", b": ping\n\n", b"retry: 5\n\n"])
@given(size=SIZES)
def test_a_stream_is_a_stream_whatever_it_claims(
    before: bytes, declared_json: bool, size: int
) -> None:
    frames = FrameDecoder("sse", declared_json=declared_json)
    body = before + b"event: a\ndata: 1\n\nid: 7\ndata: 2\n\n"
    events = [event for piece in pieces(body, size) for event in frames.events(piece)]
    assert [(event.event_bytes, event.data_bytes) for event in events] == [
        (b"a", b"1"),
        (b"", b"2"),
    ]
    assert frames.whole() is None


@pytest.mark.parametrize("declared_json", [True, False])
@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b" \r\n\t"])
@pytest.mark.parametrize("value", [b'{\n"data": 1\n\n}', b'[{"a": "data: 1\\n\\n"}]'])
@given(size=SIZES)
def test_json_is_kept_whole(before: bytes, value: bytes, declared_json: bool, size: int) -> None:
    frames = FrameDecoder("sse", declared_json=declared_json)
    for piece in pieces(before + value, size):
        assert list(frames.events(piece)) == []
    assert frames.whole() == value


def test_what_claims_to_be_json_and_is_empty() -> None:
    assert FrameDecoder("sse", declared_json=True).whole() == b""
    assert FrameDecoder("sse").whole() is None


def test_blanks_are_bounded() -> None:
    frames = FrameDecoder("sse")
    for _ in range(100):
        assert list(frames.events(b"\n" * 1000)) == []
    assert [event.data for event in frames.events(b"data: 1\n\n")] == ["1"]


def test_lines_are_never_taken_for_one_value() -> None:
    frames = FrameDecoder("ndjson", declared_json=True)
    assert [line.data_bytes for line in frames.events(b'{"a":1}\n{"b"')] == [b'{"a":1}']
    assert [line.data_bytes for line in frames.flush()] == [b'{"b"']
    assert frames.whole() is None


@pytest.mark.parametrize(
    ("framing", "body"),
    [
        ("sse", b"data: 1\n\ndata: 2\n\ndata: " + b"x" * 20 + b"\n\ndata: 3\n\n"),
        ("ndjson", b"1\n2\n" + b"x" * 20 + b"\n3\n"),
    ],
)
@given(size=SIZES)
def test_events_before_one_that_is_too_large_are_handed_out(
    framing: Framing, body: bytes, size: int
) -> None:
    seen: list[bytes] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_frames, "_MAX_EVENT_BYTES", 16)
        frames = FrameDecoder(framing)
    with pytest.raises(FrameTooLarge) as caught:
        for piece in pieces(body, size):
            for event in frames.events(piece):
                seen.append(event.data_bytes)  # noqa: PERF401 - those before the error count
    assert seen == [b"1", b"2"]
    assert caught.value.__context__ is None


@pytest.mark.parametrize("declared_json", [True, False])
@given(size=SIZES)
def test_frames_of_an_event_stream(declared_json: bool, size: int) -> None:
    frames = FrameDecoder("eventstream", declared_json=declared_json)
    body = event("messageStart", {"role": "assistant"}) + event("metadata", {}) + frame(b"", b"x")
    events = [one for piece in pieces(body, size) for one in frames.events(piece)]
    assert [(one.event_bytes, one.data_bytes) for one in events] == [
        (b"messageStart", b'{"role":"assistant"}'),
        (b"metadata", b"{}"),
        (b"", b"x"),
    ]
    assert frames.whole() is None
    assert frames.flush() == []


@given(size=SIZES)
def test_json_instead_of_an_event_stream_is_kept_whole(size: int) -> None:
    frames = FrameDecoder("eventstream", declared_json=True)
    for piece in pieces(b' {"output": {}}', size):
        assert list(frames.events(piece)) == []
    assert frames.whole() == b'{"output": {}}'


def test_a_stream_without_end_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_frames, "_MAX_STREAM_BYTES", 100)
    decoder = FrameDecoder("sse")
    for _ in range(9):
        assert len(list(decoder.events(b"data: abc\n\n"))) == 1
    with pytest.raises(FrameTooLarge, match="the stream is larger than 100 bytes"):
        list(decoder.events(b"data: abc\n\n"))
