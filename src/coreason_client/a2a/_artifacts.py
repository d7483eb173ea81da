"""The artifacts and the answer of a task so far; finds out what is new in an update. Pure.

The rules are at the head of `_assemble`.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from .types import (
    Artifact,
    Event,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatus,
    TaskStatusUpdateEvent,
    answer_in_history,
    latest_messages,
)

# An artifact so far, and the comparison of repeated parts with it.
#
# Text is compared character by character, however it is divided into parts; other parts as a whole.

CompactPart: TypeAlias = Part | str
_TEXT_ONLY = {"text"}


def compact(parts: Sequence[Part]) -> list[CompactPart]:
    """Return the parts in compact form: a part that is only text becomes a string.

    A stream may have many thousands of parts; strings cost the garbage collector nothing.
    """
    return [
        part.text if part.text is not None and part.model_fields_set == _TEXT_ONLY else part
        for part in parts
    ]


def _plain_text(part: CompactPart) -> str | None:
    return part if isinstance(part, str) else part.text


def _tokens(parts: list[CompactPart]) -> list[str | Part]:
    """Return the parts with adjacent texts joined, because the division of text has no meaning."""
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


class ReplayMatch:
    """Compares repeated parts with those that were delivered."""

    def __init__(self, delivered: list[CompactPart]) -> None:
        self._delivered = _tokens(delivered)
        self._index = 0
        self._offset = 0
        self.received: list[Part] = []
        self.contradicts = False

    @property
    def caught_up(self) -> bool:
        """True if everything that was delivered has been repeated."""
        return self._index == len(self._delivered)

    def skip_known(self, parts: Sequence[Part]) -> list[Part]:
        """Return the new parts; `contradicts` is set if they differ from what was delivered."""
        self.received.extend(parts)
        new_parts: list[Part] = []
        for part in parts:
            rest = part if self.caught_up else self._skip_known(part)
            if self.contradicts:
                return []
            if rest is not None and rest.text != "":
                new_parts.append(rest)
        return new_parts

    def _skip_known(self, part: Part) -> Part | None:
        text = _plain_text(part)
        if text is None:
            self.contradicts = self._delivered[self._index] != part
            self._index += 1
            return None
        while text and not self.caught_up:
            delivered = self._delivered[self._index]
            if not isinstance(delivered, str):
                self.contradicts = True
                return None
            size = min(len(text), len(delivered) - self._offset)
            if not delivered.startswith(text[:size], self._offset):
                self.contradicts = True
                return None
            text = text[size:]
            self._offset += size
            if self._offset == len(delivered):
                self._index, self._offset = self._index + 1, 0
        return part.model_copy(update={"text": text}) if text else None


class PartialArtifact:
    """An artifact so far.

    `sent_from_start` means that the current connection has sent it from its beginning.
    """

    __slots__ = ("artifact", "match", "parts", "sent_from_start")

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.parts = compact(artifact.parts)
        self.match: ReplayMatch | None = None
        self.sent_from_start = True

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join([_plain_text(part) or "" for part in self.parts])

    def as_artifact(self) -> Artifact:
        """Return the artifact with the parts so far."""
        parts = [Part(text=part) if isinstance(part, str) else part for part in self.parts]
        return self.artifact.model_copy(update={"parts": parts})

    def update_details(self, artifact: Artifact) -> None:
        """Apply the name, description, extensions and metadata of an update, if they are new."""
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

    def is_unchanged_by(self, update: Artifact) -> bool:
        """Return True if an update that appends to the artifact would change nothing."""
        if any(part.text != "" for part in update.parts):
            return False
        known = self.artifact
        self.update_details(update)
        return self.artifact is known

    def has_content(self, parts: Sequence[Part]) -> bool:
        """Return True if these are the parts so far, however their text is divided."""
        return _tokens(compact(parts)) == _tokens(self.parts)

    def lacks(self, parts: Sequence[Part]) -> bool:
        """Return True if the parts of the whole artifact contain more than was delivered."""
        return bool(ReplayMatch(self.parts).skip_known(parts))


class Gap(Exception):
    """The received content does not continue what was delivered before."""


class KnownArtifacts:
    """The artifacts that were delivered.

    New artifacts are added to the list `content`. `attached` means that the stream subscribes to a
    running task, so earlier artifacts may exist.

    Attributes:
        complete_ids: the ids of the artifacts that are marked as complete.
        may_repeat: whether delivered content may be sent again, as after a loss.
        gapless: whether this connection has sent everything; see `_assemble`.
    """

    __slots__ = ("_attached", "_content", "_partials", "complete_ids", "gapless", "may_repeat")

    def __init__(self, content: list[PartialArtifact | Message], *, attached: bool) -> None:
        self._content = content
        self._attached = attached
        self._partials: dict[str, PartialArtifact] = {}
        self.complete_ids: set[str] = set()
        self.may_repeat = False
        self.gapless = not attached

    def as_artifacts(self) -> list[Artifact]:
        """Return the artifacts with their parts so far."""
        return [partial.as_artifact() for partial in self._partials.values()]

    def reconnect(self, *, may_repeat: bool) -> None:
        """Record that the following updates come over another connection."""
        self.may_repeat = may_repeat
        self.gapless = not may_repeat and not self._attached
        for partial in self._partials.values():
            partial.match = None
            partial.sent_from_start = self.gapless

    def resume(self) -> None:
        """Record that this connection continues exactly after what was delivered."""
        self.may_repeat, self.gapless = False, True
        for partial in self._partials.values():
            partial.match = None
            partial.sent_from_start = True

    def compare(self, task: Task) -> None:
        """Decide whether a connection that begins with this snapshot is gapless."""
        self.gapless = {artifact.artifact_id for artifact in task.artifacts} >= set(self._partials)

    def check_end(self, status: TaskStatus) -> None:
        """Raise `Gap` if this status may end the task after content that was missed or removed."""
        if status.is_terminal or status.is_interrupted:
            matches = [partial.match for partial in self._partials.values()]
            # What was repeated only in part may be all that is left of an artifact.
            if not self.gapless or any(match and not match.caught_up for match in matches):
                raise Gap

    def agree_with(self, task: Task) -> bool:
        """Return True if the artifacts in a task have exactly the content that was delivered."""
        for artifact in task.artifacts:
            partial = self._partials.get(artifact.artifact_id)
            if partial is None or not partial.has_content(artifact.parts):
                return False
        return True

    def lack_content_of(self, task: Task) -> bool:
        """Return True if a task has content that was not delivered."""
        for artifact in task.artifacts:
            partial = self._partials.get(artifact.artifact_id)
            if bool(artifact.parts) if partial is None else partial.lacks(artifact.parts):
                return True
        return False

    def add(self, artifact: Artifact) -> None:
        """Add a new artifact."""
        partial = PartialArtifact(artifact)
        self._partials[artifact.artifact_id] = partial
        self._content.append(partial)

    def apply(self, event: TaskArtifactUpdateEvent) -> Sequence[Event]:
        """Apply an update and return what is new in it.

        Raises:
            Gap: it does not continue what was delivered before.
        """
        artifact = event.artifact
        completes = event.last_chunk and artifact.artifact_id not in self.complete_ids
        if completes:
            self.complete_ids.add(artifact.artifact_id)
        partial = self._partials.get(artifact.artifact_id)
        if partial is None:
            if not self.gapless or (event.append and (self.may_repeat or self._attached)):
                raise Gap
            self.add(artifact)
            return (event,)
        if event.append:
            if self.may_repeat and not completes and partial.is_unchanged_by(artifact):
                return ()
            return _apply_parts(event, partial)
        if self.may_repeat:
            return _apply_replay(event, partial, whole=event.last_chunk)
        repeats = event.last_chunk and partial.has_content(artifact.parts)
        partial.artifact, partial.parts = artifact, compact(artifact.parts)
        return (_with_parts(event, [Part(text="")], append=True) if repeats else event,)

    def apply_snapshot(self, task: Task, *, newer: bool = False) -> list[Event]:
        """Apply the artifacts of a snapshot and return what is new in them, as updates.

        `newer` means that it cannot be older than what was delivered, which is also true for a task
        that is over: an artifact that has become shorter is then replaced.
        """
        newer = newer or task.status.is_terminal
        new_events: list[Event] = []
        for artifact in task.artifacts:
            event = TaskArtifactUpdateEvent(
                task_id=task.id, context_id=task.context_id, artifact=artifact
            )
            partial = self._partials.get(artifact.artifact_id)
            if partial is None:
                self.add(artifact)
                new_events.append(event)
            else:
                new_events.extend(_apply_replay(event, partial, whole=newer))
        return new_events


def _apply_replay(
    event: TaskArtifactUpdateEvent, partial: PartialArtifact, *, whole: bool = False
) -> Sequence[Event]:
    """Apply an update that repeats an artifact from its beginning."""
    partial.match = ReplayMatch(partial.parts)
    partial.sent_from_start = True
    return _apply_parts(event, partial, whole=whole)


def _apply_parts(
    event: TaskArtifactUpdateEvent, partial: PartialArtifact, *, whole: bool = False
) -> Sequence[Event]:
    """Apply the parts of an update; `whole` means that they are the whole artifact."""
    parts = event.artifact.parts
    match = partial.match
    if match is None:
        if not partial.sent_from_start:
            raise Gap
        partial.parts.extend(compact(parts))
        if event.artifact.metadata or event.artifact.name:
            partial.update_details(event.artifact)
        return (event,)
    new_parts = match.skip_known(parts)
    if match.contradicts or (whole and not match.caught_up):
        partial.match = None
        if event.append:
            partial.sent_from_start = False
            raise Gap
        partial.parts = compact(match.received)
        return (_with_parts(event, match.received, append=False),)
    if match.caught_up:
        partial.match = None
    partial.parts.extend(compact(new_parts))
    partial.update_details(event.artifact)
    return (_with_parts(event, new_parts, append=True),) if new_parts else ()


def _with_parts(
    event: TaskArtifactUpdateEvent, parts: list[Part], *, append: bool
) -> TaskArtifactUpdateEvent:
    artifact = event.artifact.model_copy(update={"parts": parts})
    return event.model_copy(update={"artifact": artifact, "append": append})


# The text of an answer, built up from the events of a stream.
#
# * The answer consists of artifacts and messages, in the order of their first events; an artifact
#   is one piece. This is also the text that a loop over the events prints, unless an agent
#   alternates between two artifacts or replaces one.
# * If an agent sends neither, its status is the answer: the message of the status that ends the
#   task or waits for the user, or else the messages of all statuses. Only the last status shows
#   that nothing else follows, so the event of the last status has the text. If that status only
#   says that the task is complete, the answer is the last message in the history.


class AnswerText:
    """The text of an answer so far."""

    def __init__(self) -> None:
        self.content: list[PartialArtifact | Message] = []
        self._status_texts: list[str] = []
        self._message_ids: set[str] = set()
        self._ids_from_history: set[str] = set()
        self._task: Task | None = None  # the last one whose history was recorded
        self._delivered = ""  # text that statuses have delivered

    def text(self, status: TaskStatus) -> str:
        """Return the text so far; `status` is the current one."""
        return "".join([piece.text for piece in self.content]) or self._status_text(status)

    def _status_text(self, status: TaskStatus) -> str:
        ends = status.is_terminal or status.is_interrupted
        if ends and self._task is not None:
            task = self._task.model_copy(update={"status": status})
            if answer := answer_in_history(task):
                return answer
        return (ends and status.text) or "".join(self._status_texts)

    def begin(self, task: Task) -> None:
        """Record the first task of a stream, which is delivered unchanged."""
        self.record_history(task)
        self.record(task.status)
        self._delivered = "" if self._has_content() else task.text

    def record_history(self, task: Task) -> None:
        """Record the messages in a task's history that were not delivered."""
        self._task = task
        for message in latest_messages(task):
            if message.message_id not in self._message_ids:
                self._ids_from_history.add(message.message_id)
                self._add(message)

    def record(self, status: TaskStatus) -> None:
        """Record the message of a new status."""
        if status.message is not None and status.message.message_id not in self._ids_from_history:
            self._add(status.message)

    def _add(self, message: Message) -> None:
        self._message_ids.add(message.message_id)
        self._status_texts.append(message.text)

    def _has_content(self) -> bool:
        return any(piece.text for piece in self.content)

    def missed(self, task: Task) -> Message | None:
        """Return the text in the history of a task that was not delivered in messages."""
        if not self.content or not all(isinstance(piece, Message) for piece in self.content):
            return None
        delivered = "".join([piece.text for piece in self.content])
        whole = "".join([message.text for message in latest_messages(task)])
        rest = whole.removeprefix(delivered) if whole.startswith(delivered) else ""
        if not rest:
            return None
        parts = [Part(text=rest)]
        return Message(role=Role.AGENT, task_id=task.id, context_id=task.context_id, parts=parts)

    def complete(self, event: TaskStatusUpdateEvent) -> None:
        """Set the text of an event whose status may be the last: what is still to be delivered."""
        text = "" if self._has_content() else self._status_text(event.status)
        event._answer = text.removeprefix(self._delivered)
        self._delivered = text or self._delivered
