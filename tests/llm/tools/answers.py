"""Answers of a model that calls tools, on the wire and as response objects."""

import json
from typing import Any

from coreason_client.llm import AsyncLLMClient, LLMClient, Response
from tests.llm.server import Provider, Replied

__all__ = [
    "KEY",
    "MESSAGES",
    "SSE",
    "async_client",
    "calls",
    "response",
    "said",
    "streamed_calls",
    "streamed_text",
    "sync_client",
]

KEY = "sk-very-secret-0123456789"
MESSAGES = [{"role": "user", "content": "What is the weather in Rome?"}]
SSE = {"content-type": "text/event-stream"}
USAGE = {"prompt_tokens": 3, "completion_tokens": 2}

Wanted = tuple[str, dict[str, Any] | str]


def said(text: str, **usage: Any) -> Replied:
    """Return a reply with the last answer."""
    choice = {"message": {"content": text}, "finish_reason": "stop"}
    return Replied(body=json.dumps({"choices": [choice], "usage": USAGE | usage}).encode())


def calls(*wanted: Wanted, text: str | None = None, start: int = 1) -> Replied:
    """Return a reply with tool calls; their ids are call_1, call_2, …"""
    choice = {
        "message": {"content": text, "tool_calls": _wire_calls(wanted, start)},
        "finish_reason": "tool_calls",
    }
    return Replied(body=json.dumps({"choices": [choice], "usage": USAGE}).encode())


def _wire_calls(wanted: tuple[Wanted, ...], start: int) -> list[dict[str, Any]]:
    return [
        {
            "index": number - start,
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": name, "arguments": _wire_arguments(arguments)},
        }
        for number, (name, arguments) in enumerate(wanted, start)
    ]


def _wire_arguments(arguments: dict[str, Any] | str) -> str:
    """Return arguments as JSON; text is sent as it is."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _event(delta: dict[str, Any], end: str | None = None) -> bytes:
    choice = {"delta": delta, "finish_reason": end}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def streamed_text(*pieces: str, **options: Any) -> Replied:
    """Return a stream with the last answer."""
    chunks = [_event({"content": piece}) for piece in pieces]
    if not options.get("hold") and not options.get("cut"):
        chunks += [_event({}, "stop"), b"data: [DONE]\n\n"]
    return Replied(200, SSE, chunks=chunks, **options)


def streamed_calls(*wanted: Wanted, text: str = "", start: int = 1) -> Replied:
    """Return a stream with tool calls."""
    chunks = [_event({"content": text})] if text else []
    chunks += [
        _event({"tool_calls": _wire_calls(wanted, start)}),
        _event({}, "tool_calls"),
        b"data: [DONE]\n\n",
    ]
    return Replied(200, SSE, chunks=chunks)


def response(*wanted: Wanted, cost: float | None = 0.5, **data: Any) -> Response:
    """Return a response object with tool calls, or with the last answer."""
    return {
        "status": "success",
        "data": {
            "content": None if wanted else "done",
            "tool_calls": [
                {"id": f"call_{number}", "name": name, "arguments": arguments}
                for number, (name, arguments) in enumerate(wanted, 1)
            ],
            "finish_reason": "tool_calls" if wanted else "stop",
            **data,  # type: ignore[typeddict-item]
        },
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "total_tokens": 5,
            "cost_estimate": cost,
        },
        "model": "m",
        "provider": "openai",
        "request_id": None,
        "seconds": 0.1,
    }


def async_client(server: Provider, **options: Any) -> AsyncLLMClient:
    options = {"timeout": 10, "first_wait": 0.01, "max_retries": 0, **options}
    return AsyncLLMClient(KEY, server.url, "m", **options)


def sync_client(server: Provider, **options: Any) -> LLMClient:
    return LLMClient(
        KEY, server.url, "m", **{"timeout": 10, "first_wait": 0.01, "max_retries": 0, **options}
    )
