"""The JSON of a complete response, or why there is none."""

from typing import Any

import pytest

from coreason_client.llm import LLMConnectionError, LLMResponseError, LLMServerError
from coreason_client.llm._classify import FailedAttempt
from coreason_client.llm._reply import JSONReply, json_reply
from coreason_client.llm._route import Target

from .play import BASE, BROKEN, KEY, refusal, reply

ROUTE = Target(BASE, KEY).route("m")


def test_a_success_has_its_value() -> None:
    result = reply(200, {"a": 1})
    found = json_reply(ROUTE, result, 5.0)
    assert found == JSONReply(result.head, result.body, {"a": 1})


def test_a_list_is_accepted_where_it_may_come() -> None:
    assert isinstance(json_reply(ROUTE, reply(200, [1]), 5.0), FailedAttempt)
    found = json_reply(ROUTE, reply(200, [1]), 5.0, accepted=(dict, list))
    assert isinstance(found, JSONReply)
    assert found.value == [1]


@pytest.mark.parametrize(
    ("result", "kind", "words", "retryable"),
    [
        (BROKEN, LLMConnectionError, "the server closed the connection", True),
        (None, LLMConnectionError, "nothing was received", True),
        (refusal(500), LLMServerError, "answered 500", True),
        (reply(200, {"error": {"message": "no"}}), LLMServerError, "answered 200", False),
        (reply(200, b""), LLMResponseError, "the body is empty", True),
        (reply(200, b"<html>"), LLMResponseError, "the body is a web page; check base_url", True),
        (reply(200, b"5"), LLMResponseError, "the body is not a JSON object", True),
    ],
)
def test_anything_else_is_a_failure(result: Any, kind: Any, words: str, retryable: bool) -> None:
    found = json_reply(ROUTE, result, 5.0)
    assert isinstance(found, FailedAttempt)
    assert type(found.error) is kind
    assert words in str(found.error)
    assert found.retryable is retryable
