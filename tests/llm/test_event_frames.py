"""The events and errors in an event stream of AWS, whatever the chunks."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm._answer import FaultReceived, Malformed
from coreason_client.llm._eventstream import EventFrames
from tests.llm.eventstream import encode, event, exception

LIMIT = 1_000
SIZES = st.integers(1, 40)


def pieces(body: bytes, size: int) -> Iterable[bytes]:
    return (body[start : start + size] for start in range(0, len(body), size))


@pytest.mark.parametrize(
    ("sent", "message", "codes"),
    [
        (
            exception("throttlingException", {"message": "Too many requests"}),
            *("Too many requests", ("ThrottlingException",)),
        ),
        (
            exception("modelStreamErrorException", []),
            *("ModelStreamErrorException", ("ModelStreamErrorException",)),
        ),
        (
            encode(
                {":message-type": "error", ":error-code": "Slow", ":error-message": "Busy"}, b""
            ),
            *("Busy", ("Slow",)),
        ),
        (encode({":message-type": "note"}, b""), "a frame of type 'note'", ()),
    ],
)
@given(size=SIZES)
def test_a_frame_that_is_an_error(
    sent: bytes, message: str, codes: tuple[str, ...], size: int
) -> None:
    frames = EventFrames(LIMIT)
    seen: list[bytes] = []
    with pytest.raises(FaultReceived) as caught:
        for piece in pieces(event("messageStart", 1) + sent, size):
            for one in frames.events(piece):
                seen.append(one.data_bytes)  # noqa: PERF401 - those before the error count
    assert seen == [b"1"]
    assert caught.value.fault.message == message
    assert caught.value.fault.codes == codes


@given(size=SIZES)
def test_a_damaged_event_stream(size: int) -> None:
    body = event("messageStart", 1) + event("metadata", {})[:-1] + b"\0"
    frames, seen = EventFrames(LIMIT), []
    with pytest.raises(Malformed, match="damaged: the checksum of a frame is wrong") as caught:
        for piece in pieces(body, size):
            for one in frames.events(piece):
                seen.append(one.data_bytes)  # noqa: PERF401 - those before the error count
    assert seen == [b"1"]
    assert caught.value.__context__ is None


def test_a_frame_that_is_too_large() -> None:
    with pytest.raises(Malformed, match=f"more than the limit of {LIMIT}"):
        list(EventFrames(LIMIT).events(event("messageStart", "x" * LIMIT)))
