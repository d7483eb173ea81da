"""The parameters that a client sends, checked. No I/O.

A message is also identified, and converted to a request for the agent.
"""

import json
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final
from uuid import UUID, uuid5

from pydantic import ValidationError
from pydantic_core import from_json, to_json

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

from ..log.tasks import TaskPosition
from ._error_formats import FieldViolation
from ._fold import JSON
from ._protocol import STATES

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
    again has the same one. `reads_live` is False if its client waits for the end of the turn.
    """

    message: JSON
    key: UUID
    context_id: str
    task_id: str | None
    named_context: bool
    reads_live: bool = True


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
    reads_live: bool = True,
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
    message = _typed(value)
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
        reads_live,
    )


def _typed(value: JSON) -> Message:
    try:
        return Message.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        # pydantic also names the member of a union, such as list[Part].
        path = [str(part) for part in first["loc"] if "[" not in str(part)]
        field = ".".join(["message", *path])
        raise wrong(field, f"is invalid: {first['msg']}") from None


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
    is that of the client's request, with the question that it answers; `"a2a"` in it has what else
    the message says: `messageId`, `taskId`, `metadata`, `extensions`, `referenceTaskIds`, and
    `filenames`, which has a name or None for each part.
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


# Parameters of the other operations

_DEFAULT_PAGE: Final = 50
_LARGEST_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class Listing:
    """The tasks that a client wants to have listed."""

    size: int
    context_id: str | None
    state: str | None
    changed_since: float | None
    after: TaskPosition | None
    history: int | None
    artifacts: bool


def task_id_of(params: Mapping[str, Any], name: str = "id") -> UUID | None:
    """Return the id of a task in the parameters, None if no task can have it.

    Raises:
        InvalidParamsError: there is none.
    """
    given = params.get(name)
    if not isinstance(given, str) or not given:
        raise wrong(name, "is required and must be a string")
    try:
        found = UUID(given)
    except ValueError:
        return None
    return found if str(found) == given else None


def optional_object(params: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a parameter that is an object, an empty one if it is not given.

    Raises:
        InvalidParamsError: it is something else.
    """
    given = params.get(name)
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise wrong(name, "must be an object")
    return given


def returns_immediately(params: Mapping[str, Any]) -> bool:
    """Return True if a client that sends a message does not wait for the answer.

    Raises:
        InvalidParamsError: the configuration is not an object.
    """
    return optional_object(params, "configuration").get("returnImmediately") is True


def history_length(params: Mapping[str, Any]) -> int | None:
    """Return the greatest number of messages in the history, None for all.

    Raises:
        InvalidParamsError: it is not a number from 0 on.
    """
    return _integer(params, "historyLength", 0, None)


def parse_listing(params: Mapping[str, Any]) -> Listing:
    """Check the parameters of a list.

    Raises:
        InvalidParamsError: one of them is wrong; the error names it.
    """
    size = _integer(params, "pageSize", 1, _LARGEST_PAGE)
    state = params.get("status") or None
    if state is not None and state not in STATES:
        raise wrong("status", "must be the state of a task, such as TASK_STATE_WORKING")
    context = params.get("contextId") or None
    if context is not None and not isinstance(context, str):
        raise wrong("contextId", "must be a string")
    return Listing(
        size=_DEFAULT_PAGE if size is None else size,
        context_id=context,
        state=state,
        changed_since=_time(params.get("statusTimestampAfter")),
        after=_page_token(params.get("pageToken")),
        history=history_length(params),
        artifacts=params.get("includeArtifacts") is True,
    )


def _integer(
    params: Mapping[str, Any], name: str, smallest: int, largest: int | None
) -> int | None:
    value = params.get(name)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():  # JSON has one kind of number
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
        raise wrong(name, f"must be a whole number from {smallest} on")
    if largest is not None and value > largest:
        raise wrong(name, f"must be at most {largest}")
    return value


def _time(value: Any) -> float | None:
    if value is None or value == "":
        return None
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise wrong("statusTimestampAfter", "must be a time such as 2026-01-31T12:00:00Z") from None
    if moment.tzinfo is None:
        raise wrong("statusTimestampAfter", "must have a time zone, such as Z")
    return moment.timestamp()


def dump_page_token(position: TaskPosition) -> str:
    """Return the token for the page after a position."""
    return urlsafe_b64encode(to_json([position.changed, str(position.task_id)])).decode("ascii")


def _page_token(value: Any) -> TaskPosition | None:
    if value is None or value == "":
        return None
    try:
        changed, task_id = from_json(urlsafe_b64decode(value))
        return TaskPosition(float(changed), UUID(task_id))
    except (Base64Error, ValueError, TypeError, AttributeError):
        raise wrong("pageToken", "must be the nextPageToken of an earlier list") from None
