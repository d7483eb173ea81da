"""Requests and unexpected responses in words."""

import pytest

from coreason_client._http._types import Headers, Request, ResponseHead
from coreason_client.cap._stream_state import describe_request, describe_response, is_position_gone

REQUEST = Request("GET", "https://me:pw@agent.example/health?key=1", {})


def test_a_request_without_secrets_and_with_its_proxy() -> None:
    assert describe_request(REQUEST, None) == "GET https://agent.example/health"
    assert describe_request(REQUEST, "http://proxy:1") == (
        "GET https://agent.example/health through the proxy http://proxy:1"
    )


@pytest.mark.parametrize(
    ("status", "kind", "body", "expected"),
    [
        (503, "", b"", "HTTP 503"),
        (503, "", b"<html>", "HTTP 503"),
        (503, "", b"\xff", "HTTP 503"),
        (503, "", b"[1]", "HTTP 503"),
        (503, "", b'{"detail": 5}', "HTTP 503"),
        (503, "", b'{"detail": "Later.", "title": "Busy"}', "HTTP 503: Later."),
        (503, "", b'{"error": {"message": "Later."}}', "HTTP 503: Later."),
        (200, "text/html", b"", "a response of type text/html, not text/event-stream"),
        (200, "", b"", "a response of type unknown, not text/event-stream"),
    ],
)
def test_a_response(status: int, kind: str, body: bytes, expected: str) -> None:
    head = ResponseHead(status, Headers([("content-type", kind)] if kind else []))
    assert describe_response(REQUEST, head, body) == (
        f"GET https://agent.example/health was answered with {expected}"
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"type": "urn:coreason:problem:position-gone", "status": 410}', True),
        (b'{"type": "urn:coreason:problem:stream-not-found"}', False),
        (b'{"detail": "urn:coreason:problem:position-gone"}', False),
        (b'["urn:coreason:problem:position-gone"]', False),
        (b"\xff", False),
        (b"", False),
    ],
)
def test_a_problem_document_says_that_a_position_is_gone(body: bytes, expected: bool) -> None:
    assert is_position_gone(body) is expected
