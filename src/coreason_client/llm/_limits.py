"""Limits on the requests and tokens of one minute. Pure: the time is passed in.

The guarantee: in every window of 60 seconds, wherever it begins, the requests that were sent and
the tokens that were reserved for them stay within the limits.

* A request is planned first: it gets the earliest time that fits, never before the time of an
  earlier one. When that time has come it is checked again, against what was really sent, since a
  busy event loop wakes a request later than it was planned.
* Tokens are reserved as an estimate and corrected when the answer is there. A correction counts at
  the time at which the request was sent. A lower number makes room at once. A higher one may take a
  window that is already past the check beyond the limit; later requests wait for it.
* A reservation above the whole limit counts as the whole limit, so that it is sent at all.
* A limit below one is one per longer window: 0.5 a minute is one every two minutes.
"""

from collections import deque

__all__ = ["Limits", "Reservation"]

_MINUTE = 60.0
_MOST_ENTRIES = 1024  # beyond, entries that are close together are joined


class _Entry:
    """An amount at a time; several requests may share one."""

    __slots__ = ("amount", "expired", "start", "time")

    def __init__(self, time: float, amount: int) -> None:
        self.start = self.time = time
        self.amount = amount
        self.expired = False


class _Log:
    """Amounts by time, as far back as one window reaches."""

    __slots__ = ("_entries", "_limit", "_seconds", "_total")

    def __init__(self, limit: int, seconds: float) -> None:
        self._limit = limit
        self._seconds = seconds
        self._entries: deque[_Entry] = deque()
        self._total = 0

    def earliest(self, amount: int, start: float) -> float:
        """Return the earliest time from `start` on at which the amount fits."""
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
        """Record an amount; times never go back."""
        entries = self._entries
        while entries and entries[0].time + self._seconds <= time:
            old = entries.popleft()
            old.expired = True
            self._total -= old.amount
        self._total += amount
        last = entries[-1] if len(entries) >= _MOST_ENTRIES else None
        if last is not None and time - last.start < self._seconds / _MOST_ENTRIES:
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
    """One limit: what is planned, and what was sent."""

    __slots__ = ("most", "planned", "sent")

    def __init__(self, per_minute: float) -> None:
        self.most = max(1, int(per_minute))
        seconds = _MINUTE / min(1.0, per_minute)
        self.planned = _Log(self.most, seconds)
        self.sent = _Log(self.most, seconds)


class _Share:
    """The part of a reservation that one limit holds."""

    __slots__ = ("_limit", "_planned", "_sent", "amount")

    def __init__(self, limit: _Limit, amount: int, time: float) -> None:
        self._limit = limit
        self.amount = min(amount, limit.most)
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


class Reservation:
    """One request and its tokens, planned for a time."""

    __slots__ = ("sent", "shares", "time", "tokens")

    def __init__(self, time: float, shares: tuple[_Share, ...], tokens: _Share | None) -> None:
        self.time = time
        self.shares = shares
        self.tokens = tokens
        self.sent = False


class Limits:
    """Requests and tokens per minute; None for no limit."""

    def __init__(self, requests: float | None, tokens: float | None) -> None:
        self._requests = None if requests is None else _Limit(requests)
        self._tokens = None if tokens is None else _Limit(tokens)
        self._last = float("-inf")  # the latest time that was planned

    def reserve(self, tokens: int, now: float, patience: float) -> Reservation | None:
        """Plan one request with so many tokens, unless it would wait for `patience` or longer."""
        of_requests, of_tokens = self._requests, self._tokens
        time = start = max(now, self._last)
        if of_requests is not None:
            time = of_requests.planned.earliest(1, start)
        if of_tokens is not None:
            time = max(time, of_tokens.planned.earliest(min(tokens, of_tokens.most), start))
        if time - now >= patience:
            return None
        self._last = time
        requests = None if of_requests is None else _Share(of_requests, 1, time)
        share = None if of_tokens is None else _Share(of_tokens, tokens, time)
        shares = tuple(held for held in (requests, share) if held is not None)
        return Reservation(time, shares, share)

    def wait(self, reservation: Reservation, now: float) -> float:
        """Return the seconds before a request may be sent; at 0 it counts as sent now."""
        if reservation.sent:
            return 0.0
        time = max(now, reservation.time)
        for share in reservation.shares:
            time = max(time, share.earliest(now))
        if time > now:
            return time - now
        for share in reservation.shares:
            share.send(now)
        reservation.sent = True
        return 0.0

    def cancel(self, reservation: Reservation) -> None:
        """Drop a reservation whose request is not sent."""
        for share in reservation.shares:
            share.correct(0)

    def settle(self, reservation: Reservation, tokens: int) -> None:
        """Correct the tokens of a request that was sent."""
        if reservation.tokens is not None:
            reservation.tokens.correct(tokens)
