"""What the calls of a client learn from each other about the rate limit of a deployment. Pure.

A deployment is a model behind a base URL, with one key. Without a shared rule each of 500 calls
finds out alone that only 100 per second are admitted. The rules:

* Unknown limit. Up to 50 requests run at a time as soon as they come, or twice as many as have run
  at a time since the last 429. Further ones are sent at 250 per second, or at twice the highest
  rate without a 429, so that a 429 arrives before too many requests are on their way.
* Closed. After a 429 nobody sends until the delay that it asks for is over.
* Paced. If many calls are waiting by then, they are sent evenly, a little slower than requests were
  admitted before: those sent less those rejected. The rate grows with time, and the next 429 ends
  with a new one. After ten seconds in which no call had to wait, the limit is unknown again.
* Guessed. If at least 50 were sent and at most 50 admitted before the first 429, others may have
  used up the limit, for example another process with the same key. Then at least 50 per second are
  sent, and half as many more in each second, until the next 429 shows the limit.
* Order. Calls are sent in the order in which they came, and a paced call that was rejected is sent
  before them. The turn of a call that was cancelled goes to the first call that asks next.
"""

import threading
from enum import Enum
from heapq import heappop, heappush, heapreplace

from .. import _ownership
from ._route import ModelRoute

_BURST = 50  # requests at a time
_FIRST_RATE = 250.0  # requests per second after the burst
_SECOND = 1.0
_SHORT = 0.1  # seconds; after such a delay calls are not paced
_FEW = 3  # so many waiting calls are not paced
_MARGIN = 0.95  # of the measured rate
_GROWTH = 1.0  # requests per second, in each second
_GUESS_GROWTH = 1.5  # times as many requests per second, in each second
_FORGET = 10.0  # seconds
_ROUNDING = 1e-6  # seconds
_MAX_PACES = 256
_NEVER = float("-inf")


class _Estimate(Enum):
    """How the limit of a provider is known."""

    UNKNOWN = 0
    GUESSED = 1  # it may be much higher
    MEASURED = 2

    def __init__(self, value: int) -> None:
        self.paces = value > 0  # calls are sent at its rate


class _Window:
    """The requests without an answer, and how many may be sent at once."""

    __slots__ = ("running", "size")

    def __init__(self) -> None:
        self.running, self.size = 0, _BURST


