"""The input of a run, the `RunAgentInput` of AG-UI 1.0, as messages of a request. No I/O."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from coreason_manifest.definitions.message import (
    BlobPart,
    ChatMessage,
    FilePart,
    MessagePart,
    ReasoningPart,
    Role,
    TextPart,
    UriPart,
)

from ..http._chat_body import MAX_ID, bad_request, call_part, is_id, resource_part, result_part

__all__ = ["RunInput", "run_input"]

_JSON = dict[str, Any]
_MEDIA: Final = ("image", "audio", "video", "document")
_STATUSES: Final = ("resolved", "cancelled")
_PASSED: Final = ("parentRunId", "tools", "context", "state", "forwardedProps")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInput:
    """The input of a run.

    Attributes:
        thread_id: the id of the conversation.
        run_id: the id of the run.
        given: the messages as they were received, for a snapshot of the conversation.
        messages: the same messages for the agent.
        resume: the answers to questions of an earlier run.
        passed: what the agent gets in its metadata.
        started: the members of the event RUN_STARTED.
    """

    thread_id: str
    run_id: str
    given: list[_JSON]
    messages: list[ChatMessage]
    resume: list[_JSON]
    passed: _JSON
    started: _JSON

    @property
    def tools(self) -> set[str]:
        """The names of the tools of the page, which the agent may call and the page executes."""
        return {tool["name"] for tool in self.passed.get("tools", ())}

    @property
    def call_ids(self) -> set[str]:
        """The ids of the tool calls in the messages."""
        answers = [message for message in self.given if message["role"] == "assistant"]
        return {call["id"] for answer in answers for call in answer.get("toolCalls", ())}


def run_input(values: _JSON) -> RunInput:
    """Return the input in a body.

    Raises:
        Problem: 400, naming the field.
    """
    thread_id, run_id = _id(values, "threadId"), _id(values, "runId")
    if values.get("parentRunId") is not None:
        _id(values, "parentRunId")
    if not isinstance(values.get("protocolVersion"), str | None):
        raise bad_request("protocolVersion", "protocolVersion must be text.")
    given = _objects(values, "messages")
    if given is None:
        raise bad_request("messages", "messages must be a list of messages.")
    for index, tool in enumerate(_objects(values, "tools") or ()):
        if not isinstance(tool.get("name"), str):
            raise bad_request("tools", f"tools.{index}.name must be text.")
    _objects(values, "context")
    read = [_message(one, f"messages.{index}") for index, one in enumerate(given)]
    names = {"threadId": thread_id, "runId": run_id}
    passed = {name: values[name] for name in _PASSED if values.get(name) is not None}
    started = {name: passed[name] for name in ("parentRunId",) if name in passed}
    if values.get("protocolVersion") is not None:  # each side declares its own version
        started["protocolVersion"] = "1.0"
    return RunInput(
        thread_id=thread_id,
        run_id=run_id,
        # Clients refuse a null in a snapshot, and some send one.
        given=[{name: one[name] for name in one if one[name] is not None} for one in given],
        messages=[message for message in read if message is not None],
        resume=_resume(values),
        passed={**names, **passed},
        started={**names, **started},
    )


def _id(values: _JSON, name: str) -> str:
    value = values.get(name)
    if not is_id(value):
        raise bad_request(name, f"{name} must be an id of 1 to {MAX_ID} printable characters.")
    return value


def _objects(values: _JSON, name: str, of: str = "") -> list[_JSON] | None:
    found, where = values.get(name), f"{of}{name}"
    if found is None:
        return None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise bad_request(where, f"{where} must be a list of objects.")
    return found


def _resume(values: _JSON) -> list[_JSON]:
    resume = _objects(values, "resume") or []
    for index, entry in enumerate(resume):
        if not isinstance(entry.get("interruptId"), str):
            raise bad_request("resume", f"resume.{index}.interruptId must be text.")
        if entry.get("status") not in _STATUSES:
            raise bad_request("resume", f"resume.{index}.status must be resolved or cancelled.")
    return resume


# Messages.


def _message(message: _JSON, where: str) -> ChatMessage | None:
    if not isinstance(message.get("id"), str):
        raise bad_request(f"{where}.id", f"{where}.id must be text.")
    role = message.get("role")
    read = _ROLES.get(role) if isinstance(role, str) else None
    if read is None:
        raise bad_request(f"{where}.role", f"{where}.role must be one of {', '.join(_ROLES)}.")
    return read(message, where)


def _user(message: _JSON, where: str) -> ChatMessage:
    parts = _content(message.get("content"), f"{where}.content")
    return ChatMessage(role=Role.USER, parts=parts, name=_name(message))


def _system(message: _JSON, where: str) -> ChatMessage:
    parts: list[MessagePart] = [_text(message, where)]
    return ChatMessage(role=Role.SYSTEM, parts=parts, name=_name(message))


def _assistant(message: _JSON, where: str) -> ChatMessage:
    content = message.get("content")
    parts = [] if content is None else _content(content, f"{where}.content")
    for index, call in enumerate(_objects(message, "toolCalls", f"{where}.") or ()):
        at, function = f"{where}.toolCalls.{index}", call.get("function")
        if not isinstance(function, dict) or not isinstance(call.get("id"), str):
            raise bad_request(at, f"{at} must have an id and a function.")
        parts.append(call_part(function.get("name"), call["id"], function.get("arguments"), at))
    return ChatMessage(role=Role.ASSISTANT, parts=parts, name=_name(message))


def _tool(message: _JSON, where: str) -> ChatMessage:
    content, error, call_id = (message.get(name) for name in ("content", "error", "toolCallId"))
    _content(content, f"{where}.content")
    if not isinstance(call_id, str):
        raise bad_request(f"{where}.toolCallId", f"{where}.toolCallId must be text.")
    if not isinstance(error, str | None):
        raise bad_request(f"{where}.error", f"{where}.error must be text.")
    result = content if error is None else {"content": content, "error": error}
    return ChatMessage(role=Role.TOOL, parts=[result_part(call_id, result, where)])


def _reasoning(message: _JSON, where: str) -> ChatMessage:
    thought = ReasoningPart(content=_text(message, where).content)
    return ChatMessage(role=Role.ASSISTANT, parts=[thought])


def _activity(message: _JSON, where: str) -> None:
    """Leave a message out: it is for people, and no agent gets it."""


_ROLES: Final[Mapping[str, Callable[[_JSON, str], ChatMessage | None]]] = {
    "user": _user,
    "assistant": _assistant,
    "system": _system,
    "developer": _system,
    "tool": _tool,
    "reasoning": _reasoning,
    "activity": _activity,
}


def _name(message: _JSON) -> str | None:
    name = message.get("name")
    return name if isinstance(name, str) else None


def _text(message: _JSON, where: str) -> TextPart:
    content = message.get("content")
    if not isinstance(content, str):
        raise bad_request(f"{where}.content", f"{where}.content must be text.")
    return TextPart(content=content)


def _content(content: Any, where: str) -> list[MessagePart]:
    if isinstance(content, str):
        return [TextPart(content=content)]
    if not isinstance(content, list):
        raise bad_request(where, f"{where} must be text or a list of parts.")
    return [_part(part, f"{where}.{index}") for index, part in enumerate(content)]


def _part(part: Any, where: str) -> MessagePart:
    kind = part.get("type") if isinstance(part, dict) else None
    found: MessagePart | None = None
    if kind == "text" and isinstance(part.get("text"), str):
        found = TextPart(content=part["text"])
    elif kind in _MEDIA and isinstance(source := part.get("source"), dict):
        found = _resource(source.get("type"), source.get("value"), source.get("mimeType"), kind)
    elif kind == "binary":
        found = _binary(part)
    if found is None:
        kinds = ", ".join(_MEDIA)
        raise bad_request(where, f"{where} must be a part of type text, {kinds} with its content.")
    return found


def _binary(part: _JSON) -> MessagePart | None:
    """Return a part of the versions before 1.0."""
    media_type = part.get("mimeType")
    kind = media_type.partition("/")[0] if isinstance(media_type, str) else ""
    modality = kind if kind in _MEDIA else "document"
    for name, source in (("data", "data"), ("url", "url"), ("id", "file")):
        if part.get(name) is not None:
            return _resource(source, part[name], media_type, modality)
    return None


def _resource(kind: Any, value: Any, media_type: Any, modality: str) -> MessagePart | None:
    if not isinstance(value, str) or not isinstance(media_type, str | None):
        return None
    if kind == "data" and media_type is not None:
        return BlobPart(content=value, mime_type=media_type, modality=modality)
    if kind == "file":
        return FilePart(file_id=value, mime_type=media_type, modality=modality)
    found = resource_part(value, modality) if kind == "url" else None
    if isinstance(found, UriPart):  # a URL of data has its own type
        return UriPart(uri=found.uri, mime_type=media_type, modality=modality)
    return found
