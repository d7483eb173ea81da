"""The task that the events of a stream build up; finds out what is new in an event. Pure.

* `append` adds parts to an artifact; without it the artifact is replaced. `lastChunk` marks it as
  complete.
* On the connection that sent the message every event is new and passed on unchanged. Only a last
  chunk that repeats the whole artifact is passed on with an empty text instead. A Task snapshot in
  the middle of the stream is not passed on; whatever it adds to what was already delivered is
  emitted as update events. A snapshot without artifacts does not remove any.
* After a loss the agent may repeat what was delivered before: as a snapshot, as a replay from the
  start, or not at all. Content is compared with what was delivered, character by character,
  however it is divided into parts; only the rest is new. A snapshot that contradicts it replaces
  the artifact.
* A status that was delivered is not delivered again after a loss. A snapshot whose status differs
  only in its timestamp is not a new status.
* `gapless` means that nothing is missing on this connection: it is the one that sent the message,
  or it began with a snapshot that contains all known artifacts. A cursor or a successful
  subscription is not enough. On a connection that is not gapless, a later part of an artifact and
  the end of the task may follow a gap; an `append` that contradicts what was delivered proves one.
  These raise `Gap`, and the task must be fetched.
* If the agent numbers its events, the numbers decide instead (`Generations`): repetitions are
  dropped, and on a connection that continues after what was delivered every event is new.
* Progress is everything that is new, except for a status of which only the time is new.
* Events of another task are dropped.
* `ended` means that nothing may follow: a terminal state, `final`, an update to INPUT_REQUIRED, or
  a message without a task. After AUTH_REQUIRED an agent may continue by itself once the user has
  signed in elsewhere, so that is an end only if the stream stops (`may_end`).
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from ._artifacts import AnswerText as Answer
from ._artifacts import Gap, KnownArtifacts
from .types import (
    Event,
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

logger = logging.getLogger("coreason_client.a2a")


def _nothing(task_id: str, context_id: str | None) -> None:
    """Do nothing; the default callback."""


class Assembly:
    """The task and messages that a stream has delivered so far.

    `attached` means that the stream subscribes to a running task instead of starting one.
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
        self.generations = Generations(self._artifacts.resume)
        self._delivered: set[object] = set()  # keys of statuses and ids of messages
        self._restated: TaskStatusUpdateEvent | None = None  # the last one, if only its time is new
        self._begun = False  # an event came on this connection

    @property
    def empty(self) -> bool:
        """True if there is neither a task nor a message yet."""
        return self._base is None and self.message is None

    @property
    def may_end(self) -> bool:
        """True if the stream may end now without being incomplete."""
        if self._base is None:
            return self.message is not None and not self._attached
        return self.ended or self.status.is_terminal or self.status.is_interrupted

    @property
    def task(self) -> Task | None:
        """The task so far; None if there is none yet."""
        if self._base is None:
            return None
        artifacts = self._artifacts.as_artifacts()
        return self._base.model_copy(update={"status": self.status, "artifacts": artifacts})

    @property
    def complete_artifacts(self) -> set[str]:
        """The ids of the artifacts that are complete."""
        return self._artifacts.complete_ids

    @property
    def text(self) -> str:
        """The text of the answer so far."""
        return self._answer.text(self.status)

    def reconnected(self, *, with_cursor: bool = False) -> None:
        """Record that the following events come over another connection."""
        self._begun = False
        self._artifacts.reconnect(may_repeat=not self.empty)
        self.generations.reconnect(with_cursor=with_cursor)

    def is_behind(self, task: Task) -> bool:
        """Return True if a task has content that was not delivered."""
        return self._artifacts.lack_content_of(task)

    def is_progress(self, new_events: Sequence[Event]) -> bool:
        """Return True if new events contain more than the time of a status that was delivered."""
        return any(event is not self._restated for event in new_events)

    def apply(self, event: Event) -> Sequence[Event]:
        """Apply an event and return what is new in it.

        Raises:
            Gap: it does not continue what was delivered before.
        """
        first, self._begun = not self._begun, True
        if isinstance(event, TaskArtifactUpdateEvent):
            return self._artifacts.apply(event) if self._is_unknown(event) else ()
        if isinstance(event, TaskStatusUpdateEvent):
            return self._apply_status(event) if self._is_unknown(event) else ()
        if isinstance(event, Task):
            return self._apply_task(event, first=first)
        if isinstance(event, Message):
            return self._apply_message(event)
        return (event,)

    def _is_unknown(self, event: TaskArtifactUpdateEvent | TaskStatusUpdateEvent) -> bool:
        """Return True if an update belongs to this task, and its number is new or it has none."""
        if self._base is None:
            if self._attached:
                raise Gap  # the beginning is missing
            self.task_id = event.task_id or self.task_id
            self.context_id = event.context_id
            self._base = Task(id=self.task_id or "", context_id=event.context_id)
            self.on_task(self._base.id, event.context_id)
        elif event.task_id and event.task_id != self.task_id:
            _log_other_task(event.task_id, self.task_id)
            return False
        return not self.generations.repeats(event)

    # Tasks, statuses, messages

    def _apply_task(self, task: Task, *, first: bool) -> Sequence[Event]:
        if self._base is None:
            return self._apply_first_task(task)
        if task.id and task.id != self.task_id:
            _log_other_task(task.id, self.task_id)
            return ()
        if self.generations.covers(task, self._agrees_with):
            return ()
        return self._merge(self._base, task, first=first)

    def _agrees_with(self, task: Task) -> bool:
        """Return True if there is nothing in a task that was not delivered."""
        is_same = _status_key(task.status)[:-1] == _status_key(self.status)[:-1]
        return is_same and self._artifacts.agree_with(task) and self._answer.missed(task) is None

    def _merge(self, base: Task, task: Task, *, first: bool = False) -> Sequence[Event]:
        """Apply a task that may contain something new, and return that as updates."""
        newer = self.generations.is_newer(task)
        changes: dict[str, Any] = {
            name: value
            for name in ("history", "metadata", "context_id")
            if (value := getattr(task, name))
        }
        self._base = base.model_copy(update=changes)
        if first and self._artifacts.may_repeat:
            self._artifacts.compare(task)
            self._artifacts.check_end(task.status)
        self._answer.record_history(task)
        new_events = self._artifacts.apply_snapshot(task, newer=newer)
        missed = self._answer.missed(task) if self._artifacts.may_repeat else None
        if missed is not None:
            new_events += self._apply_message(missed)
        new_events += self._new_status(task)
        if newer:
            self.generations.record_newer(task, gapless=self._artifacts.gapless)
        return tuple(new_events)

    def _apply_first_task(self, task: Task) -> Sequence[Event]:
        if self._attached and task.id != self.task_id:
            _log_other_task(task.id, self.task_id)
            return ()
        self._base = task
        self.generations.covers(task, self._agrees_with)
        self.task_id, self.context_id, self.status = task.id, task.context_id, task.status
        self._artifacts.gapless = True
        for artifact in task.artifacts:
            self._artifacts.add(artifact)
        self._answer.begin(task)
        key = _status_key(task.status)
        self._delivered |= {key, key[:-1]}
        # The first task of an answer may still have the state that the message replies to.
        self.ended = task.status.is_terminal or (self._attached and _needs_input(task.status))
        self.on_task(task.id, task.context_id)
        return (task,)

    def apply_fetched(self, task: Task) -> Sequence[Event]:
        """Apply an authoritative task from get_task, and return what is new in it."""
        self._begun = True
        self._artifacts.gapless = self._artifacts.may_repeat = True
        base = self._base
        return self._apply_first_task(task) if base is None else self._merge(base, task)

    def _new_status(self, task: Task) -> Sequence[Event]:
        key = _status_key(task.status)
        same = key[:-1] == _status_key(self.status)[:-1]
        if same or (self._artifacts.may_repeat and key in self._delivered):
            self.status = task.status
            self.ended = self.final or task.status.is_terminal
            return ()
        update = TaskStatusUpdateEvent(
            task_id=task.id, context_id=task.context_id, status=task.status
        )
        return self._deliver(update, key)

    def _apply_status(self, event: TaskStatusUpdateEvent) -> Sequence[Event]:
        key = _status_key(event.status)
        if self._artifacts.may_repeat and key in self._delivered and not event.status.is_terminal:
            return ()
        self._artifacts.check_end(event.status)
        return self._deliver(event, key)

    def _deliver(self, event: TaskStatusUpdateEvent, key: tuple[object, ...]) -> Sequence[Event]:
        known = self._artifacts.may_repeat and key in self._delivered
        restates = key[:-1] in self._delivered and not self.generations.proved
        self._restated = event if restates else None
        self._delivered |= {key, key[:-1]}
        self.final = bool(event.final)
        if event.status.state != TaskState.UNSPECIFIED or event.status.message is not None:
            self.status = event.status
        self.ended = self.final or self.status.is_terminal or _needs_input(self.status)
        if known:
            return ()
        self._answer.record(event.status)
        if self.ended or event.status.is_interrupted:
            self._answer.complete(event)
        return (event,)

    def _apply_message(self, message: Message) -> Sequence[Event]:
        if message.task_id and self._base is not None and message.task_id != self.task_id:
            _log_other_task(message.task_id, self.task_id)
            return ()
        may_repeat = self._artifacts.may_repeat or self.generations.reconnected
        if may_repeat and message.message_id in self._delivered:
            return ()
        self._delivered.add(message.message_id)
        self.message = message
        self.task_id = self.task_id or message.task_id
        self.context_id = self.context_id or message.context_id
        self._answer.content.append(message)
        self.ended = self._base is None and not self._attached and not message.task_id
        return (message,)


