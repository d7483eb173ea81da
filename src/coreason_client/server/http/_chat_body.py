"""Bodies of the protocols of chat programs, as the request that an agent gets. No I/O.

What the agent gets is the same for all of them: in `request.payload.messages` the system prompts
and the messages after the last answer, in `stream.history()` the turns before them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard, TypeVar
from uuid import UUID

from pydantic import ValidationError
from pydantic_core import from_json

from coreason_manifest.definitions.message import (
    BlobPart,
    ChatMessage,
    MessagePart,
    Role,
    TextPart,
    ToolCallPart,
    ToolCallResponsePart,
    UriPart,
)
from coreason_manifest.definitions.presentation import PresentationEventType
from coreason_manifest.definitions.request import AgentRequest, ClientCapabilities
from coreason_manifest.definitions.rewind import REWIND
from coreason_manifest.definitions.service import ServiceRequest
from coreason_manifest.definitions.session import SessionContext

from .._names import ANONYMOUS
from .._options import Options
from ..engine._conversation import RequestWithHistory, StoredTurn, as_turns, turn_of
from ._problems import Problem

T = TypeVar("T")

MAX_ID: Final = 256
"""The number of characters that an id of a client may have."""
# Longer arguments stay text: JSON in a text is not counted by the limit of values of a body.
_MAX_PARSED: Final = 100_000
_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^;,]*)*?;base64,", re.ASCII | re.IGNORECASE)
_EVENTS: Final = tuple(PresentationEventType)


def bad_request(param: str, message: str, slug: str = "invalid-request") -> Problem:
    """Return the refusal of a request with a parameter that is wrong or not supported."""
    return Problem(400, slug, message, errors=[{"loc": [param], "msg": message}])


def json_object(body: bytes) -> dict[str, Any]:
    """Return the object in a body.

    Raises:
        Problem: 400.
    """
    try:
        values = from_json(body)
    except ValueError:
        raise Problem(400, "invalid-request", "The body is not valid JSON.") from None
    if not isinstance(values, dict):
        raise Problem(400, "invalid-request", "The body must be a JSON object.")
    return values


def is_id(value: Any) -> TypeGuard[str]:
    """Return True if a value may be the id of a client."""
    return isinstance(value, str) and 0 < len(value) <= MAX_ID and value.isprintable()


def check_sizes(messages: Sequence[ChatMessage], options: Options) -> None:
    """Refuse a request with too many messages or parts.

    Raises:
        Problem: 400.
    """
    parts = sum(len(message.parts) for message in messages)
    counts = (
        ("messages", len(messages), options.max_messages),
        ("parts", parts, options.max_parts),
    )
    for what, count, most in counts:
        if count > most:
            message = f"A request may have at most {most} {what}, got {count}."
            raise bad_request("messages", message, f"too-many-{what}")


# Members of a body; `where` names the object that has them.


def text_in(values: Mapping[str, Any], name: str, where: str, param: str | None = None) -> str:
    """Return a member that is text; an error names `param`, by default the member.

    Raises:
        Problem: 400.
    """
    value, place = values.get(name), f"{where}.{name}"
    if not isinstance(value, str):
        raise bad_request(param or place, f"{place} must be text.")
    return value


def objects_in(found: Any, where: str) -> list[dict[str, Any]]:
    """Return a list of objects.

    Raises:
        Problem: 400.
    """
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise bad_request(where, f"{where} must be a list of objects.")
    return found


def by_role(message: Mapping[str, Any], where: str, roles: Mapping[str, T]) -> T:
    """Return the entry for the role of a message.

    Raises:
        Problem: 400, naming the roles.
    """
    name = message.get("role")
    found = roles.get(name) if isinstance(name, str) else None
    if found is None:
        raise bad_request(f"{where}.role", f"{where}.role must be one of {', '.join(roles)}.")
    return found


# Parts of messages.


def content_parts(
    content: Any, where: str, read: Callable[[Any, str], MessagePart]
) -> list[MessagePart]:
    """Return the parts of a content that is text, or a list of parts that `read` knows.

    Raises:
        Problem: 400.
    """
    if isinstance(content, str):
        return [TextPart(content=content)]
    if not isinstance(content, list):
        raise bad_request(where, f"{where} must be text or a list of parts.")
    return [read(part, f"{where}.{index}") for index, part in enumerate(content)]


def resource_part(url: str, modality: str, media_type: str | None = None) -> MessagePart | None:
    """Return the content at a URL, which is never fetched; None for a data URL without base64.

    A data URL has its own media type.
    """
    if (data := _DATA_URL.match(url)) is not None:
        own_type = data[1] or "application/octet-stream"
        return BlobPart(content=url[data.end() :], mime_type=own_type, modality=modality)
    if url.startswith("data:"):
        return None
    return UriPart(uri=url, mime_type=media_type, modality=modality)


def call_part(name: Any, call_id: Any, arguments: Any, where: str) -> ToolCallPart:
    """Return a tool call; arguments that are text are parsed if they are JSON.

    Raises:
        Problem: 400.
    """
    if isinstance(arguments, str) and len(arguments) <= _MAX_PARSED:
        with suppress(ValueError):  # the arguments of some tools are any text
            arguments = from_json(arguments)
    try:
        return ToolCallPart(name=name, id=call_id, arguments=arguments)
    except ValidationError:
        raise bad_request(where, f"{where}: a call needs a name and an id.") from None


def result_part(call_id: Any, result: Any, where: str) -> ToolCallResponsePart:
    """Return the result of a tool call.

    Raises:
        Problem: 400.
    """
    if not isinstance(call_id, str | None):
        raise bad_request(where, f"{where}: the id of the call must be text.")
    return ToolCallResponsePart(id=call_id, response=result)


# The request.


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a body asks for.

    Attributes:
        messages: the conversation, or its new messages if it is stored.
        session_id: the name of the conversation in the store; for one that the body brings, a name
            that no other request has.
        is_in_store: True if the store has the turns before `messages`.
        before: the turns before `messages`, if they were loaded from somewhere else.
        metadata: what the agent gets in `request.payload.metadata`.
        can_rewind: True if words that were sent may be taken back.
        user: the user that the client names.
        instructions: a system prompt for this request alone.
        keeps_turn: True if a later request may continue after this one.
        thread: the name of the conversation, if the client has given one and the body brings it.
    """

    messages: Sequence[ChatMessage]
    session_id: str
    is_in_store: bool = False
    before: Sequence[StoredTurn] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    can_rewind: bool = False
    user: Any = None
    instructions: str | None = None
    keeps_turn: bool = False
    thread: str = ""


