"""A model for the examples: it says what the page wants, in the words of several providers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.llm.server import Received, Replied, ServerInThread

__all__ = ["FakeModel", "fake_model"]

_USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
_SSE = {"content-type": "text/event-stream"}


@dataclass
class FakeModel:
    """The next answers, each a text, or the name and the arguments of a tool call."""

    url: str = ""
    turns: list[str | tuple[str, str]] = field(default_factory=list)

    def script(self, comments: tuple[str, ...]) -> None:
        """Take the next answers from the comments of a page."""
        self.turns = []
        for comment in comments:
            kind, _, text = comment.partition(": ")
            if kind == "model says":
                self.turns.append(text)
            elif kind == "model calls":
                name, _, arguments = text.partition(" ")
                self.turns.append((name, arguments or "{}"))

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead the clients of this and of other libraries to it."""
        key = "sk-example-key"
        return {
            "LLM_API_KEY": key,
            "LLM_API_BASE_URL": self.url,
            "MAX_RETRIES": "0",
            "OPENAI_API_KEY": key,
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_BASE": f"{self.url}/v1",
            "ANTHROPIC_API_KEY": key,
            "ANTHROPIC_BASE_URL": self.url,
        }

    def reply(self, received: Received) -> Replied:
        path = received.path.partition("?")[0]
        if path.endswith("/models"):
            listed = [{"id": name, "object": "model"} for name in ("gpt-4o", "gpt-4o-mini")]
            return _json({"object": "list", "data": listed})
        asked = received.json
        if path.endswith("/embeddings"):
            vectors = [
                {"object": "embedding", "index": n, "embedding": [0.25, 0.5, float(n)]}
                for n, _ in enumerate(asked["input"])
            ]
            usage = {"prompt_tokens": 4, "total_tokens": 4}
            return _json({"object": "list", "data": vectors, "model": "m", "usage": usage})
        turn = self.turns.pop(0) if self.turns else "Hello."
        for end, answer in _WIRES.items():
            if path.endswith(end):
                return answer(turn, asked)
        return _json({"error": {"message": f"tests/docs/models.py does not speak {path}"}}, 404)


def _json(value: Any, status: int = 200) -> Replied:
    return Replied(status=status, body=json.dumps(value).encode())


def _events(events: list[tuple[str | None, Any]]) -> Replied:
    chunks = []
    for name, value in events:
        head = f"event: {name}\n" if name else ""
        data = value if isinstance(value, str) else json.dumps(value)
        chunks.append(f"{head}data: {data}\n\n".encode())
    return Replied(headers=_SSE, chunks=chunks)


def _pieces(text: str) -> list[str]:
    """Return a text in the pieces in which a model would stream it."""
    words = text.split(" ")
    return [word if n == 0 else f" {word}" for n, word in enumerate(words)]


def _openai(turn: str | tuple[str, str], asked: Any) -> Replied:
    finish = "stop" if isinstance(turn, str) else "tool_calls"
    if isinstance(turn, str):
        message: dict[str, Any] = {"content": turn}
        deltas: list[dict[str, Any]] = [{"content": piece} for piece in _pieces(turn)]
    else:
        function = {"name": turn[0], "arguments": turn[1]}
        call = {"index": 0, "id": "call_1", "type": "function", "function": function}
        message = {"content": None, "tool_calls": [call]}
        deltas = [{"tool_calls": [call]}]
    common = {"id": "chatcmpl-1", "created": 1, "model": asked["model"]}
    if not asked.get("stream"):
        message["role"] = "assistant"
        choice = {"index": 0, "message": message, "finish_reason": finish}
        whole = {"object": "chat.completion", "choices": [choice], "usage": _USAGE}
        return _json(common | whole)
    common["object"] = "chat.completion.chunk"
    choices = [
        *({"index": 0, "delta": delta, "finish_reason": None} for delta in deltas),
        {"index": 0, "delta": {}, "finish_reason": finish},
    ]
    events: list[tuple[str | None, Any]] = [(None, {**common, "choices": [one]}) for one in choices]
    events.append((None, {**common, "choices": [], "usage": _USAGE}))
    return _events([*events, (None, "[DONE]")])


def _anthropic(turn: str | tuple[str, str], asked: Any) -> Replied:
    usage = {"input_tokens": 9, "output_tokens": 3}
    if isinstance(turn, str):
        block: dict[str, Any] = {"type": "text", "text": turn}
        empty: dict[str, Any] = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(turn)]
    else:
        empty = {"type": "tool_use", "id": "call_1", "name": turn[0], "input": {}}
        block = {**empty, "input": json.loads(turn[1])}
        deltas = [{"type": "input_json_delta", "partial_json": turn[1]}]
    stop = "end_turn" if isinstance(turn, str) else "tool_use"
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"]}
    message |= {"stop_reason": stop, "stop_sequence": None, "usage": usage, "content": [block]}
    if not asked.get("stream"):
        return _json(message)
    values: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage},
        {"type": "message_stop"},
    ]
    return _events([(value["type"], value) for value in values])


def _responses(turn: str | tuple[str, str], asked: Any) -> Replied:
    if isinstance(turn, str):
        content = [{"type": "output_text", "text": turn, "annotations": []}]
        item: dict[str, Any] = {"type": "message", "role": "assistant", "content": content}
    else:
        item = {"type": "function_call", "call_id": "call_1", "name": turn[0], "arguments": turn[1]}
    usage = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
    answer = {"id": "resp_1", "object": "response", "status": "completed", "usage": usage}
    return _json({**answer, "model": asked["model"], "output": [{"id": "item_1", **item}]})


_WIRES = {"/chat/completions": _openai, "/messages": _anthropic, "/responses": _responses}


@contextmanager
def fake_model() -> Iterator[FakeModel]:
    """Serve a model for the length of a block."""
    model = FakeModel()
    with ServerInThread() as server:
        model.url, server.reply = server.url, model.reply
        yield model
