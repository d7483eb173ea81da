"""The record of one connection: its events, and whether it stayed open."""

import pytest

from coreason_client._http._types import FailureKind, TransportFailure
from coreason_client.a2a import Message, Task, TaskStatusUpdateEvent
from coreason_client.a2a._stream_state import ConnectionRecord
from coreason_client.a2a.types import Event, UnknownEvent

TASK, STATUS = Task(id="t"), TaskStatusUpdateEvent(task_id="t")
MESSAGE, UNKNOWN = Message(message_id="m"), UnknownEvent(payload={})


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("event", "shows_task"), [(TASK, True), (STATUS, True), (MESSAGE, False), (UNKNOWN, False)]
)
def test_messages_and_unknown_events_do_not_show_the_task(event: Event, shows_task: bool) -> None:
    record = ConnectionRecord(Clock())
    assert record.add(event) is shows_task
    assert record.first_event_type is type(event)
    record.add(STATUS)
    assert record.first_event_type is type(event)


@pytest.mark.parametrize(
    ("events", "progressed", "expected"),
    [([], False, False), ([TASK], False, True), ([TASK], True, False), ([MESSAGE], False, True)],
)
def test_a_connection_has_only_repeated_if_it_brought_events_and_nothing_new(
    events: list[Event], progressed: bool, expected: bool
) -> None:
    record = ConnectionRecord(Clock())
    for event in events:
        record.add(event)
    record.progressed = progressed
    assert record.only_repeated is expected


BROKEN = TransportFailure(FailureKind.BROKEN, "reset")
TIMEOUT = TransportFailure(FailureKind.TIMEOUT, "silence")
CONNECT_TIMEOUT = TransportFailure(FailureKind.CONNECT_TIMEOUT, "no connection")


@pytest.mark.parametrize(
    ("event", "seconds", "error", "stable"),
    [
        (TASK, 4.9, None, False),
        (TASK, 5.0, None, True),
        (STATUS, 5.0, BROKEN, True),
        (TASK, 4.9, BROKEN, False),
        (TASK, 0.4, TIMEOUT, True),  # the caller's own limit
        (TASK, 0.4, CONNECT_TIMEOUT, False),
        (TASK, 0.4, ValueError(), False),
        (MESSAGE, 60.0, TIMEOUT, False),
        (None, 60.0, TIMEOUT, False),
        (None, 60.0, None, False),
    ],
)
def test_a_stable_connection_showed_the_task_and_stayed_open(
    event: Event | None, seconds: float, error: Exception | None, stable: bool
) -> None:
    clock = Clock()
    record = ConnectionRecord(clock)
    if event is not None:
        record.add(event)
    clock.now += seconds
    assert record.was_stable(error) is stable
