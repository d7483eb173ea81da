"""The retry budget: how many losses in a row, how long, and with which delays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client._connections import RetryBudget
from coreason_client._retry import Backoff


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def budget(
    max_retries: int = 3, *, reconnect_for: float = 0.0, clock: Clock | None = None
) -> RetryBudget:
    return RetryBudget(
        Backoff(0.5, 30, 60),
        max_retries,
        reconnect_for=reconnect_for,
        jitter=lambda: 0.0,
        clock=clock or Clock(),
    )


@pytest.mark.parametrize("max_retries", [0, 1, 3])
def test_so_many_losses_in_a_row_are_allowed(max_retries: int) -> None:
    spent = budget(max_retries)
    delays = [spent.after_loss(None) for _ in range(max_retries + 1)]
    assert delays == [*(0.5 * 2**i for i in range(max_retries)), None]
    assert spent.failures == max_retries + 1


def test_progress_refills_everything() -> None:
    spent = budget(1)
    assert [spent.after_loss(None), spent.after_loss(None)] == [0.5, None]
    spent.refill()
    assert (spent.failures, spent.used) == (0, False)
    assert spent.after_loss(None) == 0.5


def test_retries_that_are_restored_do_not_shorten_the_delays() -> None:
    spent = budget(1)
    assert spent.after_loss(None) == 0.5
    spent.restore_retries()
    assert (spent.failures, spent.used) == (0, True)
    assert [spent.after_loss(None), spent.after_loss(None)] == [1.0, None]


def test_a_poll_costs_no_retry_and_its_delays_grow() -> None:
    spent = budget(0)
    assert [spent.before_poll() for _ in range(3)] == [0.5, 1.0, 2.0]
    assert (spent.failures, spent.used) == (0, True)


@pytest.mark.parametrize(
    ("asked", "delay"), [(None, 0.5), (0.1, 0.5), (7, 7), (60, 60), (61, None)]
)
def test_the_server_may_ask_for_a_longer_delay(asked: float | None, delay: float | None) -> None:
    assert budget().after_loss(asked) == delay
    assert budget().max_server_delay == 60


def test_a_drain_costs_nothing_ten_times() -> None:
    spent = budget(1)
    assert [spent.after_drain(None) for _ in range(11)] == [0.5] * 10 + [None]
    assert (spent.failures, spent.used) == (0, True)
    spent.refill()
    assert spent.after_drain(2.0) == 2.0
    assert budget(0).after_drain(None) is None


def test_a_stream_that_has_begun_is_not_given_up_before_its_time() -> None:
    clock = Clock()
    spent = budget(1, reconnect_for=10, clock=clock)
    assert [spent.after_loss(None), spent.after_loss(None)] == [0.5, 1.0]
    clock.now = 9.0
    assert spent.after_loss(None) == 1.0  # not 2.0: the last attempt is at the very end
    clock.now = 9.5
    assert spent.after_loss(3.0) == 3.0  # but never before the server allows it
    clock.now = 10.0
    assert spent.after_loss(None) is None


def test_a_stream_that_has_not_begun_gets_its_retries_only() -> None:
    spent = budget(1, reconnect_for=10)
    assert [spent.after_loss(None, begun=False) for _ in range(2)] == [0.5, None]


def test_the_time_starts_anew_with_progress() -> None:
    clock = Clock()
    spent = budget(0, reconnect_for=10, clock=clock)
    spent.after_loss(None)
    clock.now = 100.0
    spent.refill()
    assert spent.after_loss(None) == 0.5


def test_the_next_attempt_in_words() -> None:
    spent = budget(1, reconnect_for=10)
    assert spent.describe() == "because the server is draining"
    spent.after_loss(None)
    assert spent.describe() == "attempt 1 of at least 1"
    spent.after_loss(None)
    assert spent.describe() == "attempt 2, giving up after 10 s"


@pytest.mark.parametrize(("reconnect_for", "begun"), [(10, False), (0, True)])
def test_without_extra_time_the_number_of_attempts_is_exact(
    reconnect_for: float, begun: bool
) -> None:
    spent = budget(1, reconnect_for=reconnect_for)
    spent.after_loss(None, begun=begun)
    assert spent.describe() == "attempt 1 of 1"


@given(st.integers(0, 5), st.lists(st.sampled_from(["loss", "drain", "poll", "restore", "refill"])))
def test_whatever_happens_the_budget_is_what_its_parts_say(
    max_retries: int, steps: list[str]
) -> None:
    spent = budget(max_retries)
    failures = delays = drains = 0
    for step in steps:
        if step == "loss":
            failures, delays = failures + 1, delays + 1
            expected = min(0.5 * 2 ** (delays - 1), 30) if failures <= max_retries else None
            assert spent.after_loss(None) == expected
        elif step == "drain":
            drains += 1
            expected = 0.5 if max_retries and drains <= 10 else None
            assert spent.after_drain(None) == expected
        elif step == "poll":
            delays += 1
            assert spent.before_poll() == min(0.5 * 2 ** (delays - 1), 30)
        elif step == "restore":
            spent.restore_retries()
            failures = 0
        else:
            spent.refill()
            failures = delays = drains = 0
        assert spent.failures == failures
        assert spent.used is bool(delays or drains)
