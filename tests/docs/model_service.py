"""A provider on loopback that speaks OpenAI's format, for the pages about moving from others."""

import base64
import itertools
import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

from tests.llm.server import Received, Replied

__all__ = ["KEY", "model_service"]

KEY = "sk-key"
USAGE = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
CALL = {"name": "weather", "arguments": '{"city": "Rome"}'}
ANSWERS = {
    "Say hello.": ["Hello", "."],
    "Tell me a story.": ["Once upon a time", " there was", " a stream."],
    "Break off.": ["Once", " upon", " a"],
    "How big is Oslo?": ['{"name": "Oslo",', ' "people": 717710}'],
}


def model_service() -> Callable[[Received], Replied]:
    """Return the function that answers the requests of one program."""
    ids = itertools.count(1)

    def reply(received: Received) -> Replied:
        headers = {"x-request-id": f"req-{next(ids)}"}
        if received.headers.get("authorization") != f"Bearer {KEY}":
            return _error(401, "invalid_api_key", headers)
        asked = received.json
        if received.path.endswith("/embeddings"):
            return _embeddings(asked, headers)
        if asked["model"] == "gpt-down":
            return _error(503, "server_error", headers)
        if asked["model"].startswith("status-"):
            return _error(int(asked["model"].removeprefix("status-")), None, headers)
        return _chat(asked, headers)

    return reply


def _chat(asked: dict[str, Any], headers: dict[str, str]) -> Replied:
    message = asked["messages"][-1]
    if message["role"] == "tool":
        return _text([f"The sky is {message['content']}."], asked, headers)
    if "tools" in asked:
        call = {"index": 0, "id": "call_1", "type": "function", "function": CALL}
        return _answer({"content": None, "tool_calls": [call]}, "tool_calls", asked, headers)
    return _text(ANSWERS[message["content"]], asked, headers)


def _text(pieces: Sequence[str], asked: dict[str, Any], headers: dict[str, str]) -> Replied:
    if not asked.get("stream"):
        return _answer({"content": "".join(pieces)}, "stop", asked, headers)
    deltas = [_chunk({"role": "assistant", "content": piece}, None, asked) for piece in pieces]
    if asked["messages"][-1]["content"] == "Break off.":
        return _stream(deltas, headers)  # the body ends, but the answer does not
    return _stream([*deltas, *_end("stop", asked)], headers)


def _answer(
    message: dict[str, Any], finish: str, asked: dict[str, Any], headers: dict[str, str]
) -> Replied:
    if asked.get("stream"):
        return _stream([_chunk(message, None, asked), *_end(finish, asked)], headers)
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
    document = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": asked["model"],
        "choices": [choice],
        "usage": USAGE,
    }
    return Replied(headers=headers, body=json.dumps(document).encode())


def _end(finish: str, asked: dict[str, Any]) -> list[bytes]:
    last = [_chunk({}, finish, asked)]
    if asked.get("stream_options", {}).get("include_usage"):
        last.append(_event({**_head(asked), "choices": [], "usage": USAGE}))
    return [*last, b"data: [DONE]\n\n"]


def _chunk(delta: dict[str, Any], finish: str | None, asked: dict[str, Any]) -> bytes:
    return _event(
        {**_head(asked), "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    )


def _head(asked: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": asked["model"],
    }


def _event(document: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % json.dumps(document).encode()


def _stream(chunks: list[bytes], headers: dict[str, str]) -> Replied:
    return Replied(headers={"content-type": "text/event-stream", **headers}, chunks=chunks)


def _embeddings(asked: dict[str, Any], headers: dict[str, str]) -> Replied:
    texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
    vectors = [[len(text) / 2, 0.25] for text in texts]
    data = [
        {"object": "embedding", "index": index, "embedding": _vector(vector, asked)}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": 9, "total_tokens": 9}
    document = {"object": "list", "data": data, "model": asked["model"], "usage": usage}
    return Replied(headers=headers, body=json.dumps(document).encode())


def _vector(vector: list[float], asked: dict[str, Any]) -> list[float] | str:
    if asked.get("encoding_format") != "base64":
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _error(status: int, code: str | None, headers: dict[str, str]) -> Replied:
    error = {"message": "It failed on purpose.", "type": "error", "code": code}
    return Replied(status, headers, json.dumps({"error": error}).encode())
