"""The numbers of the changes of a task, which some agents put into their events. Pure.

Such an agent counts the changes of a task in `metadata.generation`. Each change adds 1 and is
exactly one event, so after a loss the numbers show what is repeated and whether something is
missing, without a comparison of the content.

* Numbers are used only after a connection has proved what they are: an update has the number after
  that of the event before it, and no event has another. A task may skip numbers, because it
  contains what the skipped events changed. If an event has another number or none, numbers are
  ignored from then on. While they are not used, the content decides.
* The next connection continues if its first event has the right number: an update the number after
  the last one, a task the last number and the same content. If a cursor was sent, it may also be
  the number at the cursor; what follows up to the last number is then a repetition. This does not
  apply to the first number of all, which shows nothing if the agent counts each connection anew.
* A task with a larger number is newer than everything that was delivered. If it contains all known
  artifacts, the connection continues from there.
* On a connection that continues, smaller numbers are repetitions, and a number that is skipped or
  missing is a gap. If it does not continue, numbers are ignored from then on.
"""

from collections.abc import Callable

from ._artifacts import Gap
from .types import Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent

__all__ = ["Generations"]


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
        """Whether the numbers are known to count the changes of the task."""
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
