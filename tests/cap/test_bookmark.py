"""A request with the position in its answer, saved as JSON."""

import json
from uuid import UUID

import pytest
from pydantic import ValidationError

from coreason_client.cap.position import Bookmark, Position
from coreason_manifest.definitions.message import ChatMessage
from coreason_manifest.definitions.presentation import ErrorSeverity, StreamError
from coreason_manifest.definitions.request import AgentRequest
from coreason_manifest.definitions.service import ServiceRequest
from coreason_manifest.definitions.session import SessionContext

ERROR = StreamError(
    code="busy", message="too much", severity=ErrorSeverity.FATAL, details={"retry_after": 7}
)
POSITION = Position(stream_id=UUID(int=1), seq=4, cursor="a:4")


def make_request() -> ServiceRequest:
    return ServiceRequest(
        context=SessionContext(user_id="user", session_id="session"),
        payload=AgentRequest(messages=[ChatMessage.user("Größe?")]),
    )


@pytest.mark.parametrize("position", [None, POSITION])
@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("error", [None, ERROR])
def test_a_bookmark_survives_json(
    position: Position | None, complete: bool, error: StreamError | None
) -> None:
    bookmark = Bookmark(request=make_request(), position=position, complete=complete, error=error)
    loaded = Bookmark.model_validate_json(bookmark.to_json())
    assert loaded == bookmark
    assert loaded.request.request_id == bookmark.request.request_id


def test_a_bookmark_of_a_request_alone_begins_at_the_start() -> None:
    bookmark = Bookmark(request=make_request())
    assert (bookmark.position, bookmark.complete, bookmark.error) == (None, False, None)


def test_a_bookmark_of_an_earlier_release_has_no_error() -> None:
    saved = {"request": make_request().dump(), "position": POSITION.dump(), "complete": False}
    assert Bookmark.model_validate_json(json.dumps(saved)).error is None


def test_fields_of_a_later_release_are_ignored() -> None:
    bookmark = Bookmark(request=make_request(), position=POSITION)
    saved = {**bookmark.dump(), "more": 1, "position": {**POSITION.dump(), "more": 1}}
    assert Bookmark.model_validate_json(json.dumps(saved)) == bookmark


def test_a_bookmark_needs_the_request() -> None:
    with pytest.raises(ValidationError, match="request"):
        Bookmark.model_validate({"position": POSITION.dump()})
