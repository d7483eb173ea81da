"""The artifacts of a task so far, and what of an update to them is new. Pure.

The rules are at the head of `_assemble`.
"""

from collections.abc import Sequence

from ._partial import Match, PartialArtifact, kept
from .types import Artifact, Event, Message, Part, Task, TaskArtifactUpdateEvent

__all__ = ["Gap", "KnownArtifacts"]


class Gap(Exception):
    """What came cannot be joined to what was delivered before."""


class KnownArtifacts:
    """The artifacts that were delivered.

    `content` is the list that new artifacts are added to; `attached` means that the stream did not
    begin with a message, so that earlier artifacts may exist.

    Attributes:
        complete: the ids of the artifacts that are marked as complete.
        repeats: whether what was delivered before may be sent again, as after a loss.
        whole: whether this connection can be complete.
    """

    __slots__ = ("_attached", "_content", "_partials", "complete", "repeats", "whole")

    def __init__(self, content: list[PartialArtifact | Message], *, attached: bool) -> None:
        self._content = content
        self._attached = attached
        self._partials: dict[str, PartialArtifact] = {}
        self.complete: set[str] = set()
        self.repeats = False
        self.whole = not attached

    def as_artifacts(self) -> list[Artifact]:
        """Return the artifacts with their parts so far."""
        return [partial.as_artifact() for partial in self._partials.values()]

    def reconnect(self, *, repeats: bool) -> None:
        """Record that what follows comes on another connection."""
        self.repeats = repeats
        self.whole = not repeats and not self._attached
        for partial in self._partials.values():
            partial.match = None
            partial.shown = self.whole

    def compare(self, task: Task) -> None:
        """Decide whether a connection that begins with this snapshot can be complete."""
        self.whole = {artifact.artifact_id for artifact in task.artifacts} >= set(self._partials)

    def are_behind(self, task: Task) -> bool:
        """Return True if a task has content that was not delivered."""
        for artifact in task.artifacts:
            partial = self._partials.get(artifact.artifact_id)
            if bool(artifact.parts) if partial is None else partial.lacks(artifact.parts):
                return True
        return False

    def add(self, artifact: Artifact) -> None:
        """Add an artifact that was not known."""
        partial = PartialArtifact(artifact)
        self._partials[artifact.artifact_id] = partial
        self._content.append(partial)

    def take(self, event: TaskArtifactUpdateEvent) -> Sequence[Event]:
        """Apply an update and return what of it is new.

        Raises:
            Gap: it cannot be joined to what was delivered before.
        """
        artifact = event.artifact
        if event.last_chunk:
            self.complete.add(artifact.artifact_id)
        partial = self._partials.get(artifact.artifact_id)
        if partial is None:
            if not self.whole or (event.append and (self.repeats or self._attached)):
                raise Gap
            self.add(artifact)
            return (event,)
        if event.append:
            return _take_more(event, partial)
        if self.repeats:
            return _take_again(event, partial)
        partial.artifact, partial.parts = artifact, kept(artifact.parts)
        return (event,)

    def take_snapshot(self, task: Task) -> list[Event]:
        """Apply the artifacts of a snapshot and return what of them is new, as updates."""
        news: list[Event] = []
        for artifact in task.artifacts:
            event = TaskArtifactUpdateEvent(
                task_id=task.id, context_id=task.context_id, artifact=artifact
            )
            partial = self._partials.get(artifact.artifact_id)
            if partial is None:
                self.add(artifact)
                news.append(event)
            else:
                news.extend(_take_again(event, partial))
        return news


def _take_again(event: TaskArtifactUpdateEvent, partial: PartialArtifact) -> Sequence[Event]:
    """Apply an update that sends an artifact from its beginning once more."""
    partial.match = Match(partial.parts)
    partial.shown = True
    return _take_more(event, partial)


def _take_more(event: TaskArtifactUpdateEvent, partial: PartialArtifact) -> Sequence[Event]:
    parts = event.artifact.parts
    match = partial.match
    if match is None:
        if not partial.shown:
            raise Gap
        partial.parts.extend(kept(parts))
        if event.artifact.metadata or event.artifact.name:
            partial.describe(event.artifact)
        return (event,)
    beyond = match.receive(parts)
    if match.contradicts:
        partial.match = None
        if event.append:
            partial.shown = False
            raise Gap
        partial.parts = kept(match.received)
        return (_with_parts(event, match.received, append=False),)
    if match.is_level:
        partial.match = None
    partial.parts.extend(kept(beyond))
    partial.describe(event.artifact)
    return (_with_parts(event, beyond, append=True),) if beyond else ()


def _with_parts(
    event: TaskArtifactUpdateEvent, parts: list[Part], *, append: bool
) -> TaskArtifactUpdateEvent:
    artifact = event.artifact.model_copy(update={"parts": parts})
    return event.model_copy(update={"artifact": artifact, "append": append})
