"""The reports about an event loop, at made-up times."""

from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.engine._watchdog import Blocked, LoopWatch, NotRun, Report, Unblocked


def looks(watch: LoopWatch, *, until: float, every: float = 0.25) -> list[Report]:
    """Look on time until then, from 0 on."""
    found: list[Report] = []
    for number in range(1, round(until / every) + 1):
        found += watch.check(number * every, 0.0, 0.0)
    return found


def test_a_loop_that_answers_is_not_reported() -> None:
    watch = LoopWatch()
    for second in range(100):
        watch.record_probe(float(second))
        watch.record_answer(second + 0.9)
        assert watch.check(second + 0.9, 0.0, 0.0) == []
        assert not watch.probing
    assert watch.check(200.0, 0.0, 0.0) == []


def test_a_blocked_loop_is_reported_at_growing_intervals_and_once_at_the_end() -> None:
    watch = LoopWatch()
    watch.record_probe(0.0)
    reports = looks(watch, until=200.0)
    assert reports == [Blocked(at) for at in (1, 5, 15, 30, 60, 120, 180)]
    watch.record_answer(201.5)
    assert watch.check(202.0, 0.0, 0.0) == [Unblocked(201.5)]
    assert watch.check(203.0, 0.0, 0.0) == []
    watch.record_probe(203.0)
    assert watch.check(204.0, 0.0, 0.0) == [Blocked(1.0)]  # the next one starts anew


def test_a_process_that_did_not_run_is_no_blocked_loop() -> None:
    watch = LoopWatch()
    watch.record_probe(0.0)
    [report] = watch.check(30.25, 30.0, 0.1)
    assert report == NotRun(30.0, 0.1)
    assert not report.busy
    assert watch.unresponsive_for(30.25) == 30.25  # but its leases are as old as that
    assert watch.blocked_for(30.25) == 0.25
    watch.record_answer(30.26)
    assert watch.check(30.5, 0.0, 0.0) == []


def test_native_code_that_computes_is_told_from_a_stopped_process() -> None:
    [report] = LoopWatch().check(3.25, 3.0, 2.9)
    assert isinstance(report, NotRun)
    assert report.busy


def test_a_late_look_is_taken_off_the_time_of_a_block() -> None:
    watch = LoopWatch()
    watch.record_probe(0.0)
    assert watch.check(10.0, 9.75, 0.0) == [NotRun(9.75, 0.0)]
    assert watch.check(10.75, 0.0, 0.0) == [Blocked(1.0)]
    watch.record_answer(12.0)
    assert watch.check(12.0, 0.0, 0.0) == [Unblocked(2.25)]


def test_a_reset_forgets_the_question() -> None:
    watch = LoopWatch()
    watch.record_probe(0.0)
    watch.reset()
    watch.record_answer(5.0)  # to a question that is no longer open
    assert (watch.check(6.0, 0.0, 0.0), watch.unresponsive_for(6.0)) == ([], 0.0)


@given(st.lists(st.tuples(st.floats(0.01, 40), st.floats(0, 40), st.booleans()), max_size=60))
def test_each_block_that_is_reported_ends_once(steps: list[tuple[float, float, bool]]) -> None:
    """Whatever happens: no more is blocked than has passed, and each block has one end."""
    watch, now, asked_at, reported = LoopWatch(), 0.0, 0.0, False
    for pause, late, answers in steps:
        if not watch.probing:
            watch.record_probe(now)
            asked_at, reported = now, False
        now += pause + late
        if answers:
            watch.record_answer(now)
        for report in watch.check(now, late, 0.0):
            if isinstance(report, Blocked):
                reported = True
                assert 1.0 <= report.seconds <= now - asked_at
            elif isinstance(report, Unblocked):
                assert reported
                assert answers
                assert 0.0 <= report.seconds <= now - asked_at
            else:
                assert report.seconds == late >= 1.0
        assert watch.probing is not answers


def test_a_look_that_is_late_after_the_answer_does_not_shorten_what_was_reported() -> None:
    watch = LoopWatch()
    watch.record_probe(0.0)
    assert watch.check(1.0, 0.0, 0.0) == [Blocked(1.0)]
    watch.record_answer(1.01)
    assert watch.check(1.5, 0.25, 0.0) == [Unblocked(1.0)]
