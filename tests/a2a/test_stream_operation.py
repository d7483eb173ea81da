"""The request of the next connection of a stream."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.a2a._stream_state import StreamOperation

MESSAGE = {"message": {"messageId": "m", "taskId": "t"}}


@pytest.mark.parametrize(
    ("name", "params", "task", "attaches"),
    [
        ("send_message_stream", MESSAGE, "t", False),
        ("send_message_stream", {"message": {}}, None, False),
        ("send_message", {}, None, False),
        ("resubscribe", {"id": "t"}, "t", True),
        ("get_task", {"id": "t"}, "t", True),
    ],
)
def test_the_first_operation(
    name: str, params: dict[str, Any], task: str | None, attaches: bool
) -> None:
    operation = StreamOperation(name, params)
    assert (operation.name, operation.params) == (name, params)
    assert (operation.known_task, operation.attaches) == (task, attaches)
    assert operation.can_resume is attaches
    operation.begun = True
    assert operation.can_resume


def test_subscribing_keeps_the_cursor_and_fetching_drops_it() -> None:
    operation = StreamOperation("send_message_stream", MESSAGE)
    assert not operation.subscribes
    assert not operation.fetches
    operation.last_event_id = b"7"
    operation.subscribe("t")
    assert (operation.name, operation.params, operation.cursor) == ("resubscribe", {"id": "t"}, "7")
    assert operation.subscribes
    assert not operation.fetches
    operation.fetch("t")
    assert (operation.name, operation.params, operation.cursor) == ("get_task", {"id": "t"}, None)
    assert operation.fetches
    assert not operation.subscribes
    assert not operation.attaches  # how the stream began does not change


@pytest.mark.parametrize(
    ("status", "first", "second"),
    [
        (404, True, True),
        (500, True, True),
        (200, True, True),
        *((status, False, True) for status in (408, 425, 429, 502, 503, 504)),
    ],
)
def test_a_busy_server_is_asked_once_more(status: int, first: bool, second: bool) -> None:
    operation = StreamOperation("resubscribe", {"id": "t"})
    for expected in (first, second):
        operation.count_rejection()
        assert operation.is_rejected_for_good(status) is expected
    operation.reset_rejections()
    operation.count_rejection()
    assert operation.is_rejected_for_good(status) is first


@given(st.lists(st.sampled_from(["refuse", "reset", "fetch", "subscribe"])))
def test_refusals_are_counted_in_a_row(steps: list[str]) -> None:
    operation = StreamOperation("resubscribe", {"id": "t"})
    refusals = 0
    for step in steps:
        match step:
            case "refuse":
                operation.count_rejection()
                refusals += 1
            case "reset":
                operation.reset_rejections()
                refusals = 0
            case _:
                getattr(operation, step)("t")
                assert operation.fetches is (step == "fetch")
        assert operation.is_rejected_for_good(503) is (refusals > 1)
        assert operation.is_rejected_for_good(404)
