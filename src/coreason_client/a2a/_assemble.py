"""The task as the events of a stream build it up, and what of an event is new. Pure.

* `append` adds parts to an artifact; without it the artifact is written anew. `lastChunk` marks
  it as complete.
* On the connection that sent the message every event is new, as it came. A Task snapshot in the
  middle of the stream is not passed on; whatever it adds to what was already delivered is emitted
  as update events. A snapshot without artifacts does not remove any.
* After a loss the agent sends again what was delivered before: as a snapshot, as a replay from the
  start, or not at all. Content is compared with what was delivered, character by character; only
  what goes beyond is new, whatever the parts it is cut into. A snapshot that contradicts it is a
  rewrite, and comes out as one.
* A status that was delivered is not delivered again after a loss. A snapshot whose status differs
  in its timestamp alone brings no news.
* `whole` means that this connection can be complete: it is the one that sent the message, or it
  began with a snapshot that has our artifacts. Neither a cursor nor a mere success of a
  subscription makes it so. What a connection that is not whole sends of an artifact that it has
  not shown from the start, and its end, may leave a gap; an `append` that contradicts what was
  delivered shows one: that is a `Gap`, and the task must be fetched.
* Events of another task are dropped.
* `ended` means that nothing may follow: a terminal state, `final`, an update to INPUT_REQUIRED, or
  a message without a task. After AUTH_REQUIRED an agent may go on by itself once the user has
  signed in elsewhere, so that is an end only when the stream stops (`over`).
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from ._answer import Answer
from ._artifacts import Gap, KnownArtifacts
from .types import (
    Event,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

__all__ = ["Assembly", "Gap"]

logger = logging.getLogger("coreason_client.a2a")


def _nothing(task_id: str, context_id: str | None) -> None:
    """Do nothing; the default callback."""


class Assembly:
    """What a stream has delivered so far.

    `attached`: the stream subscribes to a task that is under way, instead of starting one.
    """

    def __init__(self, task_id: str | None = None, *, attached: bool = False) -> None:
        self.task_id = task_id
        self.on_task: Callable[[str, str | None], None] = _nothing
        self.context_id: str | None = None
        self.message: Message | None = None
        self.status = TaskStatus()
        self.final = False
        self.ended = False
        self._attached = attached
        self._base: Task | None = None
        self._answer = Answer()
        self._artifacts = KnownArtifacts(self._answer.content, attached=attached)
        self._delivered: set[object] = set()  # statuses and messages, by what identifies them
        self._begun = False  # an event came on this connection

    @property
    def empty(self) -> bool:
        """Whether nothing is known yet."""
        return self._base is None and self.message is None

    @property
    def over(self) -> bool:
        """Whether an end of the stream would be a clean one."""
        if self._base is None:
            return self.message is not None and not self._attached
        return self.ended or self.status.is_terminal or self.status.is_interrupted

    @property
    def task(self) -> Task | None:
        """The task so far; None when there is none yet."""
        if self._base is None:
            return None
        artifacts = self._artifacts.as_artifacts()
        return self._base.model_copy(update={"status": self.status, "artifacts": artifacts})

    @property
    def complete(self) -> set[str]:
        """The ids of the artifacts that are complete."""
        return self._artifacts.complete

    @property
    def text(self) -> str:
        """The text of the answer so far."""
        return self._answer.text(self.status)

    def reconnected(self) -> None:
        """Record that what follows comes on another connection."""
        self._begun = False
        self._artifacts.reconnect(repeats=not self.empty)

    def is_behind(self, task: Task) -> bool:
        """Return True if a task has content that was not delivered."""
        return self._artifacts.are_behind(task)

    def take(self, event: Event) -> Sequence[Event]:
        """Take an event and return what of it is new.

        Raises:
            Gap: it cannot be joined to what was delivered before.
        """
        first, self._begun = not self._begun, True
        if isinstance(event, TaskArtifactUpdateEvent):
            return self._artifacts.take(event) if self._is_ours(event) else ()
        if isinstance(event, TaskStatusUpdateEvent):
            return self._take_status(event) if self._is_ours(event) else ()
        if isinstance(event, Task):
            return self._take_task(event, first=first)
        if isinstance(event, Message):
            return self._take_message(event)
        return (event,)

    def _is_ours(self, event: TaskArtifactUpdateEvent | TaskStatusUpdateEvent) -> bool:
        if self._base is None:
            if self._attached:
                raise Gap  # the beginning is missing
            self.task_id = event.task_id or self.task_id
            self.context_id = event.context_id
            self._base = Task(id=self.task_id or "", context_id=event.context_id)
            self.on_task(self._base.id, event.context_id)
            return True
        if not event.task_id or event.task_id == self.task_id:
            return True
        return self._is_other(event.task_id)

    def _is_other(self, task_id: str) -> bool:
        logger.warning("an event of task %s came in the stream of %s", task_id, self.task_id)
        return False

    # Tasks, statuses, messages

    def _take_task(self, task: Task, *, first: bool) -> Sequence[Event]:
        if self._base is None:
            return self._take_first_task(task)
        if task.id and task.id != self.task_id:
            self._is_other(task.id)
            return ()
        changes: dict[str, Any] = {
            name: value
            for name in ("history", "metadata", "context_id")
            if (value := getattr(task, name))
        }
        self._base = self._base.model_copy(update=changes)
        if first and self._artifacts.repeats:
            self._artifacts.compare(task)
            self._check_end(task.status)
        self._answer.recall(task)
        news = self._artifacts.take_snapshot(task)
        return (*news, *self._missed_message(task), *self._status_news(task))

    def _take_first_task(self, task: Task) -> Sequence[Event]:
        if self._attached and task.id != self.task_id:
            self._is_other(task.id)
            return ()
        self._base = task
        self.task_id, self.context_id, self.status = task.id, task.context_id, task.status
        self._artifacts.whole = True
        for artifact in task.artifacts:
            self._artifacts.add(artifact)
        self._answer.begin(task)
        self._delivered.add(_status_key(task.status))
        # The first task of an answer may still have the state that the message replies to.
        self.ended = task.status.is_terminal or (self._attached and _waits(task.status))
        self.on_task(task.id, task.context_id)
        return (task,)

    def settle(self, task: Task) -> Sequence[Event]:
        """Apply an authoritative task from get_task, and return what of it is new."""
        self._begun = True
        self._artifacts.whole = self._artifacts.repeats = True
        return self._take_task(task, first=False)

    def _check_end(self, status: TaskStatus) -> None:
        if not self._artifacts.whole and (status.is_terminal or status.is_interrupted):
            raise Gap  # it may end without something that was missed

    def _missed_message(self, task: Task) -> Sequence[Event]:
        """Return what an agent that answers in messages said while nobody was connected."""
        rest = self._answer.missed(task) if self._artifacts.repeats else ""
        if not rest:
            return ()
        message = Message(
            role=Role.AGENT, task_id=task.id, context_id=task.context_id, parts=[Part(text=rest)]
        )
        return self._take_message(message)

    def _status_news(self, task: Task) -> Sequence[Event]:
        key = _status_key(task.status)
        same = key[:-1] == _status_key(self.status)[:-1]
        if same or (self._artifacts.repeats and key in self._delivered):
            self.status = task.status
            self.ended = self.final or task.status.is_terminal
            return ()
        update = TaskStatusUpdateEvent(
            task_id=task.id, context_id=task.context_id, status=task.status
        )
        return self._deliver(update, key)

    def _take_status(self, event: TaskStatusUpdateEvent) -> Sequence[Event]:
        key = _status_key(event.status)
        if self._artifacts.repeats and key in self._delivered and not event.status.is_terminal:
            return ()
        self._check_end(event.status)
        return self._deliver(event, key)

    def _deliver(self, event: TaskStatusUpdateEvent, key: object) -> Sequence[Event]:
        known = self._artifacts.repeats and key in self._delivered
        self._delivered.add(key)
        self.final = bool(event.final)
        if event.status.state != TaskState.UNSPECIFIED or event.status.message is not None:
            self.status = event.status
        self.ended = self.final or self.status.is_terminal or _waits(self.status)
        if known:
            return ()
        self._answer.record(event.status)
        if self.ended or event.status.is_interrupted:
            self._answer.complete(event)
        return (event,)

    def _take_message(self, message: Message) -> Sequence[Event]:
        if message.task_id and self._base is not None and message.task_id != self.task_id:
            self._is_other(message.task_id)
            return ()
        if self._artifacts.repeats and message.message_id in self._delivered:
            return ()
        self._delivered.add(message.message_id)
        self.message = message
        self.task_id = self.task_id or message.task_id
        self.context_id = self.context_id or message.context_id
        self._answer.content.append(message)
        self.ended = self._base is None and not self._attached and not message.task_id
        return (message,)


def _waits(status: TaskStatus) -> bool:
    return status.state == TaskState.INPUT_REQUIRED


def _status_key(status: TaskStatus) -> tuple[object, ...]:
    said = None if status.message is None else (status.message.message_id, status.message.text)
    return status.state, said, status.timestamp
