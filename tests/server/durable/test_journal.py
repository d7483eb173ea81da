"""The journal of a stream, folded from its notes."""

import pytest

from coreason_client.server.durable._journal import Journal, Restarts, is_inside
from coreason_client.server.durable._notes import (
    Begun,
    Checkpoint,
    Done,
    Failed,
    FirstPacket,
    Note,
    Policy,
    Released,
    Rewound,
    Started,
)


def begun(path: str, first_seq: int | None = None, policy: Policy = "rerun") -> Begun:
    return Begun(path, policy, "function", "arguments", first_seq)


def done(path: str, last_seq: int | None = None) -> Done:
    return Done(path, "result", 1, last_seq)


@pytest.mark.parametrize(
    ("path", "outer", "inside"),
    [
        ("a#1", "", True),
        ("", "", False),
        ("a#1/b#1", "a#1", True),
        ("a#1/b#1/c#1", "a#1", True),
        ("a#1", "a#1", False),
        ("a#11", "a#1", False),
        ("a#1", "a#1/b#1", False),
    ],
)
def test_a_step_is_inside_the_steps_around_it(path: str, outer: str, inside: bool) -> None:
    assert is_inside(path, outer) is inside


def test_a_step_is_known_by_what_was_noted_last() -> None:
    journal = Journal([begun("a#1", None, "resume"), FirstPacket("a#1", 3), Checkpoint("a#1", "c")])
    step = journal.steps["a#1"]
    assert (step.first_seq, step.checkpoint, step.done) == (3, "c", None)
    journal.add(done("a#1", 5))
    assert step.last_seq == 5
    journal.add(Done("a#1", "cancelled", last_seq=5))  # while its result was being stored
    assert step.done is not None
    assert step.done.outcome == "cancelled"
    assert journal.count == 5


@pytest.mark.parametrize("note", [FirstPacket("a#1", 3), Checkpoint("a#1", 1), done("a#1")])
def test_a_note_about_an_unknown_step_is_refused(note: Done) -> None:
    with pytest.raises(ValueError, match="no beginning of the step a#1"):
        Journal([note])


def test_writers_are_the_unfinished_steps_that_have_written_from_the_outside_in() -> None:
    journal = Journal(
        [begun("a#1/b#1", 4), begun("a#1", 2), begun("c#1"), begun("d#1", 1), done("d#1", 1)]
    )
    assert journal.writers() == ["a#1", "a#1/b#1"]


def test_a_rewind_makes_packets_void_and_forgets_the_unfinished_steps_among_them() -> None:
    journal = Journal(
        [begun("a#1", 2), begun("a#1/b#1", 3), done("a#1/b#1", 3), begun("a#1/c#1", 5)]
    )
    journal.add(begun("a#1/d#1", None, "fail"))
    journal.add(Rewound("a#1", 4, 6))
    assert [seq for seq in range(1, 9) if journal.is_void(seq)] == [5, 6]
    assert list(journal.steps) == ["a#1", "a#1/b#1", "a#1/d#1"]


@pytest.mark.parametrize(
    ("seq", "names"),
    [
        (6, ["again#1"]),
        (5, ["again#1"]),
        (4, ["once#1", "again#1"]),
        (2, ["done#1", "once#1", "again#1"]),
    ],
)
def test_the_steps_that_wrote_after_a_packet(seq: int, names: list[str]) -> None:
    """One that runs may write more, so it counts as long as it has written at all."""
    journal = Journal(
        [
            begun("a#1", 2),
            *(begun("a#1/done#1", 3), done("a#1/done#1", 3)),
            *(begun("a#1/once#1", 5, "fail"), done("a#1/once#1", 5)),
            begun("a#1/again#1", 6),
            begun("a#1/silent#1"),
            begun("b#1", 7),
        ]
    )
    assert [step.path.partition("/")[2] for step in journal.wrote_inside("a#1", seq)] == names


# Restarts.


def test_a_restart_without_progress_counts() -> None:
    restarts = Restarts()
    for number in range(1, 4):
        assert restarts.may_start(3)
        restarts.started(7)
        restarts.reached(7)
        assert restarts.failed == number
    assert not restarts.may_start(3)


def test_a_packet_or_a_finished_step_is_progress() -> None:
    restarts = Restarts()
    restarts.started(0)
    restarts.started(0)
    assert restarts.failed == 2
    restarts.reached(1)
    assert restarts.failed == 0
    restarts.started(1)
    restarts.step_ended()
    assert (restarts.failed, restarts.total) == (0, 3)


def test_the_first_restart_follows_the_progress_of_the_first_run() -> None:
    restarts = Restarts()
    restarts.reached(5)
    assert restarts.failed == 0
    restarts.started(5)
    assert restarts.failed == 1


def test_restarts_are_limited_in_all() -> None:
    restarts = Restarts()
    for number in range(20):
        assert restarts.may_start(3)
        restarts.started(number)
        assert (restarts.failed, restarts.total) == (1, number + 1)
    restarts.reached(20)
    assert (restarts.failed, restarts.total) == (0, 20)
    assert not restarts.may_start(3)
    restarts.released()
    assert restarts.may_start(3)  # the start after a hand-over is not a restart


@pytest.mark.proves("DUR-10-restarts")
def test_a_start_after_a_hand_over_is_no_restart() -> None:
    journal = Journal([Started(2, 0), Started(3, 0), Started(4, 0), Released()])
    assert journal.restarts.handed_over
    assert journal.restarts.may_start(3)
    journal.add(Started(5, 0))
    assert (journal.attempt, journal.restarts.total, journal.restarts.failed) == (5, 3, 3)
    assert not journal.restarts.may_start(3)


@pytest.mark.parametrize(("last_seq", "errors", "failed"), [(3, 1, 1), (4, 1, 0), (4, 2, 1)])
def test_transient_errors_are_not_progress(last_seq: int, errors: int, failed: int) -> None:
    journal = Journal([Started(2, 2), Failed(last_seq, errors)])
    journal.restarts.reached(last_seq)
    assert journal.restarts.failed == failed
    journal.add(Started(3, last_seq))
    assert (journal.restarts.failed, journal.restarts.total) == (failed + 1, 2)


def test_a_rewind_drops_the_checkpoints_of_void_packets() -> None:
    """The step has started over, so they do not belong to what it writes."""
    stored = [Checkpoint("a#1", f"after {seq}", seq) for seq in (1, 2, 3)]
    begin: list[Note] = [begun("a#1", 1, "resume"), Checkpoint("a#1", "alone"), *stored]
    journal = Journal([*begin, Started(2, 3), Rewound("a#1", 2, 4)])
    assert journal.steps["a#1"].checkpoint == "after 2"
    journal = Journal([*begin, Started(2, 3), Rewound("a#1", 0, 4)])
    assert journal.steps["a#1"].checkpoint is None
    again = Checkpoint("a#1", "alone again")
    journal = Journal([*begin, Started(2, 3), again, Rewound("a#1", 2, 4)])
    assert journal.steps["a#1"].checkpoint == "alone again"


def test_a_step_that_has_ended_ends_those_inside_it() -> None:
    inner = begun("a#1/b#1", 2, "fail")
    journal = Journal([begun("a#1", 1), inner, begun("a#11", 4), done("a#1", 3)])
    assert journal.writers() == ["a#11"]
    assert not journal.runs_once()
    assert journal.steps["a#1/b#1"].last_seq == 3
    journal.add(done("a#1/b#1"))  # its function went on
    assert journal.steps["a#1/b#1"].done == done("a#1/b#1")
