"""A restarted agent, compared with the log and the journal of its stream."""

from typing import Any

import pytest

from coreason_client.server.durable._journal import BODY, Journal
from coreason_client.server.durable._notes import (
    Begun,
    Checkpoint,
    Done,
    Note,
    Policy,
    Rewound,
)
from coreason_client.server.durable._replay import (
    LIVE,
    SKIP,
    Finished,
    Logged,
    Replay,
    ReplayDiverged,
    Resume,
    Rewind,
    Run,
    StepUncertain,
)


def begun(path: str, first_seq: int | None = None, policy: Policy = "rerun") -> Begun:
    return Begun(path, policy, "f", "x", first_seq)


def done(path: str, last_seq: int | None = None) -> Done:
    return Done(path, "result", path, last_seq)


def replay(texts: str, *notes: Note) -> Replay:
    """Return the replay of a stream with one packet for each letter."""
    logged = [Logged(seq, "DELTA", letter) for seq, letter in enumerate(texts, 1)]
    return Replay(Journal(notes), logged)


def write(machine: Replay, owner: str, letter: str) -> Any:
    return machine.write(owner, "DELTA", letter)


def call(machine: Replay, path: str, policy: Policy = "rerun") -> Finished | Run | Resume:
    return machine.begin_step(path, policy, "f", "x")


# The body.


def test_what_is_in_the_log_is_not_written_again() -> None:
    machine = replay("ab")
    assert not machine.complete
    assert [write(machine, BODY, letter) for letter in "abc"] == [SKIP, SKIP, LIVE]
    assert machine.complete
    machine.end()


@pytest.mark.proves("DUR-compare")
@pytest.mark.parametrize(("op", "content"), [("DELTA", "x"), ("EVENT", "b"), ("DELTA", ["b"])])
def test_another_packet_of_the_body_ends_the_stream_and_is_named(op: str, content: object) -> None:
    machine = replay("ab")
    write(machine, BODY, "a")
    with pytest.raises(ReplayDiverged, match="packet 2 is another DELTA packet"):
        machine.write(BODY, op, content)


@pytest.mark.proves("DUR-6-end")
def test_an_end_before_everything_was_done_again_is_a_difference() -> None:
    machine = replay("ab")
    write(machine, BODY, "a")
    with pytest.raises(ReplayDiverged, match="packet 2 in the log was not written again"):
        machine.end()
    with pytest.raises(ReplayDiverged, match="step a#1 was not called again"):
        replay("", begun("a#1"), done("a#1")).end()


# Steps that have ended.


def test_a_step_that_has_ended_returns_its_outcome_and_its_packets_are_skipped() -> None:
    machine = replay("abcd", begun("s#1", 2), begun("s#1/t#1", 3), done("s#1/t#1", 3))
    machine = replay(
        "abcd", begun("s#1", 2), begun("s#1/t#1", 3), done("s#1/t#1", 3), done("s#1", 3)
    )
    assert write(machine, BODY, "a") is SKIP
    assert call(machine, "s#1") == Finished(done("s#1", 3))
    assert write(machine, BODY, "d") is SKIP
    assert machine.complete


@pytest.mark.proves("DUR-1-identity")
@pytest.mark.parametrize(
    ("policy", "function", "arguments", "named"),
    [
        ("rerun", "g", "x", "another function: f before, g now"),
        ("rerun", "f", "y", "other arguments"),
        ("fail", "f", "x", "another on_restart: rerun before, fail now"),
    ],
)
def test_another_call_of_the_same_step_is_a_difference(
    policy: Policy, function: str, arguments: str, named: str
) -> None:
    machine = replay("", begun("s#1"), done("s#1"))
    with pytest.raises(ReplayDiverged, match=f"the step s#1 was called with {named}"):
        machine.begin_step("s#1", policy, function, arguments)


def test_a_step_of_the_first_run_runs() -> None:
    assert call(replay("a"), "s#1") == Run(known=False)


# Steps that have not ended.


@pytest.mark.proves("DUR-policies")
def test_an_interrupted_step_runs_again_and_is_compared() -> None:
    machine = replay("abc", begun("s#1", 2))
    write(machine, BODY, "a")
    assert machine.is_missing("s#1")
    assert call(machine, "s#1") == Run(known=True)
    assert not machine.is_missing("s#1")
    assert [write(machine, "s#1", letter) for letter in "bcd"] == [SKIP, SKIP, LIVE]
    assert machine.end_step("s#1") is None


