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
)

from ..http._chat_body import (
    MAX_ID,
    bad_request,
    by_role,
    call_part,
    content_parts,
    is_id,
    objects_in,
    resource_part,
    result_part,
    text_in,
)

__all__ = ["RunInput", "run_input"]

_JSON = dict[str, Any]
_MEDIA: Final = ("image", "audio", "video", "document")
_IDS: Final = ("threadId", "runId", "parentRunId")
_PASSED: Final = (*_IDS, "tools", "context", "state", "forwardedProps")


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
    for name in ("threadId", "runId"):
        _check_id(values, name)
    if values.get("parentRunId") is not None:
        _check_id(values, "parentRunId")
    if not isinstance(values.get("protocolVersion"), str | None):
        raise bad_request("protocolVersion", "protocolVersion must be text.")
    if values.get("messages") is None:
        raise bad_request("messages", "messages must be a list of messages.")
    given = objects_in(values["messages"], "messages")
    for index, tool in enumerate(_objects(values, "tools")):
        text_in(tool, "name", f"tools.{index}", "tools")
    _objects(values, "context")
    read = [_message(one, f"messages.{index}") for index, one in enumerate(given)]
    passed = {name: values[name] for name in _PASSED if values.get(name) is not None}
    started: _JSON = {name: passed[name] for name in _IDS if name in passed}
    if values.get("protocolVersion") is not None:  # each side declares its own version
        started["protocolVersion"] = "1.0"
    return RunInput(
        thread_id=values["threadId"],
        run_id=values["runId"],
        # Clients refuse a null in a snapshot, and some send one.
        given=[{name: one[name] for name in one if one[name] is not None} for one in given],
        messages=[message for message in read if message is not None],
        resume=_resume(values),
        passed=passed,
        started=started,
    )


def _check_id(values: _JSON, name: str) -> None:
    if not is_id(values.get(name)):
        raise bad_request(name, f"{name} must be an id of 1 to {MAX_ID} printable characters.")


def _objects(values: _JSON, name: str, where: str = "") -> list[_JSON]:
    """Return a list that may be missing."""
    return [] if values.get(name) is None else objects_in(values[name], f"{where}{name}")


def _resume(values: _JSON) -> list[_JSON]:
    resume = _objects(values, "resume")
    for index, entry in enumerate(resume):
        text_in(entry, "interruptId", f"resume.{index}", "resume")
        if entry.get("status") not in ("resolved", "cancelled"):
            raise bad_request("resume", f"resume.{index}.status must be resolved or cancelled.")
    return resume


# Messages.


def _message(message: _JSON, where: str) -> ChatMessage | None:
    text_in(message, "id", where)
    return by_role(message, where, _ROLES)(message, where)


def _named(message: _JSON, role: Role, parts: list[MessagePart]) -> ChatMessage:
    name = message.get("name")
    return ChatMessage(role=role, parts=parts, name=name if isinstance(name, str) else None)


def _user(message: _JSON, where: str) -> ChatMessage:
    return _named(message, Role.USER, _content(message, where))


def _system(message: _JSON, where: str) -> ChatMessage:
    return _named(message, Role.SYSTEM, [TextPart(content=text_in(message, "content", where))])


def _assistant(message: _JSON, where: str) -> ChatMessage:
    parts = [] if message.get("content") is None else _content(message, where)
    for index, call in enumerate(_objects(message, "toolCalls", f"{where}.")):
        at, function = f"{where}.toolCalls.{index}", call.get("function")
        if not isinstance(function, dict) or not isinstance(call.get("id"), str):
            raise bad_request(at, f"{at} must have an id and a function.")
        parts.append(call_part(function.get("name"), call["id"], function.get("arguments"), at))
    return _named(message, Role.ASSISTANT, parts)


def _tool(message: _JSON, where: str) -> ChatMessage:
    _content(message, where)
    call_id, content = text_in(message, "toolCallId", where), message["content"]
    if message.get("error") is not None:
        content = {"content": content, "error": text_in(message, "error", where)}
    return ChatMessage(role=Role.TOOL, parts=[result_part(call_id, content, where)])


def _reasoning(message: _JSON, where: str) -> ChatMessage:
    thought = ReasoningPart(content=text_in(message, "content", where))
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


def _content(message: _JSON, where: str) -> list[MessagePart]:
    return content_parts(message.get("content"), f"{where}.content", _part)


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
    main = media_type.partition("/")[0] if isinstance(media_type, str) else ""
    for name, source in (("data", "data"), ("url", "url"), ("id", "file")):
        if part.get(name) is not None:
            modality = main if main in _MEDIA else "document"
            return _resource(source, part[name], media_type, modality)
    return None


def _resource(kind: Any, value: Any, media_type: Any, modality: str) -> MessagePart | None:
    if not isinstance(value, str) or not isinstance(media_type, str | None):
        return None
    if kind == "data" and media_type is not None:
        return BlobPart(content=value, mime_type=media_type, modality=modality)
    if kind == "file":
        return FilePart(file_id=value, mime_type=media_type, modality=modality)
    return resource_part(value, modality, media_type) if kind == "url" else None
