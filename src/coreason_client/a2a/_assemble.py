"""The task as the events of a stream tell it, and what of an event is news. Pure.

* `append` adds parts to an artifact; without it the artifact is written anew. `lastChunk` marks
  it as complete.
* On the first connection every event is news, as it came. A task in the middle of the stream is
  not: what it holds beyond what was told comes out as updates. One without artifacts says
  nothing about them, and takes nothing away.
* After a resubscribe the agent tells again what was told before: as a snapshot, as a replay from
  the start, or not at all. Content is matched against what was handed out, character by
  character; only what goes beyond is news, whatever the parts it is cut into. What contradicts it
  is a rewrite, and comes out as one.
* A status that was handed out is not handed out again after a resubscribe.
* `whole` says whether what this connection tells can be complete: it is the first, or it began
  with a snapshot that knows our artifacts, or from a cursor. An `append` to an artifact that a
  connection that is not whole has not shown may leave a gap, and so may its end: that is a `Gap`.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from .types import (
    Artifact,
    Event,
    Message,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatus,
    TaskStatusUpdateEvent,
)

__all__ = ["Assembly", "Gap"]


Kept: TypeAlias = Part | str
_TEXT_ALONE = {"text"}


class Gap(Exception):
    """What came cannot be joined to what was told before."""


class _Match:
    """Matches parts that are told again against those that were handed out."""

    def __init__(self, told: list[Kept]) -> None:
        self._told = _tokens(told)
        self._index = 0
        self._offset = 0
        self.heard: list[Part] = []
        self.contradicts = False

    @property
    def level(self) -> bool:
        """Whether all that was handed out has been told again."""
        return self._index == len(self._told)

    def hear(self, parts: Sequence[Part]) -> list[Part]:
        """Return what goes beyond; `contradicts` is set when it does not fit at all."""
        self.heard.extend(parts)
        beyond: list[Part] = []
        for part in parts:
            rest = part if self.level else self._hear(part)
            if self.contradicts:
                return []
            if rest is not None:
                beyond.append(rest)
        return beyond

    def _hear(self, part: Part) -> Part | None:
        text = _plain_text(part)
        if text is None:
            self.contradicts = self._told[self._index] != part
            self._index += 1
            return None
        while text and not self.level:
            told = self._told[self._index]
            if not isinstance(told, str):
                self.contradicts = True
                return None
            size = min(len(text), len(told) - self._offset)
            if not told.startswith(text[:size], self._offset):
                self.contradicts = True
                return None
            text = text[size:]
            self._offset += size
            if self._offset == len(told):
                self._index, self._offset = self._index + 1, 0
        return part.model_copy(update={"text": text}) if text else None


def _nothing(task_id: str, context_id: str | None) -> None:
    """Whom it concerns is for the client to say."""


def _kept(parts: Sequence[Part]) -> list[Kept]:
    """Return what is kept of parts: of a text without anything beside it, the string alone.

    A stream may have many thousand; strings cost the garbage collector nothing.
    """
    return [
        part.text if part.text is not None and part.model_fields_set == _TEXT_ALONE else part
        for part in parts
    ]


def _plain_text(part: Kept) -> str | None:
    return part if isinstance(part, str) else part.text


def _tokens(parts: list[Kept]) -> list[str | Part]:
    """Return the parts with neighbouring texts joined: how text is cut does not matter."""
    found: list[str | Part] = []
    texts: list[str] = []
    for part in parts:
        text = _plain_text(part)
        if isinstance(part, str) or text is not None:
            texts.append(text or "")
            continue
        if joined := "".join(texts):
            found.append(joined)
        texts = []
        found.append(part)
    if joined := "".join(texts):
        found.append(joined)
    return found


class _Growing:
    """An artifact so far."""

    __slots__ = ("artifact", "match", "parts", "shown")

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.parts = _kept(artifact.parts)
        self.match: _Match | None = None
        self.shown = True  # on the present connection

    def as_parts(self) -> list[Part]:
        """Return the parts so far."""
        return [Part(text=part) if isinstance(part, str) else part for part in self.parts]

    def describe(self, artifact: Artifact) -> None:
        """Take over what an update says beside the parts; most say nothing new."""
        known = self.artifact
        changes: dict[str, Any] = {
            name: value
            for name in ("name", "description", "extensions")
            if (value := getattr(artifact, name)) and value != getattr(known, name)
        }
        if artifact.metadata:
            metadata = {**(known.metadata or {}), **artifact.metadata}
            if metadata != known.metadata:
                changes["metadata"] = metadata
        if changes:
            self.artifact = known.model_copy(update=changes)


class Assembly:
    """What a stream has told so far."""

    def __init__(self, task_id: str | None = None) -> None:
        self.task_id = task_id
        self.on_task: Callable[[str, str | None], None] = _nothing
        self.context_id: str | None = None
        self.message: Message | None = None
        self.status = TaskStatus()
        self.whole = True
        self.final = False
        self.complete: set[str] = set()
        self._base: Task | None = None
        self._artifacts: dict[str, _Growing] = {}
        self._told: set[object] = set()  # statuses and messages, by what tells them apart
        self._again = False  # after a resubscribe
        self._begun = False  # an event came on this connection

    @property
    def empty(self) -> bool:
        """Whether nothing is known yet."""
        return self._base is None and self.message is None

    @property
    def over(self) -> bool:
        """Whether an end of the stream would be a clean one."""
        if self._base is None:
            return self.message is not None
        return self.final or self.status.is_terminal or self.status.is_interrupted

    @property
    def task(self) -> Task | None:
        """The task so far; None when none was told of."""
        if self._base is None:
            return None
        artifacts = [
            growing.artifact.model_copy(update={"parts": growing.as_parts()})
            for growing in self._artifacts.values()
        ]
        return self._base.model_copy(update={"status": self.status, "artifacts": artifacts})

    @property
    def text(self) -> str:
        """The text of the task so far, or of the message."""
        if self._base is None:
            return "" if self.message is None else self.message.text
        texts = [
            _plain_text(part) or ""
            for growing in self._artifacts.values()
            for part in growing.parts
        ]
        return "".join(texts) or self.status.text

    def reconnected(self, *, from_cursor: bool) -> None:
        """Take note that what follows comes after a resubscribe."""
        self._again = not self.empty
        self._begun = False
        self.whole = from_cursor or not self._again
        for growing in self._artifacts.values():
            growing.match = None
            growing.shown = self.whole

    def take(self, event: Event) -> Sequence[Event]:
        """Take an event and return what of it is news.

        Raises:
            Gap: it cannot be joined to what was told before.
        """
        first, self._begun = not self._begun, True
        if isinstance(event, TaskArtifactUpdateEvent):
            self._know(event)
            return self._take_artifact(event)
        if isinstance(event, TaskStatusUpdateEvent):
            self._know(event)
            return self._take_status(event)
        if isinstance(event, Task):
            return self._take_task(event, first=first)
        if isinstance(event, Message):
            return self._take_message(event)
        return (event,)

    def _know(self, event: TaskArtifactUpdateEvent | TaskStatusUpdateEvent) -> None:
        if self._base is None:
            self.task_id = event.task_id or self.task_id
            self.context_id = event.context_id
            self._base = Task(id=self.task_id or "", context_id=event.context_id)
            self.on_task(self._base.id, event.context_id)

    # Artifacts

    def _take_artifact(self, event: TaskArtifactUpdateEvent) -> Sequence[Event]:
        artifact = event.artifact
        if event.last_chunk:
            self.complete.add(artifact.artifact_id)
        growing = self._artifacts.get(artifact.artifact_id)
        if growing is None:
            if event.append and not self.whole:
                raise Gap
            self._artifacts[artifact.artifact_id] = _Growing(artifact)
            return (event,)
        if event.append:
            return self._take_more(event, growing)
        if self._again:
            growing.match = _Match(growing.parts)
            growing.shown = True
            return self._take_more(event, growing)
        self._artifacts[artifact.artifact_id] = _Growing(artifact)
        return (event,)

    def _take_more(self, event: TaskArtifactUpdateEvent, growing: _Growing) -> Sequence[Event]:
        parts = event.artifact.parts
        match = growing.match
        if match is None:
            if not growing.shown:
                raise Gap
            growing.parts.extend(_kept(parts))
            if event.artifact.metadata or event.artifact.name:
                growing.describe(event.artifact)
            return (event,)
        beyond = match.hear(parts)
        if match.contradicts:
            growing.parts, growing.match = _kept(match.heard), None
            return (_with_parts(event, match.heard, append=False),)
        if match.level:
            growing.match = None
        growing.parts.extend(_kept(beyond))
        growing.describe(event.artifact)
        return (_with_parts(event, beyond, append=True),) if beyond else ()

    # Tasks, statuses, messages

    def _take_task(self, task: Task, *, first: bool) -> Sequence[Event]:
        if self._base is None:
            self._base = task
            self.task_id, self.context_id, self.status = task.id, task.context_id, task.status
            self._artifacts = {a.artifact_id: _Growing(a) for a in task.artifacts}
            self._told.add(_status_key(task.status))
            self.on_task(task.id, task.context_id)
            return (task,)
        changes: dict[str, Any] = {
            name: value
            for name in ("history", "metadata", "context_id")
            if (value := getattr(task, name))
        }
        self._base = self._base.model_copy(update=changes)
        if first and self._again:
            self.whole = {a.artifact_id for a in task.artifacts} >= set(self._artifacts)
            self._check_end(task.status)
        return (*self._snapshot(task), *self._status_news(task))

    def settle(self, task: Task) -> Sequence[Event]:
        """Take the task as the agent answers when asked for it: the last word on it."""
        self.whole, self._again, self._begun = True, True, True
        return self._take_task(task, first=False)

    def _check_end(self, status: TaskStatus) -> None:
        if not self.whole and (status.is_terminal or status.is_interrupted):
            raise Gap  # it may end without something that was missed

    def _snapshot(self, task: Task) -> list[Event]:
        news: list[Event] = []
        for artifact in task.artifacts:
            event = TaskArtifactUpdateEvent(
                task_id=task.id, context_id=task.context_id, artifact=artifact
            )
            growing = self._artifacts.get(artifact.artifact_id)
            if growing is None:
                self._artifacts[artifact.artifact_id] = _Growing(artifact)
                news.append(event)
                continue
            growing.match = _Match(growing.parts)
            growing.shown = True
            news.extend(self._take_more(event, growing))
        return news

    def _status_news(self, task: Task) -> Sequence[Event]:
        key = _status_key(task.status)
        if key == _status_key(self.status) or (self._again and key in self._told):
            self.status = task.status
            return ()
        update = TaskStatusUpdateEvent(
            task_id=task.id, context_id=task.context_id, status=task.status
        )
        return self._tell(update, key)

    def _take_status(self, event: TaskStatusUpdateEvent) -> Sequence[Event]:
        key = _status_key(event.status)
        if self._again and key in self._told and not event.status.is_terminal:
            return ()
        self._check_end(event.status)
        return self._tell(event, key)

    def _tell(self, event: TaskStatusUpdateEvent, key: object) -> Sequence[Event]:
        known = self._again and key in self._told
        self._told.add(key)
        self.status = event.status
        self.final = bool(event.final)
        return () if known else (event,)

    def _take_message(self, message: Message) -> Sequence[Event]:
        if self._again and message.message_id in self._told:
            return ()
        self._told.add(message.message_id)
        self.message = message
        self.task_id = self.task_id or message.task_id
        self.context_id = self.context_id or message.context_id
        return (message,)


def _status_key(status: TaskStatus) -> object:
    said = None if status.message is None else (status.message.message_id, status.message.text)
    return status.state, said, status.timestamp


def _with_parts(
    event: TaskArtifactUpdateEvent, parts: list[Part], *, append: bool
) -> TaskArtifactUpdateEvent:
    artifact = event.artifact.model_copy(update={"parts": parts})
    return event.model_copy(update={"artifact": artifact, "append": append})
