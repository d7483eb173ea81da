"""Streams that break in the middle of the answer: continued, restarted, or an error. Over the wire.

The provider here answers one question with one text, and can continue it after any beginning.
"""

import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from coreason_client.llm import (
    AsyncLLMClient,
    Budget,
    Delta,
    LLMClient,
    LLMConnectionError,
    LLMError,
    LLMFilteredError,
    LLMRequestError,
    LLMServerError,
    MemoryState,
    Restarted,
    TextDelta,
    Usage,
)
from coreason_client.llm._cost import load_prices

from .server import Provider, Received, Replied, ServerInThread, provider
from .test_client import END, KEY, MESSAGES, SSE, answer, event

TEXT = "The sky is blue, \n\n  and  wide — like 🌊 water. \n"
PIECES = [TEXT[start : start + 3] for start in range(0, len(TEXT), 3)]
COUNT = len(PIECES)
REFUSED = Replied(400, body=b'{"error": {"message": "no prefix, please"}}')


class Model:
    """Answers with TEXT; the nth reply breaks after `breaks[n]` pieces, further ones are complete.

    A beginning in the request is continued, and repeated before the rest if `repeats`.
    """

    def __init__(self, *breaks: int, repeats: bool = False) -> None:
        self._breaks = list(breaks)
        self._repeats = repeats
        self.asked: list[Any] = []

    def __call__(self, received: Received) -> Replied:
        self.asked.append(received.json)
        last = received.json["messages"][-1]
        start = len(last["content"]) if last["role"] == "assistant" else 0
        assert TEXT.startswith(last["content"]) or not start
        rest = TEXT[start:]
        pieces = [rest[at : at + 3] for at in range(0, len(rest), 3)]
        if self._repeats and start:
            pieces = [TEXT[:start], *pieces]
        if not self._breaks:
            return Replied(200, SSE, chunks=[*map(event, pieces), END])
        broken = pieces[: self._breaks.pop(0)]
        return Replied(200, SSE, chunks=[*map(event, broken)], cut=True)


@pytest.fixture(scope="module")
def server() -> Iterator[Provider]:
    with ServerInThread() as running:
        yield running


def client(server: Provider, name: str = "vllm", **options: Any) -> LLMClient:
    given = {"timeout": 10, "first_wait": 0.001, "max_retries": 3, **options}
    return LLMClient(KEY, server.url, "m", provider=name, **given)


