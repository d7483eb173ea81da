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
    "What is this?": ["A cat."],
    "Say hi.": ["Hi."],
    "Say thanks.": ["Thanks."],
    "Say bye.": ["Bye."],
}
PICTURE = "https://example.org/cat.png"
FAILS = {"gpt-down": (503, "server_error"), "gpt-gone": (404, "model_not_found")}
SLOW = 0.02  # seconds of an answer, so that requests at the same time are seen


def model_service() -> Callable[[Received], Replied]:
    """Return the function that answers the requests of one program."""
    ids = itertools.count(1)
    busy = itertools.cycle((True, False))

    def reply(received: Received) -> Replied:
        headers = {"x-request-id": f"req-{next(ids)}"}
        if received.headers.get("authorization") != f"Bearer {KEY}":
            return _error(401, "invalid_api_key", headers)
        asked = received.json
        if received.path.endswith("/embeddings"):
            return _embeddings(asked, headers)
        if asked["model"] in FAILS:
            return _error(*FAILS[asked["model"]], headers)
        if asked["model"] == "gpt-busy" and next(busy):
            return _error(429, "rate_limit_exceeded", {"retry-after-ms": "10", **headers})
        if asked["model"].startswith("status-"):
            return _error(int(asked["model"].removeprefix("status-")), None, headers)
        return _chat(asked, headers)

    return reply


def _chat(asked: dict[str, Any], headers: dict[str, str]) -> Replied:
    message = asked["messages"][-1]
    if message["role"] == "tool":
        return _text([f"The sky is {message['content']}."], asked, headers)
    question = _question(message["content"])
    if question == "Think hard.":
        return Replied(silent=True)
    if "tools" in asked:
        function = _function(asked["tools"][0]["function"]["name"], question)
        call = {"index": 0, "id": "call_1", "type": "function", "function": function}
        return _answer({"content": None, "tool_calls": [call]}, "tool_calls", asked, headers)
    return _text(ANSWERS[question], asked, headers)


def _question(content: str | list[dict[str, Any]]) -> str:
    """Return the text of a message; a question about a picture must have one."""
    if isinstance(content, str):
        return content
    text, picture = content
    assert picture["image_url"]["url"] == PICTURE
    return str(text["text"])


def _function(tool: str, question: str) -> dict[str, str]:
    """Return a call: of a tool, or of the one that stands for the object or text asked for."""
    if tool == "weather":
        return CALL
    answer = "".join(ANSWERS[question])
    is_object = answer.startswith("{")
    return {"name": tool, "arguments": answer if is_object else json.dumps({"content": answer})}


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
    return Replied(headers=headers, body=json.dumps(document).encode(), slow=SLOW)


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
