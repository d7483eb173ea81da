"""A conversation as the messages that a model is sent.

What the model gets of earlier turns:

* The question and the answer; of a cancelled or broken turn, the question and what was written.
* A question without any answer goes into the same message as the question that follows it: several
  providers refuse two messages of the user in a row.
"""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from coreason_manifest.definitions.message import (
    BlobPart,
    ChatMessage,
    MessagePart,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolCallResponsePart,
    UriPart,
)

from ..llm import Message

if TYPE_CHECKING:
    from ..server import Turn

__all__ = ["UnreadableError", "conversation"]

_PARAGRAPH = "\n\n"
# What OpenAI takes as a name; another one would have the whole request refused.
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}", re.ASCII)


class UnreadableError(Exception):
    """A request holds what no model could be sent; the words are for the reader."""


def conversation(
    asked: Sequence[ChatMessage], earlier: "Sequence[Turn]", system: str | None, chars: int
) -> list[Message]:
    """Return what was said and asked, in order, with all instructions before it.

    The instructions of the request replace those of earlier ones, which would else add up when a
    client sends them each time.

    Raises:
        UnreadableError: there is nothing to ask, or something that cannot be read.
    """
    new = [message for part in asked for message in _strictly(part)]
    if not new:
        raise UnreadableError("The request has no message for the model.")
    said = [message for turn in earlier for message in turn.messages]
    instructions = _instructions(asked) or _instructions(said)[-1:]
    if system is not None:
        instructions.insert(0, system)
    return [
        *({"role": "system", "content": text} for text in instructions),
        *_joined([*_latest(earlier, chars), new]),
    ]


def _instructions(messages: Sequence[ChatMessage]) -> list[str]:
    return [message.text for message in messages if message.role is Role.SYSTEM and message.text]


def _latest(earlier: "Sequence[Turn]", chars: int) -> list[list[Message]]:
    """Return the latest whole turns that fit into so many characters."""
    kept: list[list[Message]] = []
    for turn in reversed(earlier):
        messages = [message for part in turn.messages for message in _leniently(part)]
        length = sum(_length(message) for message in messages)
        if length > chars:
            if turn.complete:
                break
            continue  # a question that was not answered must not hide the turns before it
        chars -= length
        kept.insert(0, messages)
    return kept


def _joined(turns: Sequence[list[Message]]) -> list[Message]:
    """Return the messages of all turns; a question without an answer is joined to the next one."""
    joined: list[Message] = []
    for turn in turns:
        first = turn[:1]
        if joined and first and _can_join(joined[-1], first[0]):
            first = [_join(joined.pop(), first[0])]
        joined += [*first, *turn[1:]]
    return joined


def _can_join(message: Message, following: Message) -> bool:
    return bool(message["role"] == following["role"] == "user")


def _join(message: Message, following: Message) -> Message:
    joined = {**following, "content": _join_contents(message["content"], following["content"])}
    if message.get("name") != following.get("name"):
        joined.pop("name", None)  # it holds words of both
    return joined


def _join_contents(before: Any, after: Any) -> Any:
    if isinstance(before, str) and isinstance(after, str):
        return f"{before}{_PARAGRAPH}{after}"
    return [*_as_parts(before), *_as_parts(after)]


def _as_parts(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _length(message: Message) -> int:
    content = message["content"]
    return len(content) if isinstance(content, str) else len(json.dumps(content))


def _leniently(message: ChatMessage) -> list[Message]:
    """Return an earlier message, or its text when the rest cannot be read again.

    The calls that tools answered are not kept with a conversation, so their results say nothing.
    """
    if message.role is Role.USER:
        with suppress(UnreadableError):
            return _strictly(message)
    spoken = message.role in (Role.USER, Role.ASSISTANT)
    return [_named(message, message.text)] if spoken and message.text else []


def _strictly(message: ChatMessage) -> list[Message]:
    """Return a message as the AI client wants it; none for what says nothing.

    Raises:
        UnreadableError: it holds what a model cannot be sent.
    """
    if message.role is Role.SYSTEM:
        return []  # it has gone before all others
    if message.role is Role.TOOL:
        return [_result(part) for part in message.parts if not isinstance(part, ReasoningPart)]
    if message.role is Role.ASSISTANT:
        return _said(message)
    if all(isinstance(part, TextPart) for part in message.parts):
        return [_named(message, message.text)]
    return [_named(message, [_seen(part) for part in message.parts])]


def _named(message: ChatMessage, content: Any) -> Message:
    named: Message = {"role": str(message.role), "content": content}
    if message.name is not None and _NAME.fullmatch(message.name):
        named["name"] = message.name
    return named


def _said(message: ChatMessage) -> list[Message]:
    calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
    if not calls:
        # Some providers refuse an empty answer in what was said.
        return [_named(message, message.text)] if message.text else []
    asked = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]
    return [{**_named(message, message.text or None), "tool_calls": asked}]


def _result(part: MessagePart) -> Message:
    if not isinstance(part, ToolCallResponsePart):
        raise _unreadable(part)
    told = part.response
    content = told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)
    return {"role": "tool", "tool_call_id": part.id, "content": content}


def _seen(part: MessagePart) -> dict[str, Any]:
    """Return a part of what the user says: text, a picture, or the address of anything else."""
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.content}
    if isinstance(part, UriPart):
        return _picture(part.uri) if _is_picture(part) else {"type": "text", "text": part.uri}
    if isinstance(part, BlobPart) and part.mime_type and _is_picture(part):
        return _picture(f"data:{part.mime_type};base64,{part.content}")
    raise _unreadable(part)


def _picture(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def _is_picture(part: BlobPart | UriPart) -> bool:
    return (part.mime_type or "").startswith("image/") or part.modality == "image"


def _unreadable(part: MessagePart) -> UnreadableError:
    kind = getattr(part, "mime_type", None)
    told = f" ({kind})" if kind else ""
    return UnreadableError(
        f"A message has a part of type {part.type}{told}, which the model cannot be sent: send "
        "text, pictures or addresses."
    )
