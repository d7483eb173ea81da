"""The step that may write now."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.durable._journal import BODY, Writers, is_inside


def test_a_step_that_has_written_is_the_only_writer_until_it_ends() -> None:
    writers = Writers()
    assert writers.may_write(BODY)
    assert writers.may_write("a#1")
    assert writers.wrote("a#1")
    assert not writers.wrote("a#1")  # only the first packet
    assert [writers.may_write(path) for path in ("a#1", "b#1", BODY)] == [True, False, False]
    assert not writers.ended("b#1")
    assert writers.ended("a#1")
    assert writers.may_write("b#1")
    assert writers.may_write(BODY)


def test_steps_inside_the_writer_may_write_under_the_same_rule() -> None:
    writers = Writers(["a#1"])
    assert writers.may_write("a#1/b#1")
    assert writers.wrote("a#1/b#1")
    assert not writers.may_write("a#1")
    assert not writers.may_write("a#1/c#1")
    assert writers.ended("a#1/b#1")
    assert writers.current == "a#1"


def test_the_outermost_step_that_holds_a_writer_up_is_known() -> None:
    writers = Writers(["a#1", "a#1/b#1", "a#1/b#1/c#1"])
    assert writers.blocker("d#1") == "a#1"
    assert writers.blocker("a#1/e#1") == "a#1/b#1"
    assert writers.blocker("a#1") == "a#1/b#1"
    assert writers.blocker("a#1/b#1/c#1") == BODY


def test_after_a_rewind_the_steps_inside_the_step_hold_nothing() -> None:
    writers = Writers(["a#1", "a#1/b#1", "a#1/b#1/c#1"])
    writers.rewound("a#1")
    assert writers.may_write("a#1")
    assert writers.current == "a#1"
    silent = Writers(["a#1/b#1"])  # the step itself has not written
    silent.rewound("a#1")
    assert silent.current == BODY


def test_the_end_of_a_step_is_that_of_the_steps_inside_it() -> None:
    for writing in (["a#1", "a#1/b#1"], ["a#1/b#1", "a#1/b#1/c#1"]):
        writers = Writers(writing)  # in the second case, the step itself has not written
        assert writers.is_writing("a#1")
        assert writers.ended("a#1")
        assert writers.current == BODY
        assert not writers.is_writing("a#1")


def test_the_body_never_ends_and_holds_nothing() -> None:
    writers = Writers()
    assert not writers.wrote(BODY)
    assert not writers.ended(BODY)
    assert writers.current == BODY


PATHS = ["a#1", "a#1/b#1", "a#1/b#1/c#1", "d#1", "d#1/e#1"]


@pytest.mark.proves("DUR-5-writers")
@given(st.lists(st.tuples(st.booleans(), st.sampled_from([BODY, *PATHS])), max_size=30))
def test_the_packets_of_a_step_are_one_range(acts: list[tuple[bool, str]]) -> None:
    """Between the first packet of a step and its end, only steps inside it write."""
    writers = Writers()
    running: list[str] = []
    ended: set[str] = set()
    for writes, path in acts:
        if path in ended or any(is_inside(path, outer) for outer in ended if outer):
            continue
        if not writes:
            if not any(is_inside(inner, path) for inner in running):
                writers.ended(path)
                if path in running:
                    running.remove(path)
                if path:
                    ended.add(path)
        elif writers.may_write(path):
            assert all(path == outer or is_inside(path, outer) for outer in running)
            if writers.wrote(path):
                running.append(path)
