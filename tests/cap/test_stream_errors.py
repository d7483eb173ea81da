"""The errors of a stream: their words and their fields."""

import pickle
from uuid import UUID

import pytest

from coreason_client._connections import Connections, RetryBudget
from coreason_client._http._types import (
    FailureKind,
    Headers,
    Request,
    ResponseHead,
    TransportFailure,
)
from coreason_client._retry import Backoff
from coreason_client.cap._stream_state import (
    NO_DETAILS,
    FailureDetails,
    Numbering,
    StreamErrors,
    details_of,
    ended_with,
)
from coreason_client.cap.errors import CAPProtocolError, CAPStreamReset
from coreason_client.cap.position import Position
from coreason_manifest.definitions.presentation import ErrorSeverity, StreamError

KEY = "sk_very_secret"
HEAD = ResponseHead(503, Headers([("X-Reason", "busy")]))
WHERE = "POST https://a.example/assist through the proxy http://p:1"


def stream(
    *, position: Position | None = None, failures: int = 0
) -> tuple[Connections, StreamErrors]:
    budget = RetryBudget(Backoff(max_server_delay=60), 9)
    for _ in range(failures):
        budget.after_loss(None)
    connections = Connections(budget, deadline=5)
    errors = StreamErrors(
        connections,
        Numbering(position),
        redact=lambda text: text.replace(KEY, "***"),
        proxy_for=lambda url: "http://p:1",
    )
    return connections, errors


def test_before_the_first_request() -> None:
    _, errors = stream()
    error = errors.make(CAPProtocolError, f"bad {KEY}")
    assert str(error) == "bad ***"
    assert (error.method, error.url, error.proxy, error.position) == (None, None, None, None)
    assert errors.describe_request() == "the request"


def test_all_fields() -> None:
    position = Position(stream_id="0a0a0a0a-0000-4000-8000-00000000000a", seq=3)
    connections, errors = stream(position=position, failures=2)
    connections.open(Request("POST", "https://a.example/assist?key=1", {}))
    details = FailureDetails(4.0, head=HEAD, body=b"no")
    error = errors.make(CAPProtocolError, "bad", details)
    assert str(error) == f"bad (read up to {position})"
    assert (error.position, error.attempts, error.retry_after) == (position, 2, 4.0)
    assert (error.method, error.url) == ("POST", "https://a.example/assist")
    assert (error.proxy, error.status_code, error.body) == ("http://p:1", 503, b"no")
    assert error.headers is HEAD.headers


@pytest.mark.parametrize(
    ("failures", "asked", "reason"),
    [
        (1, None, "the connection brought no new packet"),
        (3, 60.0, "3 connections in a row brought no new packet"),
        (1, 61.0, "the server asks to wait 61 s, more than max_retry_delay=60"),
    ],
)
def test_a_budget_that_is_spent(failures: int, asked: float | None, reason: str) -> None:
    connections, errors = stream(failures=failures)
    connections.open(Request("POST", "https://a.example/assist", {}))
    error = errors.exhausted("reset", FailureDetails(asked))
    assert str(error) == f"{WHERE} failed: {reason}; the last one: reset"
    assert (error.attempts, error.retry_after) == (failures, asked)


def test_a_deadline_that_has_passed() -> None:
    connections, errors = stream()
    connections.open(Request("POST", "https://a.example/assist", {}))
    assert str(errors.expired("slow")) == f"{WHERE} passed its deadline of 5 s: slow"


def test_a_response_that_is_not_the_stream() -> None:
    connections, errors = stream()
    connections.open(Request("POST", "https://a.example/assist", {}))
    body = b'{"detail": "no such key: sk_very_secret"}'
    words = "POST https://a.example/assist was answered with HTTP 503: no such key: ***"
    assert errors.describe_response(HEAD, body) == words
    error = errors.unusable_redirect(HEAD, body, ValueError("too many"))
    assert str(error) == f"{words}, a redirect that is not followed: too many"
    assert (error.status_code, error.body) == (503, body)


def test_the_cause_of_an_error() -> None:
    failure = TransportFailure(FailureKind.BROKEN, "reset")
    assert FailureDetails(failure=failure).cause is failure
    failure.__cause__ = OSError("below")
    assert FailureDetails(failure=failure).cause is failure.__cause__
    assert NO_DETAILS.cause is None


def test_a_fatal_error_has_its_packet_and_the_response() -> None:
    _, errors = stream()
    sent = StreamError(
        code="busy", message=f"not {KEY}", severity="FATAL", details={"retry_after": 7}
    )
    error = errors.fatal(sent)
    assert (str(error), error.stream_error, error.retry_after) == ("busy: not ***", sent, 7.0)
    assert (error.status_code, error.body) == (None, None)
    error = errors.fatal(sent, FailureDetails(1.0, head=HEAD, body=b"no"))
    assert (error.status_code, error.body, error.stream_error) == (503, b"no", sent)
    assert details_of(sent).server_delay == error.retry_after == 7.0


def test_an_outcome_is_a_fatal_error() -> None:
    error = ended_with("cancelled")
    assert (error.code, error.severity) == ("cancelled", ErrorSeverity.FATAL)
    assert ended_with("7" * 4000).code == "7" * 100


@pytest.mark.proves("R11b", "R11c")
def test_a_reset_says_what_happened_and_survives_pickling() -> None:
    a, b = UUID(int=1), UUID(int=2)
    position = Position(stream_id=a, seq=3)
    for received, words in ((b, f"stream {b} instead of {a}"), (a, "written anew")):
        error = pickle.loads(pickle.dumps(CAPStreamReset(a, received, position=position)))
        assert (error.expected, error.received, error.position) == (a, received, position)
        assert words in str(error)
        assert "new request_id" in str(error)
        assert ("rewinds=True" in str(error)) is (received == a)
