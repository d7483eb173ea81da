"""Builds the messages for a model from a conversation.

Earlier turns:

* A request of CAP that has answers is the whole conversation, so there are none before it.
* A turn has its question and its answer; a cancelled or broken one, the part that was written.
* A question without an answer is joined with the next question: several providers reject two user
  messages in a row.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import wraps
from mimetypes import guess_extension
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
from coreason_manifest.definitions.service import ServiceRequest

from ..llm import Message
from ..llm._call import audio_format

if TYPE_CHECKING:
    from ..server import AgentStream, Turn

    _Agent = Callable[[ServiceRequest, AgentStream], Coroutine[Any, Any, None]]

_PARAGRAPH = "\n\n"
MEDIA_LENGTH = 4000
"""The characters that an image, a sound or a file counts as at most, however large its data is."""

# Names that OpenAI accepts; with any other name it rejects the whole request.
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}", re.ASCII)


class UnreadableError(Exception):
    """A request has content that cannot be sent to a model; the message is for readers."""


def refusing(agent: "_Agent") -> "_Agent":
    """Return an agent that refuses a request whose content cannot be sent to its model."""

    @wraps(agent)
    async def run(request: ServiceRequest, stream: "AgentStream") -> None:
        try:
            await agent(request, stream)
        except UnreadableError as error:
            await stream.fail("unsupported_content", str(error))

    return run


async def earlier_turns(
    request: ServiceRequest, stream: "AgentStream", limit: int
) -> "Sequence[Turn]":
    """Return the turns before a request, at most `limit`."""
    has_answers = any(message.role is Role.ASSISTANT for message in request.payload.messages or ())
    brings_history = "earlier" in type(request).model_fields
    if limit == 0 or (has_answers and not brings_history):
        return ()
    return (await stream.history(limit)).turns


async def whole_conversation(
    stream: "AgentStream", max_turns: int, max_chars: int
) -> list[Message]:
    """Return the messages of the request and of the turns before it; raises like `conversation`."""
    request = stream.request
    earlier = await earlier_turns(request, stream, max_turns)
    return conversation(request.payload.messages or (), earlier, None, max_chars)


def conversation(
    messages: Sequence[ChatMessage], earlier: "Sequence[Turn]", system: str | None, max_chars: int
) -> list[Message]:
    """Return the system prompts, the earlier turns and the messages of the request.

    The system prompts of the request replace those of earlier requests; otherwise they would add
    up if a client sends them each time.

    Raises:
        UnreadableError: there is no message for the model, or it has unsupported content.
    """
    new = [converted for message in messages for converted in _convert(message)]
    if not new:
        raise UnreadableError("The request has no message for the model.")
    history = [message for turn in earlier for message in turn.messages]
    prompts = system_prompts(messages) or system_prompts(history)[-1:]
    if system is not None:
        prompts.insert(0, system)
    return [
        *({"role": "system", "content": text} for text in prompts),
        *_joined([*_latest(earlier, max_chars), new]),
    ]


def system_prompts(messages: Sequence[ChatMessage]) -> list[str]:
    """Return the texts of the system prompts among messages."""
    return [message.text for message in messages if message.role is Role.SYSTEM and message.text]


def _latest(earlier: "Sequence[Turn]", max_chars: int) -> list[list[Message]]:
    """Return the latest complete turns that have at most so many characters together."""
    kept: list[list[Message]] = []
    for turn in reversed(earlier):
        messages = [sent for message in turn.messages for sent in _convert_earlier(message)]
        length = sum(_length(message) for message in messages)
        if length > max_chars:
            if turn.complete:
                break
            continue  # an unanswered question must not hide the turns before it
        max_chars -= length
        kept.insert(0, messages)
    return kept


def _joined(turns: Sequence[list[Message]]) -> list[Message]:
    """Return the messages of all turns; an unanswered question is joined with the next one."""
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
        joined.pop("name", None)  # it contains text of both users
    return joined


def _join_contents(before: Any, after: Any) -> Any:
    if isinstance(before, str) and isinstance(after, str):
        return f"{before}{_PARAGRAPH}{after}"
    return [*_as_parts(before), *_as_parts(after)]


def _as_parts(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _length(message: Message) -> int:
    content = message["content"]
    if content is None or isinstance(content, str):
        return len(content or "")
    return sum(map(_part_length, content))


def _part_length(part: dict[str, Any]) -> int:
    if part["type"] == "text":
        return len(part["text"])
    return min(len(json.dumps(part)), MEDIA_LENGTH)


def _convert_earlier(message: ChatMessage) -> list[Message]:
    """Return an earlier message, or only its text if the rest is not supported.

    Tool results are left out, because the history does not contain their calls.
    """
    if message.role is Role.USER:
        with suppress(UnreadableError):
            return _convert(message)
    has_text = message.role in (Role.USER, Role.ASSISTANT) and message.text
    return [_with_name(message, message.text)] if has_text else []


def _convert(message: ChatMessage) -> list[Message]:
    """Return a message in the form of the AI client; empty if it has no content for the model.

    Raises:
        UnreadableError: it has unsupported content.
    """
    if message.role is Role.SYSTEM:
        return []  # system prompts are handled separately
    if message.role is Role.TOOL:
        return [_tool_result(part) for part in message.parts if not isinstance(part, ReasoningPart)]
    if message.role is Role.ASSISTANT:
        return _assistant_message(message)
    if all(isinstance(part, TextPart) for part in message.parts):
        return [_with_name(message, message.text)]
    return [_with_name(message, [_user_part(part) for part in message.parts])]


def _with_name(message: ChatMessage, content: Any) -> Message:
    named: Message = {"role": str(message.role), "content": content}
    if message.name is not None and _NAME.fullmatch(message.name):
        named["name"] = message.name
    return named


def _assistant_message(message: ChatMessage) -> list[Message]:
    calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
    if not calls:
        # Some providers reject an empty assistant message.
        return [_with_name(message, message.text)] if message.text else []
    sent = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]
    return [{**_with_name(message, message.text or None), "tool_calls": sent}]


def _tool_result(part: MessagePart) -> Message:
    if not isinstance(part, ToolCallResponsePart):
        raise _unreadable(part)
    response = part.response
    content = response if isinstance(response, str) else json.dumps(response, ensure_ascii=False)
    return {"role": "tool", "tool_call_id": part.id, "content": content}


def _user_part(part: MessagePart) -> dict[str, Any]:
    """Return a part of a user message; the URI of anything but an image becomes text."""
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.content}
    if isinstance(part, UriPart):
        return _image(part.uri) if is_image(part) else {"type": "text", "text": part.uri}
    if isinstance(part, BlobPart) and part.mime_type:
        return _blob(part, part.mime_type)
    raise _unreadable(part)


def _blob(part: BlobPart, mime_type: str) -> dict[str, Any]:
    """Return an image, a sound or a file of another type than text."""
    data_url = f"data:{mime_type};base64,{part.content}"
    if is_image(part):
        return _image(data_url)
    kind = mime_type.partition("/")[0]
    if kind not in ("application", "audio") or not _is_base64(part.content):
        raise _unreadable(part)
    if kind == "audio":
        audio = {"data": part.content, "format": audio_format(mime_type)}
        return {"type": "input_audio", "input_audio": audio}
    filename = f"file{guess_extension(mime_type) or ''}"
    return {"type": "file", "file": {"file_data": data_url, "filename": filename}}


def _is_base64(content: str) -> bool:
    try:
        return bool(b64decode(content, validate=True))
    except ValueError:
        return False


def _image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def is_image(part: BlobPart | UriPart) -> bool:
    """Return True for an image; its URI need not have a type."""
    return (part.mime_type or "").startswith("image/") or part.modality == "image"


def _unreadable(part: MessagePart) -> UnreadableError:
    kind = getattr(part, "mime_type", None)
    suffix = f" ({kind})" if kind else ""
    return UnreadableError(
        f"A message has a part of type {part.type}{suffix}, which cannot be sent to the model. "
        "Send text, images, audio, documents or URIs."
    )
