"""How long a stream has sent nothing but keep-alives."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coreason_client.a2a._stream_state import Silence, is_keep_alive
from coreason_client.sse import ServerSentEvent


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0
        self.reads = 0

    def __call__(self) -> float:
        self.reads += 1
        return self.now


COMMENT = b": ping\n\n"


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (ServerSentEvent(b"", b"ping"), True),
        (ServerSentEvent(b"{}", b"heartbeat"), True),
        (ServerSentEvent(b"", b"keepalive"), True),
        (ServerSentEvent(b"", b"keep-alive"), True),
        (ServerSentEvent(b"[DONE]"), True),
        (ServerSentEvent(b" [DONE]\n"), True),
        (ServerSentEvent(b"ping"), False),
        (ServerSentEvent(b"", b"Ping"), False),
        (ServerSentEvent(b"[DONE] x"), False),
        (ServerSentEvent(b""), False),
    ],
)
def test_keep_alives_have_a_known_name_or_the_end_mark(
    event: ServerSentEvent, expected: bool
) -> None:
    assert is_keep_alive(event) is expected


@pytest.mark.parametrize(
    ("chunk", "keep_alives", "counts"),
    [
        (COMMENT, False, True),
        (b":\r\n\r\n", False, True),
        (b"\n", False, True),
        (b"", False, True),
        (b": a\n: b\n", False, True),
        (b"data: {", False, False),  # part of an event that is not complete
        (b": ping\n\ndata: {", False, False),
        (b"event: ping\ndata: \n\n", True, True),
        (b"event: ping\n\ndata: {", True, True),
    ],
)
def test_only_comments_and_keep_alives_are_silence(
    chunk: bytes, keep_alives: bool, counts: bool
) -> None:
    clock = Clock()
    silence = Silence(10.0, clock)
    silence.lasts_too_long(COMMENT, keep_alives=False)
    clock.now += 10.0
    assert silence.lasts_too_long(chunk, keep_alives=keep_alives) is counts


@pytest.mark.parametrize(("seconds", "expected"), [(9.9, False), (10.0, True), (50.0, True)])
def test_the_limit_counts_from_the_first_keep_alive(seconds: float, expected: bool) -> None:
    clock = Clock()
    silence = Silence(10.0, clock)
    clock.now += 1000.0  # before the first keep-alive nothing is measured
    assert not silence.lasts_too_long(COMMENT, keep_alives=False)
    clock.now += 5.0
    assert not silence.lasts_too_long(COMMENT, keep_alives=False)
    clock.now += seconds - 5.0
    assert silence.lasts_too_long(COMMENT, keep_alives=False) is expected


def test_after_the_limit_the_measurement_restarts_at_once() -> None:
    clock = Clock()
    silence = Silence(10.0, clock)
    found = []
    for _ in range(5):
        found.append(silence.lasts_too_long(COMMENT, keep_alives=False))
        clock.now += 5.0
    assert found == [False, False, True, False, True]


def test_a_reset_begins_with_the_next_keep_alive() -> None:
    clock = Clock()
    silence = Silence(10.0, clock)
    silence.lasts_too_long(COMMENT, keep_alives=False)
    clock.now += 9.0
    silence.reset()
    assert not silence.lasts_too_long(COMMENT, keep_alives=False)
    clock.now += 9.0
    assert not silence.lasts_too_long(COMMENT, keep_alives=False)


def test_without_a_limit_there_is_no_clock() -> None:
    clock = Clock()
    silence = Silence(None, clock)
    assert not any(silence.lasts_too_long(COMMENT, keep_alives=True) for _ in range(3))
    assert clock.reads == 0


@settings(max_examples=80)
@given(st.lists(st.one_of(st.none(), st.integers(0, 12)), max_size=12))
def test_two_alarms_without_an_event_are_at_least_the_limit_apart(
    steps: list[int | None],
) -> None:
    """A step is an event (None), or a keep-alive after so many seconds."""
    clock = Clock()
    silence = Silence(10.0, clock)
    since: float | None = None
    for step in steps:
        if step is None:
            silence.reset()
            since = None
            continue
        clock.now += step
        since = clock.now if since is None else since
        alarm = silence.lasts_too_long(COMMENT, keep_alives=False)
        assert alarm is (clock.now - since >= 10.0)
        since = clock.now if alarm else since
