"""The limits that a client sets itself: kept in every minute, without a needless wait."""

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coreason_client.llm import _limits
from coreason_client.llm._limits import CallLimits, LimitReservation, RateLimits

MINUTE = 60.0
NEVER = float("inf")

limits = st.one_of(st.integers(1, 20), st.floats(1, 500, allow_nan=False))
pauses = st.one_of(st.just(0.0), st.just(0.0), st.floats(0, 100, allow_nan=False))
wanted = st.lists(st.tuples(pauses, st.integers(0, 300)), min_size=1, max_size=30)
Sent = list[tuple[float, int]]


def assert_kept(limit: float, sent: Iterable[tuple[float, int]]) -> None:
    """No window of a minute holds more than the limit, wherever it begins."""
    amounts = list(sent)
    for index, (start, _) in enumerate(amounts):
        within = sum(amount for time, amount in amounts[index:] if time < start + MINUTE)
        assert within <= limit, (limit, amounts)


def send_at(budget: RateLimits, tokens: int, now: float) -> float:
    """Return the time at which a request goes out that waits exactly as long as it is asked to."""
    reservation = budget.reserve(tokens, now, NEVER)
    assert reservation is not None
    return sent_at(budget, reservation, now)


def sent_at(budget: RateLimits, reservation: LimitReservation, now: float) -> float:
    for _ in range(10):
        seconds = budget.wait(reservation, now)
        if seconds == 0:
            return now
        now += seconds
    raise AssertionError("it is never sent")


def send_all(budget: RateLimits, calls: Sent) -> Sent:
    """Send calls one after the other, each so long after the one before."""
    now, sent = 0.0, []
    for pause, tokens in calls:
        now = send_at(budget, tokens, now + pause)
        sent.append((now, tokens))
    return sent


def send_together(budget: RateLimits, calls: Sent) -> Sent:
    """Plan all calls at their times, whatever the others wait for; each wakes on time."""
    now, planned = 0.0, []
    for pause, tokens in calls:
        now += pause
        reservation = budget.reserve(tokens, now, NEVER)
        assert reservation is not None
        planned.append((max(now, reservation.time), reservation, tokens))
    return [(sent_at(budget, made, time), tokens) for time, made, tokens in planned]


def test_a_burst_is_the_limit_and_no_more() -> None:
    budget = RateLimits(120, None)
    times = [send_at(budget, 0, 0.0) for _ in range(360)]
    assert times == [0.0] * 120 + [60.0] * 120 + [120.0] * 120


def test_a_steady_stream_at_the_limit_never_waits() -> None:
    budget = RateLimits(120, None)
    for number in range(1000):
        reservation = budget.reserve(0, number * 0.5, NEVER)
        assert reservation is not None
        assert budget.wait(reservation, number * 0.5) == 0.0


@pytest.mark.parametrize("send", [send_all, send_together])
@given(requests=limits, tokens=limits, calls=wanted)
@example(requests=120, tokens=500, calls=[(0.0, 0)] * 239)
@example(requests=10, tokens=100, calls=[(0.0, 0)] * 30 + [(0.0, 50)] * 20)
@example(requests=10, tokens=100, calls=[(0.0, 1000)] + [(0.0, 0)] * 40)
def test_no_minute_has_more_than_the_limits(
    send: object, requests: float, tokens: float, calls: Sent
) -> None:
    assert callable(send)
    sent = send(RateLimits(requests, tokens), calls)
    assert_kept(requests, ((time, 1) for time, _ in sent))
    assert_kept(tokens, ((time, min(amount, int(tokens))) for time, amount in sent))


@given(requests=limits, tokens=limits, calls=wanted)
def test_a_wait_is_as_long_as_it_must_be(requests: float, tokens: float, calls: Sent) -> None:
    """Compare with the definition: the earliest time, in order, at which both limits are kept."""
    most = (int(requests), int(tokens))
    sent: list[tuple[float, tuple[int, int]]] = []
    made, last = 0.0, 0.0
    expected = []
    for pause, amount in calls:
        made += pause
        share = (1, min(amount, most[1]))
        candidates = [max(made, last), *(time + MINUTE for time, _ in sent)]
        last = min(
            start
            for start in candidates
            if start >= max(made, last)
            and all(
                sum(old[kind] for time, old in sent if time + MINUTE > start) + share[kind]
                <= most[kind]
                for kind in (0, 1)
            )
        )
        sent.append((last, share))
        expected.append(last)
    assert [time for time, _ in send_together(RateLimits(requests, tokens), calls)] == expected


@given(limit=st.integers(1, 50), minutes=st.integers(1, 5))
def test_the_full_rate_is_reached(limit: int, minutes: int) -> None:
    budget = RateLimits(limit, limit * 10)
    times = [send_at(budget, 10, 0.0) for _ in range(limit * minutes)]
    assert times[-1] == MINUTE * (minutes - 1)


