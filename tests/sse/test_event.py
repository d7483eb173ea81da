"""Events as values, and the error for an event that is too large."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coreason_client.errors import CoreasonError
from coreason_client.sse import ServerSentEvent, SSEEventTooLarge
from coreason_client.sse._event import new_event


def decoded(data: bytes, event: bytes = b"", event_id: bytes = b"") -> ServerSentEvent:
    """Create an event as the decoder does."""
    made = new_event()
    made.data_bytes, made.event_bytes, made.id_bytes = data, event, event_id
    return made


def test_an_event_reads_as_text_and_as_bytes() -> None:
    event = ServerSentEvent("ä".encode(), b"e", b"7")
    assert (event.data, event.event, event.id) == ("ä", "e", "7")
    assert (event.data_bytes, event.event_bytes, event.id_bytes) == ("ä".encode(), b"e", b"7")
    assert repr(event) == "ServerSentEvent(event='e', data='ä', id='7')"


def test_without_a_type_an_event_is_a_message_without_an_id() -> None:
    event = ServerSentEvent(b"x")
    assert (event.event, event.id) == ("message", "")


def test_bytes_that_are_not_utf_8_are_replaced_in_the_text_only() -> None:
    event = ServerSentEvent(b"a\xff", b"\xff", b"\xff")
    assert (event.data, event.event, event.id) == ("a\ufffd", "\ufffd", "\ufffd")
    assert event.data_bytes == b"a\xff"


@pytest.mark.parametrize("make", [ServerSentEvent, decoded])
def test_events_with_the_same_values_are_equal(make: type[ServerSentEvent]) -> None:
    event = make(b"x", b"e", b"7")
    assert event == ServerSentEvent(b"x", b"e", b"7")
    assert hash(event) == hash(ServerSentEvent(b"x", b"e", b"7"))
    assert repr(event) == repr(ServerSentEvent(b"x", b"e", b"7"))
    assert pickle.loads(pickle.dumps(event)) == event
    others = [ServerSentEvent(b"y", b"e", b"7"), ServerSentEvent(b"x", b"f", b"7")]
    for other in [*others, ServerSentEvent(b"x", b"e", b"8"), "x", None]:
        assert event != other


def test_the_default_type_equals_its_name() -> None:
    assert ServerSentEvent(b"x") == ServerSentEvent(b"x", b"message")
    assert hash(ServerSentEvent(b"x")) == hash(ServerSentEvent(b"x", b"message"))


@settings(max_examples=50)
@given(st.binary(max_size=2), st.binary(max_size=2))
def test_equal_events_have_equal_hashes(one: bytes, other: bytes) -> None:
    first, second = ServerSentEvent(b"x", one, one), decoded(b"x", other, other)
    assert first != second or hash(first) == hash(second)


def test_the_error_names_the_limit_and_what_to_do() -> None:
    error = SSEEventTooLarge(10)
    assert isinstance(error, CoreasonError)
    assert (error.limit, error.events) == (10, [])
    assert str(error) == (
        "a server-sent event is larger than the limit of 10 bytes;"
        " raise max_event_bytes if such events are expected"
    )


def test_the_error_survives_pickling_with_its_events() -> None:
    error = SSEEventTooLarge(10)
    error.events.append(ServerSentEvent(b"x"))
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is SSEEventTooLarge
    assert (copied.limit, copied.events, str(copied)) == (10, error.events, str(error))
