"""Streamed answers, on a clock that only the tests advance. No I/O."""

import logging
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client._drive import Reply
from coreason_client._http._types import (
    FailureKind,
    ResponseHead,
    TransportFailure,
)
from coreason_client.llm import (
    Finish,
    LLMAuthenticationError,
    LLMConnectionError,
    LLMError,
    LLMRateLimitError,
    LLMResponseError,
    LLMTimeoutError,
    TextDelta,
    UsageDelta,
    _frames,
)
from coreason_client.llm._limits import RateLimits
from tests.llm.play import (
    BROKEN,
    END,
    HI,
    LOGGER,
    OUTCOMES,
    PIECES,
    SETTINGS,
    TIMED_OUT,
    Play,
    Streaming,
    check,
    event,
    refusal,
    reply,
)


def test_a_stream_is_retried_before_its_first_piece() -> None:
    play = Streaming(
        refusal(429),
        reply(200, b"<html>"),
        [],
        [BROKEN],
        [b": waiting\n\n", TIMED_OUT],
        [event(delta={"role": "assistant"}), BROKEN],
        [HI, END],
        max_retries=9,
        stream=True,
    )
    deltas = list(play.deltas())
    assert deltas[0] == TextDelta("Hi")
    assert play.machine.response is not None
    assert play.machine.response["data"]["content"] == "Hi"
    assert len(play.requests) == 7
    assert play.waits == [1, 2, 4, 8, 16, 32]


@pytest.mark.parametrize("end", [[], [BROKEN], [TIMED_OUT]], ids=["clean", "broken", "silent"])
def test_nothing_is_retried_after_the_first_piece(end: list[TransportFailure]) -> None:
    play = Streaming([HI, *end], stream=True, models=["one", "two"])
    with pytest.raises((LLMConnectionError, LLMTimeoutError)) as caught:
        list(play.deltas())
    error = caught.value
    assert isinstance(error, LLMTimeoutError) == (end == [TIMED_OUT])
    assert (error.attempts, play.waits) == (1, [])
    assert error.partial is not None
    assert error.partial["data"]["content"] == "Hi"


LAST = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n'
USAGE = b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}\n\n'


@pytest.mark.parametrize("failure", [BROKEN, TIMED_OUT], ids=["broken", "silent"])
def test_an_answer_with_its_end_and_its_usage_needs_no_end_marker(
    failure: TransportFailure,
) -> None:
    play = Streaming([HI, LAST, USAGE, failure], stream=True)
    assert list(play.deltas())[-1] == Finish("stop")
    assert play.machine.response is not None
    assert play.machine.response["usage"]["total_tokens"] == 5
    for chunks in ([HI, LAST], [HI, USAGE]):  # the usage or the end may have been lost
        with pytest.raises((LLMConnectionError, LLMTimeoutError)):
            list(Streaming([*chunks, failure], stream=True).deltas())


def test_an_error_in_the_stream_is_retried_or_has_the_partial_answer() -> None:
    fault = b'data: {"error": {"message": "busy", "code": "rate_limit_exceeded"}}\n\n'
    play = Streaming([fault], [HI, END], stream=True)
    list(play.deltas())
    assert len(play.requests) == 2
    play = Streaming([HI, fault], stream=True)
    with pytest.raises(LLMRateLimitError) as caught:
        list(play.deltas())
    assert caught.value.partial is not None


def test_the_deadline_ends_a_stream_that_is_only_kept_alive() -> None:
    play = Streaming([b": still here\n\n"] * 1000, seconds=1.0, deadline=20.0, stream=True)
    with pytest.raises(LLMTimeoutError, match="deadline of 20 s"):
        list(play.deltas())
    assert play.clock.now - 1000 <= 21


def test_the_deadline_does_not_end_a_stream_that_has_begun() -> None:
    play = Streaming([*[HI] * 100, END], seconds=1.0, deadline=20.0, stream=True)
    list(play.deltas())
    assert play.machine.response is not None


def test_a_complete_answer_instead_of_a_stream() -> None:
    play = Streaming(reply(), stream=True)
    deltas = list(play.deltas())
    assert deltas[0] == TextDelta("Hi")
    assert [type(delta) for delta in deltas[1:]] == [UsageDelta, Finish]
    assert play.machine.response == Play(reply()).run()


@pytest.mark.parametrize("body", [b"", b"null", b'"text"', b'{"choices": [', b'{"object": 1}'])
def test_json_without_an_answer_instead_of_a_stream(body: bytes) -> None:
    play = Streaming(reply(200, body), reply(), stream=True)
    if body == b'{"object": 1}':  # complete, and another attempt would bring the same
        with pytest.raises(LLMResponseError, match="no choices"):
            list(play.deltas())
    else:
        list(play.deltas())
        assert len(play.requests) == 2


def test_a_complete_answer_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_frames, "MAX_ANSWER_BYTES", 1000)
    play = Streaming([b"{" + b" " * 600, b" " * 600], stream=True)
    with pytest.raises(LLMResponseError, match="the answer is larger than 1000 bytes") as caught:
        list(play.deltas())
    assert caught.value.attempts == 1


