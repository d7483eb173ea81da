"""The points at which `coreason chat --kill` kills the agent. Pure."""

import random
from datetime import datetime

__all__ = ["Kills"]

_PER_ANSWER = 3  # each kill costs the time in which a process starts
_MIN_PACKETS, _MAX_PACKETS = 2, 12


class Kills:
    """The packets after which the agent is killed; the same for each seed.

    The distances double, so that short answers are interrupted too, and long ones complete.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._next = self._left = self._in_answer = 0
        self._last: datetime | None = None
        self.count = 0

    def begin_answer(self) -> None:
        """Begin an answer, whose packets are numbered from 1."""
        self._next, self._left, self._in_answer = 0, _PER_ANSWER, 0
        self._plan_next()

    def is_due(self, seq: int, written_at: datetime) -> bool:
        """Return True if the agent is to be killed after this packet.

        A packet that was in the log before the last kill does not count: an agent that is killed
        again and again before it can write anything new is given up by the server.
        """
        if not self._left or seq < self._next:
            return False
        return self._last is None or written_at > self._last

    def record(self, at: datetime) -> None:
        """Record a kill."""
        self.count += 1
        self._left -= 1
        self._last = at
        self._plan_next()

    def _plan_next(self) -> None:
        self._next += self._random.randint(_MIN_PACKETS, _MAX_PACKETS) * 2**self._in_answer
        self._in_answer += 1
