"""The numbers of events: when they are used, and what they show after a loss."""

from typing import Any

import pytest

from coreason_client.a2a import (
    Artifact,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatusUpdateEvent,
)
from coreason_client.a2a._artifacts import Gap
from coreason_client.a2a._assemble import Generations


def metadata(number: Any) -> dict[str, Any] | None:
    return None if number is None else {"generation": number}


class Connection:
    """A stream of events that have nothing but numbers."""

    def __init__(self) -> None:
        self.resumed = 0
        self.generations = Generations(self._resume)
        self.agrees = True

    def _resume(self) -> None:
        self.resumed += 1

    def update(self, number: Any, event_id: str = "") -> str:
        """Apply an update; return "new", "known" or "gap"."""
        event = TaskStatusUpdateEvent(metadata=metadata(number))
        try:
            found = "known" if self.generations.repeats(event) else "new"
        except Gap:
            return "gap"
        if event_id:
            self.generations.record_id(event_id.encode())
        return found

    def task(self, number: Any, event_id: str = "", *, gapless: bool = True) -> str:
        """Apply a task; return "known", "newer" or "compare"."""
        task = Task(id="t", metadata=metadata(number))
        if self.generations.covers(task, lambda task: self.agrees):
            found = "known"
        elif self.generations.is_newer(task):
            self.generations.record_newer(task, gapless=gapless)
            found = "newer"
        else:
            found = "compare"
        if event_id:
            self.generations.record_id(event_id.encode())
        return found

    def reconnect(self, *, with_cursor: bool = False) -> None:
        self.generations.reconnect(with_cursor=with_cursor)


@pytest.fixture
def stream() -> Connection:
    """A stream that has delivered the changes 1 to 4; the cursor is at 3."""
    stream = Connection()
    assert stream.task(1, "a") == "compare"
    assert [stream.update(2, "b"), stream.update(3, "c"), stream.update(4)] == ["new"] * 3
    assert stream.generations.proved
    assert stream.resumed == 0
    return stream


# Proof


@pytest.mark.parametrize("first", [0, 1, 17, 10**18])
def test_an_update_with_the_next_number_proves_the_counting(first: int) -> None:
    stream = Connection()
    stream.task(first)
    assert not stream.generations.proved
    stream.update(first + 1)
    assert stream.generations.proved


@pytest.mark.parametrize("number", [None, 1, 3, 0, "2", 2.0, True, [2]])
def test_any_other_number_is_ignored_from_then_on(number: Any) -> None:
    stream = Connection()
    stream.task(1)
    assert [stream.update(number), stream.update(2), stream.update(3)] == ["new"] * 3
    assert not stream.generations.proved
    stream.reconnect()
    assert (stream.task(1), stream.update(1)) == ("compare", "new")
    assert stream.resumed == 0


@pytest.mark.parametrize("number", [None, 4, 6, 3])
def test_the_proof_does_not_outlive_another_number(stream: Connection, number: Any) -> None:
    assert stream.update(number) == "new"  # of the connection that sent the message all is new
    assert not stream.generations.proved


def test_a_stream_may_begin_with_an_update() -> None:
    stream = Connection()
    assert [stream.update(5), stream.update(6)] == ["new", "new"]
    assert stream.generations.proved


def test_a_task_may_skip_numbers() -> None:
    stream = Connection()
    stream.task(1)
    assert (stream.update(2), stream.task(7), stream.update(8)) == ("new", "compare", "new")
    assert stream.generations.proved
    assert stream.task(4) == "compare"  # and not go back
    assert not stream.generations.proved


@pytest.mark.parametrize("agrees", [True, False])
def test_what_was_not_proved_can_be_proved_later(agrees: bool) -> None:
    stream = Connection()
    stream.task(1, "a")
    stream.reconnect(with_cursor=True)
    stream.agrees = agrees
    assert (stream.task(1, "a"), stream.resumed) == ("compare", 0)
    assert stream.update(2) == "new"
    assert stream.generations.proved
    assert stream.resumed == int(agrees)


# After a loss


