"""Ollama's chat API. Pure."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ._turns import FinishReason, ModelFailure, ModelToolCall
from ._wire import Asked, Chunk, Wire, WireTurn, dumped

_FINISH: Mapping[FinishReason, str] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "stop",
    "filtered": "stop",
}
_CREATED = "2023-11-14T22:13:20Z"


def _read(path: str, body: Mapping[str, Any]) -> Asked:
    messages = [_message(message) for message in body.get("messages", ())]
    tools = [dict(tool.get("function", {})) for tool in body.get("tools", ())]
    # Ollama streams unless a request says false.
    return Asked(str(body.get("model", "")), body.get("stream") is not False, messages, tools)


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    read = dict(message)
    if "tool_name" in read:
        read["tool_call_id"] = read.pop("tool_name")  # there are no ids
    if "tool_calls" in read:
        read["tool_calls"] = [_asked_call(call["function"]) for call in read["tool_calls"]]
    return read


def _asked_call(function: Mapping[str, Any]) -> dict[str, Any]:
    name = function.get("name")
    arguments = json.dumps(function.get("arguments"), ensure_ascii=False)
    return {"id": name, "type": "function", "function": {"name": name, "arguments": arguments}}


def _usage(script: WireTurn) -> dict[str, int]:
    if script.usage is None:
        return {}
    prompt, completion, *_ = script.usage
    return {"prompt_eval_count": prompt, "eval_count": completion}


def _line(script: WireTurn, message: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": "", **message}
    return {"model": script.model, "created_at": _CREATED, "message": said, "done": False, **fields}


def _end(script: WireTurn) -> dict[str, Any]:
    return {"done": True, "done_reason": _FINISH[script.finish], **_usage(script)}


def _call(call: ModelToolCall) -> dict[str, Any]:
    return {"function": {"name": call.name, "arguments": call.value}}


def _body(script: WireTurn) -> Mapping[str, Any]:
    message: dict[str, Any] = {"content": "".join(script.text)}
    if script.reasoning:
        message["thinking"] = "".join(script.reasoning)
    if script.calls:
        message["tool_calls"] = [_call(call) for call in script.calls]
    return _line(script, message, **_end(script))


def _stream(script: WireTurn) -> Iterator[Chunk]:
    def line(message: Mapping[str, Any], pieces: int) -> Chunk:
        return Chunk(dumped(_line(script, message)) + b"\n", pieces)

    for piece in script.reasoning:
        yield line({"thinking": piece}, 1)
    for piece in script.text:
        yield line({"content": piece}, 1)
    for call in script.calls:
        yield line({"tool_calls": [_call(call)]}, len(call.pieces))
    yield Chunk(dumped(_line(script, {}, **_end(script))) + b"\n", is_end=True)


def _error(failure: ModelFailure) -> Mapping[str, Any]:
    error: Any = failure.message
    if failure.code:  # Ollama itself has no codes, but gateways have
        error = {"message": failure.message, "code": failure.code}
    return {"error": error}


def _error_event(failure: ModelFailure) -> bytes:
    return dumped(_error(failure)) + b"\n"


OLLAMA = Wire("ollama", "application/x-ndjson", _read, _stream, _body, _error, _error_event)
