"""Requests after an answer that broke or is not valid; over the wire in `test_recovery.py`."""

import json
from typing import Any

import pytest
from pydantic import BaseModel

from coreason_client.llm import LLMClient, LLMResponseError
from coreason_client.llm._answer import ModelAnswer, RawToolCall

from .server import ServerInThread
from .test_client import KEY, MESSAGES, answer, streamed


class City(BaseModel):
    name: str
    people: int


GOOD = '{"name": "Paris", "people": 2100000}'
BAD = '{"name": "Paris", "people": "many"}'


def plan(**options: Any) -> Any:
    client = LLMClient("key", "http://127.0.0.1:9/v1", "m", provider="vllm")
    return client._attempts(MESSAGES, "m", None, 0.5, 100, {}, **options).plan


def test_what_can_be_continued() -> None:
    assert plan().can_continue(ModelAnswer("Hi"))
    assert not plan().can_continue(ModelAnswer(""))
    assert not plan().can_continue(ModelAnswer("Hi", reasoning="Hm"))
    assert not plan().can_continue(ModelAnswer("Hi", [RawToolCall("1", "f", "")]))
    assert not plan(response_format={"type": "json_object"}).can_continue(ModelAnswer("{"))


@pytest.mark.parametrize(("text", "left"), [("x" * 40, 90), ("x" * 4000, 1)])
def test_a_continuation_has_fewer_tokens_left(text: str, left: int) -> None:
    body = json.loads(plan().continued(text).content)
    assert body["max_tokens"] == left
    assert body["messages"][-1] == {"role": "assistant", "content": text}


def test_a_rejected_parameter_stays_away() -> None:
    first = plan()
    assert first.drop_parameter("temperature")
    assert first.drop_parameter("max_tokens")
    body = json.loads(first.corrected("x", "is not JSON").content)
    assert "temperature" not in body
    assert body["max_completion_tokens"] == 100


@pytest.mark.proves("LLM2-parsed")
def test_an_invalid_answer_is_corrected_once() -> None:
    with ServerInThread(answer(BAD), answer(GOOD)) as server:
        with LLMClient(KEY, server.url, "m") as ours:
            response = ours.generate(MESSAGES, response_format=City)
        assert response["data"]["parsed"] == City(name="Paris", people=2_100_000)
        assert response["spent"]["total_tokens"] == 2 * response["usage"]["total_tokens"]
        first, second = (sent.json["messages"] for sent in server.received)
    *before, invalid, asked = second
    assert before == first
    assert invalid == {"role": "assistant", "content": BAD}
    assert "people: Input should be a valid integer" in asked["content"]


def test_an_answer_that_stays_invalid_is_an_error() -> None:
    with ServerInThread(answer(BAD)) as server, LLMClient(KEY, server.url, "m") as ours:
        with pytest.raises(LLMResponseError, match="does not match City") as caught:
            ours.generate(MESSAGES, response_format=City)
        error = caught.value
        assert (error.body, error.attempts) == (BAD, 2)
        assert "people" in (error.invalid_because or "")
        assert error.spent is not None
        assert error.partial is not None
        assert error.spent["total_tokens"] == 2 * error.partial["usage"]["total_tokens"]
        with pytest.raises(LLMResponseError) as caught:
            ours.generate(MESSAGES, response_format=City, reask=False)
        assert caught.value.attempts == 1


def test_an_answer_that_was_cut_off_is_not_sent_back() -> None:
    cut = {"message": {"content": BAD[:9]}, "finish_reason": "length"}
    with ServerInThread(answer(choices=[cut])) as server, LLMClient(KEY, server.url, "m") as ours:
        with pytest.raises(LLMResponseError, match="cut off at max_tokens") as caught:
            ours.generate(MESSAGES, response_format=City)
        assert caught.value.attempts == 1


def test_a_stream_is_corrected_only_if_it_may_restart() -> None:
    replies = streamed(BAD), streamed(BAD), streamed(GOOD)
    with ServerInThread(*replies) as server, LLMClient(KEY, server.url, "m") as ours:
        with pytest.raises(LLMResponseError) as caught:
            ours.stream(MESSAGES, response_format=City).result()
        assert caught.value.attempts == 1
        stream = ours.stream(MESSAGES, response_format=City, on_break="restart")
        deltas = list(stream)
        assert stream.result()["data"]["parsed"] == City(name="Paris", people=2_100_000)
    kinds = [type(delta).__name__ for delta in deltas]
    assert kinds == ["TextDelta", "Restarted", "TextDelta", "UsageDelta", "Finish"]


@pytest.mark.proves("LLM2-objects")
def test_objects_while_they_arrive() -> None:
    reply = streamed('{"name": "Pa', 'ris", "peo', 'ple": 21', "00000}")
    with ServerInThread(reply) as server, LLMClient(KEY, server.url, "m") as ours:
        stream = ours.stream(MESSAGES, response_format=City)
        assert list(stream.objects()) == [
            {"name": "Pa"},
            {"name": "Paris"},
            {"name": "Paris", "people": 21},
            {"name": "Paris", "people": 2100000},
        ]
        assert stream.result()["data"]["parsed"] == City(name="Paris", people=2_100_000)
