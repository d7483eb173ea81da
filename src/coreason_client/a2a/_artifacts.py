"""The artifacts of a task so far; finds out what is new in an update. Pure.

The rules are at the head of `_assemble`.
"""

from collections.abc import Sequence

from ._partial import PartialArtifact, ReplayMatch, compact
from .types import Artifact, Event, Message, Part, Task, TaskArtifactUpdateEvent, TaskStatus

__all__ = ["Gap", "KnownArtifacts"]


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
