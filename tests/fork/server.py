"""A server for CAP, A2A and a model's API that repeats the word of each request.

A word that begins with `live` is answered in two halves: the second one is sent when somebody
posts to `/release/WORD`. A post to `/ended/WORD` is answered when that response has ended.
"""

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any
from uuid import uuid4

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

_LIMIT = 10.0
_WORD = re.compile(rb"(?:live|word)-[0-9a-z-]+")

Halves = tuple[list[Any], list[Any]]


class Server:
    """The responses, and which of them may go on or have ended."""

    def __init__(self) -> None:
        self._gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._ended: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def release(self, request: Request) -> Response:
        self._gates[request.path_params["word"]].set()
        return Response()

    async def wait_for_end(self, request: Request) -> Response:
        async with asyncio.timeout(_LIMIT):
            await self._ended[request.path_params["word"]].wait()
        return Response()

    async def assist(self, request: Request) -> Response:
        word = _word(await request.body())
        return self._stream(word, _packets(word))

    async def rpc(self, request: Request) -> Response:
        body = await request.body()
        word, call = _word(body), json.loads(body)

        def answer(result: Any) -> dict[str, Any]:
            return {"jsonrpc": "2.0", "id": call["id"], "result": result}

        if call["method"] == "SendMessage":
            parts = [{"text": word}]
            return JSONResponse(
                answer({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": parts}})
            )
        return self._stream(word, _task_events(word, answer))

    async def completions(self, request: Request) -> Response:
        body = await request.body()
        word, call = _word(body), json.loads(body)
        if not call.get("stream"):
            message = {"role": "assistant", "content": word}
            return JSONResponse(_completion({"message": message, "finish_reason": "stop"}))
        return self._stream(word, _chunks(word))

    def _stream(self, word: str, halves: Halves) -> Response:
        return StreamingResponse(self._events(word, halves), media_type="text/event-stream")

    async def _events(self, word: str, halves: Halves) -> AsyncIterator[bytes]:
        first, second = halves
        try:
            yield _sse(first)
            if word.startswith("live"):
                await self._gates[word].wait()
            yield _sse(second)
        finally:
            self._ended[word].set()


def app() -> Starlette:
    """Make the application."""
    server = Server()
    paths = {
        "/release/{word}": server.release,
        "/ended/{word}": server.wait_for_end,
        "/assist": server.assist,
        "/rpc": server.rpc,
        "/v1/chat/completions": server.completions,
    }
    return Starlette(routes=[Route(path, act, methods=["POST"]) for path, act in paths.items()])


def _word(body: bytes) -> str:
    found = _WORD.search(body)
    assert found is not None, body
    return found[0].decode()


def _sse(values: Iterable[Any]) -> bytes:
    texts = (value if isinstance(value, str) else json.dumps(value) for value in values)
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def _packets(word: str) -> Halves:
    stream_id = str(uuid4())

    def packet(seq: int, op: str, p: Any) -> dict[str, Any]:
        return {"stream_id": stream_id, "seq": seq, "op": op, "t": "2025-01-01T00:00:00Z", "p": p}

    return [packet(0, "DELTA", f"{word} begins")], [
        packet(1, "DELTA", f", {word} ends"),
        packet(2, "CLOSE", {}),
    ]


def _task_events(word: str, answer: Callable[[Any], Any]) -> Halves:
    ids = {"taskId": f"task-{word}", "contextId": "context"}

    def artifact(text: str, *, last: bool) -> Any:
        made = {"artifactId": "a", "parts": [{"text": text}]}
        return answer({"artifactUpdate": {**ids, "artifact": made, "append": last}})

    task = {"id": ids["taskId"], "contextId": "context", "status": {"state": "TASK_STATE_WORKING"}}
    over = {"statusUpdate": {**ids, "status": {"state": "TASK_STATE_COMPLETED"}}}
    return [answer({"task": task}), artifact(f"{word} begins", last=False)], [
        artifact(f", {word} ends", last=True),
        answer(over),
    ]


def _chunks(word: str) -> Halves:
    def delta(text: str) -> dict[str, Any]:
        return _completion({"delta": {"content": text}, "finish_reason": None})

    return [delta(f"{word} begins")], [
        delta(f", {word} ends"),
        _completion({"delta": {}, "finish_reason": "stop"}),
        "[DONE]",
    ]


def _completion(choice: dict[str, Any]) -> dict[str, Any]:
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"id": "c", "model": "m", "choices": [{"index": 0, **choice}], "usage": usage}
