"""The clock of the clients: real time, until a test skips waits."""

import threading
import time

import pytest

from coreason_client import _clock


def test_without_a_recorder_waits_and_time_are_real() -> None:
    assert _clock.real_seconds(1.5) == 1.5
    before = _clock.monotonic()
    assert 0 <= _clock.monotonic() - before < 5
    start = time.monotonic()
    assert _clock.monotonic() >= start


def test_a_skipped_wait_moves_the_clock_forward_for_good() -> None:
    waits: list[float] = []
    before = _clock.monotonic()
    end = _clock.record_waits(waits.append)
    assert _clock.real_seconds(100.0) == 0.0
    end()
    end()  # may be called twice
    assert waits == [100.0]
    assert _clock.monotonic() - before >= 100.0, "the clock never goes back"
    assert _clock.real_seconds(3.0) == 3.0


def test_the_clock_is_not_moved_back() -> None:
    before = _clock.monotonic()
    _clock.skip(-10)
    assert _clock.monotonic() >= before


def test_the_recorder_that_began_last_is_called() -> None:
    outer: list[float] = []
    inner: list[float] = []
    end_outer, end_inner = _clock.record_waits(outer.append), _clock.record_waits(inner.append)
    _clock.real_seconds(1)
    end_inner()
    _clock.real_seconds(2)
    end_outer()
    assert (outer, inner) == ([2], [1])


def test_no_skipped_time_is_lost_between_threads() -> None:
    before = _clock.monotonic()

    def skip_often() -> None:
        for _ in range(1000):
            _clock.skip(0.5)

    threads = [threading.Thread(target=skip_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert _clock.monotonic() - before == pytest.approx(2000, abs=20)