def request_of(ask: Ask, request_id: UUID) -> ServiceRequest:
    """Return the request that the agent gets."""
    system = [message for message in ask.messages if message.role is Role.SYSTEM]
    if ask.instructions is not None:
        prompt = TextPart(content=ask.instructions)
        system.insert(0, ChatMessage(role=Role.SYSTEM, parts=[prompt]))
    turns, new = as_turns([one for one in ask.messages if one.role is not Role.SYSTEM])
    if not new and turns:  # the client wants the last answer to be continued
        new = [*turn_of(turns.pop()).messages]
    rewinds = (REWIND,) if ask.can_rewind else ()
    has_user = isinstance(ask.user, str) and ask.user
    values: dict[str, Any] = {
        "request_id": request_id,
        "context": SessionContext(
            session_id=ask.session_id, user_id=ask.user if has_user else ANONYMOUS
        ),
        "payload": AgentRequest(
            messages=[*system, *new],
            metadata=ask.metadata,
            capabilities=ClientCapabilities(supported_events=[*_EVENTS, *rewinds]),
        ),
    }
    if ask.is_in_store:
        return ServiceRequest(**values)
    return RequestWithHistory(
        **values,
        earlier=[*ask.before, *turns],
        keeps_turn=ask.keeps_turn,
        has_instructions=ask.instructions is not None,
        thread=ask.thread,
    )
