"""Messages and tools in the form that the conventions define for spans, as JSON text. Pure.

The base64 data of images, audio and files is left out: it would exceed the limits of every backend.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from .._json import items, mapping, text

__all__ = ["as_json", "input_messages", "output_messages", "tool_definitions"]


def as_json(value: Any) -> str:
    """Return a value as JSON; what JSON cannot express becomes text."""
    return to_json(value, fallback=str, inf_nan_mode="constants").decode()


def input_messages(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the messages of a call."""
    return as_json([_message(message) for message in messages])


def output_messages(data: Mapping[str, Any]) -> str:
    """Return the answer of a model, from the `data` of a response or of a partial one."""
    parts = list(_answer_parts(data))
    return as_json([{"role": "assistant", "parts": parts}])


def tool_definitions(tools: Sequence[Mapping[str, Any]]) -> str:
    """Return the tools of a call."""
    return as_json([{"type": "function", **mapping(tool.get("function"))} for tool in tools])


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    role = text(message.get("role"))
    if role == "tool":
        response = {
            "type": "tool_call_response",
            "id": message.get("tool_call_id"),
            "response": message.get("content"),
        }
        return {"role": role, "parts": [response]}
    parts = [*_content_parts(message.get("content"))]
    if reasoning := message.get("reasoning"):
        parts.insert(0, {"type": "reasoning", "content": reasoning})
    parts += [_tool_call(call) for call in items(message.get("tool_calls"))]
    named = {"name": message["name"]} if message.get("name") else {}
    return {"role": role, "parts": parts, **named}


def _content_parts(content: Any) -> Iterator[dict[str, Any]]:
    if isinstance(content, str):
        yield {"type": "text", "content": content}
    for part in map(mapping, items(content)):
        if part.get("type") == "text":
            yield {"type": "text", "content": text(part.get("text"))}
        else:
            yield _media_part(part)


def _media_part(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reference to an image or a file; its data is left out."""
    kind = text(part.get("type"))
    modality = kind.removeprefix("input_").removesuffix("_url")
    url = text(mapping(part.get(kind)).get("url"))
    if url and not url.startswith("data:"):
        return {"type": "uri", "modality": modality, "uri": url}
    return {"type": kind, "modality": modality}


def _tool_call(call: Any) -> dict[str, Any]:
    """Return a tool call of a message: OpenAI's form, or the form of a response."""
    fields = mapping(call)
    function = mapping(fields.get("function")) or fields
    return {
        "type": "tool_call",
        "id": fields.get("id"),
        "name": function.get("name"),
        "arguments": function.get("arguments"),
    }


def _answer_parts(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if reasoning := data.get("reasoning"):
        yield {"type": "reasoning", "content": reasoning}
    if content := data.get("content"):
        yield {"type": "text", "content": content}
    for media in items(data.get("media")):
        yield {"type": "blob", "modality": media["type"], "mime_type": media.get("mime_type")}
    yield from map(_tool_call, items(data.get("tool_calls")))
