"""The rules of both clients, without a network."""

import asyncio
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest

from coreason_client import CAPConnectionError
from coreason_client._drive import Wait
from coreason_client._http._types import FailureKind, Request, TransportFailure, timeouts_from
from coreason_client.cap._protocol import ApiKeyCredential, Endpoint, base_url_of

KEY = "sk-0123456789"


def endpoint(api_key: Any = KEY, **options: Any) -> Endpoint:
    made = Endpoint(
        base_url="https://agent.example",
        credential=ApiKeyCredential(api_key),
        timeouts=timeouts_from(1.0),
        max_retries=1,
        reconnect_for=1.0,
        deadline=None,
        max_retry_delay=1.0,
        user_id="u",
        headers={"X-Api-Key": "key-of-header"},
        strict_sequence=False,
        max_event_bytes=1000,
        proxy_for=lambda url: None,
    )
    return replace(made, **options)


@pytest.mark.parametrize(
    ("given", "base"),
    [
        ("https://agent.example", "https://agent.example"),
        ("https://agent.example/a/", "https://agent.example/a"),
        ("https://agent.example/a/assist/", "https://agent.example/a"),
    ],
)
def test_the_base_of_a_url(given: str, base: str) -> None:
    assert base_url_of(given) == base


def test_a_callable_is_called_for_every_request() -> None:
    keys = iter(["first-key", "second-key", "third-key"])
    credential = ApiKeyCredential(lambda: next(keys))
    assert credential.authorization() == "Bearer first-key"
    assert credential.authorization() == "Bearer second-key"
    assert asyncio.run(credential.authorization_async()) == "Bearer third-key"
    assert credential.redact("bad third-key") == "bad ***"


@pytest.mark.parametrize("key", ["", "a b", "schl\u00fcssel"])
def test_a_key_that_cannot_be_sent(key: str) -> None:
    for make in (lambda: ApiKeyCredential(key), ApiKeyCredential(lambda: key).authorization):
        with pytest.raises(ValueError, match=r"api_key must (not be empty|be visible ASCII)"):
            make()


def failed(flow: Generator[Any, Any, Any], failure: TransportFailure) -> BaseException:
    """Let every attempt of a flow fail in this way; return its error."""
    sent = 0
    step = next(flow)
    while True:
        sent += isinstance(step, Request)
        assert sent < 10
        try:
            step = flow.send(None if isinstance(step, Wait) else failure)
        except CAPConnectionError as error:
            return error


def test_an_error_is_made_of_redacted_text() -> None:
    cause = OSError(f"the peer repeated {KEY} and key-of-header")
    failure = TransportFailure(FailureKind.BROKEN, f"broken by {KEY}")
    failure.__cause__ = cause
    error: Any = failed(endpoint().cancel("x", None, None), failure)
    assert str(error) == "no answer to DELETE https://agent.example/streams/x: broken by ***"
    assert error.attempts == 2
    assert error.__cause__ is cause
    assert str(cause) == "the peer repeated *** and ***"
    assert str(failure) == f"broken by {KEY}"  # it was not changed
