"""The life cycle of a reconnecting stream: states, planned steps, redirects, delays, deadline."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client._connections import Connections, RetryBudget, State, header_cursor
from coreason_client._drive import Wait
from coreason_client._http._redirect import MAX_REDIRECTS
from coreason_client._http._types import Headers, Request, ResponseHead, Timeouts
from coreason_client._retry import Backoff

REQUEST = Request("POST", "https://a.example/", {"Authorization": "Bearer secret"})
REDIRECT = ResponseHead(307, Headers([("Location", "/next")]))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def connections(
    *, max_retries: int = 3, deadline: float | None = None, clock: Clock | None = None
) -> Connections:
    clock = clock or Clock()
    budget = RetryBudget(Backoff(), max_retries, jitter=lambda: 0.0, clock=clock)
    return Connections(budget, max_event_bytes=1000, deadline=deadline, clock=clock)


# State


def test_the_states_of_a_stream() -> None:
    stream = connections()
    assert (stream.state, stream.settled, stream.reading) == (State.IDLE, True, False)
    stream.open(REQUEST)
    assert (stream.state, stream.settled, stream.reading) == (State.OPEN, False, False)
    stream.read()
    assert (stream.state, stream.settled, stream.reading) == (State.READING, False, True)
    stream.pause()
    assert (stream.state, stream.settled, stream.reading) == (State.OPEN, False, False)
    stream.read()
    stream.settle()
    assert (stream.state, stream.settled, stream.finished) == (State.IDLE, True, False)
    stream.finish()
    assert (stream.state, stream.settled, stream.finished) == (State.FINISHED, True, True)
    stream.settle()
    assert stream.finished


def test_attempts_and_reconnects() -> None:
    stream = connections()
    assert (stream.attempts, stream.reconnects) == (0, 0)
    for number in range(3):
        assert stream.open(REQUEST) == REQUEST
        assert (stream.attempts, stream.reconnects) == (number + 1, number)
        assert stream.request == REQUEST


def test_a_planned_step_comes_once() -> None:
    stream = connections()
    assert stream.planned_step() is None
    stream.wait(1.5)
    assert stream.planned_step() == Wait(1.5)
    assert stream.planned_step() is None
    assert stream.state is State.IDLE


# Redirects


def test_a_redirect_belongs_to_its_attempt() -> None:
    stream = connections()
    stream.open(REQUEST)
    assert stream.is_redirect(REDIRECT)
    stream.redirect(REDIRECT)
    assert stream.settled
    step = stream.planned_step()
    assert isinstance(step, Request)
    assert (step.url, step, stream.state) == (
        "https://a.example/next",
        stream.request,
        State.OPEN,
    )
    assert stream.attempts == 1


def test_redirects_are_counted_for_each_attempt() -> None:
    stream = connections()
    for _ in range(2):
        stream.open(REQUEST)
        for _ in range(MAX_REDIRECTS):
            stream.redirect(REDIRECT)
            stream.planned_step()
        with pytest.raises(ValueError, match="in a row"):
            stream.redirect(REDIRECT)
        assert stream.planned_step() is None
        assert not stream.settled


# Losses


def test_a_loss_settles_the_connection_and_counts() -> None:
    stream = connections(max_retries=1)
    stream.open(REQUEST)
    stream.read()
    assert stream.lose(None) == 0.5
    assert (stream.state, stream.budget.failures) == (State.IDLE, 1)
    assert stream.lose(None) is None


def test_a_drain_costs_nothing_until_there_were_too_many() -> None:
    stream = connections()
    for _ in range(10):
        assert stream.lose(None, drained=True) == 0.5
    assert stream.budget.failures == 0
    assert stream.lose(None, drained=True) == 0.5
    assert stream.budget.failures == 1


@pytest.mark.parametrize(
    ("asked", "retry", "delay"),
    [
        (None, None, None),
        (3.0, None, 3.0),
        (None, 2000, 2.0),
        (3.0, 2000, 3.0),
        (1.0, 2000, 2.0),
        (0.0, None, None),
        (None, 0, None),
    ],
)
def test_the_longest_delay_that_the_server_asks_for_counts(
    asked: float | None, retry: int | None, delay: float | None
) -> None:
    stream = connections()
    stream.open(REQUEST)
    if retry is not None:
        stream.decoder.feed(b"retry: %d\n\n" % retry)
    assert stream.server_delay(asked) == delay


def test_the_field_retry_stays_in_force_for_the_following_connections() -> None:
    stream = connections()
    stream.open(REQUEST)
    stream.decoder.feed(b"retry: 2000\n\n")
    stream.settle()  # not a loss, so that nobody asked for the delay
    stream.open(REQUEST)
    assert stream.server_delay() == 2.0
    stream.decoder.feed(b"retry: 4000\n\n")
    assert stream.server_delay() == 4.0


def test_every_attempt_has_a_new_decoder_with_the_id_in_force() -> None:
    stream = connections()
    stream.open(REQUEST, b"7")
    stream.decoder.feed(b"data: half")
    stream.open(REQUEST, b"8")
    (event,) = stream.decoder.feed(b"data: x\n\n")
    assert (event.data, event.id, stream.decoder.max_event_bytes) == ("x", "8", 1000)


# Deadline


def test_the_deadline_starts_with_the_first_request() -> None:
    clock = Clock()
    stream = connections(deadline=10, clock=clock)
    clock.now = 100.0
    assert stream.time_left() == inf
    request = stream.open(Request("POST", "https://a.example/", {}, b"", Timeouts(5, 60, 60, 5)))
    assert (request.deadline, request.timeouts) == (110.0, Timeouts(5, 10, 10, 5))
    clock.now = 107.0
    assert stream.time_left() == 3.0
    stream.redirect(REDIRECT)
    redirected = stream.planned_step()
    assert isinstance(redirected, Request)
    assert (redirected.deadline, redirected.timeouts) == (110.0, Timeouts(3, 3, 3, 3))
    assert stream.open(REQUEST).deadline == 110.0


@pytest.mark.parametrize(
    ("left", "delay", "expires"),
    [(5.0, 4.9, False), (5.0, 5.0, True), (5.0, None, False), (0.01, None, True), (0.0, 0.5, True)],
)
def test_an_attempt_must_begin_before_the_deadline(
    left: float, delay: float | None, expires: bool
) -> None:
    clock = Clock()
    stream = connections(deadline=left, clock=clock)
    stream.open(REQUEST)
    assert stream.expires_within(delay) is expires


def test_without_a_deadline_nothing_expires() -> None:
    stream = connections()
    assert stream.open(REQUEST) is REQUEST
    assert not stream.expires_within(1e9)


# Cursor


@pytest.mark.parametrize(
    ("last_event_id", "cursor"),
    [
        (b"", None),
        (b"7", "7"),
        (b"a b", "a b"),
        (b" 7", None),
        (b"7 ", None),
        (b"\x07", None),
        (b"a\tb", None),
        ("ü".encode(), "ü"),
        (b"\xff", "\ufffd"),
    ],
)
def test_a_cursor_is_sent_only_unchanged(last_event_id: bytes, cursor: str | None) -> None:
    assert header_cursor(last_event_id) == cursor


# Whatever happens


STEPS = st.sampled_from(["open", "read", "pause", "settle", "lose", "redirect", "plan", "finish"])


@given(st.lists(STEPS, max_size=30))
def test_whatever_happens_the_state_is_one_and_finished_is_the_end(steps: list[str]) -> None:
    stream = connections(max_retries=100)
    for step in steps:
        finished = stream.finished
        if finished or (step in ("read", "pause", "redirect") and stream.settled):
            step = "settle"  # as the machines do: only an open connection is read or redirected
        match step:
            case "open":
                stream.open(REQUEST)
            case "lose":
                delay = stream.lose(None)
                assert delay is not None
                stream.wait(delay)
            case "redirect":
                stream.redirect(ResponseHead(308, Headers([("Location", "/x")])))
                assert isinstance(stream.planned_step(), Request)
                stream.open(REQUEST)
            case "plan":
                stream.planned_step()
            case _:
                getattr(stream, step)()
        assert stream.finished or not finished
        assert stream.reading is (stream.state is State.READING)
        assert stream.settled is (stream.state in (State.IDLE, State.FINISHED))
        assert stream.reconnects == max(stream.attempts - 1, 0)
        if step in ("settle", "lose"):
            assert stream.settled
        assert stream.request is None or stream.attempts > 0
