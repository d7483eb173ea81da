"""The common part of the bindings: checked URLs, headers, and errors for refusals."""

from typing import Any

import pytest

from coreason_client._http._types import Headers, Request, ResponseHead
from coreason_client.a2a import A2AHTTPError, TaskNotFoundError
from coreason_client.a2a._call import Settings, checked_url, http_error, json_rpc_error
from coreason_client.a2a._dialects import OPERATIONS, V10

REQUEST = Request("POST", "https://a.example/rpc?key=1", {})


def test_a_url_that_can_be_called_is_returned() -> None:
    assert checked_url("https://a.example/rpc?x=1#y") == "https://a.example/rpc?x=1#y"


@pytest.mark.parametrize("url", ["", "a.example", "ftp://a.example", "http://x:port", "http://x:0"])
def test_a_url_that_cannot_be_called(url: str) -> None:
    with pytest.raises(ValueError, match="url must"):
        checked_url(url)


def test_credentials_do_not_belong_into_a_url() -> None:
    with pytest.raises(ValueError, match="user or password: pass them as auth") as caught:
        checked_url("https://me:hunter22@a.example")
    assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"detail": "Later.", "title": "Busy"}', ": Later."),
        (b'{"message": "Later."}', ": Later."),
        (b'{"error": "Later."}', ": Later."),
        (b'{"error": {"message": "Later."}}', ": Later."),
        (b"<html>", ""),
        (b"[]", ""),
    ],
)
def test_a_refusal_without_an_error_of_the_protocol(body: bytes, message: str) -> None:
    head = ResponseHead(503, Headers([("retry-after", "7")]))
    error = http_error(REQUEST, head, body, json_rpc_error)
    assert type(error) is A2AHTTPError
    assert str(error) == f"POST https://a.example/rpc was answered with HTTP 503{message}"
    assert (error.status, error.retry_after, error.body) == (503, 7.0, body)


def test_a_refusal_with_an_error_of_the_protocol() -> None:
    body = b'{"error": {"code": -32001, "message": "No task."}}'
    error: Any = http_error(REQUEST, ResponseHead(404, Headers()), body, json_rpc_error)
    assert type(error) is TaskNotFoundError
    assert (error.status, error.code) == (404, -32001)


def test_the_headers_of_the_protocol_are_not_the_callers_to_change() -> None:
    settings = Settings(headers={"a2a-version": "9", "X-Tenant": "blue"})
    sent = settings.sent_headers(V10, OPERATIONS["get_task"], {})
    assert {name.lower(): value for name, value in sent.items()} == {
        "user-agent": sent["User-Agent"],
        "x-tenant": "blue",
        "accept": "application/json",
        "a2a-version": V10.version,
    }
    assert len(sent) == 4
