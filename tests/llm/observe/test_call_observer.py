"""The observer that reports nothing."""

import pytest

from coreason_client._http._types import Headers, Request, ResponseHead
from coreason_client.llm import LLMServerError
from coreason_client.llm._attempts import NOT_OBSERVED, CallObserver
from coreason_client.llm.observe._observer import ReportingObserver
from coreason_client.sse import ServerSentEvent


def test_it_changes_nothing() -> None:
    request, events = Request("POST", "http://127.0.0.1:9", {}), [ServerSentEvent(b"a")]
    with NOT_OBSERVED:
        assert NOT_OBSERVED.attempt_started(None, request) is request
        NOT_OBSERVED.head_received(ResponseHead(200, Headers()))
        NOT_OBSERVED.body_received(b"")
        assert NOT_OBSERVED.watched(events) is events
        NOT_OBSERVED.attempt_failed(LLMServerError("no"))
        NOT_OBSERVED.attempt_succeeded({})
        NOT_OBSERVED.answered({})
        NOT_OBSERVED.set_spent(lambda: None)


def test_it_does_not_swallow_an_error() -> None:
    with pytest.raises(KeyError), NOT_OBSERVED:
        raise KeyError


def test_an_observer_implements_all_its_methods() -> None:
    methods = {name for name in vars(CallObserver) if callable(getattr(CallObserver, name))}
    assert methods <= vars(ReportingObserver).keys() | {"__class_getitem__"}