class DeploymentPace:
    """The pace of one deployment. It may be used from several threads."""

    def __init__(self) -> None:
        self.phase = 0  # increases when the deployment opens again
        self._rate = _FIRST_RATE  # requests per second
        self._estimate = _Estimate.UNKNOWN
        self._highest = 0  # requests in a second without a 429
        self._window = _Window()
        self._since = self._start = _NEVER  # when the last second, and this one, began
        self._sent = self._before = 0  # in this second or phase, and in the second before
        self._rejected = 0
        self._rejected_at: float | None = None  # the first time in this phase
        self._closed = _NEVER  # nobody sends before this time
        self._base = (_NEVER, 0.0)  # the turn that is due at a time
        self._next = 0.0  # the next turn
        self._unused: list[float] = []  # a heap: turns of cancelled calls
        self._lock = threading.Lock()

    def after_fork(self) -> None:
        """Forget the calls of the parent's threads, which do not run in this process."""
        self._lock = threading.Lock()
        self._window.running = 0

    def wait(self, turn: float | None, now: float) -> tuple[float, float]:
        """Return the seconds before a call may send, and its turn; at 0 it counts as sent."""
        with self._lock:
            if (
                turn is None
                and self._window.running < self._window.size
                and self._estimate is _Estimate.UNKNOWN
                and not self._unused
                and self._rejected_at is None
                and now - self._start < _SECOND
            ):  # no rule applies: this is the usual case, and quick
                self._sent += 1
                self._window.running += 1
                return 0.0, 0.0
            self._advance(now)
            unused = self._unused
            if turn is None:
                turn = heappop(unused) if unused else self._new_turn(now)
            elif unused and unused[0] < turn:
                turn = heapreplace(unused, turn)
            seconds = self._closed - now
            if seconds <= _ROUNDING:
                seconds = min(self._due(turn) - now, _SECOND)  # an earlier turn may become unused
            if seconds > _ROUNDING:
                return seconds, turn
            self._sent += 1
            self._window.running += 1
            if not self._estimate.paces:
                self._base = now, max(turn, self._base[1])  # a late call delays the next one
            return 0.0, turn

    def take_turn(self, now: float) -> float:
        """Return the next turn of a call that was rejected: at a known pace there are few."""
        with self._lock:
            return self._base[1] if self._estimate.paces else self._new_turn(now)

    def answered(self) -> None:
        """Record the end of a request."""
        with self._lock:
            window, running = self._window, self._window.running
            if 2 * running > window.size and not self._estimate.paces and self._rejected_at is None:
                window.size = 2 * running
            window.running = running - 1 if running else 0

    def reject(self, phase: int, delay: float, now: float) -> None:
        """Record a 429 for a request of a phase, which asks for a delay."""
        with self._lock:
            self._rejected += 1
            self._window.size = _BURST
            if phase != self.phase:
                return  # it was sent before others found out
            if self._rejected_at is None:
                self._base = now, min(self._position(now), self._next)
                self._rejected_at, self._highest = now, 0
            self._closed = max(self._closed, now + delay)

    def give_back(self, turn: float) -> None:
        """Let another call have the turn of a call that was cancelled."""
        with self._lock:
            heappush(self._unused, turn)

    def _advance(self, now: float) -> None:
        if self._rejected_at is not None:
            if now + _ROUNDING >= self._closed:
                self._open(self._rejected_at, now)
        elif not self._estimate.paces:
            if now - self._start >= _SECOND:
                self._begin_second(now)
        else:
            position = self._position(now)
            while self._unused and self._unused[0] < position - 1:
                heappop(self._unused)  # its time is over
            if position >= self._next and now - self._start >= _FORGET:
                self._estimate = _Estimate.UNKNOWN
                self._begin_second(now)
            elif (seconds := now - self._base[0]) >= _SECOND:
                self._base = now, position
                self._grow(now, seconds)

    def _open(self, rejected_at: float, now: float) -> None:
        """Begin a new phase after a delay, with the rate that was admitted in the one before."""
        first = self._base[1]
        self.phase += 1
        self._rejected_at = None
        self._base = now, first
        if now - self._since < _SECOND or self._closed - rejected_at < _SHORT:
            return  # too short to measure a rate, or to need one
        if self._estimate.paces or self._next - first > _FEW:
            seconds = max(rejected_at - self._since, self._closed - rejected_at, _SECOND)
            self._measure(self._before + self._sent, seconds)
        self._sent = self._before = self._rejected = 0
        self._since = self._start = now

    def _measure(self, sent: int, seconds: float) -> None:
        """Set the rate from the requests that were admitted in some seconds."""
        admitted = max(1, sent - self._rejected)
        rate = _MARGIN * admitted / seconds
        if self._estimate.paces:
            self._estimate, self._rate = _Estimate.MEASURED, min(rate, _MARGIN * self._rate)
        elif admitted <= _BURST <= sent:
            self._estimate, self._rate = _Estimate.GUESSED, max(rate, _BURST / _SECOND)
        else:
            self._estimate, self._rate = _Estimate.MEASURED, rate

    def _grow(self, now: float, seconds: float) -> None:
        """Let the known rate grow, after some seconds without a 429."""
        if self._estimate is not _Estimate.GUESSED:
            self._rate += _GROWTH * seconds
            return
        self._rate *= _GUESS_GROWTH
        self._before, self._since, self._sent = self._sent, now - seconds, 0

    def _begin_second(self, now: float) -> None:
        idle = now - self._start >= 2 * _SECOND
        self._before, self._since = (0, now) if idle else (self._sent, self._start)
        self._highest = max(self._highest, self._sent)
        self._rate = max(_FIRST_RATE, 2.0 * self._highest)
        self._start, self._sent = now, 0

    def _position(self, now: float) -> float:
        """Return the turn that is due at a time."""
        start, first = self._base
        return first + (now - start) * self._rate

    def _due(self, turn: float) -> float:
        if not self._estimate.paces and self._window.running < self._window.size:
            return _NEVER
        start, first = self._base
        return start + (turn - first) / self._rate

    def _new_turn(self, now: float) -> float:
        turn = self._next
        if self._rejected_at is None and now - self._base[0] < _FORGET:
            turn = max(turn, self._position(now))  # turns that nobody took are over
        self._next = turn + 1
        return turn


class Paces:
    """The paces of the deployments of a client."""

    def __init__(self) -> None:
        self._paces: dict[tuple[str, str], DeploymentPace] = {}
        _ownership.register(self)

    def after_fork(self) -> None:
        """Forget the calls of the parent's threads."""
        for pace in list(self._paces.values()):
            pace.after_fork()

    def of(self, route: ModelRoute) -> DeploymentPace:
        """Return the pace of a deployment; a client has one key for each base URL."""
        name = route.base, route.model
        if (pace := self._paces.get(name)) is None:
            if len(self._paces) >= _MAX_PACES:
                self._paces.clear()
            pace = self._paces.setdefault(name, DeploymentPace())
        return pace


class CallPace:
    """The turn of one call, for its next attempt."""

    _pace: DeploymentPace | None = None
    _turn: float | None = None  # while the call waits
    _running = False
    _phase = 0

    def __init__(self, paces: Paces | None) -> None:
        self._paces = paces  # None if nothing is shared

    def wait(self, route: ModelRoute, now: float) -> float:
        """Return the seconds before the next attempt; 0 lets it be sent."""
        if self._paces is None:
            return 0.0
        pace = self._paces.of(route)
        if pace is not self._pace:
            if self._pace is not None:
                self.close()
            self._pace = pace
        if self._running:  # another limit was asked in between
            return 0.0
        seconds, turn = pace.wait(self._turn, now)
        self._turn, self._running = (None, True) if seconds == 0.0 else (turn, False)
        self._phase = pace.phase
        return seconds

    def answered(self) -> None:
        """Record the end of an attempt; the next one needs another turn."""
        if self._running and self._pace is not None:
            self._running = False
            self._pace.answered()

    def reject(self, delay: float, now: float, *, final: bool) -> None:
        """Record that the attempt got a 429; unless it was the final one, take the next turn."""
        if self._pace is not None:
            self._pace.reject(self._phase, delay, now)
            if not final:
                self._turn = self._pace.take_turn(now)

    def close(self) -> None:
        """End the attempt, and give back the turn of one that is not sent."""
        if self._running:
            self.answered()
        if self._turn is not None and self._pace is not None:
            self._pace.give_back(self._turn)
            self._turn = None