@pytest.mark.parametrize(("again", "to_seq"), [("x", 1), ("bx", 2)])
def test_from_the_first_difference_on_it_is_rewound(again: str, to_seq: int) -> None:
    machine = replay("abc", begun("s#1", 2))
    write(machine, BODY, "a")
    call(machine, "s#1")
    verdicts = [write(machine, "s#1", letter) for letter in again]
    assert verdicts[-1] == Rewind("s#1", to_seq)
    assert machine.complete
    assert write(machine, "s#1", "y") is LIVE


def test_a_step_that_writes_less_is_rewound_at_its_end() -> None:
    machine = replay("abc", begun("s#1", 2))
    write(machine, BODY, "a")
    call(machine, "s#1")
    write(machine, "s#1", "b")
    assert machine.end_step("s#1") == Rewind("s#1", 2)
    machine.end()


@pytest.mark.proves("DUR-4-nested")
def test_a_rewind_does_not_pass_a_finished_step() -> None:
    machine = replay("abc", begun("s#1", 1), begun("s#1/t#1", 2), done("s#1/t#1", 2))
    call(machine, "s#1")
    with pytest.raises(ReplayDiverged, match="the step s#1/t#1, which wrote after it, has ended"):
        write(machine, "s#1", "x")


def test_a_rewind_after_a_finished_step_is_possible() -> None:
    machine = replay("abc", begun("s#1", 1), begun("s#1/t#1", 2), done("s#1/t#1", 2))
    call(machine, "s#1")
    write(machine, "s#1", "a")
    call(machine, "s#1/t#1")
    assert write(machine, "s#1", "x") == Rewind("s#1", 2)


def test_a_second_rewind_goes_to_a_packet_that_is_still_valid() -> None:
    machine = replay("abcRd", begun("s#1", 2), Rewound("s#1", 1, 4))
    write(machine, BODY, "a")
    call(machine, "s#1")
    assert write(machine, "s#1", "x") == Rewind("s#1", 1)


def test_a_rewind_does_not_pass_a_step_that_must_run_once() -> None:
    machine = replay("ab", begun("s#1", 1), begun("s#1/pay#1", 2, "fail"))
    call(machine, "s#1")
    with pytest.raises(StepUncertain, match="s#1/pay#1"):
        write(machine, "s#1", "x")


def test_packets_that_a_rewind_made_void_are_not_compared() -> None:
    machine = replay("abXRcd", begun("s#1", 2), Rewound("s#1", 2, 4))
    write(machine, BODY, "a")
    call(machine, "s#1")
    assert [write(machine, "s#1", letter) for letter in "bcde"] == [SKIP, SKIP, SKIP, LIVE]


@pytest.mark.proves("DUR-policies")
def test_a_step_that_must_run_once_is_uncertain() -> None:
    with pytest.raises(StepUncertain, match="pay#1"):
        call(replay("", begun("pay#1", None, "fail")), "pay#1", "fail")


@pytest.mark.proves("DUR-4-nested")
def test_only_the_innermost_interrupted_step_is_uncertain_or_resumed() -> None:
    machine = replay("a", begun("pay#1", None, "fail"), begun("pay#1/ask#1", 1))
    assert call(machine, "pay#1", "fail") == Run(known=True)
    assert call(machine, "pay#1/ask#1") == Run(known=True)


@pytest.mark.proves("DUR-policies")
def test_a_step_is_resumed_with_its_packets_and_its_last_checkpoint() -> None:
    machine = replay("abc", begun("s#1", 2, "resume"), Checkpoint("s#1", 1), Checkpoint("s#1", 2))
    write(machine, BODY, "a")
    resumed = call(machine, "s#1", "resume")
    assert resumed == Resume((Logged(2, "DELTA", "b"), Logged(3, "DELTA", "c")), 2)
    assert write(machine, "s#1", "d") is LIVE
    assert machine.end_step("s#1") is None
    machine.end()


def test_a_step_that_did_not_call_its_steps_again_differs() -> None:
    machine = replay("", begun("s#1"), begun("s#1/t#1"), done("s#1/t#1"))
    call(machine, "s#1")
    with pytest.raises(ReplayDiverged, match="the step s#1/t#1 was not called again"):
        machine.end_step("s#1")


def test_a_step_that_was_interrupted_and_is_not_called_again_is_made_void() -> None:
    machine = replay("abc", begun("s#1", 1), begun("s#1/t#1", 2), begun("s#1/u#1", 3))
    call(machine, "s#1")
    write(machine, "s#1", "a")
    assert machine.end_step("s#1") == Rewind("s#1", 1)
    assert machine.complete


def test_a_step_that_wrote_nothing_and_is_not_called_again_needs_no_rewind() -> None:
    machine = replay("a", begun("s#1", 1), begun("s#1/t#1", None, "resume"))
    call(machine, "s#1")
    write(machine, "s#1", "a")
    assert machine.end_step("s#1") is None
    assert machine.complete


