"""The provider's own reply in a response: absent by default, complete if requested."""

import json
from typing import Any

import pytest

from coreason_client.llm._answer_machine import RawEvents
from coreason_client.sse import ServerSentEvent

from .play import ANSWER, BROKEN, END, HI, Play, Streaming, refusal, reply

EVENTS = [
    {"choices": [{"delta": {"content": "Hi"}}]},
    {"choices": [{"delta": {}, "finish_reason": "stop"}]},
]


def response_of(play: Streaming) -> Any:
    list(play.deltas())
    return play.machine.response


def test_a_reply_is_in_the_response() -> None:
    assert Play(reply(), raw=True).run()["raw"] == ANSWER


def test_it_is_that_of_the_attempt_that_answered() -> None:
    assert Play(refusal(500), BROKEN, reply(), raw=True).run()["raw"] == ANSWER


def test_the_events_of_a_stream_are_in_the_response() -> None:
    assert response_of(Streaming([HI, b": ping\n\n", END], stream=True, raw=True))["raw"] == EVENTS


@pytest.mark.parametrize("size", [1, 7])
def test_chunks_do_not_matter(size: int) -> None:
    whole = HI + END
    chunks = [whole[start : start + size] for start in range(0, len(whole), size)]
    assert response_of(Streaming(chunks, stream=True, raw=True))["raw"] == EVENTS


def test_the_events_of_a_failed_attempt_are_not_in_the_response() -> None:
    failed = [b'data: {"choices": []}\n\n', BROKEN]
    play = Streaming(failed, [HI, END], stream=True, raw=True)
    assert response_of(play)["raw"] == EVENTS
    assert len(play.requests) == 2


def test_a_complete_answer_to_a_request_for_a_stream_is_one_value() -> None:
    assert response_of(Streaming(reply(), stream=True, raw=True))["raw"] == ANSWER


def test_by_default_there_is_none() -> None:
    assert "raw" not in Play(reply()).run()
    assert "raw" not in response_of(Streaming([HI, END], stream=True))


def test_events_pass_unchanged_and_lists_count_as_several() -> None:
    raw = RawEvents()
    events = [ServerSentEvent(json.dumps(value).encode()) for value in ([1, 2], {"a": 3})]
    events.append(ServerSentEvent(b"[DONE]"))
    assert list(raw.collect(events)) == events
    assert raw.values == [1, 2, {"a": 3}]