def _log_other_task(task_id: str, own: str | None) -> None:
    logger.warning("dropped an event of task %s from the stream of task %s", task_id, own)


def _needs_input(status: TaskStatus) -> bool:
    return status.state == TaskState.INPUT_REQUIRED


def _status_key(status: TaskStatus) -> tuple[object, ...]:
    message = None if status.message is None else (status.message.message_id, status.message.text)
    return status.state, message, status.timestamp


# The numbers of the changes of a task, which some agents put into their events.
#
# Such an agent counts the changes of a task in `metadata.generation`. Each change adds 1 and is
# exactly one event, so after a loss the numbers show what is repeated and whether something is
# missing, without a comparison of the content.
#
# * Numbers are used only after a connection has proved what they are: an update has the number
#   after that of the event before it, and no event has another. A task may skip numbers, because it
#   contains what the skipped events changed. If an event has another number or none, numbers are
#   ignored from then on. While they are not used, the content decides.
# * The next connection continues if its first event has the right number: an update the number
#   after the last one, a task the last number and the same content. If a cursor was sent, it may
#   also be the number at the cursor; what follows up to the last number is then a repetition. This
#   does not apply to the first number of all, which shows nothing if the agent counts each
#   connection anew.
# * A task with a larger number is newer than everything that was delivered. If it contains all
#   known artifacts, the connection continues from there.
# * On a connection that continues, smaller numbers are repetitions, and a number that is skipped or
#   missing is a gap. If it does not continue, numbers are ignored from then on.


