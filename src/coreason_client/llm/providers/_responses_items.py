"""Output items of the Responses API: what they contain, and how they are sent back. Pure.

An answer is a list of items: messages, reasoning, function calls, and calls of tools that the
provider runs itself. A model that reasons continues its own reasoning only if the next request
contains the items of the earlier turns, unchanged and in order. So an assistant message carries
them in `provider_items`, by the name of the provider: other providers cannot read them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from .._answer import RawToolCall
from .._json import items, mapping, parse_or_none, text
from .._media import media_of
from ..types import Media

__all__ = [
    "call_of",
    "carried_items",
    "image_of",
    "items_of_message",
    "message_text",
    "reasoning_text",
    "texts_of",
]

# Items whose whole content is in `content` and `tool_calls` of a message.
_PLAIN = frozenset({"message", "function_call"})


def message_text(item: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the text of a message, and True if a part of it is a refusal."""
    content = item.get("content")
    if isinstance(content, str):
        return content, False
    parts = [mapping(part) for part in items(content)]
    texts = [text(part.get("text")) or text(part.get("refusal")) for part in parts]
    return "".join(texts), any(part.get("type") == "refusal" for part in parts)


def texts_of(output: Iterable[Mapping[str, Any]]) -> tuple[str, bool]:
    """Return the text of all messages, and True if a part of it is a refusal."""
    read = [message_text(item) for item in output if item.get("type") == "message"]
    return "".join(content for content, _ in read), any(refused for _, refused in read)


def reasoning_text(item: Mapping[str, Any]) -> str:
    """Return the reasoning in an item: its text, or the summary of it, as paragraphs."""
    parts = [*items(item.get("content")), *items(item.get("summary"))]
    return "\n\n".join(filter(None, (text(mapping(part).get("text")) for part in parts)))


def call_of(item: Mapping[str, Any]) -> RawToolCall:
    """Return the tool call in a `function_call` item."""
    arguments = item.get("arguments")
    if isinstance(arguments, dict):
        arguments = to_json(arguments).decode()
    id_ = text(item.get("call_id")) or text(item.get("id"))
    return RawToolCall(id_ or None, text(item.get("name")), text(arguments))


def image_of(item: Mapping[str, Any]) -> list[Media]:
    """Return the image in an item, empty if it has none."""
    data = text(item.get("result"))
    if item.get("type") != "image_generation_call" or not data:
        return []
    return [media_of(f"image/{text(item.get('output_format')) or 'png'}", data=data)]


def carried_items(output: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the items that the next request must contain.

    Empty if `content` and `tool_calls` say the same. Reasoning that is only stored by the provider
    is left out, because our requests do not store anything.
    """
    carried = [
        _input_item(item)
        for item in output
        if isinstance(item, dict) and text(item.get("type")) and _is_complete(item)
    ]
    needed = any(item.get("type") not in _PLAIN or "phase" in item for item in carried)
    return carried if needed else []


def items_of_message(message: Mapping[str, Any], provider: str) -> Sequence[dict[str, Any]]:
    """Return the items that an assistant message carries for a provider.

    Empty if there are none, or if the text or the calls of the message were changed since.
    """
    carried: Sequence[dict[str, Any]] = message.get("provider_items", {}).get(provider, ())
    content, _ = texts_of(carried)
    calls = [call_of(item) for item in carried if item.get("type") == "function_call"]
    known = message.get("tool_calls", ())
    same = content == (message.get("content") or "") and len(calls) == len(known)
    return carried if same and all(map(_is_same_call, calls, known)) else ()


def _is_same_call(call: RawToolCall, known: Mapping[str, Any]) -> bool:
    function = known["function"]
    if (call.id, call.name) != (known["id"], function["name"]):
        return False
    given = parse_or_none(str(call.arguments).encode("utf-8", "replace"))
    return bool(given == parse_or_none(function["arguments"].encode()))


def _input_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item in the form of requests, which reject nulls and require a summary."""
    sent = {key: value for key, value in item.items() if value is not None}
    return {**sent, "summary": sent.get("summary", [])} if item["type"] == "reasoning" else sent


def _is_complete(item: Mapping[str, Any]) -> bool:
    """Return True if the item contains what it stands for, and not only its id."""
    if item.get("type") != "reasoning":
        return True
    return bool(item.get("encrypted_content") or item.get("content"))
