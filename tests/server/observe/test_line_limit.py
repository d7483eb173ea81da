"""The limit of log lines of one kind, at made-up times."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.observe._log_lines import LineLimit, suppressed_suffix

pauses = st.lists(st.floats(0, 3) | st.floats(0, 0.01), max_size=300)


def test_a_burst_is_cut_and_counted() -> None:
    limit = LineLimit(3)
    assert [limit.allow(10.0) for _ in range(5)] == [0, 0, 0, None, None]
    assert limit.allow(10.999) is None
    assert [limit.allow(11.0), limit.allow(11.0)] == [3, 0]


def test_lines_that_come_rarely_are_all_written() -> None:
    limit = LineLimit(1)
    assert [limit.allow(float(second)) for second in range(100)] == [0] * 100


@given(per_second=st.integers(1, 5), pauses=pauses)
def test_each_line_is_written_or_counted_once(per_second: int, pauses: list[float]) -> None:
    limit = LineLimit(per_second)
    times = list(accumulate(pauses))
    answers = [(at, limit.allow(at)) for at in times]
    written = [(at, count) for at, count in answers if count is not None]
    if times:  # a quiet time later, whatever was suppressed is reported
        last = limit.allow(times[-1] + 1.0)
        assert last is not None
        assert sum(count for _, count in written) + last == len(times) - len(written)
    # Two seconds may touch, so a burst is at most twice the limit.
    starts = [at for at, _ in written]
    for first, beyond in zip(starts, starts[2 * per_second :], strict=False):
        assert beyond - first >= 1.0 - 1e-9


@pytest.mark.parametrize("lines", [0, -1])
def test_a_limit_of_nothing_is_refused(lines: int) -> None:
    with pytest.raises(ValueError, match="lines must be at least 1, got"):
        LineLimit(lines)


def test_a_period_may_be_longer_than_a_second() -> None:
    limit = LineLimit(2, 10.0)
    assert [limit.allow(at) for at in (5.0, 6.0, 7.0, 14.9, 15.0)] == [0, 0, None, None, 2]


def test_what_a_line_says_about_those_before_it() -> None:
    assert suppressed_suffix(0) == ""
    assert suppressed_suffix(3) == " (3 more like this were not logged)"
