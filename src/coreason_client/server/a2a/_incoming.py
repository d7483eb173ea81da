"""A message that a client sends: checked, identified, and converted to a request. No I/O."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final
from uuid import UUID, uuid5

from pydantic import ValidationError

from coreason_client.a2a.errors import ContentTypeNotSupportedError, InvalidParamsError
from coreason_client.a2a.types import Message, Role
from coreason_manifest.definitions.message import (
    BlobPart,
    ChatMessage,
    MessagePart,
    TextPart,
    UriPart,
)
from coreason_manifest.definitions.message import Role as ChatRole
from coreason_manifest.definitions.request import AgentRequest, ClientCapabilities
from coreason_manifest.definitions.service import ServiceRequest
from coreason_manifest.definitions.session import SessionContext

from ._error_formats import FieldViolation
from ._fold import JSON

__all__ = [
    "A2A_METADATA",
    "IncomingMessage",
    "MediaTypes",
    "parse_message",
    "request_for",
    "wrong",
]

_NAMESPACE: Final = UUID("5e2c8f0a-7d2b-5b6f-9a53-0c8f6b1d4e21")
_KINDS: Final = ("text", "raw", "url", "data")
_PART_NAMES: Final = frozenset({*_KINDS, "metadata", "filename", "mediaType"})
_JSON_TYPE: Final = "application/json"
_MAX_ID: Final = 256  # characters
_ABOUT: Final = ("messageId", "metadata", "extensions", "referenceTaskIds")
_NAMES: Final = frozenset({*_ABOUT, "contextId", "taskId", "role", "parts"})
A2A_METADATA: Final = "a2a"
"""The key of what a message says beside its parts, in the metadata of the agent's request."""
_URL_SAFE: Final = str.maketrans("-_", "+/")


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """A checked message. `key` identifies it: the same message sent again has the same key.

    `context_id` is that of the message, or derived from the key, so that a message that is sent
    again has the same one.
    """

    message: JSON
    key: UUID
    context_id: str
    task_id: str | None
    named_context: bool


def wrong(field: str, description: str) -> InvalidParamsError:
    """Return the error for a wrong parameter."""
    violation = FieldViolation(field, description)
    return InvalidParamsError(f"{field} {description}.", data=[violation])


class MediaTypes:
    """The media types that an agent accepts, such as `text/plain` or `image/*`."""

    def __init__(self, accepted: Iterable[str]) -> None:
        self._accepted = {media_type.lower() for media_type in accepted}

    def __contains__(self, media_type: str) -> bool:
        plain = media_type.partition(";")[0].strip().lower()
        kind = plain.partition("/")[0]
        return bool({plain, f"{kind}/*", "*/*"} & self._accepted)


def parse_message(
    principal: str,
    value: Any,
    max_parts: int,
    accepted: MediaTypes | None = None,
    *,
    immediately: bool = False,
) -> IncomingMessage:
    """Check a message of a client; `accepted` are the media types of its parts, None for all.

    `immediately` is True for a client that does not wait for the answer. A client that repeats a
    request repeats that too, so with another value it is another request.

    Raises:
        InvalidParamsError: something is wrong with it; the error names the field.
        ContentTypeNotSupportedError: a part has a media type that the agent does not accept.
    """
    if not isinstance(value, dict):
        raise wrong("message", "must be an object")
    try:
        message = Message.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        # pydantic also names the member of a union, such as list[Part].
        path = [str(part) for part in first["loc"] if "[" not in str(part)]
        field = ".".join(["message", *path])
        raise wrong(field, f"is invalid: {first['msg']}") from None
    value = _known(value)
    _check_ids(value)
    if message.role != Role.USER:
        raise wrong("message.role", "is required and must be ROLE_USER")
    _check_parts(value.get("parts"), max_parts, accepted)
    key = _key(principal, value, immediately=immediately)
    named = message.context_id or None
    kept = {name: member for name, member in value.items() if name not in ("contextId", "taskId")}
    return IncomingMessage(
        {**kept, "role": Role.USER.value},
        key,
        named or str(uuid5(key, "context")),
        message.task_id or None,
        named is not None,
    )


def _known(message: JSON) -> JSON:
    """Return a valid message without members that are unknown or null, which mean nothing."""
    known = _members(message, _NAMES)
    if parts := known.get("parts"):
        known["parts"] = [_members(part, _PART_NAMES) for part in parts]
    return known


