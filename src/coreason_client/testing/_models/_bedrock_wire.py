"""Amazon Bedrock's Converse API. Pure."""

import re
from collections.abc import Iterator, Mapping
from itertools import count
from struct import pack
from typing import Any
from urllib.parse import unquote
from zlib import crc32

from ...llm.types import Citation
from ._turns import FinishReason, ModelFailure, ModelToolCall
from ._wire import (
    Asked,
    Chunk,
    Wire,
    WireTurn,
    asked_tool,
    cited_spans,
    dumped,
    joined_text,
    tool_message,
    with_calls,
)

_FINISH: Mapping[FinishReason, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "filtered": "content_filtered",
}
_EXCEPTIONS = {
    400: "ValidationException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}
_MODEL = re.compile(r"/model/([^/]+)/converse")
_SIGNATURE = "signature-of-the-fake-model"


# Requests.


def _read(path: str, body: Mapping[str, Any]) -> Asked:
    match = _MODEL.search(path)
    messages: list[dict[str, Any]] = []
    if system := body.get("system"):
        messages.append({"role": "system", "content": joined_text(system)})
    for message in body.get("messages", ()):
        messages += _messages(message)
    specs = [tool.get("toolSpec", {}) for tool in body.get("toolConfig", {}).get("tools", ())]
    tools = [asked_tool(spec, spec.get("inputSchema", {}).get("json")) for spec in specs]
    model = unquote(match[1]) if match else ""
    return Asked(model, path.endswith("/converse-stream"), messages, tools)


def _messages(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    blocks = message.get("content", [])
    for block in blocks:
        if "toolResult" in block:
            result = block["toolResult"]
            yield tool_message(str(result.get("toolUseId")), joined_text(result.get("content", [])))
    uses = [block["toolUse"] for block in blocks if "toolUse" in block]
    calls = [(use.get("toolUseId"), use.get("name"), use.get("input")) for use in uses]
    rest = [
        block
        for block in blocks
        if not block.keys() & {"toolResult", "toolUse", "reasoningContent", "cachePoint"}
    ]
    if rest or calls:
        text = joined_text(rest) if rest else None
        yield with_calls(str(message.get("role")), text, calls)


# Answers.


def _usage(script: WireTurn) -> dict[str, Any]:
    if script.usage is None:
        return {}
    prompt, completion, cached, written, _ = script.usage
    found = {
        "inputTokens": max(prompt - cached - written, 0),
        "outputTokens": completion,
        "totalTokens": prompt + completion,
        "cacheReadInputTokens": cached,
        "cacheWriteInputTokens": written,
    }
    return {"usage": found}


def _body(script: WireTurn) -> Mapping[str, Any]:
    content: list[dict[str, Any]] = []
    if script.reasoning:
        said = {"text": "".join(script.reasoning), "signature": _SIGNATURE}
        content.append({"reasoningContent": {"reasoningText": said}})
    for span in cited_spans(script):
        cited = {"content": [{"text": span.text}], "citations": [*map(_citation, span.citations)]}
        content.append({"citationsContent": cited} if span.citations else {"text": span.text})
    content += [{"toolUse": {**_use(call), "input": call.value}} for call in script.calls]
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": _FINISH[script.finish],
        **_usage(script),
        "metrics": {"latencyMs": 1},
    }


def _citation(one: Citation) -> dict[str, Any]:
    found: dict[str, Any] = {"title": one.get("title", ""), "source": one.get("source_id", "")}
    found["sourceContent"] = [{"text": one.get("cited_text", "")}]
    if "url" in one:
        return {**found, "location": {"web": {"url": one["url"]}}}
    place = {"documentIndex": one.get("document", 0), "start": one.get("source_start", 0)}
    end = one.get("source_end", len(one.get("cited_text", "")))
    return {**found, "location": {"documentChar": {**place, "end": end}}}


# Streams.


def _event(name: str, payload: Any) -> bytes:
    kinds = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return encode(kinds, dumped(payload))


def _stream(script: WireTurn) -> Iterator[Chunk]:
    yield Chunk(_event("messageStart", {"role": "assistant"}))
    indexes = count()
    for start, deltas in _blocks(script):
        at = {"contentBlockIndex": next(indexes)}
        if start:
            yield Chunk(_event("contentBlockStart", {"start": start, **at}))
        for delta, pieces in deltas:
            yield Chunk(_event("contentBlockDelta", {"delta": delta, **at}), pieces)
        yield Chunk(_event("contentBlockStop", at))
    yield Chunk(_event("messageStop", {"stopReason": _FINISH[script.finish]}), is_end=True)
    metadata = {**_usage(script), "metrics": {"latencyMs": 1}}
    yield Chunk(_event("metadata", metadata), is_end=True)


_Deltas = list[tuple[dict[str, Any], int]]


def _blocks(script: WireTurn) -> Iterator[tuple[dict[str, Any], _Deltas]]:
    """Yield the start of each block, and its deltas with the number of their pieces."""
    deltas: _Deltas
    if script.reasoning:
        deltas = [({"reasoningContent": {"text": piece}}, 1) for piece in script.reasoning]
        yield {}, [*deltas, ({"reasoningContent": {"signature": _SIGNATURE}}, 0)]
    for span in cited_spans(script):
        deltas = [({"text": piece}, pieces) for piece, pieces in span.pieces]
        yield {}, [*deltas, *(({"citation": _citation(one)}, 0) for one in span.citations)]
    for call in script.calls:
        yield {"toolUse": _use(call)}, [({"toolUse": {"input": piece}}, 1) for piece in call.pieces]


def _use(call: ModelToolCall) -> dict[str, Any]:
    return {"toolUseId": call.id, "name": call.name, "type": "tool_use"}


def _exception(failure: ModelFailure) -> str:
    return failure.code or _EXCEPTIONS.get(failure.status, "InternalServerException")


def _error(failure: ModelFailure) -> Mapping[str, Any]:
    return {"message": failure.message}


def _error_headers(failure: ModelFailure) -> Mapping[str, str]:
    return {"x-amzn-errortype": _exception(failure)}


def _error_event(failure: ModelFailure) -> bytes:
    name = _exception(failure)
    kinds = {
        ":exception-type": name[:1].lower() + name[1:],
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return encode(kinds, dumped(_error(failure)))


_CONTENT_TYPE = "application/vnd.amazon.eventstream"
BEDROCK = Wire(
    "bedrock", _CONTENT_TYPE, _read, _stream, _body, _error, _error_event, _error_headers
)


# Framing: `application/vnd.amazon.eventstream`.


def encode(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return one frame, with headers that are text."""
    return frame(b"".join(map(_header, headers, headers.values())), payload)


def frame(headers: bytes, payload: bytes) -> bytes:
    """Return one frame with the bytes of its headers, and both checksums."""
    lengths = pack(">II", 16 + len(headers) + len(payload), len(headers))
    start = lengths + pack(">I", crc32(lengths)) + headers + payload
    return start + pack(">I", crc32(start))


def _header(name: str, value: str) -> bytes:
    content = value.encode()
    return bytes([len(name)]) + name.encode() + b"\7" + pack(">H", len(content)) + content
