"""Limits that hold attempts back: requests and tokens per minute, and the gate of a router. Pure.

The guarantee: in every window of 60 seconds, wherever it begins, the requests sent and the tokens
reserved for them stay within the limits.

* A request is planned first: it gets the earliest possible time, never before that of an earlier
  request. At that time it is checked again, against the requests really sent, because a busy event
  loop may wake a request later than planned.
* Tokens are reserved as an estimate and corrected after the answer. A correction applies to the
  time at which the request was sent. A lower number frees capacity at once. A higher number may
  exceed the limit in a window that was already checked; later requests wait for it.
* A reservation above the limit counts as the limit; otherwise it could never be sent.
* A limit below one means one per longer window: 0.5 per minute is one every two minutes.
"""

import threading
from collections import deque
from typing import Literal, Protocol, TypeVar

from .. import _ownership
from .._drive import Action, Wait
from .._http._types import ResponseHead
from ._classify import FailedAttempt
from ._plan import RequestPlan
from ._route import ModelRoute
from .errors import LLMError
from .types import Usage

_MINUTE = 60.0
_MAX_ENTRIES = 1024  # above it, entries that are close together are merged


class _Entry:
    """An amount at a time; several requests may share an entry."""

    __slots__ = ("amount", "expired", "start", "time")

    def __init__(self, time: float, amount: int) -> None:
        self.start = self.time = time
        self.amount = amount
        self.expired = False


class _Log:
    """The amounts within the latest window, by time."""

    __slots__ = ("_entries", "_limit", "_seconds", "_total")

    def __init__(self, limit: int, seconds: float) -> None:
        self._limit = limit
        self._seconds = seconds
        self._entries: deque[_Entry] = deque()
        self._total = 0

    def earliest(self, amount: int, start: float) -> float:
        """Return the earliest time, not before `start`, at which the amount is allowed."""
        time, total = start, self._total + amount
        if total <= self._limit:
            return start
        for entry in self._entries:
            end = entry.time + self._seconds
            if end > time and total <= self._limit:
                break
            total -= entry.amount
            time = max(time, end)
        return time

    def add(self, amount: int, time: float) -> _Entry:
        """Record an amount; times must not decrease."""
        entries = self._entries
        while entries and entries[0].time + self._seconds <= time:
            old = entries.popleft()
            old.expired = True
            self._total -= old.amount
        self._total += amount
        last = entries[-1] if len(entries) >= _MAX_ENTRIES else None
        if last is not None and time - last.start < self._seconds / _MAX_ENTRIES:
            last.time = time  # the later time is the stricter one
            last.amount += amount
            return last
        entries.append(entry := _Entry(time, amount))
        return entry

    def correct(self, entry: _Entry, difference: int) -> None:
        """Change an amount that was recorded."""
        if not entry.expired:
            entry.amount += difference
            self._total += difference


class _Limit:
    """One limit, with the amounts planned and the amounts sent."""

    __slots__ = ("maximum", "planned", "sent")

    def __init__(self, per_minute: float) -> None:
        self.maximum = max(1, int(per_minute))
        seconds = _MINUTE / min(1.0, per_minute)
        self.planned = _Log(self.maximum, seconds)
        self.sent = _Log(self.maximum, seconds)


class _Share:
    """The part of a reservation that counts for one limit."""

    __slots__ = ("_limit", "_planned", "_sent", "amount")

    def __init__(self, limit: _Limit, amount: int, time: float) -> None:
        self._limit = limit
        self.amount = min(amount, limit.maximum)
        self._planned = limit.planned.add(self.amount, time)
        self._sent: _Entry | None = None

    def earliest(self, now: float) -> float:
        return self._limit.sent.earliest(self.amount, now)

    def send(self, now: float) -> None:
        self._sent = self._limit.sent.add(self.amount, now)

    def correct(self, amount: int) -> None:
        difference, self.amount = amount - self.amount, amount
        self._limit.planned.correct(self._planned, difference)
        if self._sent is not None:
            self._limit.sent.correct(self._sent, difference)


class LimitReservation:
    """One request and its tokens, planned for a time."""

    __slots__ = ("sent", "shares", "time", "tokens")

    def __init__(self, time: float, shares: tuple[_Share, ...], tokens: _Share | None) -> None:
        self.time = time
        self.shares = shares
        self.tokens = tokens
        self.sent = False


