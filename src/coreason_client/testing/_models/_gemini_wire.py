"""Gemini's `generateContent`, also at Vertex. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from ...llm.types import Citation
from ._turns import FinishReason, ModelFailure, ModelToolCall
from ._wire import (
    Asked,
    Chunk,
    Wire,
    WireTurn,
    joined_text,
    range_of,
    sse,
    tool_message,
    with_calls,
)

_FINISH: Mapping[FinishReason, str] = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "tool_calls": "STOP",
    "filtered": "SAFETY",
}
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_MODEL = re.compile(r"/(?:models|tunedModels|endpoints)/([^/:]+):")


# Requests.


def _read(path: str, body: Mapping[str, Any]) -> Asked:
    match = _MODEL.search(path)
    messages: list[dict[str, Any]] = []
    if system := body.get("systemInstruction"):
        messages.append({"role": "system", "content": joined_text(system.get("parts", []))})
    for content in body.get("contents", ()):
        messages += _messages(content)
    tools = [
        dict(declaration)
        for tool in body.get("tools", ())
        for declaration in tool.get("functionDeclarations", ())
    ]
    for tool in tools:
        if "parametersJsonSchema" in tool:
            tool["parameters"] = tool.pop("parametersJsonSchema")
    model = unquote(match[1]) if match else ""
    return Asked(model, ":streamGenerateContent" in path, messages, tools)


def _messages(content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    parts = content.get("parts", [])
    for part in parts:
        if "functionResponse" in part:
            result = part["functionResponse"]
            yield tool_message(str(result.get("id") or result.get("name")), _result(result))
    uses = [part["functionCall"] for part in parts if "functionCall" in part]
    calls = [(use.get("id"), use.get("name"), use.get("args")) for use in uses]
    rest = [part for part in parts if not part.keys() & {"functionResponse", "functionCall"}]
    if rest or calls:
        role = "assistant" if content.get("role") == "model" else "user"
        yield with_calls(role, joined_text(rest) if rest else None, calls)


def _result(result: Mapping[str, Any]) -> Any:
    response = result.get("response")
    # Text must be wrapped in an object.
    if isinstance(response, Mapping) and [*response] in (["result"], ["output"]):
        return next(iter(response.values()))
    return response


# Answers.


def _usage(script: WireTurn) -> dict[str, Any]:
    if script.usage is None:
        return {}
    prompt, completion, cached, _, reasoning = script.usage
    found = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": max(completion - reasoning, 0),
        "totalTokenCount": prompt + completion,
        "cachedContentTokenCount": cached,
        "thoughtsTokenCount": reasoning,
    }
    # The provider leaves out a count of zero.
    return {"usageMetadata": {name: count for name, count in found.items() if count}}


def _response(script: WireTurn, parts: list[Any], finish: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": script.model, "responseId": script.id}


def _with_sources(response: dict[str, Any], script: WireTurn) -> dict[str, Any]:
    """Add the citations to a response; their ranges are in bytes, and a zero is left out."""
    if not script.citations:
        return response
    whole = "".join(script.text)
    chunks: list[Any] = []
    supports: list[Any] = []
    for index, one in enumerate(script.citations):
        start, end = range_of(one, script)
        segment: dict[str, Any] = {"endIndex": len(whole[:end].encode()), "text": whole[start:end]}
        if start:
            segment["startIndex"] = len(whole[:start].encode())
        supports.append({"segment": segment, "groundingChunkIndices": [index]})
        chunks.append(_chunk(one))
    grounding = {"groundingChunks": chunks, "groundingSupports": supports}
    response["candidates"][0]["groundingMetadata"] = grounding
    return response


def _chunk(one: Citation) -> dict[str, Any]:
    title, url = one.get("title", ""), one.get("url", "")
    if "cited_text" not in one and "source_id" not in one:
        return {"web": {"uri": url, "title": title}}
    found = {"title": title, "text": one.get("cited_text", "")}
    found |= {"uri": url} if url else {}
    return {"retrievedContext": {**found, "documentName": one.get("source_id", "")}}


def _call_part(call: ModelToolCall) -> dict[str, Any]:
    return {"functionCall": {"id": call.id, "name": call.name, "args": call.value}}


def _body(script: WireTurn) -> Mapping[str, Any]:
    parts: list[dict[str, Any]] = []
    if script.reasoning:
        parts.append({"text": "".join(script.reasoning), "thought": True})
    if script.text:
        parts.append({"text": "".join(script.text)})
    parts += map(_call_part, script.calls)
    response = _with_sources(_response(script, parts, _FINISH[script.finish]), script)
    return {**response, **_usage(script)}


def _stream(script: WireTurn) -> Iterator[Chunk]:
    for piece in script.reasoning:
        yield Chunk(sse(_response(script, [{"text": piece, "thought": True}])), 1)
    for piece in script.text:
        yield Chunk(sse(_response(script, [{"text": piece}])), 1)
    for call in script.calls:
        yield Chunk(sse(_response(script, [_call_part(call)])), len(call.pieces))
    last = _with_sources(_response(script, [{"text": ""}], _FINISH[script.finish]), script)
    yield Chunk(sse({**last, **_usage(script)}), is_end=True)


def _error(failure: ModelFailure) -> dict[str, Any]:
    status = failure.code or _STATUSES.get(failure.status, "INTERNAL")
    error = {"code": failure.status, "message": failure.message, "status": status}
    if failure.retry_after is None:
        return {"error": error}
    delay = f"{failure.retry_after:g}s"
    kind = "type.googleapis.com/google.rpc.RetryInfo"
    return {"error": {**error, "details": [{"@type": kind, "retryDelay": delay}]}}


def _error_event(failure: ModelFailure) -> bytes:
    return sse(_error(failure))


GEMINI = Wire("gemini", "text/event-stream", _read, _stream, _body, _error, _error_event)
