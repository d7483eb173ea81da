"""The progress of a delivery, and the times of its attempts."""

from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.a2a._push._notifications import Notification
from coreason_client.server.a2a._push._progress import (
    GIVE_UP_SECONDS,
    GONE,
    MAX_DELAY,
    DeliveryProgress,
    retry_delay,
)
from coreason_client.server.a2a._reading import EventPosition

POSITIONS = st.one_of(st.none(), st.builds(EventPosition, st.integers(0, 9), st.integers(0, 10**9)))
PROGRESS = st.builds(
    DeliveryProgress,
    POSITIONS,
    st.integers(0, 10**9),
    st.integers(0, 10**6),
    st.one_of(st.none(), st.floats(0, 1e12)),
    st.booleans(),
    st.booleans(),
)


@given(PROGRESS)
def test_progress_is_stored(progress: DeliveryProgress) -> None:
    assert DeliveryProgress.load(progress.dump()) == progress


@given(PROGRESS, POSITIONS, st.integers(0, 10**9))
def test_a_success_never_goes_back(
    progress: DeliveryProgress, position: EventPosition | None, generation: int
) -> None:
    after = progress.delivered(Notification(b"", position, generation))
    assert after.generation >= progress.generation
    assert after.position == (position or progress.position or EventPosition(0, 0))
    assert (after.failures, after.failing_since) == (0, None)


def test_failures_are_counted_from_the_first_one() -> None:
    first = DeliveryProgress().failed(100.0)
    second = first.failed(200.0, 500)
    assert (second.failures, second.failing_since, second.disabled) == (2, 100.0, False)
    assert second.delivered(Notification(b"", None, 1)).failed(300.0).failing_since == 300.0


def test_after_a_day_of_failures_it_is_disabled() -> None:
    failing = DeliveryProgress().failed(100.0)
    assert not failing.failed(100.0 + GIVE_UP_SECONDS - 1).disabled
    assert failing.failed(100.0 + GIVE_UP_SECONDS).disabled


def test_a_webhook_that_is_gone_is_disabled_at_once() -> None:
    assert DeliveryProgress().failed(1.0, GONE).disabled
    assert not DeliveryProgress().failed(1.0, 404).disabled  # a deployment may bring it back


def test_what_may_have_been_received_ends_with_the_next_event_or_the_last_group() -> None:
    progress = DeliveryProgress(EventPosition(1, 2), 3)
    assert progress.boundary == 4
    begun = progress.begun(Notification(b"", None, 9, merged=True))
    assert begun.boundary == 9
    assert begun.delivered(Notification(b"", None, 9)).boundary == 10
    assert DeliveryProgress.load(begun.dump()) == begun
    before = b"[[1,2],3,0,null,false,false]"  # as an earlier release stored it
    assert DeliveryProgress.load(before) == progress


def test_idle_and_starting_over() -> None:
    progress = DeliveryProgress(EventPosition(1, 2), 3)
    assert progress.paused(idle=True).idle
    assert progress.paused(idle=True).paused(idle=False) == progress
    assert progress.started_over() == DeliveryProgress(None, 0)
    kept = DeliveryProgress(EventPosition(1, 2, 77), 3)
    assert DeliveryProgress.load(kept.dump()) == kept


@given(st.integers(1, 10**6), st.floats(0, 1), st.one_of(st.none(), st.floats(0, 1e9)))
def test_a_delay_is_bounded(failures: int, jitter: float, asked: float | None) -> None:
    delay = retry_delay(failures, asked, lambda: jitter)
    assert 0.5 <= delay <= (MAX_DELAY if asked is None else 3600.0)
    if asked is not None:
        assert delay >= min(asked, 3600.0)


@given(st.integers(1, 100), st.floats(0, 1), st.floats(0, 1))
def test_delays_grow(failures: int, one: float, two: float) -> None:
    first, second = (
        retry_delay(failures, None, lambda: one),
        retry_delay(failures + 1, None, lambda: two),
    )
    assert second >= first or first > MAX_DELAY / 2
    assert retry_delay(failures, None, lambda: 0) == min(2.0 ** (failures - 1), MAX_DELAY)


def test_a_day_has_a_limited_number_of_attempts() -> None:
    now, progress = 0.0, DeliveryProgress()
    while not (progress := progress.failed(now)).disabled:
        now += retry_delay(progress.failures, None, lambda: 0.5)
    assert 250 < progress.failures < 450
    assert now >= GIVE_UP_SECONDS
