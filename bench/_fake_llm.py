"""An OpenAI-compatible server with bytes made beforehand: whole answers, and streams of chunks.

The path begins with how a stream comes: `/burst` as fast as it is read, `/paced` a flush each
millisecond. A flush is one write of one to seven chunks, each an event and an HTTP chunk of its
own. Cookies are left out: keeping them costs some clients more than the call. A question with tools
is answered with a tool call, and its result with the text. `/limited` admits 100 requests in each
second; others get a 429 that asks to wait a second.
"""

import asyncio
import json
import re
import threading
import time
from collections.abc import Sequence
from itertools import cycle
from typing import Any

from ._child import answer
from ._wire import SSE_HEAD, chunk

__all__ = ["CHUNKS", "COMPLETION_TOKENS", "MODEL", "PROMPT_TOKENS", "TEXT", "texts"]

MODEL = "gpt-4o-mini"
CHUNKS = 1_000
PROMPT_TOKENS, COMPLETION_TOKENS = 57, 118
_WORDS = "The report says that revenue grew in every region, and most of all where it was least. "
TEXT = (_WORDS * 6)[:500]

_PACE = 0.001
_FLUSHES = (1, 4, 2, 7, 1, 5, 3, 1)
_ID = "chatcmpl-CQx7Tq0m3VbJc8YwLr2NnKfDsZe5H"
_USAGE = {
    "prompt_tokens": PROMPT_TOKENS,
    "completion_tokens": COMPLETION_TOKENS,
    "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
    "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    "completion_tokens_details": {
        "reasoning_tokens": 0,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    },
}
_COMMON = {"id": _ID, "created": 1767605400, "model": "gpt-4o-mini-2024-07-18"}
_MARKS = {"service_tier": "default", "system_fingerprint": "fp_560af6e559"}
_HEADERS = b"""\
Date: Mon, 05 Jan 2026 09:30:00 GMT\r
Connection: keep-alive\r
access-control-expose-headers: X-Request-ID\r
openai-organization: user-x2bq8m5tnw0cvr7k\r
openai-processing-ms: 1381\r
openai-project: proj_7Jm2Qw9TzXc4VbNk\r
openai-version: 2020-10-01\r
x-envoy-upstream-service-time: 1402\r
x-ratelimit-limit-requests: 10000\r
x-ratelimit-limit-tokens: 10000000\r
x-ratelimit-remaining-requests: 9999\r
x-ratelimit-remaining-tokens: 9999943\r
x-ratelimit-reset-requests: 6ms\r
x-ratelimit-reset-tokens: 0s\r
x-request-id: req_5f0c1f9d2a7e4b5f8f0e6c1d2a8b4e57\r
x-content-type-options: nosniff\r
strict-transport-security: max-age=31536000; includeSubDomains; preload\r
cf-cache-status: DYNAMIC\r
server: cloudflare\r
cf-ray: 9b8f3d5e2c7a1f04-FRA\r
alt-svc: h3=":443"; ma=86400\r
"""
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


def texts() -> list[str]:
    """Return the texts of the chunks of a stream, a word or a part of one each."""
    return [_WORDS[number * 5 % 80 :][: 2 + number % 6] for number in range(CHUNKS)]


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _with_headers(head: bytes) -> bytes:
    return head.replace(b"\r\n\r\n", b"\r\n" + _HEADERS + b"\r\n")


def _whole() -> bytes:
    text: dict[str, Any] = {"role": "assistant", "content": TEXT, "refusal": None}
    message = {**text, "annotations": []}
    return _reply(message, "stop")


def _reply(message: dict[str, Any], finish: str) -> bytes:
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    reply = {**_COMMON, "object": "chat.completion", "choices": [choice], "usage": _USAGE}
    body = _compact(reply | _MARKS)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return _with_headers(head % len(body)) + body


def _event(choices: Sequence[dict[str, Any]], usage: dict[str, Any] | None = None) -> bytes:
    event = {**_COMMON, "object": "chat.completion.chunk", **_MARKS, "choices": list(choices)}
    return chunk(b"data: %b\n\n" % _compact(event | {"usage": usage, "obfuscation": "r8Nq2"}))


def _choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _flushes() -> list[bytes]:
    """Return a stream as the writes that it is sent with."""
    events = [_event([_choice({"content": text})]) for text in texts()]
    flushes, sizes = [], cycle(_FLUSHES)
    while events:
        size = next(sizes)
        flushes.append(b"".join(events[:size]))
        del events[:size]
    first = _event([_choice({"role": "assistant", "content": "", "refusal": None})])
    last = _event([_choice({}, "stop")]) + _event([], _USAGE)
    done = chunk(b"data: [DONE]\n\n") + chunk(b"")
    return [_with_headers(SSE_HEAD) + first, *flushes, last + done]


def _tool_call() -> bytes:
    function = {"name": "get_weather", "arguments": '{"city":"Oslo","unit":"celsius"}'}
    call = {"id": "call_a8Qm2LxW7", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}
    return _reply(message, "tool_calls")


_BUSY = _compact({"error": {"message": "too many", "code": "rate_limit_exceeded"}})
_REJECTED = (
    b"HTTP/1.1 429 Busy\r\nRetry-After: 1\r\nContent-Length: %d\r\n\r\n" % len(_BUSY) + _BUSY
)
_ADMITTED = 100
_admitted = [0, 0]  # the second, and how many in it


def _is_admitted() -> bool:
    second = int(time.monotonic())
    if second != _admitted[0]:
        _admitted[:] = second, 0
    _admitted[1] += 1
    return _admitted[1] <= _ADMITTED


_WHOLE, _TOOL_CALL, _STREAM = _whole(), _tool_call(), _flushes()


class _Connection(asyncio.Protocol):
    """Answers one request after the other."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._request = b""

    def data_received(self, data: bytes) -> None:
        self._request += data
        head, end, body = self._request.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not end or length is None or len(body) < int(length[1]):
            return
        self._request = b""
        asked = json.loads(body)
        if head.startswith(b"POST /limited") and not _is_admitted():
            self._transport.write(_REJECTED)
        elif asked.get("tools") and asked["messages"][-1]["role"] == "user":
            self._transport.write(_TOOL_CALL)
        elif asked.get("stream"):
            pace = _PACE if head.startswith(b"POST /paced") else 0
            self._send(iter(_STREAM), pace)
        else:
            self._transport.write(_WHOLE)

    def _send(self, flushes: Any, pace: float) -> None:
        for flush in flushes:
            self._transport.write(flush)
            asyncio.get_running_loop().call_later(pace, self._send, flushes, pace)
            return


async def _serve(started: "threading.Event", port: list[int]) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Connection, "127.0.0.1", 0, backlog=2_000)
    port.append(server.sockets[0].getsockname()[1])
    started.set()
    await server.serve_forever()


if __name__ == "__main__":
    _started, _port = threading.Event(), list[int]()
    threading.Thread(target=lambda: asyncio.run(_serve(_started, _port)), daemon=True).start()
    _started.wait()
    answer(_port[0])