@pytest.mark.parametrize(
    "first",
    [
        [b"data: [DONE]\n\n"],
        [event(delta={"role": "assistant"}), b"data: [DONE]\n\n"],
        [b'data: {"error": {"message": "oops", "type": "server_error", "code": null}}\n\n'],
        reply(200, {"error": {"message": "oops", "type": "server_error", "code": None}}),
    ],
    ids=["[DONE]", "a role and [DONE]", "server_error first", "server_error whole"],
)
def test_a_stream_without_an_answer_is_retried(first: Any) -> None:
    play = Streaming(first, [HI, END], stream=True)
    assert TextDelta("Hi") in list(play.deltas())
    assert (len(play.requests), play.waits) == (2, [1])


def test_a_server_error_inside_a_success_is_retried() -> None:
    inside = reply(200, {"error": {"message": "oops", "type": "server_error", "code": None}})
    play = Play(inside, reply())
    play.run()
    assert play.waits == [1]


TOO_LARGE = b"x" * 10_000_001


@pytest.mark.parametrize("model", ["m", "ollama/m"])
def test_events_before_a_too_large_event_are_delivered(model: str) -> None:
    if model == "m":
        first, large = HI, b"data: " + TOO_LARGE + b"\n\n"
    else:
        first, large = b'{"message": {"content": "Hi"}}\n', TOO_LARGE + b"\n"
    for chunks in ([first + large], [first + first[:5], first[5:] + large], [first, large[:-1]]):
        play = Streaming(chunks, models=[model], stream=True)
        deltas = []
        with pytest.raises(LLMResponseError, match="an event is larger than") as caught:
            for delta in play.deltas():
                deltas.append(delta)  # noqa: PERF402 - those before the error count
        assert deltas
        assert set(map(repr, deltas)) == {repr(TextDelta("Hi"))}
        assert caught.value.partial is not None
        assert caught.value.partial["data"]["content"] == "Hi" * len(deltas)


def test_an_answer_that_was_complete_before_a_too_large_event_is_an_answer() -> None:
    play = Streaming([HI + END + b"data: " + TOO_LARGE + b"\n\n"], stream=True)
    list(play.deltas())
    assert play.machine.response is not None
    assert play.machine.response["data"]["content"] == "Hi"


CONTROLS = "a\nERROR forged\x1b[2J\x9b\u2028\u202eb"


def test_control_characters_of_a_provider_do_not_reach_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Every log line, whatever it quotes, is one line without control characters."""
    told = {"message": CONTROLS, "code": CONTROLS}
    parameter = {"error": {"message": "?", "code": "unsupported_parameter", "param": "temperature"}}
    outcomes: list[Reply | TransportFailure] = [
        reply(400, parameter),
        reply(503, {"error": told}),
        reply(503, CONTROLS.encode()),
        TransportFailure(FailureKind.BROKEN, CONTROLS),
        reply(401, {"error": told}),
    ]
    with caplog.at_level(logging.DEBUG, LOGGER):
        error = Play(*outcomes, models=["one", "two"], max_retries=9).fails(LLMAuthenticationError)
    assert len(caplog.records) >= 5
    for line in [str(error), *(record.getMessage() for record in caplog.records)]:
        assert line.isprintable(), line


def test_an_event_without_an_end_is_bounded() -> None:
    play = Streaming([b"data: " + b"x" * 6_000_000, b"x" * 6_000_000], stream=True, max_retries=0)
    with pytest.raises(LLMResponseError, match="larger than"):
        list(play.deltas())


def test_a_fallback_streams() -> None:
    play = Streaming(refusal(404), [HI, END], models=["one", "two"], stream=True)
    list(play.deltas())
    assert play.machine.response is not None
    assert play.machine.response["model"] == "two"


@given(outcomes=st.lists(st.one_of(OUTCOMES, PIECES), min_size=1, max_size=12), **SETTINGS)
def test_every_stream_ends_and_is_never_begun_twice(
    outcomes: list[Any],
    models: int,
    retries: int,
    deadline: float,
    seconds: float,
    jitter: float,
    *,
    limited: bool,
) -> None:
    outcomes = [
        replace(outcome, head=ResponseHead(outcome.head.status or 200, outcome.head.headers))
        if isinstance(outcome, Reply)
        else outcome
        for outcome in outcomes
    ]
    play = Streaming(
        *outcomes,
        models=[f"model-{number}" for number in range(models)],
        max_retries=retries,
        deadline=deadline,
        jitter=lambda: jitter,
        limits=RateLimits(10, 1000) if limited else None,
        stream=True,
    )
    written = []
    begun_at = 0
    try:
        for delta in play.deltas():
            if isinstance(delta, TextDelta):
                written.append(delta.text)
                begun_at = begun_at or len(play.requests)
                assert len(play.requests) == begun_at
    except LLMError as error:
        check(play, error, models, retries, deadline)
        content = error.partial["data"]["content"] if error.partial else ""
        assert content == "".join(written)
    else:
        check(play, None, models, retries, deadline)
        assert play.machine.response is not None
        assert play.machine.response["data"]["content"] == "".join(written)