@dataclass
class Client:
    """A client under load: requests wake late, are cancelled, and are corrected afterwards."""

    requests: int
    tokens: int
    now: float = 0.0
    waiting: list[tuple[LimitReservation, int]] = field(default_factory=list)
    answered: list[LimitReservation] = field(default_factory=list)
    sent: Sent = field(default_factory=list)

    def __post_init__(self) -> None:
        self.budget = RateLimits(self.requests, self.tokens)

    def act(self, kind: str, number: int, pause: float) -> None:
        self.now += pause
        if kind == "call":
            reservation = self.budget.reserve(number, self.now, NEVER)
            assert reservation is not None
            self.waiting.append((reservation, min(number, self.tokens)))
        elif kind == "wake" and self.waiting:
            self.wake(number % len(self.waiting))
        elif kind == "cancel" and self.waiting:
            self.budget.cancel(self.waiting.pop(number % len(self.waiting))[0])
        elif kind == "settle" and self.answered:
            reservation = self.answered.pop(number % len(self.answered))
            assert reservation.tokens is not None
            # Downwards only: what is used beyond an estimate cannot be taken back.
            self.budget.settle(reservation, min(number, reservation.tokens.amount))

    def wake(self, index: int) -> None:
        reservation, tokens = self.waiting[index]
        if self.budget.wait(reservation, self.now) == 0:
            del self.waiting[index]
            self.answered.append(reservation)
            self.sent.append((self.now, tokens))


actions = st.lists(
    st.tuples(
        st.sampled_from(["call", "call", "wake", "wake", "wake", "cancel", "settle"]),
        st.integers(0, 60),
        st.one_of(st.just(0.0), st.floats(0, 70, allow_nan=False)),
    ),
    max_size=80,
)


@given(requests=st.integers(1, 5), tokens=st.integers(1, 100), steps=actions)
@example(  # the first wakes late, the second on time: only 59.5 s lie between them
    requests=1,
    tokens=100,
    steps=[
        *(("call", 0, 0.0), ("wake", 0, 0.0), ("call", 0, 0.0), ("call", 0, 0.0)),
        *(("wake", 0, 60.5), ("wake", 0, 59.5), ("wake", 0, 0.5)),
    ],
)
def test_requests_that_wake_late_keep_the_limits_too(
    requests: int, tokens: int, steps: list[tuple[str, int, float]]
) -> None:
    client = Client(requests, tokens)
    for kind, number, pause in steps:
        client.act(kind, number, pause)
    assert_kept(requests, ((time, 1) for time, _ in client.sent))
    # With the amounts that were reserved when nothing was corrected.
    if not any(kind == "settle" for kind, _, _ in steps):
        assert_kept(tokens, client.sent)


@given(requests=st.integers(1, 5), tokens=st.integers(1, 100), steps=actions)
def test_everything_that_waits_is_sent_in_the_end(
    requests: int, tokens: int, steps: list[tuple[str, int, float]]
) -> None:
    client = Client(requests, tokens)
    for kind, number, pause in steps:
        client.act(kind, number, pause)
    minutes = len(client.waiting) + 1
    latest = max((reservation.time for reservation, _ in client.waiting), default=client.now)
    client.now = max(client.now, latest)
    for _ in range(minutes):
        for index in reversed(range(len(client.waiting))):
            client.wake(index)
        client.now += MINUTE
    assert client.waiting == []


@given(limit=limits, reserved=st.integers(0, 300), used=st.integers(0, 300))
def test_the_tokens_that_were_used_count(limit: float, reserved: int, used: int) -> None:
    estimated, known = RateLimits(None, limit), RateLimits(None, limit)
    reservation = estimated.reserve(reserved, 0.0, NEVER)
    assert reservation is not None
    assert estimated.wait(reservation, 0.0) == 0.0
    estimated.settle(reservation, used)
    send_at(known, used, 0.0)
    assert send_at(estimated, 300, 1.0) == send_at(known, 300, 1.0)


def test_more_tokens_than_reserved_make_the_next_one_wait() -> None:
    budget = RateLimits(None, 100)
    first = budget.reserve(10, 0.0, NEVER)
    assert first is not None
    assert budget.wait(first, 0.0) == 0.0
    planned = budget.reserve(50, 0.0, NEVER)
    assert planned is not None
    budget.settle(first, 5000)
    assert budget.wait(planned, 0.0) == 60.0


def test_a_correction_that_comes_after_its_minute_changes_nothing() -> None:
    budget = RateLimits(None, 100)
    first = budget.reserve(100, 0.0, NEVER)
    assert first is not None
    assert budget.wait(first, 0.0) == 0.0
    assert send_at(budget, 100, 60.0) == 60.0
    budget.settle(first, 0)
    assert send_at(budget, 1, 61.0) == 120.0


