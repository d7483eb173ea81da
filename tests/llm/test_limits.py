"""The limits that a client sets itself: never passed, and no longer waited for than needed."""

from itertools import accumulate, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coreason_client.llm._limits import Limits

MINUTE = 60.0
SLACK = 1e-6

limits = st.one_of(st.integers(1, 100), st.floats(0.25, 500, allow_nan=False, allow_infinity=False))
pauses = st.one_of(st.just(0.0), st.just(0.0), st.floats(0, 200, allow_nan=False))
wanted = st.lists(st.tuples(pauses, st.integers(0, 300)), min_size=1, max_size=25)
Sent = list[tuple[float, int]]


def send(budget: Limits, calls: list[tuple[float, int]]) -> Sent:
    """When each call goes out, with its tokens, if each is made so long after the one before."""
    moments = accumulate(pause for pause, _ in calls)
    return [
        (now + budget.reserve(tokens, now), tokens)
        for now, (_, tokens) in zip(moments, calls, strict=True)
    ]


def assert_kept(limit: float, amounts: Sent) -> None:
    """In every minute there is no more than the limit and one bucket, or one call beyond it."""
    for index, (start, first) in enumerate(amounts):
        within = sum(
            amount for moment, amount in amounts[index:] if moment < start + MINUTE - SLACK
        )
        assert within <= max(limit, first) + limit + SLACK * within


@given(limits, wanted)
def test_no_minute_has_more_requests_than_allowed(limit: float, calls: Sent) -> None:
    assert_kept(limit, [(moment, 1) for moment, _ in send(Limits(limit, None), calls)])


@given(limits, wanted)
def test_no_minute_has_more_tokens_than_allowed(limit: float, calls: Sent) -> None:
    assert_kept(limit, send(Limits(None, limit), calls))


@given(limits, limits, wanted)
@example(10, 100, [(0.0, 0)] * 110 + [(0.0, 50)] * 20)  # tokens saved up in a queue of requests
@example(10, 100, [(0.0, 1000)] + [(0.0, 0)] * 40)  # requests saved up behind many tokens
def test_both_limits_are_kept_together(requests: float, tokens: float, calls: Sent) -> None:
    sent = send(Limits(requests, tokens), calls)
    assert_kept(requests, [(moment, 1) for moment, _ in sent])
    assert_kept(tokens, sent)


@given(st.none() | limits, st.none() | limits, wanted)
def test_calls_go_out_in_the_order_in_which_they_were_made(
    requests: float | None, tokens: float | None, calls: Sent
) -> None:
    moments = [moment for moment, _ in send(Limits(requests, tokens), calls)]
    assert all(later >= earlier - SLACK for earlier, later in pairwise(moments))


@given(limits, wanted)
def test_a_wait_is_as_long_as_it_must_be(limit: float, calls: Sent) -> None:
    """Against a bucket that is filled by the minute, in the time in which the calls go out."""
    level, at = float(limit), 0.0
    for moment, amount in send(Limits(None, limit), calls):
        level = min(level + (moment - at) * limit / MINUTE, max(limit, amount)) - amount
        at = moment
        assert level >= -SLACK * max(1.0, limit, amount)
    total = sum(amount for _, amount in calls)
    last_made = sum(pause for pause, _ in calls)
    assert at <= last_made + max(0.0, total - limit) * MINUTE / limit + SLACK * max(1.0, at)


def test_what_fits_the_bucket_does_not_wait() -> None:
    budget = Limits(3, None)
    assert [budget.reserve(0, 100.0) for _ in range(5)] == [0.0, 0.0, 0.0, 20.0, 40.0]
    assert budget.reserve(0, 1000.0) == 0.0


def test_a_call_larger_than_the_bucket_is_let_through_in_its_time() -> None:
    budget = Limits(None, 100)
    assert budget.reserve(300, 0.0) == 120.0
    assert budget.reserve(0, 120.0) == 0.0
    assert budget.reserve(50, 120.0) == 30.0


def test_neither_idle_time_nor_what_is_given_back_saves_up_more_than_a_bucket() -> None:
    idle, generous = Limits(None, 100), Limits(None, 100)
    assert idle.reserve(0, 0.0) == 0.0
    assert idle.reserve(300, 1000.0) == 120.0
    generous.used(1000, 0)
    assert generous.reserve(300, 0.0) == 120.0


def test_a_limit_below_one_a_minute_lets_the_first_wait_its_share() -> None:
    budget = Limits(0.5, None)
    assert [budget.reserve(0, 0.0), budget.reserve(0, 60.0)] == [60.0, 120.0]


def test_without_limits_nothing_waits() -> None:
    budget = Limits(None, None)
    assert [budget.reserve(10**9, 0.0) for _ in range(100)] == [0.0] * 100
    budget.give_back(10**9)
    budget.used(10**9, 0)


@given(limits, limits, wanted, pauses, st.integers(0, 5000), st.integers(0, 300))
@example(10, 100, [(0.0, 0)], 0.0, 5000, 1)  # refused for its tokens, the requests go on
def test_a_reservation_that_is_given_back_leaves_nothing_behind(
    requests: float, tokens: float, calls: Sent, pause: float, refused: int, after: int
) -> None:
    with_it, without_it = Limits(requests, tokens), Limits(requests, tokens)
    now = sum(before for before, _ in calls) + pause
    assert send(with_it, calls) == send(without_it, calls)
    with_it.reserve(refused, now)
    with_it.give_back(refused)
    expected = without_it.reserve(after, now)
    assert with_it.reserve(after, now) == pytest.approx(expected, rel=1e-6, abs=1e-3)


@given(limits, st.integers(0, 300), st.integers(0, 300))
def test_what_was_really_used_counts(limit: float, reserved: int, used: int) -> None:
    estimated, known = Limits(None, limit), Limits(None, limit)
    estimated.reserve(reserved, 0.0)
    estimated.used(reserved, used)
    known.reserve(used, 0.0)
    assert estimated.reserve(300, 0.0) == pytest.approx(known.reserve(300, 0.0), abs=1e-6)


def test_giving_back_never_fills_more_than_the_bucket() -> None:
    budget = Limits(2, 100)
    for _ in range(10):
        budget.used(100, 0)
        budget.give_back(100)
    assert [budget.reserve(50, 0.0) for _ in range(3)] == [0.0, 0.0, 30.0]


def test_a_clock_that_stands_still_or_goes_back_gives_nothing() -> None:
    budget = Limits(1, None)
    assert [budget.reserve(0, now) for now in (10.0, 10.0, 5.0)] == [0.0, 60.0, 120.0]
