"""The order of restarts: which claimed streams may be started again now. No I/O.

A request may be poisonous and kill every process that runs its agent. So a few streams are started
at a time, and those whose last two restarts made no progress are suspects: one at a time, after the
others, with a delay that grows. After one failed restart a stream is not a suspect yet: a process
that dies may have started hundreds, and to start them one by one would take minutes. But the last
restart that a stream may have is always that of a suspect, so that it does not fail by a neighbour.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

SLOTS = 4
# Seconds after which a start no longer blocks the next ones: agents may wait for a model for long.
_SETTLES_AFTER = 2.0
_SUSPECT_SETTLES_AFTER = 10.0
_FIRST_DELAY, _LONGEST_DELAY = 1.0, 30.0
_SUSPECT_AFTER = 2  # failed restarts, or before the last one
# Others are started all the time while processes die often, so a suspect waits for them only so
# long.
_LONGEST_WAIT = 5.0


@dataclass(frozen=True, slots=True)
class _Start:
    since: float
    suspect: bool


class RestartSlots(Generic[T]):
    """Decides when claimed streams are started."""

    def __init__(self, max_restarts: int) -> None:
        self._suspect_after = min(_SUSPECT_AFTER, max_restarts - 1)
        self._started: dict[T, _Start] = {}
        self._suspects: dict[T, float] = {}  # the earliest times of their starts

    def free(self, now: float) -> int:
        """Return how many streams may be claimed now."""
        self._forget(now)
        running = sum(not start.suspect for start in self._started.values())
        return max(SLOTS - running, 0)

    def started(self, stream: T, now: float, *, suspect: bool = False) -> None:
        """Record the start of a stream."""
        self._started[stream] = _Start(now, suspect)

    def settled(self, stream: T) -> None:
        """Record that a started stream has made progress or ended."""
        self._started.pop(stream, None)

    @property
    def busy(self) -> bool:
        """True if streams have not settled, or suspects wait."""
        return bool(self._started or self._suspects)

    @property
    def unsettled(self) -> list[T]:
        """The started streams that are not known to have settled."""
        return list(self._started)

    def is_suspect(self, failed: int) -> bool:
        """Return True if a stream is a suspect after so many restarts without progress."""
        return failed >= self._suspect_after

    def suspect(self, stream: T, failed: int, now: float) -> None:
        """Let a stream wait whose last `failed` restarts made no progress."""
        doublings = max(failed - self._suspect_after, 0)
        self._suspects[stream] = now + min(_FIRST_DELAY * 2**doublings, _LONGEST_DELAY)

    def next_suspect(self, now: float) -> T | None:
        """Return the suspect to start now, None to start none."""
        self._forget(now)
        if not self._suspects or any(start.suspect for start in self._started.values()):
            return None
        chosen = min(self._suspects, key=self._suspects.__getitem__)
        wait = _LONGEST_WAIT if self._started else 0.0
        if self._suspects[chosen] + wait > now:
            return None
        del self._suspects[chosen]
        return chosen

    def _forget(self, now: float) -> None:
        for stream, start in list(self._started.items()):
            limit = _SUSPECT_SETTLES_AFTER if start.suspect else _SETTLES_AFTER
            if now - start.since >= limit:
                del self._started[stream]
