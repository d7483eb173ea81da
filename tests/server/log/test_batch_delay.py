"""The calls that are held back for a moment, and those that never are."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.log._worker import BatchDelay

WORK = 0.0003


def simulate(arrivals: list[float]) -> tuple[int, float]:
    """Serve arrivals in batches; return how many batches it took, and the longest wait."""
    gather, now, batches, longest = BatchDelay(0.002), 0.0, 0, 0.0
    queue = sorted(arrivals)
    while queue:
        now = max(now, queue[0])
        now += gather.remaining(now)
        gather.batch_started(now)
        batch = [at for at in queue if at <= now]
        queue = queue[len(batch) :]
        longest = max(longest, *(now - at for at in batch))
        now += WORK
        batches += 1
        gather.batch_finished(more_waiting=bool(queue) and queue[0] <= now)
    return batches, longest


def test_independent_callers_share_batches() -> None:
    chance = Random(1)
    batches, longest = simulate([chance.random() for _ in range(2000)])  # 2,000 in a second
    assert batches < 1000
    assert longest <= 0.002 + WORK


def test_a_caller_that_waits_for_its_result_is_not_held_back() -> None:
    gather, now = BatchDelay(0.002), 0.0
    for _ in range(100):
        assert gather.remaining(now) == 0.0
        gather.batch_started(now)
        now += WORK
        gather.batch_finished(more_waiting=False)  # it comes again only now


def test_the_habit_is_lost_when_the_others_have_gone() -> None:
    gather = BatchDelay(0.002)
    for _ in range(50):
        gather.batch_started(0.0)
        gather.batch_finished(more_waiting=True)
    assert gather.remaining(0.0) == 0.002
    for _ in range(30):
        gather.batch_started(0.0)
        gather.batch_finished(more_waiting=False)
    assert gather.remaining(0.0) == 0.0


@given(st.lists(st.booleans(), max_size=50), st.floats(0, 1e6), st.floats(0, 1))
def test_nobody_is_held_back_for_longer_than_the_moment(
    noted: list[bool], now: float, later: float
) -> None:
    gather = BatchDelay(0.002)
    for waiting in noted:
        gather.batch_started(now)
        gather.batch_finished(more_waiting=waiting)
    assert 0.0 <= gather.remaining(now + later) <= 0.002001
    if later > 0.003:
        assert gather.remaining(now + later) == 0.0
