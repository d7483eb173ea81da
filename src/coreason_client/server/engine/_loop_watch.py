"""Reports about a blocked event loop, computed from times alone. Pure: the caller has the clock.

The caller sends the loop a probe at intervals and checks whether the loop has answered. While the
whole process is stopped or starved, the loop cannot answer: that time does not count as blocked.
It is recognised by a check that comes late.
"""

from dataclasses import dataclass
from itertools import chain, count
from typing import Final, TypeAlias

__all__ = ["Blocked", "LoopWatch", "NotRun", "Report", "Unblocked"]

_LATE: Final = 1.0  # seconds by which a check may be late without a report
_FIRST_REPORTS: Final = (1.0, 5.0, 15.0, 30.0)


@dataclass(frozen=True, slots=True)
class Blocked:
    """Something has blocked the loop for `seconds`, and still does."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Unblocked:
    """The loop makes progress again, after being blocked for `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class NotRun:
    """No thread ran for `seconds`, during which the process used `cpu` seconds of CPU."""

    seconds: float
    cpu: float

    @property
    def busy(self) -> bool:
        """True if the process used the CPU meanwhile, as native code does that holds the GIL."""
        return self.cpu >= self.seconds / 2


Report: TypeAlias = Blocked | Unblocked | NotRun


class LoopWatch:
    """The state of one event loop. All times are of one monotonic clock."""

    __slots__ = (
        "_answered_at",
        "_late_total",
        "_next_report_at",
        "_probed_at",
        "_report_times",
        "_reported",
    )

    def __init__(self) -> None:
        self._probed_at: float | None = None
        self._answered_at: float | None = None  # set in the thread of the event loop
        self.reset()

    def reset(self) -> None:
        """Forget the open probe, if there is one."""
        self._probed_at = self._answered_at = None
        self._late_total = 0.0  # lateness of all checks since the probe
        self._report_times = chain(_FIRST_REPORTS, count(60.0, 60.0))
        self._next_report_at = next(self._report_times)
        self._reported = 0.0  # seconds in the latest report

    @property
    def probing(self) -> bool:
        """True if a probe is open."""
        return self._probed_at is not None

    def record_probe(self, now: float) -> None:
        """Record that a probe was sent to the loop."""
        self.reset()
        self._probed_at = now

    def record_answer(self, now: float) -> float | None:
        """Record the answer of the loop; return how long it took, None if the probe was forgotten.

        May be called in another thread.
        """
        probed_at, self._answered_at = self._probed_at, now
        return None if probed_at is None else now - probed_at

    def unresponsive_for(self, now: float) -> float:
        """Return how many seconds the loop has not answered, for whatever reason."""
        if self._probed_at is None or self._answered_at is not None:
            return 0.0
        return now - self._probed_at

    def blocked_for(self, now: float) -> float:
        """Return how many seconds something has blocked the loop."""
        return max(self.unresponsive_for(now) - self._late_total, 0.0)

    def check(self, now: float, late: float, cpu: float) -> list[Report]:
        """Return the reports that are due now.

        `late` is how many seconds this check is late, and `cpu` the CPU time of the process since
        the last one.
        """
        reports: list[Report] = []
        if late >= _LATE:
            reports.append(NotRun(late, cpu))
        if self._probed_at is None:
            return reports
        self._late_total += max(late, 0.0)
        answered_at = self._answered_at
        blocked = (now if answered_at is None else answered_at) - self._probed_at - self._late_total
        if answered_at is not None:
            if self._reported:
                # The lateness of this check may have come after the answer.
                reports.append(Unblocked(max(blocked, self._reported)))
            self.reset()
        elif blocked >= self._next_report_at:
            reports.append(Blocked(blocked))
            self._reported = blocked
            while self._next_report_at <= blocked:
                self._next_report_at = next(self._report_times)
        return reports
