"""Anthropic's Messages API. Pure."""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any
from urllib.parse import unquote

from ...llm.types import Citation
from ._turns import FinishReason, ModelFailure
from ._wire import (
    Asked,
    Chunk,
    Wire,
    WireTurn,
    asked_tool,
    cited_spans,
    joined_text,
    sse,
    tool_message,
    with_calls,
)

_FINISH: Mapping[FinishReason, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "filtered": "refusal",
}
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_SIGNATURE = "signature-of-the-fake-model"


# Requests.


def _read(path: str, body: Mapping[str, Any]) -> Asked:
    messages: list[dict[str, Any]] = []
    if system := body.get("system"):
        messages.append({"role": "system", "content": joined_text(system)})
    for message in body.get("messages", ()):
        messages += _messages(message)
    tools = [asked_tool(tool, tool.get("input_schema")) for tool in body.get("tools", ())]
    at_vertex = path.rpartition("/models/")[2].partition(":")[0]
    model = str(body.get("model", unquote(at_vertex)))
    return Asked(model, body.get("stream") is True, messages, tools)


def _messages(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    content = message.get("content")
    if not isinstance(content, list):
        yield {"role": message.get("role"), "content": content}
        return
    kinds: dict[str, list[Any]] = {"tool_result": [], "tool_use": [], "thinking": [], "": []}
    for block in content:
        kinds.get(block.get("type"), kinds[""]).append(block)
    for result in kinds["tool_result"]:
        text = joined_text(result.get("content", ""))
        yield tool_message(str(result.get("tool_use_id")), text)
    calls = [(use.get("id"), use.get("name"), use.get("input")) for use in kinds["tool_use"]]
    if kinds[""] or calls:
        text = joined_text(kinds[""]) if kinds[""] else None
        yield with_calls(str(message.get("role")), text, calls)


# Answers.


def _usage(script: WireTurn) -> dict[str, Any]:
    if script.usage is None:
        return {}
    prompt, completion, cached, written, thinking = script.usage
    found: dict[str, Any] = {
        "input_tokens": max(prompt - cached - written, 0),
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
        "output_tokens": completion,
    }
    if thinking:
        found["output_tokens_details"] = {"thinking_tokens": thinking}
    return {"usage": found}


def _body(script: WireTurn) -> Mapping[str, Any]:
    content: list[dict[str, Any]] = []
    if script.reasoning:
        thinking = "".join(script.reasoning)
        content.append({"type": "thinking", "thinking": thinking, "signature": _SIGNATURE})
    for span in cited_spans(script):
        cited = {"citations": [*map(_citation, span.citations)]} if span.citations else {}
        content.append({"type": "text", "text": span.text, **cited})
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.value}
        for call in script.calls
    ]
    finish = {"stop_reason": _FINISH[script.finish], "stop_sequence": None}
    return {**_message(script), "content": content, **finish, **_usage(script)}


def _citation(one: Citation) -> dict[str, Any]:
    text, title = one.get("cited_text", ""), one.get("title")
    if "url" in one:
        found = {"url": one["url"], "title": title, "encrypted_index": "index-of-the-fake-model"}
        return {"type": "web_search_result_location", "cited_text": text, **found}
    place = {"start_char_index": one.get("source_start", 0)}
    place["end_char_index"] = one.get("source_end", len(text))
    found = {"file_id": one["source_id"], "document_title": title}
    index = one.get("document", 0)
    return {"type": "char_location", "cited_text": text, "document_index": index, **found, **place}


def _message(script: WireTurn) -> dict[str, Any]:
    return {"id": script.id, "type": "message", "role": "assistant", "model": script.model}


# Streams.


def _event(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, **fields}, kind)


def _stream(script: WireTurn) -> Iterator[Chunk]:
    begun = {**_message(script), "content": [], "stop_reason": None, "stop_sequence": None}
    usage = _usage(script)
    if usage:
        begun["usage"] = {**usage["usage"], "output_tokens": 0}
    yield Chunk(_event("message_start", message=begun))
    indexes = count()
    for block, deltas in _blocks(script):
        index = next(indexes)
        yield Chunk(_event("content_block_start", index=index, content_block=block))
        for delta, pieces in deltas:
            yield Chunk(_event("content_block_delta", index=index, delta=delta), pieces)
        yield Chunk(_event("content_block_stop", index=index))
    delta = {"stop_reason": _FINISH[script.finish], "stop_sequence": None}
    yield Chunk(_event("message_delta", delta=delta, **usage), is_end=True)
    yield Chunk(_event("message_stop"), is_end=True)


_Deltas = list[tuple[dict[str, Any], int]]


def _blocks(script: WireTurn) -> Iterator[tuple[dict[str, Any], _Deltas]]:
    """Yield the start of each block, and its deltas with the number of their pieces."""
    deltas: _Deltas
    if script.reasoning:
        deltas = [({"type": "thinking_delta", "thinking": piece}, 1) for piece in script.reasoning]
        deltas.append(({"type": "signature_delta", "signature": _SIGNATURE}, 0))
        yield {"type": "thinking", "thinking": "", "signature": ""}, deltas
    for span in cited_spans(script):
        deltas = [({"type": "text_delta", "text": piece}, pieces) for piece, pieces in span.pieces]
        deltas += [
            ({"type": "citations_delta", "citation": _citation(one)}, 0) for one in span.citations
        ]
        yield {"type": "text", "text": ""}, deltas
    for call in script.calls:
        yield (
            {"type": "tool_use", "id": call.id, "name": call.name, "input": {}},
            [({"type": "input_json_delta", "partial_json": piece}, 1) for piece in call.pieces],
        )


def _error(failure: ModelFailure) -> dict[str, Any]:
    other = "invalid_request_error" if failure.status < 500 else "api_error"
    kind = failure.code or _TYPES.get(failure.status, other)
    return {"type": "error", "error": {"type": kind, "message": failure.message}}


def _error_event(failure: ModelFailure) -> bytes:
    return sse(_error(failure), "error")


ANTHROPIC = Wire("anthropic", "text/event-stream", _read, _stream, _body, _error, _error_event)