@given(requests=limits, tokens=limits, calls=wanted, refused=st.integers(0, 500))
def test_what_nobody_waits_for_leaves_nothing_behind(
    requests: float, tokens: float, calls: Sent, refused: int
) -> None:
    with_it, without_it = RateLimits(requests, tokens), RateLimits(requests, tokens)
    assert send_together(with_it, calls) == send_together(without_it, calls)
    now = sum(pause for pause, _ in calls)
    assert with_it.reserve(refused, now, 0.0) is None
    assert send_at(with_it, 1, now) == send_at(without_it, 1, now)


def test_a_cancelled_reservation_makes_room() -> None:
    budget = RateLimits(None, 100)
    cancelled = budget.reserve(80, 0.0, NEVER)
    assert cancelled is not None
    budget.cancel(cancelled)
    assert send_at(budget, 100, 0.0) == 0.0


def test_a_reservation_above_the_limit_counts_as_the_limit() -> None:
    budget = RateLimits(None, 100)
    assert [send_at(budget, amount, 0.0) for amount in (300, 0, 1)] == [0.0, 0.0, 60.0]


def test_a_limit_below_one_is_one_in_a_longer_window() -> None:
    budget = RateLimits(0.5, None)
    assert [send_at(budget, 0, 0.0) for _ in range(3)] == [0.0, 120.0, 240.0]


def test_without_limits_nothing_waits() -> None:
    budget = RateLimits(None, None)
    assert [send_at(budget, 10**9, 0.0) for _ in range(100)] == [0.0] * 100


def test_a_clock_that_goes_back_gives_nothing() -> None:
    budget = RateLimits(1, None)
    assert [send_at(budget, 0, now) for now in (10.0, 10.0, 5.0)] == [10.0, 70.0, 130.0]


def test_memory_is_bounded_and_the_limit_is_kept() -> None:
    budget = RateLimits(1_000_000, 10**9)
    sent = []
    for number in range(20_000):  # 200 s of 100 requests a second
        now = number / 100
        assert send_at(budget, 7, now) == now
        sent.append(now)
    for limit in (budget._requests, budget._tokens):
        assert limit is not None
        for log in (limit.planned, limit.sent):
            assert len(log._entries) <= 2 * _limits._MAX_ENTRIES + 1
            assert 6000 <= log._total / (7 if limit is budget._tokens else 1) <= 6010


def test_entries_that_were_joined_still_keep_the_limit() -> None:
    budget = RateLimits(3000, None)
    times = [send_at(budget, 0, number / 100) for number in range(9000)]
    assert all(later >= time + MINUTE for time, later in zip(times, times[3000:], strict=False))
    # At best they go out in three groups of 30 s each; joined entries cost a tenth of a second.
    assert times[3000] < 60.1
    assert times[-1] < 150.1


# The limits of one call.


def test_a_call_that_ends_before_its_request_frees_its_place() -> None:
    limits = RateLimits(1, None)
    sent, left = CallLimits(limits), CallLimits(limits)
    assert sent.wait(1, 0.0, NEVER) == 0
    assert left.wait(1, 0.0, NEVER) == MINUTE
    left.close()
    sent.close()  # it was sent, so it still counts
    assert CallLimits(limits).wait(1, 0.0, NEVER) == MINUTE


def test_a_call_that_would_wait_too_long_frees_its_place() -> None:
    limits = RateLimits(None, 100)
    late = CallLimits(limits)
    assert CallLimits(limits).wait(100, 0.0, NEVER) == 0
    assert late.wait(100, 0.0, 59.0) is None
    assert late.wait(100, 1.0, NEVER) == 59.0


def test_each_attempt_of_a_call_is_settled() -> None:
    limits = RateLimits(None, 100)
    call = CallLimits(limits)
    assert call.wait(90, 0.0, NEVER) == 0
    call.settle(10)
    call.settle(0)  # once only
    assert call.wait(90, 1.0, NEVER) == 0
    call.settle(90)
    assert CallLimits(limits).wait(1, 2.0, NEVER) == 58.0


def test_limits_hold_for_many_threads() -> None:
    limits = RateLimits(50, 5000)
    sent: list[int] = []

    def run() -> None:
        for _ in range(40):
            call = CallLimits(limits)
            if call.wait(10, 0.0, 1.0) == 0:
                call.settle(100)
                sent.append(1)
            call.close()

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(sent) == 50


def test_a_forked_child_does_not_wait_for_a_lock_of_its_parent() -> None:
    limits = RateLimits(10, None)
    with limits._lock:  # as if another thread held it
        child = os.fork()
        if child == 0:
            os._exit(0 if CallLimits(limits).wait(1, 0.0, NEVER) == 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
