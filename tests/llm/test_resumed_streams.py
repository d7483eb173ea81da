"""Streams of background responses over the wire: cut after every event, resumed, cancelled."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from coreason_client.llm import (
    AsyncLLMClient,
    LLMClient,
    LLMConnectionError,
    LLMError,
    LLMRequestError,
    Restarted,
    TextDelta,
)
from coreason_client.llm._continuation import RESUMABLE_SECONDS
from coreason_client.llm._recovery import Recovery

from .play import Play
from .server import Provider, Received, Replied, ServerInThread, provider
from .test_client import KEY, MESSAGES, SSE

TEXT = "The sky is blue, and wide."
PIECES = [TEXT[start : start + 3] for start in range(0, len(TEXT), 3)]
ITEM = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
USAGE = {"input_tokens": 12, "output_tokens": 8, "total_tokens": 20}


def events() -> list[bytes]:
    """Return all events of the response, as they are sent."""
    done = {**ITEM, "content": [{"type": "output_text", "text": TEXT}]}
    whole = {"id": "resp_1", "status": "completed", "output": [done], "usage": USAGE}
    bodies: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"id": "resp_1", "status": "queued"}},
        {"type": "response.output_item.added", "output_index": 0, "item": ITEM},
        *(
            {"type": "response.output_text.delta", "item_id": "msg_1", "delta": piece}
            for piece in PIECES
        ),
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": whole},
    ]
    return [
        f"event: {body['type']}\ndata: {json.dumps({**body, 'sequence_number': n})}\n\n".encode()
        for n, body in enumerate(bodies)
    ]


EVENTS = events()


class Background:
    """Produces one response; the nth connection is cut after `cuts[n]` events.

    The first one lacks the event `lost`.
    """

    def __init__(self, *cuts: int, resumable: bool = True, lost: int | None = None) -> None:
        self._cuts = list(cuts)
        self._lost = lost
        self._resumable = resumable
        self.asked: list[str] = []
        self.bodies: list[Any] = []

    def __call__(self, received: Received) -> Replied:
        url = urlsplit(received.path)
        self.asked.append(received.path)
        if url.path.endswith("/cancel"):
            return Replied(200, body=b"{}")
        if url.path.endswith("/responses"):
            self.bodies.append(received.json)
            return self._stream(0)
        if not self._resumable:
            return Replied(404, body=b'{"error": {"message": "no such response"}}')
        return self._stream(int(parse_qs(url.query)["starting_after"][0]) + 1)

    def _stream(self, first: int) -> Replied:
        rest = EVENTS[first:]
        if self._lost is not None:
            del rest[self._lost]
            self._lost = None
        if not self._cuts:
            return Replied(200, SSE, chunks=rest)
        return Replied(200, SSE, chunks=rest[: self._cuts.pop(0)], cut=True)


@pytest.fixture(scope="module")
def server() -> Iterator[Provider]:
    with ServerInThread() as running:
        yield running


def client(server: Provider, **options: Any) -> LLMClient:
    given = {"timeout": 10, "first_wait": 0.001, "max_retries": 2, **options}
    return LLMClient(KEY, server.url, "m", provider="openai", wire="responses", **given)


def text_of(deltas: list[Any]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


@pytest.mark.proves("LLM2-resume-invisible")
@pytest.mark.parametrize("at", range(1, len(EVENTS)))
def test_a_break_after_any_event_is_not_seen(server: Provider, at: int) -> None:
    server.reply = model = Background(at)
    with client(server) as ours:
        stream = ours.stream(MESSAGES, resume=True)
        deltas = list(stream)
        response = stream.result()
    assert text_of(deltas) == TEXT == response["data"]["content"]
    assert "spent" not in response  # it is the same response, and is billed once
    assert (response["usage"]["prompt_tokens"], response["usage"]["completion_tokens"]) == (12, 8)
    [body] = model.bodies
    assert (body["background"], body["store"], body["stream"]) == (True, True, True)
    assert [urlsplit(path).path.rpartition("/v1")[2] for path in model.asked] == [
        "/responses",
        "/responses/resp_1",
    ]


def test_a_stream_that_breaks_after_each_event_is_read_to_its_end(server: Provider) -> None:
    server.reply = model = Background(*[1] * (len(EVENTS) - 1))
    with client(server) as ours:  # more breaks than `max_retries`, but each one after progress
        assert ours.stream(MESSAGES, resume=True).result()["data"]["content"] == TEXT
    assert len(model.asked) == len(EVENTS)


@pytest.mark.parametrize("lost", range(1, len(EVENTS) - 1))
def test_a_lost_event_is_not_seen(server: Provider, lost: int) -> None:
    server.reply = model = Background(lost=lost)
    with client(server) as ours:
        stream = ours.stream(MESSAGES, resume=True)
        assert text_of(list(stream)) == TEXT == stream.result()["data"]["content"]
    is_last = lost == len(EVENTS) - 2  # then nothing of the text is missing
    assert len(model.asked) == (1 if is_last else 2)
    assert is_last or f"starting_after={lost - 1}" in model.asked[1]


@pytest.mark.proves("LLM2-gap")
def test_a_lost_event_is_a_lost_connection_where_nothing_is_resumed(server: Provider) -> None:
    server.reply = Background(lost=4)
    with (
        client(server) as ours,
        pytest.raises(LLMConnectionError, match="5 came after 3") as caught,
    ):
        ours.stream(MESSAGES).result()
    assert caught.value.partial is not None
    assert caught.value.partial["data"]["content"] == "".join(PIECES[:2])
    server.reply = Background(lost=4)
    with client(server) as ours:
        response = ours.stream(MESSAGES, on_break="restart").result()
    assert response["data"]["content"] == TEXT


def test_a_resumption_without_progress_is_given_up(server: Provider) -> None:
    server.reply = model = Background(4, 0, 0, 0, 0)
    with client(server) as ours, pytest.raises(LLMConnectionError) as caught:
        ours.stream(MESSAGES, resume=True).result()
    assert caught.value.partial is not None
    assert caught.value.partial["data"]["content"] == "".join(PIECES[:2])
    assert "broke in the middle" in str(caught.value)
    assert [path for path in model.asked if path.endswith("/cancel")]
    assert len(model.bodies) == 1


def test_a_response_that_is_gone_is_restarted_if_the_caller_wants_that(server: Provider) -> None:
    server.reply = model = Background(4, resumable=False)
    with client(server) as ours:
        deltas = list(ours.stream(MESSAGES, resume=True, on_break="restart"))
    [place] = [n for n, delta in enumerate(deltas) if isinstance(delta, Restarted)]
    assert text_of(deltas[place:]) == TEXT
    assert len(model.bodies) == 2


def test_a_response_that_is_gone_is_otherwise_the_error_of_the_break(server: Provider) -> None:
    server.reply = Background(4, resumable=False)
    with client(server) as ours, pytest.raises(LLMError, match="broke in the middle") as caught:
        ours.stream(MESSAGES, resume=True).result()
    assert caught.value.partial is not None


@pytest.mark.proves("LLM2-resume-cancel")
def test_leaving_the_stream_cancels_the_response() -> None:
    async def go() -> list[str]:
        async with provider() as served:
            model = Background()
            served.reply = lambda received: (
                Replied(200, SSE, chunks=EVENTS[:4], hold=True)
                if received.path.endswith("/responses")
                else model(received)
            )
            ours = AsyncLLMClient(KEY, served.url, "m", provider="openai", wire="responses")
            async with ours, ours.stream(MESSAGES, resume=True) as stream:
                await anext(stream)
            return model.asked

    [path] = asyncio.run(go())
    assert path.endswith("/responses/resp_1/cancel")


def test_cancelling_the_task_cancels_the_response() -> None:
    async def go() -> list[str]:
        async with provider() as served:
            model, begun = Background(), asyncio.Event()
            served.reply = lambda received: (
                Replied(200, SSE, chunks=EVENTS[:4], hold=True)
                if received.path.endswith("/responses")
                else model(received)
            )
            ours = AsyncLLMClient(KEY, served.url, "m", provider="openai", wire="responses")

            async def read() -> None:
                async with ours.stream(MESSAGES, resume=True) as stream:
                    async for _ in stream:
                        begun.set()

            async with ours:
                task = asyncio.create_task(read())
                await asyncio.wait_for(begun.wait(), 10)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            return model.asked

    [path] = asyncio.run(go())
    assert path.endswith("/responses/resp_1/cancel")


def test_a_complete_stream_is_not_cancelled(server: Provider) -> None:
    server.reply = model = Background()
    with client(server) as ours:
        ours.stream(MESSAGES, resume=True).result()
    assert not [path for path in model.asked if path.endswith("/cancel")]


@pytest.mark.proves("LLM2-resume-opt-in")
def test_without_the_option_nothing_is_stored(server: Provider) -> None:
    server.reply = model = Background(4)
    with client(server) as ours, pytest.raises(LLMConnectionError):
        ours.stream(MESSAGES).result()
    [body] = model.bodies
    assert body["store"] is False
    assert "background" not in body
    assert len(model.asked) == 1


@pytest.mark.proves("LLM2-resume-age")
def test_an_old_response_is_not_resumed() -> None:
    """The provider stores a response for about ten minutes."""
    now = [0.0]
    play = Play()
    recovery = Recovery(play.attempts, lambda: now[0])
    recovery.accepted()
    now[0] = RESUMABLE_SECONDS + 1

    class Reader:
        response_id, sequence, started = "resp_1", 3, True

    class Failed:
        retryable = True

    recovery._whole_plan.background = True
    reader: Any = Reader()
    failure: Any = Failed()
    assert not recovery._resume(failure, reader)


@pytest.mark.parametrize(
    ("options", "stream", "message"),
    [
        ({"provider": "openai"}, True, 'wire="responses"'),
        ({"provider": "mistral"}, True, "streams of mistral cannot be resumed"),
        ({"provider": "openai", "wire": "responses"}, False, "only a stream can be resumed"),
    ],
)
def test_where_it_cannot_be_had(options: Any, stream: bool, message: str) -> None:
    ours = LLMClient(KEY, "http://127.0.0.1:9/v1", "m", **options)
    call = ours.stream if stream else ours.generate
    with pytest.raises(LLMRequestError, match=message):
        call(MESSAGES, resume=True)
