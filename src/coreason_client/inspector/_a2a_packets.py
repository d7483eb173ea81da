"""The CAP packets for the events of an A2A agent, so that a page needs no A2A. Pure.

* Each event becomes an EVENT packet: `a2a.task`, `a2a.message`, `a2a.status`, `a2a.artifact` or
  `a2a.unknown`. Its data is the JSON of protocol 1.0, whatever version the agent speaks; a task is
  without its history.
* The text of the answer follows as DELTA packets: that of artifacts and messages, or of the last
  status if the agent sends neither. A piece that belongs to another artifact or message than the
  one before it begins a paragraph.
* A follow-up to a task starts with the task as it was: what the earlier answer has shown is not
  text of this one.
* The last status of the task decides how the stream ends: CLOSE with the question if the task waits
  for the user, a FATAL error if it failed, was rejected or was cancelled, otherwise CLOSE.
* Text is cut into pieces that fit into a packet; very long values inside of events, such as the
  content of files, are replaced by their length.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from coreason_client.a2a import (
    A2AError,
    A2AJSONRPCError,
    Event,
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from coreason_manifest.definitions.presentation import ErrorSeverity, StreamError, StreamOpCode

Payload: TypeAlias = tuple[StreamOpCode, Any]
"""The op and the payload of a packet that is to be written."""

_MAX_TEXT: Final = 256 * 1024
_MAX_VALUE: Final = 1024 * 1024
_TYPES: Final[tuple[tuple[type, str], ...]] = (
    (Task, "a2a.task"),
    (Message, "a2a.message"),
    (TaskStatusUpdateEvent, "a2a.status"),
    (TaskArtifactUpdateEvent, "a2a.artifact"),
)
_WAITING: Final = {
    TaskState.INPUT_REQUIRED: "input_required",
    TaskState.AUTH_REQUIRED: "auth_required",
}
_FAILED: Final = {
    TaskState.FAILED: ("task_failed", "The task failed."),
    TaskState.REJECTED: ("rejected", "The agent rejected the task."),
    TaskState.CANCELED: ("cancelled", "The task was cancelled."),
}
_WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True, slots=True)
class A2AConversation:
    """The part of the answers so far that the next message of a conversation needs."""

    context_id: str | None = None
    task_id: str | None = None
    """The task that waits for the user, if one does."""
    shown: frozenset[str] = field(default_factory=frozenset)
    """The ids of the artifacts and messages of that task whose text was written."""

    def message(self, text: str) -> Message:
        """Return the next message of the user."""
        return Message.user(text, context_id=self.context_id, task_id=self.task_id)


class A2APackets:
    """Makes the packets of one answer; `before` is the conversation that the message continues."""

    def __init__(self, before: A2AConversation | None = None) -> None:
        self._before = before or A2AConversation()
        self._context_id = self._before.context_id
        self._task_id: str | None = None
        self._status = TaskStatus()
        self._shown: set[str] = set(self._before.shown)
        self._empty = True
        self._has_text = False
        self._source: str | None = None  # the artifact or message of the last text

    @property
    def task_id(self) -> str | None:
        """The id of the task, None before it is known."""
        return self._task_id

    @property
    def conversation(self) -> A2AConversation:
        """The conversation after the events so far."""
        if self._empty:
            return self._before
        if self._task_id is None or not self._status.is_interrupted:
            return A2AConversation(self._context_id)
        return A2AConversation(self._context_id, self._task_id, frozenset(self._shown))

    def message(self, text: str) -> Message | None:
        """Return a message to the running task, None before that is known."""
        if self._task_id is None:
            return None
        return Message.user(text, context_id=self._context_id, task_id=self._task_id)

    def of(self, event: Event) -> list[Payload]:
        """Return the packets for an event."""
        self._remember(event)
        return [_event(event), *self._texts(event)]

    def end(self) -> list[Payload]:
        """Return the packet that ends the stream; none if the answer is simply complete."""
        state, text = self._status.state, self._status.text
        if self._task_id is None or not isinstance(state, TaskState):
            return []
        if state in _WAITING:
            payload = {"reason": _WAITING[state], "question": _valid(text)}
            return [(StreamOpCode.CLOSE, payload)]
        if state in _FAILED:
            code, default = _FAILED[state]
            return [(StreamOpCode.ERROR, _fatal(code, _valid(text) or default))]
        return []

    def _remember(self, event: Event) -> None:
        self._empty = False
        self._context_id = getattr(event, "context_id", None) or self._context_id
        task_id = event.id if isinstance(event, Task) else getattr(event, "task_id", None)
        self._task_id = task_id or self._task_id
        if isinstance(event, Task | TaskStatusUpdateEvent):
            self._status = event.status

    def _texts(self, event: Event) -> Iterator[Payload]:
        if isinstance(event, Task):
            yield from self._texts_of_task(event)
        elif isinstance(event, TaskArtifactUpdateEvent):
            artifact_id = event.artifact.artifact_id
            self._shown.add(artifact_id)
            yield from self._written(event.text, artifact_id)
        elif isinstance(event, TaskStatusUpdateEvent):
            yield from self._texts_of_status(event.status, event.text)
        elif isinstance(event, Message):
            yield from self._written(event.text, event.message_id)

    def _texts_of_task(self, task: Task) -> Iterator[Payload]:
        new = [each for each in task.artifacts if each.artifact_id not in self._shown]
        for artifact in new:
            self._shown.add(artifact.artifact_id)
            yield from self._written(artifact.text, artifact.artifact_id)
        if not task.artifacts:
            yield from self._texts_of_status(task.status, task.text)

    def _texts_of_status(self, status: TaskStatus, text: str) -> Iterator[Payload]:
        message_id = None if status.message is None else status.message.message_id
        if status.state in _FAILED or message_id in self._shown:
            return  # the text of a failure is in the error
        if text and message_id is not None:
            self._shown.add(message_id)
        yield from self._written(text, message_id)

    def _written(self, text: str, source: str | None) -> Iterator[Payload]:
        text = _valid(text)
        if not text:
            return
        if self._has_text and source != self._source:
            text = f"\n\n{text}"
        self._has_text, self._source = True, source
        for start in range(0, len(text), _MAX_TEXT):
            yield StreamOpCode.DELTA, text[start : start + _MAX_TEXT]


def error_of(error: A2AError) -> StreamError:
    """Return the error that ends the stream when the A2A client gave up."""
    message, rpc_code = str(error), None
    if isinstance(error, A2AJSONRPCError):
        message, rpc_code = error.message.strip() or message, error.code
    details = {
        "status": error.status,
        "retry_after": error.retry_after,
        "task_id": error.task_id,
        "rpc_code": rpc_code,
    }
    known = {name: value for name, value in details.items() if value is not None}
    return _fatal(_code(type(error).__name__), _valid(message), known or None)


def _fatal(code: str, message: str, details: dict[str, Any] | None = None) -> StreamError:
    return StreamError(code=code, message=message, severity=ErrorSeverity.FATAL, details=details)


def _code(class_name: str) -> str:
    """Return a code such as `a2a_connection` for the class A2AConnectionError."""
    name = class_name.removeprefix("A2A").removesuffix("Error")
    return f"a2a_{_WORD_START.sub('_', name).lower()}" if name else "a2a"


def _event(event: Event) -> Payload:
    kind = next((name for cls, name in _TYPES if isinstance(event, cls)), "a2a.unknown")
    data = event.dump()
    if isinstance(event, Task):
        data.pop("history", None)
    return StreamOpCode.EVENT, {"type": kind, "data": _bounded(data)}


def _bounded(value: Any) -> Any:
    """Return a JSON value without texts that are too long for a packet or not valid Unicode."""
    if isinstance(value, dict):
        return {_valid(str(key)): _bounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_bounded(item) for item in value]
    if isinstance(value, str):
        long = len(value) > _MAX_VALUE
        return f"({len(value)} characters are not shown)" if long else _valid(value)
    return value


def _valid(text: str) -> str:
    """Return a text with a replacement for every half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode()
