"""Errors as problem documents: what a client reads, and what only the operator does."""

import json
from uuid import UUID

import pytest
from pydantic import TypeAdapter, ValidationError
from starlette.exceptions import HTTPException

from coreason_client.server.errors import (
    LogUnavailable,
    PositionGone,
    RequestConflict,
    UnknownStream,
)
from coreason_client.server.http._problems import (
    Problem,
    as_problem,
    resume_conflict,
    validation_problem,
)
from coreason_manifest.definitions.service import ServiceRequest

ID = UUID(int=7)


@pytest.mark.parametrize(
    ("error", "status", "slug", "retry_after"),
    [
        (UnknownStream(ID), 404, "stream-not-found", None),
        (RequestConflict(ID), 409, "request-conflict", None),
        (PositionGone(ID, 3), 410, "position-gone", None),
        (LogUnavailable("the disk of host-17 is full"), 503, "log-unavailable", "1"),
        (HTTPException(404), 404, "not-found", None),
        (HTTPException(405, headers={"Allow": "POST"}), 405, "method-not-allowed", None),
        (HTTPException(418), 418, "error", None),
        (resume_conflict("another body"), 409, "request-conflict", None),
        (Problem(429, "slow-down", "No.", headers={"Retry-After": "9"}), 429, "slow-down", "9"),
    ],
)
def test_what_an_error_means_to_a_client(
    error: Exception, status: int, slug: str, retry_after: str | None
) -> None:
    problem = as_problem(error)
    response = problem.response()
    document = json.loads(bytes(response.body))
    assert (problem.status, response.status_code, document["status"]) == (status,) * 3
    assert document["type"] == f"urn:coreason:problem:{slug}"
    assert response.media_type == "application/problem+json"
    assert response.headers.get("retry-after") == retry_after
    assert document["detail"]
    assert "errors" not in document


def test_what_a_store_says_about_itself_is_for_the_operator() -> None:
    problem = as_problem(LogUnavailable("the disk of host-17 is full"))
    assert "host-17" not in bytes(problem.response().body).decode()
    assert problem.reason == "the disk of host-17 is full"


def wrong(body: object) -> Problem:
    with pytest.raises(ValidationError) as caught:
        ServiceRequest.model_validate_json(json.dumps(body))
    return validation_problem(caught.value)


def test_a_wrong_body_is_described_without_what_it_held() -> None:
    problem = wrong({"request_id": "tops3cret", "context": 7, "payload": {}})
    assert (problem.status, problem.slug) == (422, "invalid-request")
    assert {error["loc"][0] for error in problem.errors} >= {"request_id", "context"}
    assert "more)" in problem.detail
    assert "tops3cret" not in bytes(problem.response().body).decode()


@pytest.mark.parametrize(("wrong_values", "described"), [(19, 19), (21, 20), (1000, 20), (1001, 1)])
def test_the_number_of_errors_is_bounded(wrong_values: int, described: int) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(list[int]).validate_python(["x"] * wrong_values)
    problem = validation_problem(caught.value)
    assert len(problem.errors) == described
    assert ("too many to list" in problem.detail) is (described == 1)