def text_of(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


def read(stream: Any) -> tuple[list[Delta], LLMError | None]:
    deltas: list[Delta] = []
    try:
        for delta in stream:
            deltas.append(delta)  # noqa: PERF402 - those before an error count too
    except LLMError as error:
        return deltas, error
    return deltas, None


# Continue.


@pytest.mark.proves("LLM2-continue")
@pytest.mark.parametrize("at", range(1, COUNT))
@pytest.mark.parametrize(("name", "repeats"), [("vllm", False), ("mistral", True)])
def test_an_answer_is_continued_after_any_piece(
    server: Provider, name: str, at: int, *, repeats: bool
) -> None:
    server.reply = model = Model(at, 2, repeats=repeats)
    with client(server, name) as ours:
        stream = ours.stream(MESSAGES, max_tokens=100, on_break="continue")
        deltas, error = read(stream)
        response = stream.result()
    assert error is None
    assert text_of(deltas) == response["data"]["content"] == TEXT
    assert not [delta for delta in deltas if isinstance(delta, Restarted)]
    first, second, *_ = model.asked
    assert second["messages"][:-1] == first["messages"]
    assert second["messages"][-1]["content"] == "".join(PIECES[:at]).rstrip()
    assert first["max_tokens"] > second["max_tokens"] >= 100 - len(TEXT)
    assert_spent(response, attempts=len(model.asked))


def assert_spent(response: Any, attempts: int) -> None:
    usage, spent = response["usage"], response["spent"]
    assert spent["prompt_tokens"] > usage["prompt_tokens"]
    assert spent["completion_tokens"] >= usage["completion_tokens"]
    assert spent["estimated"] is True
    assert attempts >= 2


def test_a_given_beginning_is_continued_too(server: Provider) -> None:
    server.reply = model = Model(2)
    begun: list[Any] = [*MESSAGES, {"role": "assistant", "content": "The sky ", "prefix": True}]
    with client(server) as ours:
        response = ours.stream(begun, on_break="continue").result()
    assert response["data"]["content"] == TEXT.removeprefix("The sky ")
    assert [asked["messages"][-1]["content"] for asked in model.asked] == [
        "The sky",
        TEXT[: len("The sky") + 6].rstrip(),
    ]


@pytest.mark.proves("LLM2-continue-model")
def test_a_continuation_is_never_made_by_another_model(server: Provider) -> None:
    replies = iter([Model(3)(request(MESSAGES)), *itertools.repeat(Replied(503), 4)])
    server.reply = lambda _: next(replies)
    with client(server) as ours:
        options: Any = {"on_break": "continue", "fallbacks": ["other"]}
        deltas, error = read(ours.stream(MESSAGES, **options))
    assert isinstance(error, LLMServerError)
    assert error.attempts == 4
    assert error.partial is not None
    assert error.partial["data"]["content"] == text_of(deltas) == "".join(PIECES[:3])
    assert error.spent is not None
    assert error.spent["completion_tokens"] > 0


def request(messages: Any) -> Received:
    return Received("/", {}, json.dumps({"messages": messages}).encode())


CALL = event("").replace(
    b'"content": ""', b'"tool_calls": [{"index": 0, "id": "1", "function": {"name": "f"}}]'
)
REASONING = event("").replace(b'"content": ""', b'"reasoning_content": "Hm"')


@pytest.mark.proves("LLM2-continue-text")
@pytest.mark.parametrize(
    ("name", "chunks", "options"),
    [
        ("openai", [event("Hi")], {}),  # the provider cannot
        ("vllm", [event("Hi"), CALL], {}),
        ("vllm", [REASONING, event("Hi")], {}),
        ("vllm", [event("{")], {"response_format": {"type": "json_object"}}),
    ],
)
def test_only_plain_text_is_continued(
    server: Provider, name: str, chunks: list[bytes], options: Any
) -> None:
    server.reply = lambda _: Replied(200, SSE, chunks=chunks, cut=True)
    before = len(server.received)
    with client(server, name) as ours:
        _, error = read(ours.stream(MESSAGES, on_break="continue", **options))
    assert isinstance(error, LLMConnectionError)
    assert error.partial is not None
    assert len(server.received) == before + 1


def test_a_provider_that_rejects_the_beginning(server: Provider) -> None:
    replies = iter([Model(3)(request(MESSAGES)), REFUSED])
    server.reply = lambda _: next(replies)
    with client(server) as ours:
        _, error = read(ours.stream(MESSAGES, on_break="continue"))
    assert isinstance(error, LLMRequestError)
    assert error.partial is not None
    assert error.partial["data"]["content"] == "".join(PIECES[:3])


def test_a_complete_json_answer_may_be_the_rest(server: Provider) -> None:
    replies = iter([Model(3)(request(MESSAGES)), answer(TEXT[9:])])
    server.reply = lambda _: next(replies)
    with client(server) as ours:
        stream = ours.stream(MESSAGES, on_break="continue")
        deltas, _ = read(stream)
        assert text_of(deltas) == TEXT == stream.result()["data"]["content"]


# Restart.


@pytest.mark.proves("LLM2-restart")
@pytest.mark.parametrize("at", range(1, COUNT))
def test_an_answer_is_restarted_after_any_piece(server: Provider, at: int) -> None:
    server.reply = Model(at, at)
    with client(server, "openai") as ours:
        stream = ours.stream(MESSAGES, on_break="restart")
        deltas, error = read(stream)
        response = stream.result()
    assert error is None
    places = [n for n, delta in enumerate(deltas) if isinstance(delta, Restarted)]
    assert len(places) == 2
    assert text_of(deltas[: places[0]]) == text_of(deltas[places[0] : places[1]])
    assert text_of(deltas[places[1] :]) == TEXT == response["data"]["content"]
    restarted = deltas[places[0]]
    assert isinstance(restarted, Restarted)
    assert restarted.model == "m"
    assert "the connection broke in the middle of the answer" in restarted.reason
    assert_spent(response, attempts=3)


def test_the_next_model_may_restart_the_answer(server: Provider) -> None:
    def reply(received: Received) -> Replied:
        broken = received.json["model"] == "m"
        return Model(2)(received) if broken else Model()(received)

    server.reply = reply
    with client(server, "openai", max_retries=1) as ours:
        stream = ours.stream(MESSAGES, on_break="restart", fallbacks=["other"])
        deltas, _ = read(stream)
        response = stream.result()
    assert [delta.model for delta in deltas if isinstance(delta, Restarted)] == ["m", "other"]
    assert (response["model"], response["data"]["content"]) == ("other", TEXT)


def test_an_answer_that_breaks_every_time(server: Provider) -> None:
    server.reply = Model(*[2] * 10)
    with client(server, "openai", max_retries=2) as ours:
        deltas, error = read(ours.stream(MESSAGES, on_break="restart"))
    assert isinstance(error, LLMConnectionError)
    assert error.attempts == 3
    assert error.partial is not None
    assert error.partial["data"]["content"] == "".join(PIECES[:2])
    assert text_of(deltas) == "".join(PIECES[:2]) * 3
    one, spent = error.partial["usage"], error.spent
    assert spent is not None
    assert spent["total_tokens"] == 3 * one["total_tokens"]


@pytest.mark.proves("LLM2-restart-text")
def test_text_refuses_to_join_two_answers(server: Provider) -> None:
    with (
        client(server) as ours,
        ours.stream(MESSAGES, on_break="restart") as stream,
        pytest.raises(LLMRequestError, match="Restarted"),
    ):
        stream.text()


# Otherwise.


@pytest.mark.proves("LLM2-break-error")
def test_without_a_choice_a_break_is_an_error(server: Provider) -> None:
    server.reply = Model(3)
    with client(server) as ours:
        _, error = read(ours.stream(MESSAGES))
    assert isinstance(error, LLMConnectionError)
    assert error.attempts == 1
    assert error.partial is not None
    assert error.spent == error.partial["usage"]


def test_an_unknown_choice_is_refused(server: Provider) -> None:
    with client(server) as ours:
        options: Any = {"on_break": "retry"}
        with pytest.raises(LLMRequestError, match='on_break must be "error", "continue"'):
            ours.stream(MESSAGES, **options)


def test_the_cost_of_a_stream_that_was_left_is_known() -> None:
    async def go() -> tuple[Usage | None, Usage | None]:
        held = Replied(200, SSE, chunks=[event("Hi there")], hold=True)
        async with provider(held) as served, AsyncLLMClient(KEY, served.url, "gpt-4o") as ours:
            await asyncio.to_thread(load_prices().result, 20)
            stream = ours.stream(MESSAGES)
            before = stream.spent
            await anext(stream)
            await stream.aclose()
            return before, stream.spent

    before, after = asyncio.run(go())
    assert before is None
    assert after is not None
    assert after["completion_tokens"] == 2
    assert after["estimated"] is True
    assert after["cost_estimate"] is not None
    assert after["cost_estimate"] > 0


def counted(*types: str, cut: bool = True) -> Replied:
    """A stream of Anthropic, which counts the prompt before its first word."""
    bodies: dict[str, dict[str, Any]] = {
        "message_start": {"message": {"usage": {"input_tokens": 100_000, "output_tokens": 1}}},
        "content_block_delta": {"index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        "message_delta": {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
        "message_stop": {},
    }
    events = [json.dumps({"type": kind, **bodies[kind]}).encode() for kind in types]
    return Replied(200, SSE, chunks=[b"data: %b\n\n" % body for body in events], cut=cut)


BEGUN = counted("message_start")
WHOLE = counted("message_start", "content_block_delta", "message_delta", "message_stop", cut=False)


def claude(server: Provider, **options: Any) -> LLMClient:
    given = {"timeout": 10, "first_wait": 0.001, "max_retries": 3, **options}
    return LLMClient(KEY, server.url, "claude-sonnet-4-5", provider="anthropic", **given)


@pytest.mark.proves("LLM2-spent")
def test_attempts_that_broke_before_the_first_word_are_spent(server: Provider) -> None:
    server.reply = None
    server.replies = [BEGUN, BEGUN, BEGUN, WHOLE]
    with claude(server) as ours:
        response = ours.stream(MESSAGES).result()
    assert response["usage"]["prompt_tokens"] == 100_000
    assert (response["spent"]["prompt_tokens"], response["spent"]["completion_tokens"]) == (
        400_000,
        8,
    )


ROLE = b'data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}\n\n'
FAULT = b'data: {"error": {"message": "no", "code": "server_error"}}\n\n'
WITHOUT_COUNTS = {
    "the role": (Replied(200, SSE, chunks=[ROLE], cut=True), True),
    "the role and the end": (Replied(200, SSE, chunks=[ROLE + b"data: [DONE]\n\n"]), True),
    "the head": (Replied(200, SSE, chunks=[], cut=True), False),
    "a comment": (Replied(200, SSE, chunks=[b": wait\n\n"], cut=True), False),
    "the end": (Replied(200, SSE, chunks=[b"data: [DONE]\n\n"]), False),
    "an error": (Replied(200, SSE, chunks=[FAULT]), False),
    "a refusal": (Replied(503, body=b"busy"), False),
}


@pytest.mark.parametrize(("broken", "begun"), WITHOUT_COUNTS.values(), ids=WITHOUT_COUNTS)
def test_a_prompt_that_nobody_counted_is_estimated_if_the_answer_had_begun(
    broken: Replied, begun: bool, server: Provider
) -> None:
    server.reply = None
    server.replies = [broken, broken, Replied(200, SSE, chunks=[event("Hi"), END])]
    with client(server) as ours:
        stream = ours.stream(MESSAGES)
        response = stream.result()
    assert ("spent" in response) is begun
    assert stream.spent == response.get("spent", response["usage"])
    if begun:
        usage, spent = response["usage"], response["spent"]
        assert spent["prompt_tokens"] == 3 * usage["prompt_tokens"] > 0
        assert spent["completion_tokens"] == usage["completion_tokens"]
        assert spent["estimated"] is True


def test_an_error_has_what_was_spent_before_the_first_word(server: Provider) -> None:
    budget = Budget(100.0)
    server.reply = None
    server.replies = [BEGUN] * 4
    state = MemoryState()
    with claude(server, budgets=budget, state=state) as ours:
        stream = ours.stream(MESSAGES)
        with pytest.raises(LLMConnectionError) as caught:
            stream.result()
    assert caught.value.partial is None
    assert caught.value.spent == stream.spent
    assert stream.spent is not None
    assert stream.spent["prompt_tokens"] == 400_000
    spent = state.totals(budget.account(None, 0.0).name)[0] / 1e9
    assert spent == pytest.approx(stream.spent["cost_estimate"])


def test_a_stream_that_was_left_before_its_first_word_is_spent() -> None:
    async def go() -> Usage | None:
        held = Replied(200, SSE, chunks=BEGUN.chunks, hold=True)
        async with (
            provider(held) as served,
            AsyncLLMClient(KEY, served.url, "claude-sonnet-4-5", provider="anthropic") as ours,
        ):
            stream = ours.stream(MESSAGES)
            waiting = asyncio.ensure_future(anext(stream))
            async with asyncio.timeout(20):
                while stream.spent is None:  # noqa: ASYNC110 - it has no event
                    await asyncio.sleep(0.005)
                waiting.cancel()
                await asyncio.wait([waiting])
            await stream.aclose()
            return stream.spent

    spent = asyncio.run(go())
    assert spent is not None
    assert spent["prompt_tokens"] == 100_000


def test_a_withheld_answer_that_was_counted_is_spent(server: Provider) -> None:
    choice = {"message": {"content": None}, "finish_reason": "content_filter"}
    usage = {"prompt_tokens": 50, "completion_tokens": 0}
    body = json.dumps({"choices": [choice], "usage": usage}).encode()
    server.reply = lambda _: Replied(200, body=body)
    with client(server) as ours, pytest.raises(LLMFilteredError) as caught:
        ours.generate(MESSAGES)
    assert caught.value.spent is not None
    assert caught.value.spent["prompt_tokens"] == 50


def test_the_result_of_a_stream_that_was_left_has_what_was_received(server: Provider) -> None:
    server.reply = lambda _: Replied(200, SSE, chunks=[event("Hi")], hold=True)
    with client(server) as ours:
        stream = ours.stream(MESSAGES)
        next(stream)
        stream.close()
        with pytest.raises(LLMError, match="closed before its answer was complete") as caught:
            stream.result()
    assert caught.value.partial is not None
    assert caught.value.partial["data"]["content"] == "Hi"
    assert caught.value.spent is not None
    assert caught.value.spent == stream.spent


def test_objects_need_a_format(server: Provider) -> None:
    with client(server) as ours, pytest.raises(LLMRequestError, match="response_format"):
        ours.stream(MESSAGES).objects()


# Other formats.


def claude_events(text: str) -> list[bytes]:
    def event(kind: str, **fields: Any) -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()

    pieces = [text[at : at + 3] for at in range(0, len(text), 3)]
    block = {"type": "text", "text": ""}
    return [
        event("message_start", message={"usage": {"input_tokens": 9, "output_tokens": 1}}),
        event("content_block_start", index=0, content_block=block),
        *(
            event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
            for piece in pieces
        ),
        event("content_block_stop", index=0),
        event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 20}),
        event("message_stop"),
    ]


def beginning(message: Any) -> str:
    content: Any = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


@pytest.mark.parametrize("at", [3, 5, COUNT, COUNT + 1, COUNT + 2, COUNT + 3])
def test_an_older_claude_continues_its_answer(server: Provider, at: int) -> None:
    asked: list[Any] = []

    def reply(received: Received) -> Replied:
        asked.append(received.json["messages"])
        last = asked[-1][-1]
        begun = beginning(last) if last["role"] == "assistant" else ""
        events = claude_events(TEXT[len(begun) :])
        if len(asked) > 1:
            return Replied(200, SSE, chunks=events)
        return Replied(200, SSE, chunks=events[:at], cut=True)

    server.reply = reply
    with client(server, "anthropic") as ours:
        response = ours.stream(MESSAGES, "claude-sonnet-4-5", on_break="continue").result()
    assert response["data"]["content"] == TEXT
    assert beginning(asked[1][-1]) == TEXT[: (at - 2) * 3].rstrip()
    assert response["spent"]["prompt_tokens"] > response["usage"]["prompt_tokens"]
