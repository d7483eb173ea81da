"""The parameters of the operations."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.a2a.errors import InvalidParamsError
from coreason_client.server.a2a._incoming import (
    dump_page_token,
    history_length,
    parse_listing,
    task_id_of,
)
from coreason_client.server.log.tasks import TaskPosition

ID = UUID(int=7)


def test_a_list_has_defaults() -> None:
    listing = parse_listing({})
    assert (listing.size, listing.history, listing.artifacts) == (50, None, False)
    assert (listing.context_id, listing.state, listing.changed_since, listing.after) == (None,) * 4


def test_a_list_has_what_was_asked_for() -> None:
    token = dump_page_token(TaskPosition(12.5, ID))
    listing = parse_listing(
        {
            "pageSize": 2.0,
            "contextId": "c",
            "status": "TASK_STATE_WORKING",
            "pageToken": token,
            "historyLength": 0,
            "includeArtifacts": True,
            "statusTimestampAfter": "1970-01-01T00:01:00Z",
        }
    )
    assert (listing.size, listing.context_id, listing.state) == (2, "c", "TASK_STATE_WORKING")
    assert (listing.after, listing.history, listing.artifacts) == (TaskPosition(12.5, ID), 0, True)
    assert listing.changed_since == 60.0


@given(st.floats(0, 1e10), st.uuids())
def test_a_page_token_brings_its_position_back(changed: float, task_id: UUID) -> None:
    position = TaskPosition(changed, task_id)
    assert parse_listing({"pageToken": dump_page_token(position)}).after == position


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pageSize", 0),
        ("pageSize", 101),
        ("pageSize", "5"),
        ("pageSize", True),
        ("historyLength", -1),
        ("historyLength", 1.5),
        ("status", "working"),
        ("status", 7),
        ("contextId", 7),
        ("pageToken", "%%%"),
        ("pageToken", "bm8="),
        ("pageToken", 7),
        ("statusTimestampAfter", "yesterday"),
        ("statusTimestampAfter", "2026-01-01T00:00:00"),
        ("statusTimestampAfter", 7),
    ],
)
def test_a_wrong_parameter_is_named(name: str, value: Any) -> None:
    with pytest.raises(InvalidParamsError, match=name):
        parse_listing({name: value})


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({"id": str(ID)}, ID),
        ({"id": ID.hex}, None),  # another spelling is another id
        ({"id": "x"}, None),
    ],
)
def test_the_id_of_a_task(params: dict[str, Any], found: UUID | None) -> None:
    assert task_id_of(params) == found


@pytest.mark.parametrize("params", [{}, {"id": ""}, {"id": 7}, {"id": None}])
def test_a_task_needs_an_id(params: dict[str, Any]) -> None:
    with pytest.raises(InvalidParamsError, match="id"):
        task_id_of(params)


def test_the_length_of_a_history() -> None:
    assert history_length({}) is None
    assert history_length({"historyLength": 3}) == 3
