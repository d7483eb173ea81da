"""The turns in the record of a task."""

from uuid import uuid4

import pytest

from coreason_client.server.a2a._turns import TurnRef, dump_turns, may_join, timestamp, turns_of
from coreason_client.server.log.tasks import TaskRecord

TURNS = [TurnRef(uuid4(), uuid4(), uuid4(), float(number)) for number in (1, 2)]


def record(state: str = "TASK_STATE_WORKING") -> TaskRecord:
    return TaskRecord(uuid4(), "one", "c", state, 100.0, dump_turns(TURNS))


def test_turns_are_read_as_they_were_written() -> None:
    assert list(turns_of(record())) == TURNS


@pytest.mark.parametrize(
    ("state", "now", "turn", "joins"),
    [
        ("TASK_STATE_WORKING", 900.0, 1, True),
        ("TASK_STATE_INPUT_REQUIRED", 900.0, 1, True),
        ("TASK_STATE_INPUT_REQUIRED", 900.0, 0, True),
        ("TASK_STATE_COMPLETED", 160.0, 1, True),
        ("TASK_STATE_COMPLETED", 160.1, 1, False),
        ("TASK_STATE_WORKING", 101.0, 0, False),  # not its last turn
    ],
)
def test_a_message_that_is_sent_again(state: str, now: float, turn: int, joins: bool) -> None:
    assert may_join(record(state), TURNS[turn].key, now) is joins


def test_a_time_is_utc() -> None:
    assert timestamp(1.5) == "1970-01-01T00:00:01.500Z"