class RateLimits:
    """Requests and tokens per minute; None for no limit. It may be used from several threads."""

    def __init__(self, requests: float | None, tokens: float | None) -> None:
        self._requests = None if requests is None else _Limit(requests)
        self._tokens = None if tokens is None else _Limit(tokens)
        self._last = float("-inf")  # the latest planned time
        self._lock = threading.Lock()
        _ownership.register(self)

    def after_fork(self) -> None:
        """Replace the lock, which a thread of the parent process may hold."""
        self._lock = threading.Lock()

    def reserve(self, tokens: int, now: float, max_wait: float) -> LimitReservation | None:
        """Plan a request with so many tokens; None if it would wait `max_wait` seconds or more."""
        of_requests, of_tokens = self._requests, self._tokens
        with self._lock:
            time = start = max(now, self._last)
            if of_requests is not None:
                time = of_requests.planned.earliest(1, start)
            if of_tokens is not None:
                time = max(time, of_tokens.planned.earliest(min(tokens, of_tokens.maximum), start))
            if time - now >= max_wait:
                return None
            self._last = time
            requests = None if of_requests is None else _Share(of_requests, 1, time)
            share = None if of_tokens is None else _Share(of_tokens, tokens, time)
            shares = tuple(one for one in (requests, share) if one is not None)
            return LimitReservation(time, shares, share)

    def wait(self, reservation: LimitReservation, now: float) -> float:
        """Return the seconds before a request may be sent; at 0 it counts as sent now."""
        if reservation.sent:
            return 0.0
        with self._lock:
            time = max(now, reservation.time)
            for share in reservation.shares:
                time = max(time, share.earliest(now))
            if time > now:
                return time - now
            for share in reservation.shares:
                share.send(now)
            reservation.sent = True
            return 0.0

    def cancel(self, reservation: LimitReservation) -> None:
        """Drop the reservation of a request that will not be sent."""
        with self._lock:
            for share in reservation.shares:
                share.correct(0)

    def settle(self, reservation: LimitReservation, tokens: int) -> None:
        """Correct the tokens of a request that was sent."""
        if reservation.tokens is not None:
            with self._lock:
                reservation.tokens.correct(tokens)


class CallLimits:
    """The reservations of one call, one for each attempt."""

    __slots__ = ("_limits", "_reservation")

    def __init__(self, limits: RateLimits) -> None:
        self._limits = limits
        self._reservation: LimitReservation | None = None

    def wait(self, tokens: int, now: float, max_wait: float) -> float | None:
        """Return the seconds before the next attempt; None if they are `max_wait` or more."""
        if self._reservation is None:
            self._reservation = self._limits.reserve(tokens, now, max_wait)
            if self._reservation is None:
                return None
        seconds = self._limits.wait(self._reservation, now)
        if seconds > 0 and seconds >= max_wait:
            self.close()
            return None
        return seconds

    def settle(self, tokens: int) -> None:
        """Correct the reservation of an attempt that has ended."""
        reservation, self._reservation = self._reservation, None
        if reservation is not None:
            self._limits.settle(reservation, tokens)

    def close(self) -> None:
        """Drop the reservation of an attempt that was not sent."""
        reservation, self._reservation = self._reservation, None
        if reservation is not None and not reservation.sent:
            self._limits.cancel(reservation)


PlanT = TypeVar("PlanT", bound=RequestPlan)


class AttemptGate(Protocol[PlanT]):
    """Reserves each attempt before it is sent, and settles it afterwards, exactly once.

    These are the decisions of a router and of budgets; a client without both has no gate.

    Attributes:
        plan: the request of the current attempt.
    """

    plan: PlanT

    @property
    def routed(self) -> bool:
        """True if a router selects the deployments of the current model."""

    def cache_plan(self) -> tuple[str, PlanT, list[ModelRoute]]:
        """Return the name of the first model, the request that its cached answer belongs to, and
        the routes that may be used for it."""

    def before(self, seconds_left: float) -> Action | Wait | LLMError | None:
        """Return the next step before the attempt, None if it may be sent now.

        An error means that this model cannot be called; a fallback may be tried.
        """

    def sending(self) -> None:
        """Record that the request is sent now."""

    def release(self) -> None:
        """Settle an attempt that cost nothing and is repeated, such as one with an old key."""

    def received(self, head: ResponseHead) -> None:
        """Record the headers of a response."""

    def failed(self, failure: FailedAttempt) -> Literal["next", "retry"] | None:
        """Record a failed attempt, and return what follows.

        "next": another deployment is tried at once, and the failure does not count as a retry.
        "retry": the failure counts, but the gate decides how long to wait. None: the usual rules.
        """

    def succeeded(self, usage: Usage) -> None:
        """Record an answer."""

    def used(self, usage: Usage) -> None:
        """Record what the current attempt has used, before `failed` or `close`."""

    def keep(self, plan: PlanT, *, alone: bool = False) -> None:
        """Send this request next, to the deployment of the last attempt.

        `alone`: no fallback may follow, since it would not continue the same answer.
        """

    def fall_back(self, error: LLMError) -> PlanT | None:
        """Return the request of the next model after this error, None if there is none."""

    def close(self) -> Action | None:
        """Settle what is unsettled at the end of the call; perform the action that is returned."""