def _members(value: JSON, names: frozenset[str]) -> JSON:
    # Null is a value of `data`.
    return {
        name: member
        for name, member in value.items()
        if name in names and (member is not None or name == "data")
    }


def _check_ids(message: JSON) -> None:
    if not message.get("messageId"):
        raise wrong("message.messageId", "is required")
    for name in ("messageId", "contextId", "taskId"):
        if len(message.get(name) or "") > _MAX_ID:
            raise wrong(f"message.{name}", f"may have at most {_MAX_ID} characters")


def _check_parts(parts: Any, max_parts: int, accepted: MediaTypes | None) -> None:
    if not isinstance(parts, list) or not parts:
        raise wrong("message.parts", "must have at least one part")
    if len(parts) > max_parts:
        raise wrong("message.parts", f"may have at most {max_parts} parts")
    for number, part in enumerate(parts):
        kinds = [kind for kind in _KINDS if kind in part]
        if len(kinds) != 1:
            raise wrong(f"message.parts[{number}]", "must have one of text, raw, url and data")
        if kinds == ["raw"] and _base64(part["raw"]) is None:
            raise wrong(f"message.parts[{number}].raw", "must be Base64")
        media_type = part.get("mediaType")
        if media_type and accepted is not None and media_type not in accepted:
            raise ContentTypeNotSupportedError(
                f"The agent does not accept the media type of message.parts[{number}]."
            )


def _base64(text: str | None) -> str | None:
    """Return Base64 in its standard form, None if the text is something else.

    ProtoJSON also allows the alphabet for URLs, and no padding.
    """
    standard = (text or "").translate(_URL_SAFE).rstrip("=")
    padded = standard + "=" * (-len(standard) % 4)
    try:
        b64decode(padded, validate=True)
    except ValueError:
        return None
    return padded


def _key(principal: str, message: JSON, *, immediately: bool) -> UUID:
    """Return the identity of a message: its ids, its owner and everything it says."""
    try:
        text = json.dumps(message, sort_keys=True, allow_nan=False)
    except ValueError:
        raise wrong("message", "has a number that JSON cannot represent, such as 1e999") from None
    digest = sha256(text.encode("utf-8", "surrogatepass"))
    end = "\nimmediately" if immediately else ""
    return uuid5(_NAMESPACE, f"{principal}\n{digest.hexdigest()}{end}")


def request_for(
    incoming: IncomingMessage, request_id: UUID, user_id: str, metadata: Mapping[str, Any] | None
) -> ServiceRequest:
    """Return the request that an agent gets for a message.

    It understands rewinds, because the events of the protocol can replace an artifact. Its metadata
    is that of the client's request; `"a2a"` in it has what else the message says: `messageId`,
    `taskId`, `metadata`, `extensions`, `referenceTaskIds`, and `filenames`, which has a name or
    None for each part.
    """
    parts = [_part(part) for part in incoming.message["parts"]]
    about = {name: incoming.message[name] for name in _ABOUT if incoming.message.get(name)}
    if incoming.task_id is not None:
        about["taskId"] = incoming.task_id
    names = [part.get("filename") for part in incoming.message["parts"]]
    if any(names):
        about["filenames"] = [name or None for name in names]
    return ServiceRequest(
        request_id=request_id,
        context=SessionContext(session_id=incoming.context_id, user_id=user_id),
        payload=AgentRequest(
            messages=[ChatMessage(role=ChatRole.USER, parts=parts)],
            capabilities=ClientCapabilities(supported_events=["REWIND"]),
            metadata={**(metadata or {}), A2A_METADATA: about},
        ),
    )


def _part(part: JSON) -> MessagePart:
    """Convert a part; data becomes a file of JSON, because a message has no part for it."""
    media_type = part.get("mediaType")
    if "text" in part:
        return TextPart(content=part["text"])
    if "url" in part:
        return UriPart(uri=part["url"], mime_type=media_type)
    if "raw" in part:
        return BlobPart(content=_base64(part["raw"]) or "", mime_type=media_type)
    content = b64encode(json.dumps(part["data"]).encode()).decode("ascii")
    return BlobPart(content=content, mime_type=media_type or _JSON_TYPE)