def test_a_step_that_must_run_once_and_is_not_called_again_is_uncertain() -> None:
    machine = replay("a", begun("s#1", 1), begun("s#1/pay#1", None, "fail"))
    call(machine, "s#1")
    write(machine, "s#1", "a")
    with pytest.raises(StepUncertain, match="s#1/pay#1"):
        machine.end_step("s#1")


@pytest.mark.parametrize("policy", ["fail", "resume"])
def test_only_a_step_that_is_run_again_may_leave_out_its_steps(policy: Policy) -> None:
    machine = replay("a", begun("s#1", None, policy), begun("s#1/t#1", 1))
    call(machine, "s#1", policy)
    with pytest.raises(ReplayDiverged, match="the step s#1/t#1 was not called again"):
        machine.end_step("s#1")


def test_a_packet_instead_of_an_interrupted_step_makes_the_step_void() -> None:
    """The step around it has no packets and is not in the journal."""
    machine = replay("ab", begun("s#1/t#1", 2))
    write(machine, BODY, "a")
    call(machine, "s#1")
    assert write(machine, "s#1", "x") is LIVE
    assert machine.write_instead("s#1", "s#1/t#1") == Rewind("s#1", 1)
    assert machine.complete


def test_a_packet_of_the_body_instead_of_a_step_is_a_difference() -> None:
    machine = replay("a", begun("s#1", 1))
    with pytest.raises(ReplayDiverged, match="the step s#1 was not called again"):
        machine.write_instead(BODY, "s#1")


# Concurrent steps.


def test_a_rewind_does_not_pass_a_step_that_runs() -> None:
    """The second output of that step would be void, and it would not write it a third time."""
    machine = replay("ab", begun("s#1", 1), begun("s#1/t#1", 2))
    call(machine, "s#1")
    call(machine, "s#1/t#1")
    write(machine, "s#1/t#1", "b")
    with pytest.raises(ReplayDiverged, match="the step s#1/t#1, which wrote after it, runs"):
        write(machine, "s#1", "x")


def test_each_owner_is_compared_with_its_own_packets() -> None:
    machine = replay("abcd", begun("s#1", 2), done("s#1", 2), begun("t#1", 3))
    call(machine, "t#1")
    assert write(machine, "t#1", "c") is SKIP
    assert write(machine, BODY, "a") is SKIP
    assert call(machine, "s#1") == Finished(done("s#1", 2))
    assert write(machine, "t#1", "d") is SKIP
    assert machine.complete


# TRANSIENT errors.

BUSY = {"code": "busy", "message": "m", "severity": "TRANSIENT"}


def with_error(texts: str, *notes: Note) -> Replay:
    """Return the replay of a stream with one packet for each letter; `!` is a TRANSIENT error."""
    logged = [
        Logged(seq, "ERROR", BUSY) if letter == "!" else Logged(seq, "DELTA", letter)
        for seq, letter in enumerate(texts, 1)
    ]
    return Replay(Journal(notes), logged)


@pytest.mark.parametrize("repeats", [True, False])
def test_an_error_need_not_come_again(repeats: bool) -> None:
    machine = with_error("a!b")
    assert write(machine, BODY, "a") is SKIP
    if repeats:
        assert machine.write(BODY, "ERROR", {**BUSY, "message": "another one"}) is SKIP
    assert write(machine, BODY, "b") is SKIP
    assert machine.complete


def test_one_after_everything_else_is_written_again() -> None:
    machine = with_error("a!")
    assert write(machine, BODY, "a") is SKIP
    assert machine.complete
    assert machine.write(BODY, "ERROR", BUSY) is LIVE


@pytest.mark.parametrize("severity", ["WARNING", "FATAL"])
def test_other_errors_are_compared(severity: str) -> None:
    machine = Replay(Journal(), [Logged(1, "ERROR", {**BUSY, "severity": severity})])
    with pytest.raises(ReplayDiverged):
        write(machine, BODY, "a")


@pytest.mark.parametrize(("path", "error"), [("s#1", BUSY), ("s#1/t#1", BUSY), ("u#1", None)])
def test_the_errors_of_a_step_that_has_ended_are_known(path: str, error: object) -> None:
    machine = with_error(
        "a!bc",
        begun("s#1", 1),
        begun("s#1/t#1", 2),
        done("s#1/t#1", 3),
        done("s#1", 3),
        begun("u#1", 4),
        done("u#1", 4),
    )
    action = call(machine, path)
    assert isinstance(action, Finished)
    assert action.error == error
