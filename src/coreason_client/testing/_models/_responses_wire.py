"""OpenAI's Responses API. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from ...llm.types import Citation
from ._chat_wire import chat_error
from ._turns import ModelFailure, ModelToolCall
from ._wire import CREATED, Asked, Chunk, Wire, WireTurn, joined_text, range_of, sse, tool_message

_INCOMPLETE = {"length": "max_output_tokens", "filtered": "content_filter"}


# Requests.


def _read(path: str, body: Mapping[str, Any]) -> Asked:
    given = body.get("input", ())
    items = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
    messages: list[dict[str, Any]] = []
    if instructions := body.get("instructions"):
        messages.append({"role": "system", "content": instructions})
    for item in items:
        _add(messages, item)
    tools = [
        {key: value for key, value in tool.items() if key not in ("type", "strict")}
        for tool in body.get("tools", ())
    ]
    return Asked(str(body.get("model", "")), body.get("stream") is True, messages, tools)


def _add(messages: list[dict[str, Any]], item: Mapping[str, Any]) -> None:
    kind = item.get("type", "message")
    if kind == "message":
        messages.append({"role": item.get("role"), "content": joined_text(item.get("content"))})
    elif kind == "function_call":
        _add_call(messages, item)
    elif kind == "function_call_output":
        messages.append(tool_message(str(item.get("call_id")), item.get("output")))


def _add_call(messages: list[dict[str, Any]], item: Mapping[str, Any]) -> None:
    """Add a call to the message of the assistant before it, or to a new one."""
    function = {"name": item.get("name"), "arguments": item.get("arguments")}
    call = {"id": item.get("call_id"), "type": "function", "function": function}
    last = messages[-1] if messages and messages[-1]["role"] == "assistant" else None
    if last is None:
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    else:
        last.setdefault("tool_calls", []).append(call)


# Answers.


def _output(script: WireTurn) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if script.reasoning:
        items.append(_reasoning(script))
    if script.text:
        part = _part("".join(script.text), _annotations(script))
        items.append(_message(script, [part], "completed"))
    return [*items, *(_call_item(script, call, call.text) for call in script.calls)]


def _reasoning(script: WireTurn, summary: Sequence[str] | None = None) -> dict[str, Any]:
    texts = ["".join(script.reasoning)] if summary is None else summary
    parts = [{"type": "summary_text", "text": text} for text in texts]
    return {"id": f"rs_{script.id}", "type": "reasoning", "summary": parts}


def _message(script: WireTurn, content: list[Any], status: str) -> dict[str, Any]:
    common = {"id": f"msg_{script.id}", "type": "message", "role": "assistant"}
    return {**common, "status": status, "content": content}


def _part(text: str, annotations: Sequence[Any] = ()) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [*annotations]}


def _annotations(script: WireTurn) -> list[dict[str, Any]]:
    return [_annotation(one, *range_of(one, script)) for one in script.citations]


def _annotation(one: Citation, start: int, end: int) -> dict[str, Any]:
    title = one.get("title", "")
    if "url" not in one:
        file = {"file_id": one["source_id"], "filename": title}
        return {"type": "file_citation", **file, "index": end}
    cited = {"url": one["url"], "title": title}
    return {"type": "url_citation", **cited, "start_index": start, "end_index": end}


def _call_item(script: WireTurn, call: ModelToolCall, arguments: str) -> dict[str, Any]:
    return {
        "id": f"fc_{script.id}_{call.id}",
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": arguments,
        "status": "completed" if arguments else "in_progress",
    }


def _usage(script: WireTurn) -> dict[str, Any] | None:
    if script.usage is None:
        return None
    prompt, completion, cached, written, reasoning = script.usage
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": prompt + completion,
    }


def _response(script: WireTurn, status: str, output: list[Any]) -> dict[str, Any]:
    finished = status in ("completed", "incomplete")
    reason = _INCOMPLETE.get(script.finish)
    return {
        "id": f"resp_{script.id}",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": reason} if status == "incomplete" else None,
        "model": script.model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": _usage(script) if finished else None,
    }


def _status(script: WireTurn) -> str:
    return "incomplete" if script.finish in _INCOMPLETE else "completed"


def _body(script: WireTurn) -> Mapping[str, Any]:
    return _response(script, _status(script), _output(script))


# Streams.


def _stream(script: WireTurn) -> Iterator[Chunk]:
    numbers = count()
    for kind, event, pieces, is_end in _events(script):
        value = {"type": kind, "sequence_number": next(numbers), **event}
        yield Chunk(sse(value, kind), pieces, is_end)


Event = tuple[str, Mapping[str, Any], int, bool]


def _events(script: WireTurn) -> Iterator[Event]:
    begun = {"response": _response(script, "in_progress", [])}
    yield "response.created", begun, 0, False
    yield "response.in_progress", begun, 0, False
    indexes = count()
    if script.reasoning:
        yield from _reasoning_events(script, next(indexes))
    if script.text:
        yield from _text_events(script, next(indexes))
    for call in script.calls:
        yield from _call_events(script, call, next(indexes))
    status = _status(script)
    yield f"response.{status}", {"response": _body(script)}, 0, True


def _reasoning_events(script: WireTurn, index: int) -> Iterator[Event]:
    at = {"output_index": index}
    yield "response.output_item.added", {**at, "item": _reasoning(script, [])}, 0, False
    where = {**at, "item_id": f"rs_{script.id}", "summary_index": 0}
    for piece in script.reasoning:
        yield "response.reasoning_summary_text.delta", {**where, "delta": piece}, 1, False
    done = {**where, "text": "".join(script.reasoning)}
    yield "response.reasoning_summary_text.done", done, 0, False
    yield "response.output_item.done", {**at, "item": _reasoning(script)}, 0, False


def _text_events(script: WireTurn, index: int) -> Iterator[Event]:
    at = {"output_index": index}
    text = "".join(script.text)
    added = _message(script, [], "in_progress")
    yield "response.output_item.added", {**at, "item": added}, 0, False
    where = {**at, "item_id": added["id"], "content_index": 0}
    yield "response.content_part.added", {**where, "part": _part("")}, 0, False
    for piece in script.text:
        yield "response.output_text.delta", {**where, "delta": piece, "logprobs": []}, 1, False
    annotations = _annotations(script)
    for index, annotation in enumerate(annotations):
        found = {"annotation_index": index, "annotation": annotation}
        yield "response.output_text.annotation.added", {**where, **found}, 0, False
    yield "response.output_text.done", {**where, "text": text, "logprobs": []}, 0, False
    part = _part(text, annotations)
    yield "response.content_part.done", {**where, "part": part}, 0, False
    item = _message(script, [part], "completed")
    yield "response.output_item.done", {**at, "item": item}, 0, False


def _call_events(script: WireTurn, call: ModelToolCall, index: int) -> Iterator[Event]:
    at = {"output_index": index}
    added = _call_item(script, call, "")
    yield "response.output_item.added", {**at, "item": added}, 0, False
    where = {**at, "item_id": added["id"]}
    for piece in call.pieces:
        yield "response.function_call_arguments.delta", {**where, "delta": piece}, 1, False
    done = {**where, "name": call.name, "arguments": call.text}
    yield "response.function_call_arguments.done", done, 0, False
    yield "response.output_item.done", {**at, "item": _call_item(script, call, call.text)}, 0, False


def _error(failure: ModelFailure) -> Mapping[str, Any]:
    return {"error": chat_error(failure)}


def _error_event(failure: ModelFailure) -> bytes:
    error = chat_error(failure)
    described = {"code": error["code"] or "server_error", "message": failure.message}
    event = {"type": "error", **described, "param": None, "sequence_number": 1_000_000}
    return sse(event, "error")


RESPONSES = Wire("responses", "text/event-stream", _read, _stream, _body, _error, _error_event)
