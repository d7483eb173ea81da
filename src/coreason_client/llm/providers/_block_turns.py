"""Conversations as turns of blocks, which the formats of Anthropic and of Bedrock share. Pure.

* User and assistant messages must alternate, so adjacent messages of one role are merged. Blank
  text is rejected, so a message with nothing else is dropped.
* The reasoning of Claude must be sent back, unchanged and signed, before the tool calls that
  followed it. Our messages carry it as the `signature` of the next call.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from pydantic_core import from_json

from .._json import items, text
from ..types import Message
from ._claude import supported_schema

__all__ = [
    "Block",
    "call_input",
    "escaped_id",
    "lone_prompts",
    "make_turns",
    "signed_blocks",
    "tool_parts",
    "with_calls",
]

Block: TypeAlias = dict[str, Any]


def make_turns(
    messages: Iterable[Message], blocks: Callable[[Message], list[Block]]
) -> list[dict[str, Any]]:
    """Return the turns of messages; `blocks` returns those of one, none for a system prompt."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        _add(turns, "assistant" if message["role"] == "assistant" else "user", blocks(message))
    if turns and turns[-1]["role"] == "assistant" and "text" in (last := turns[-1]["content"][-1]):
        # An unfinished answer that ends with white space is rejected.
        last["text"] = last["text"].rstrip()
    return turns


def lone_prompts(blocks: list[Block]) -> list[dict[str, Any]]:
    """Return a user turn with the system prompts of a conversation that has no other message."""
    turns: list[dict[str, Any]] = []
    _add(turns, "user", blocks)
    return turns


def _add(turns: list[dict[str, Any]], role: str, blocks: list[Block]) -> None:
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"].extend(blocks)
    elif blocks:
        turns.append({"role": role, "content": blocks})


def with_calls(
    blocks: list[Block],
    calls: Iterable[Mapping[str, Any]],
    is_signed: Callable[[Any], bool],
    tool_use: Callable[[Mapping[str, Any]], Block],
) -> list[Block]:
    """Return the blocks of a turn with its tool calls, each after the reasoning that led to it."""
    for number, call in enumerate(calls):
        reasoning = signed_blocks(call.get("signature"), is_signed)
        if number == 0:
            blocks = [*reasoning, *blocks]  # a turn with reasoning must begin with it
        else:
            blocks.extend(reasoning)
        blocks.append(tool_use(call))
    return blocks


def escaped_id(id_: str, not_allowed: re.Pattern[str]) -> str:
    """Return the id of a call in the allowed form; ids of other providers may differ from it."""
    return not_allowed.sub(lambda match: f"_{ord(match[0]):x}_", id_)


def tool_parts(function: Mapping[str, Any]) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return name, description and strictness of a tool, and the schema of its parameters."""
    tool: dict[str, Any] = {"name": function["name"]}
    if function.get("description"):
        tool["description"] = function["description"]
    schema: Mapping[str, Any] = {"type": "object", **function.get("parameters", {})}
    if function.get("strict"):
        return {**tool, "strict": True}, supported_schema(schema)
    return tool, schema


def call_input(call: Mapping[str, Any]) -> Any:
    """Return the arguments of a tool call as a value."""
    # Like `_check_messages`, this allows control characters inside strings.
    return json.loads(call["function"]["arguments"] or "{}", strict=False)


def signed_blocks(signature: Any, is_signed: Callable[[Any], bool]) -> Sequence[Block]:
    """Return the blocks of reasoning in a signature, none if it is of another provider."""
    try:
        blocks = from_json(text(signature))
    except ValueError:
        return ()
    return [block for block in items(blocks) if is_signed(block)]
