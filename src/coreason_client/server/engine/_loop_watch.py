"""What to report about an event loop, from times alone. Pure: the caller brings the clock.

Somebody asks the loop for a sign of life every now and then, and looks whether it has answered.
While the whole process is stopped or starved, nobody can answer: that time does not count as time
in which something blocked the loop. It shows in that the look itself comes late.
"""

from dataclasses import dataclass
from itertools import chain, count
from typing import Final, TypeAlias

__all__ = ["Blocked", "LoopWatch", "NotRun", "Report", "Unblocked"]

_LATE: Final = 1.0  # seconds by which a look may be late without a report
_FIRST_REPORTS: Final = (1.0, 5.0, 15.0, 30.0)


@dataclass(frozen=True, slots=True)
class Blocked:
    """Something has kept the loop from making progress for so many seconds, and still does."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Unblocked:
    """The loop makes progress again, after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class NotRun:
    """No thread could run for so many seconds, in which the process used `cpu` seconds of CPU."""

    seconds: float
    cpu: float

    @property
    def busy(self) -> bool:
        """Whether the process computed meanwhile, as native code does that holds the GIL."""
        return self.cpu >= self.seconds / 2


Report: TypeAlias = Blocked | Unblocked | NotRun


class LoopWatch:
    """One event loop. All times are of one clock that does not go backwards."""

    __slots__ = ("_answered_at", "_asked_at", "_late", "_next", "_reports")

    def __init__(self) -> None:
        self._asked_at: float | None = None
        self._answered_at: float | None = None  # set on the event loop's own thread
        self.reset()

    def reset(self) -> None:
        """Forget the question that is open, if there is one."""
        self._asked_at = self._answered_at = None
        self._late = 0.0  # of the looks since the question
        self._reports = chain(_FIRST_REPORTS, count(60.0, 60.0))
        self._next = next(self._reports)

    @property
    def asked(self) -> bool:
        """Whether a question is open."""
        return self._asked_at is not None

    def ask(self, now: float) -> None:
        """Record that the loop was asked."""
        self.reset()
        self._asked_at = now

    def answer(self, now: float) -> None:
        """Record that the loop made progress. It may be called in another thread."""
        self._answered_at = now

    def silence(self, now: float) -> float:
        """Return for how long the loop has not answered, for whatever reason."""
        if self._asked_at is None or self._answered_at is not None:
            return 0.0
        return now - self._asked_at

    def blocked(self, now: float) -> float:
        """Return for how long something has kept the loop from answering."""
        return max(self.silence(now) - self._late, 0.0)

    def look(self, now: float, late: float, cpu: float) -> list[Report]:
        """Return what is to be reported now.

        `late` is by how much this look comes later than it should, and `cpu` what the process used
        since the last one.
        """
        reports: list[Report] = []
        if late >= _LATE:
            reports.append(NotRun(late, cpu))
        if self._asked_at is None:
            return reports
        self._late += max(late, 0.0)
        answered_at = self._answered_at
        blocked = (now if answered_at is None else answered_at) - self._asked_at - self._late
        if answered_at is not None:
            if self._next > _FIRST_REPORTS[0]:
                reports.append(Unblocked(max(blocked, 0.0)))
            self.reset()
        elif blocked >= self._next:
            reports.append(Blocked(blocked))
            while self._next <= blocked:
                self._next = next(self._reports)
        return reports
