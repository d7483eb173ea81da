"""One list of turns on any wire: what our own client makes of it must always be the same."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from coreason_client import (
    LLMAuthenticationError,
    LLMClient,
    LLMConnectionError,
    LLMRateLimitError,
    LLMServerError,
)
from coreason_client.testing import (
    FakeModel,
    ModelFailure,
    ModelToolCall,
    ModelTurn,
    fake_model,
    virtual_clock,
)

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "How is the weather?"},
]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION = {"name": "weather", "description": "Returns the weather.", "parameters": PARAMETERS}
TOOLS = [{"type": "function", "function": FUNCTION}]
TURN = ModelTurn(
    ["Let me ", "see. é😀"],
    [
        ModelToolCall("weather", {"city": "Köln"}),
        ModelToolCall("weather", ['{"ci', 'ty": "Bonn"}']),
    ],
    ["I think", " so"],
    usage={"prompt_tokens": 20, "completion_tokens": 7, "cached_tokens": 4},
)
ASKED = [("weather", {"city": "Köln"}), ("weather", {"city": "Bonn"})]


@contextmanager
def served(
    provider: str, *turns: Any, retries: int = 0, **options: Any
) -> Iterator[tuple[FakeModel, LLMClient]]:
    with (
        fake_model(turns, require_all=True) as model,
        LLMClient(**model.options(provider), max_retries=retries, **options) as client,
    ):
        yield model, client


def check_answers(provider: str, **options: Any) -> None:
    """Text, calls, usage and reasoning are the same with and without streaming."""
    with served(provider, TURN, TURN, **options) as (model, client):
        whole = client.generate(MESSAGES, tools=TOOLS)
        stream = client.stream(MESSAGES, tools=TOOLS)
        streamed = stream.result()
    assert [request.stream for request in model.requests] == [False, True]
    for response in (whole, streamed):
        data, usage = response["data"], response["usage"]
        assert data["content"] == "Let me see. é😀"
        assert [(call["name"], call["arguments"]) for call in data["tool_calls"]] == ASKED
        assert data["reasoning"] == "I think so"
        assert data["finish_reason"] == "tool_calls"
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (20, 7)
        if provider != "ollama":  # which does not count them
            assert usage["cached_tokens"] == 4


def check_requests(provider: str, **options: Any) -> None:
    """The messages and the tools of a request are read back."""
    with served(provider, TURN, "It is sunny.", **options) as (model, client):
        calls = client.generate(MESSAGES, tools=TOOLS)["data"]["tool_calls"]
        asked = [_sent(call) for call in calls]
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": f"sunny in {place}"}
            for place, call in enumerate(calls)
        ]
        said = {"role": "assistant", "content": "Let me see.", "tool_calls": asked}
        client.generate([*MESSAGES, said, *results], tools=TOOLS)
    first, second = model.requests
    assert first.messages == MESSAGES
    assert first.text == "How is the weather?"
    [tool] = first.tools
    assert (tool["name"], tool["description"]) == ("weather", "Returns the weather.")
    assert tool["parameters"]["properties"] == PARAMETERS["properties"]
    assert first.model == "fake-model"
    assistant, *rest = second.messages[2:]
    assert (assistant["role"], assistant["content"]) == ("assistant", "Let me see.")
    functions = [call["function"] for call in assistant["tool_calls"]]
    assert [(one["name"], json.loads(one["arguments"])) for one in functions] == ASKED
    assert [message["role"] for message in rest] == ["tool", "tool"]
    assert [message["content"] for message in rest] == ["sunny in 0", "sunny in 1"]
    assert [m["tool_call_id"] for m in rest] == [call["id"] for call in assistant["tool_calls"]]


def _sent(call: Any) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
    signature = {"signature": call["signature"]} if "signature" in call else {}
    return {"id": call["id"], "type": "function", "function": function, **signature}


def check_ends(provider: str, **options: Any) -> None:
    """The reasons of the end, with and without streaming."""
    turns = [ModelTurn("Once upon", finish="length"), ModelTurn("Half", finish="filtered")]
    with served(provider, *turns, turns[0], **options) as (_, client):
        assert client.generate(MESSAGES)["data"]["finish_reason"] == "length"
        filtered = client.generate(MESSAGES)["data"].get("filtered", False)
        assert filtered is (provider != "ollama")  # which has no filter
        assert client.stream(MESSAGES).result()["data"]["finish_reason"] == "length"


def check_failures(provider: str, **options: Any) -> None:
    """Errors before the answer and within it."""
    turns = (
        ModelFailure(401, "who are you"),
        ModelFailure(429, "slow down"),
        ModelFailure(503, "not now"),
        ModelTurn("Half an", failure=ModelFailure(500, "it broke")),
    )
    with served(provider, *turns, **options) as (_, client):
        for kind in (LLMAuthenticationError, LLMRateLimitError, LLMServerError):
            with pytest.raises(kind, match=r"who are you|slow down|not now"):
                client.generate(MESSAGES)
        with pytest.raises(LLMServerError, match="it broke") as caught:
            client.stream(MESSAGES).result()
    assert caught.value.partial is not None
    assert caught.value.partial["data"]["content"] == "Half an"


def check_retry(provider: str, **options: Any) -> None:
    """A delay that the provider asks for is kept."""
    turns = (ModelFailure(429, retry_after=7), "Here I am")
    with virtual_clock() as clock, served(provider, *turns, retries=1, **options) as (_, client):
        assert client.generate(MESSAGES)["data"]["content"] == "Here I am"
    assert len(clock.waits) == 1
    assert 7 <= clock.waited < 10


def check_breaks(provider: str, **options: Any) -> None:
    """However an answer breaks off, the part before is there and the end is not."""
    text = "one two three"
    cases = [
        (ModelTurn(text, disconnect_after=2), "one two "),
        (ModelTurn(text, end_after=1), "one "),
        (ModelTurn(text, disconnect_after="content"), text),
        (ModelTurn(text, end_after="content"), text),
        (ModelTurn(text, disconnect_after=0), ""),
    ]
    with served(provider, *(turn for turn, _ in cases), **options) as (_, client):
        for turn, expected in cases:
            with pytest.raises(LLMConnectionError) as caught:
                client.stream(MESSAGES).result()
            partial = caught.value.partial
            received = None if partial is None else partial["data"]["content"]
            assert (received or "") == expected, turn


CHECKS = (
    check_answers,
    check_requests,
    check_ends,
    check_failures,
    check_retry,
    check_breaks,
)
