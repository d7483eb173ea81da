"""Chat completions of OpenAI and compatible providers. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from ._turns import FinishReason, ModelFailure, ModelToolCall
from ._wire import CREATED, Asked, Chunk, Wire, WireTurn, range_of, sse

_FINISH: Mapping[FinishReason, str] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "filtered": "content_filter",
}
_CODES = {
    401: "invalid_api_key",
    403: "permission_denied",
    404: "model_not_found",
    429: "rate_limit_exceeded",
    503: "overloaded",
}
_TYPES = {401: "authentication_error", 429: "rate_limit_error"}


def chat_error(failure: ModelFailure) -> dict[str, Any]:
    """Return the error object of OpenAI."""
    other = "invalid_request_error" if failure.status < 500 else "server_error"
    return {
        "message": failure.message,
        "type": _TYPES.get(failure.status, other),
        "param": None,
        "code": failure.code or _CODES.get(failure.status),
    }


def _read(path: str, body: Mapping[str, Any]) -> Asked:
    tools = [dict(tool["function"]) for tool in body.get("tools", ()) if "function" in tool]
    deployment = path.partition("/deployments/")[2].partition("/")[0]  # the older paths of Azure
    return Asked(
        model=str(body.get("model") or deployment),
        stream=body.get("stream") is True,
        messages=[dict(message) for message in body.get("messages", ())],
        tools=tools,
    )


def _usage(script: WireTurn) -> dict[str, Any]:
    if script.usage is None:
        return {}
    prompt, completion, cached, written, reasoning = script.usage
    return {
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
            "completion_tokens_details": {"reasoning_tokens": reasoning},
        }
    }


def _whole_call(call: ModelToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.text}
    return {"id": call.id, "type": "function", "function": function}


def _body(script: WireTurn) -> Mapping[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(script.text) or None}
    if script.reasoning:
        message["reasoning_content"] = "".join(script.reasoning)
    if script.calls:
        message["tool_calls"] = [_whole_call(call) for call in script.calls]
    if script.citations:
        message["annotations"] = _annotations(script)
    choice = {"index": 0, "message": message, "finish_reason": _FINISH[script.finish]}
    return {**_common(script, "chat.completion"), "choices": [choice], **_usage(script)}


def _annotations(script: WireTurn) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for one in script.citations:
        start, end = range_of(one, script)
        cited: dict[str, Any] = {"start_index": start, "end_index": end}
        cited |= {"url": one.get("url", ""), "title": one.get("title", "")}
        if "cited_text" in one:  # only at OpenRouter
            cited["content"] = one["cited_text"]
        found.append({"type": "url_citation", "url_citation": cited})
    return found


def _common(script: WireTurn, kind: str) -> dict[str, Any]:
    return {"id": script.id, "object": kind, "created": CREATED, "model": script.model}


def _stream(script: WireTurn) -> Iterator[Chunk]:
    def chunk(delta: Mapping[str, Any], pieces: int = 0) -> Chunk:
        return Chunk(sse(_delta(script, delta)), pieces)

    yield chunk({"role": "assistant", "content": ""})
    for piece in script.reasoning:
        yield chunk({"reasoning_content": piece}, 1)
    for piece in script.text:
        yield chunk({"content": piece}, 1)
    if script.citations:
        yield chunk({"annotations": _annotations(script)})
    for index, call in enumerate(script.calls):
        begun = {**_whole_call(call), "index": index}
        yield chunk({"tool_calls": [{**begun, "function": {"name": call.name, "arguments": ""}}]})
        for piece in call.pieces:
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, 1)
    yield from _end(script)


def _delta(script: WireTurn, delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {**_common(script, "chat.completion.chunk"), "choices": [choice]}


def _end(script: WireTurn) -> Iterator[Chunk]:
    options = script.asked.get("stream_options")
    separate = isinstance(options, Mapping) and options.get("include_usage") is True
    last = _delta(script, {}, _FINISH[script.finish])
    # Providers that are not asked for the usage send it with the reason of the end, or not at all.
    yield Chunk(sse(last if separate else {**last, **_usage(script)}), is_end=True)
    if separate and script.usage is not None:
        yield Chunk(sse({**last, "choices": [], **_usage(script)}), is_end=True)
    yield Chunk(b"data: [DONE]\n\n", is_end=True)


def _error(failure: ModelFailure) -> Mapping[str, Any]:
    return {"error": chat_error(failure)}


def _error_event(failure: ModelFailure) -> bytes:
    return sse(_error(failure))


CHAT = Wire("chat", "text/event-stream", _read, _stream, _body, _error, _error_event)
