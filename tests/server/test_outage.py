"""The reports about a job that fails again and again, at made-up times."""

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server._outage import Outage


def test_the_first_failure_one_a_minute_and_the_recovery() -> None:
    outage = Outage()
    assert outage.worked(0.0) is None
    reported = [at for at in range(10, 200, 3) if outage.failed(float(at))]
    assert reported == [10, 70, 130, 190]
    assert outage.lasted(200.0) == 190.0
    assert outage.worked(201.0) == 191.0
    assert outage.lasted(202.0) == 0.0
    assert outage.worked(203.0) is None
    assert outage.failed(204.0)  # a new one is reported at once


@given(st.lists(st.tuples(st.floats(0, 50), st.booleans()), max_size=100))
def test_each_outage_has_a_beginning_and_an_end(steps: list[tuple[float, bool]]) -> None:
    outage, reports, failing = Outage(), [0.0], False
    times = accumulate(pause for pause, _ in steps)
    for at, (_, works) in zip(times, steps, strict=True):
        if works:
            assert (outage.worked(at) is not None) is failing
        elif outage.failed(at):
            assert not failing or at - reports[-1] >= 60
            reports.append(at)
        else:
            assert failing
            assert at - reports[-1] < 60
        failing = not works
        assert (outage.since is not None) is failing