class Generations:
    """The numbers of one task; `resume` is called when a connection is known to continue.

    Attributes:
        reconnected: whether there was more than one connection.
    """

    __slots__ = (
        "_agreed",
        "_at_cursor",
        "_cursor",
        "_first",
        "_ignored",
        "_last",
        "_position",
        "_proved",
        "_resume",
        "_used",
        "reconnected",
    )

    def __init__(self, resume: Callable[[], None]) -> None:
        self._resume = resume
        self._ignored = False
        self._proved = False
        self._agreed = False  # a task repeated what was delivered, while nothing was proved
        self._used = False  # on this connection
        self._first: int | None = None  # of all connections
        self._last: int | None = None  # of everything that was delivered
        self._position: int | None = None  # on this connection; None before its first number
        self._cursor = b""
        self._at_cursor: int | None = None
        self.reconnected = False

    @property
    def proved(self) -> bool:
        """True if the numbers are known to count the changes of the task."""
        return self._proved and not self._ignored

    def record_id(self, event_id: bytes) -> None:
        """Record the SSE id after the last event, which the next connection sends as its cursor."""
        if event_id != self._cursor:
            self._cursor = event_id
            self._at_cursor = None if self._position == self._first else self._position

    def reconnect(self, *, with_cursor: bool) -> None:
        """Record that the following events come over another connection."""
        self.reconnected = True
        self._position = None
        self._used = self.proved
        if not with_cursor:
            self._cursor, self._at_cursor = b"", None

    # Updates

    def repeats(self, update: TaskArtifactUpdateEvent | TaskStatusUpdateEvent) -> bool:
        """Return True if an update was delivered before, and else record it.

        Raises:
            Gap: an event before it is missing.
        """
        if self._ignored:
            return False
        number = _number_of(update)
        if number is None or self._last is None or number - 1 != self._position:
            return self._repeats_unexpected(number)
        self._position = number
        if number <= self._last:
            return True
        self._last = number
        if not self._proved:
            self._proved = True
            if self._agreed:
                self._resume()
        return False

    def _repeats_unexpected(self, number: int | None) -> bool:
        """Do the same for an update whose number does not follow that of the event before it."""
        last, position = self._last, self._position
        if not self._used or last is None:
            self._ignored = number is None or last is not None
            self._first = self._last = self._position = number
            return False
        if position is not None:
            if number is None or number > position:
                raise Gap
            return True
        if number is None or number - 1 not in (last, self._at_cursor):
            self._ignored = True
            return False
        self._last = max(last, number)
        self._continue_at(number)
        return number <= last

    def _continue_at(self, number: int) -> None:
        self._position = number
        self._resume()

    # Tasks

    def covers(self, task: Task, agrees: Callable[[Task], bool]) -> bool:
        """Return True if everything in a task was delivered before.

        `agrees` returns True if the content of a task is what was delivered.
        """
        number = _number_of(task)
        if self._ignored or number is None:
            self._ignored = True
            return False
        last = self._last
        if not self._used or last is None:
            self._ignored = last is not None and number < last
            self._agreed = number == last and agrees(task)
            self._first = number if last is None else self._first
            self._last = self._position = number
            return False
        if number > last:
            return False
        if self._position is not None:
            self._position = max(self._position, number)
            return True
        self._ignored = number != self._at_cursor if number < last else not agrees(task)
        if not self._ignored:
            self._continue_at(number)
        return not self._ignored

    def is_newer(self, task: Task) -> bool:
        """Return True if a task is known to be newer than everything that was delivered."""
        number, last = _number_of(task), self._last
        return self.proved and number is not None and last is not None and number > last

    def record_newer(self, task: Task, *, gapless: bool) -> None:
        """Record that a newer task was delivered; `gapless` means with all known artifacts."""
        number = _number_of(task)
        if number is None or (self._position is None and not gapless):
            self._ignored = True
        else:
            self._last = number
            self._continue_at(number)


def _number_of(event: Task | TaskArtifactUpdateEvent | TaskStatusUpdateEvent) -> int | None:
    metadata = event.metadata
    number = metadata.get("generation") if metadata else None
    return number if type(number) is int else None
