"""Bodies that are not event streams, and the task that is fetched once beside a stream."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coreason_client._drive import Reply
from coreason_client._http._types import (
    FailureKind,
    Headers,
    Request,
    ResponseHead,
    TransportFailure,
)
from coreason_client.a2a._stream_state import UnaryBody, fetch_task_once
from coreason_client.a2a.errors import A2AResponseTooLargeError
from coreason_client.a2a.types import Task
from tests.a2a.paper import number_of, route_to


def head(status: int = 200, /, **headers: str) -> ResponseHead:
    given = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return ResponseHead(status, Headers(given))


@pytest.mark.parametrize(
    ("headers", "complete"),
    [
        ({"content_length": "4"}, True),
        ({"content_length": "3"}, True),
        ({"content_length": "5"}, False),
        ({}, False),
        ({"content_length": "4", "content_encoding": "gzip"}, False),  # of the encoded bytes
        ({"content_length": "+4"}, False),
        ({"content_length": "٤"}, False),  # an Arabic 4
        ({"content_length": "4, 4"}, False),
        ({"content_length": "9" * 5000}, False),
    ],
)
def test_a_body_is_known_to_be_complete_by_its_length(
    headers: dict[str, str], complete: bool
) -> None:
    body = UnaryBody(head(**headers), 100)
    assert body.add(b"12") is (headers.get("content_length") == "2")
    assert body.add(b"34") is complete
    assert body.content == b"1234"


def test_an_empty_body_may_be_complete() -> None:
    assert UnaryBody(head(content_length="0"), 100).add(b"")
    assert not UnaryBody(head(), 100).add(b"")


def test_a_body_may_be_exactly_as_large_as_the_limit() -> None:
    body = UnaryBody(head(), 4)
    body.add(b"1234")
    with pytest.raises(A2AResponseTooLargeError, match="larger than 4 bytes") as caught:
        body.add(b"5")
    assert caught.value.status == 200


@settings(max_examples=50)
@given(st.lists(st.binary(max_size=4), max_size=6), st.integers(1, 12))
def test_pieces_are_joined_until_the_limit(pieces: list[bytes], limit: int) -> None:
    whole = b"".join(pieces)
    body = UnaryBody(head(content_length=str(len(whole))), limit)
    complete = False
    try:
        for piece in pieces:
            complete = body.add(piece)
    except A2AResponseTooLargeError:
        assert len(whole) > limit
    else:
        assert len(whole) <= limit
        assert body.content == whole
        assert complete or not pieces


# One task


def fetched(result: Any, task_id: str = "t") -> tuple[Request, Task | None]:
    """Return the request of the flow, and its value when it gets this result."""
    route, _ = route_to("1.0")
    flow = fetch_task_once(route, task_id)
    request = next(flow)
    assert isinstance(request, Request)
    with pytest.raises(StopIteration) as done:
        flow.send(result(request) if callable(result) else result)
    return request, done.value.value


def reply(status: int = 200, **members: Any) -> Any:
    def made(request: Request) -> Reply:
        body = {"jsonrpc": "2.0", "id": number_of(request), **members}
        return Reply(head(status), json.dumps(body).encode())

    return made


def test_a_task_is_fetched_with_the_timeouts_of_a_stream() -> None:
    request, task = fetched(reply(result={"id": "t", "status": {"state": "TASK_STATE_WORKING"}}))
    assert task is not None
    assert task.id == "t"
    of_route = route_to("1.0")[1]
    assert request.timeouts == of_route.stream != of_route.unary
    assert json.loads(request.content)["params"] == {"id": "t"}


@pytest.mark.parametrize(
    "result",
    [
        TransportFailure(FailureKind.TIMEOUT, "no answer"),
        reply(503),
        reply(204, result={"id": "t"}),
        reply(result={"id": "another"}),
        reply(error={"code": -32001, "message": "gone"}),
        reply(result=None),
        Reply(head(), b"<html>"),
    ],
)
def test_a_task_that_cannot_be_fetched_is_none(result: Any) -> None:
    assert fetched(result)[1] is None
