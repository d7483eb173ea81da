"""Saved conversations as rows, as text and as JSON. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from .._text import as_local_time, shortened
from .._usage import usage_line
from ._turns import Summary, Turn, text_of

__all__ = ["heading", "matches", "message_lines", "summary_json", "summary_row", "turn_json"]


def summary_row(one: Summary, *, local_time: bool) -> tuple[str, str, str, str, str]:
    """Return the id, the time, the model, the number of turns and the first question."""
    time = as_local_time(one.time) if local_time else one.time
    turns = "1 turn" if one.turns == 1 else f"{one.turns} turns"
    return one.conversation, time, one.model, turns, shortened(one.question)


def summary_json(one: Summary) -> str:
    """Return a conversation of a list as one line."""
    return json.dumps(asdict(one), ensure_ascii=False)


def turn_json(turn: Turn) -> str:
    """Return a turn with all its messages as one line."""
    return json.dumps(asdict(turn), ensure_ascii=False)


def matches(turn: Turn, text: str) -> bool:
    """Return True if the question or the answer contains a text, in upper or lower case."""
    return text.casefold() in f"{turn.question}\n{turn.answer}".casefold()


def heading(turn: Turn, *, local_time: bool) -> str:
    """Return a line with the time, the model, the tokens and the cost of a turn."""
    time = as_local_time(turn.time) if local_time else turn.time
    known = {"prompt_tokens", "completion_tokens"} <= turn.usage.keys()
    used = usage_line(turn.model, turn.usage) if known else turn.model
    return f"{time}  {used}{'' if turn.complete else ', incomplete'}"


def message_lines(message: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a message that are not the answer: question, attachments and tools."""
    role, content = message.get("role"), message.get("content")
    if role == "user":
        for part in content if isinstance(content, list) else ():
            if part.get("type") != "text":
                yield f"> [{_described(part)}]"
        yield from (f"> {line}" for line in text_of(content).splitlines())
    elif role == "tool":
        yield f"← {shortened(text_of(content))}"
    for call in message.get("tool_calls") or ():
        function = call.get("function", call)
        arguments = function.get("arguments")
        given = arguments if isinstance(arguments, str) else json.dumps(arguments)
        yield "→ " + shortened(f"{function.get('name')} {given}")


def _described(part: Mapping[str, Any]) -> str:
    """Return the name of an attachment, or its URL, or its type."""
    content = part.get(str(part.get("type")))
    fields = content if isinstance(content, Mapping) else {}
    name = fields.get("filename") or fields.get("url") or fields.get("format")
    if not isinstance(name, str):
        return str(part.get("type"))
    return name.partition(";base64,")[0].removeprefix("data:")