def test_a_task_with_the_last_number_continues(stream: Connection) -> None:
    stream.reconnect()
    assert (stream.task(4), stream.resumed) == ("known", 1)
    assert [stream.update(5), stream.update(6)] == ["new", "new"]


def test_a_task_with_the_last_number_and_other_content_is_compared(stream: Connection) -> None:
    stream.reconnect()
    stream.agrees = False
    assert (stream.task(4), stream.update(5)) == ("compare", "new")
    assert not stream.generations.proved


def test_what_follows_the_cursor_is_known_up_to_the_last_number(stream: Connection) -> None:
    stream.reconnect(with_cursor=True)
    stream.agrees = False  # it is the task as it was
    assert (stream.task(3), stream.resumed) == ("known", 1)
    assert [stream.update(4), stream.update(5)] == ["known", "new"]


def test_an_update_may_be_the_first_event(stream: Connection) -> None:
    stream.reconnect()
    assert (stream.update(5), stream.resumed) == ("new", 1)


def test_an_update_may_be_the_first_event_after_the_cursor(stream: Connection) -> None:
    stream.reconnect(with_cursor=True)
    assert [stream.update(4), stream.update(5)] == ["known", "new"]
    assert stream.resumed == 1


@pytest.mark.parametrize("number", [None, 1, 2, 3])
def test_a_task_that_is_older_is_compared(stream: Connection, number: Any) -> None:
    stream.reconnect()  # without a cursor, there is no reason for it
    assert (stream.task(number), stream.resumed) == ("compare", 0)
    assert stream.update(4) == "new"


@pytest.mark.parametrize("number", [None, 1, 3, 4, 6])
def test_an_update_with_another_number_is_compared(stream: Connection, number: Any) -> None:
    stream.reconnect()
    assert (stream.update(number), stream.resumed) == ("new", 0)
    assert not stream.generations.proved


def test_the_first_number_of_all_is_no_proof_at_the_cursor() -> None:
    stream = Connection()
    stream.task(1, "a")
    stream.update(2)
    stream.reconnect(with_cursor=True)
    assert (stream.task(1), stream.update(2)) == ("compare", "new")  # it may count anew


@pytest.mark.parametrize("gapless", [True, False])
def test_a_newer_task_continues_if_it_has_everything(stream: Connection, gapless: bool) -> None:
    stream.reconnect()
    assert stream.task(9, gapless=gapless) == "newer"
    assert stream.resumed == int(gapless)
    assert stream.update(9) == ("known" if gapless else "new")
    if gapless:
        assert stream.update(10) == "new"


def test_a_connection_that_continues_has_no_gap(stream: Connection) -> None:
    stream.reconnect()
    stream.task(4)
    assert [stream.update(6), stream.update(None), stream.update(5)] == ["gap", "gap", "new"]
    assert [stream.update(5), stream.update(2)] == ["known", "known"]
    assert (stream.task(5), stream.task(8), stream.update(9)) == ("known", "newer", "new")


def test_a_fetched_task_does_not_change_what_is_proved(stream: Connection) -> None:
    stream.reconnect()
    for number, newer in ((None, False), (2, False), (4, False), (5, True)):
        assert stream.generations.is_newer(Task(id="t", metadata=metadata(number))) is newer
    assert stream.generations.proved


def test_the_cursor_moves_with_the_ids() -> None:
    stream = Connection()
    stream.task(1, "a")
    stream.update(2, "b")
    stream.update(3, "b")  # an event without an id keeps the one before
    stream.reconnect(with_cursor=True)
    assert (stream.task(2, "b"), stream.update(3), stream.update(4, "d")) == (
        "known",
        "known",
        "new",
    )
    stream.reconnect(with_cursor=True)
    assert (stream.task(4), stream.update(5)) == ("known", "new")


def test_artifact_updates_have_numbers_too(stream: Connection) -> None:
    stream.reconnect()
    event = TaskArtifactUpdateEvent(
        artifact=Artifact(artifact_id="a", parts=[]), metadata={"generation": 5}
    )
    assert not stream.generations.repeats(event)
    assert stream.generations.repeats(event)
