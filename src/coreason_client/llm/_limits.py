"""How many requests and tokens a client allows itself a minute. Pure: time is handed in."""

__all__ = ["Limits"]

_MINUTE = 60.0


class _Bucket:
    """So much may be taken a minute, evenly; what is taken too early is owed, and waited for."""

    __slots__ = ("_at", "_level", "per_minute")

    def __init__(self, per_minute: float) -> None:
        self.per_minute = per_minute
        self._level = float(per_minute)
        self._at: float | None = None

    def take(self, amount: float, now: float) -> float:
        """Take an amount; return the seconds to wait before it may be used."""
        if self._at is not None:
            grown = self._level + max(0.0, now - self._at) * self.per_minute / _MINUTE
            self._level = min(grown, self.per_minute)
        self._at = now
        self._level -= amount
        return max(0.0, -self._level) * _MINUTE / self.per_minute

    def delay(self, amount: float, wait: float) -> float:
        """Take note that the amount is used only after a wait; return what is lost by that.

        While it waits the bucket does not grow beyond its size, or what is saved up meanwhile
        could be used all at once.
        """
        most = max(self.per_minute - amount, 0.0) - wait * self.per_minute / _MINUTE
        lost = max(0.0, self._level - most)
        self._level -= lost
        return lost

    def give_back(self, amount: float) -> None:
        """Give back what was taken and not used; negative for what was used beyond it."""
        self._level = min(self._level + amount, self.per_minute)


class Limits:
    """Requests and tokens a minute; None for as many as one likes."""

    def __init__(self, requests: float | None, tokens: float | None) -> None:
        self._requests = None if requests is None else _Bucket(requests)
        self._tokens = None if tokens is None else _Bucket(tokens)
        self._lost = (0.0, 0.0)  # by the last reservation, beside what it took

    def most(self, tokens: int) -> int:
        """Return how many tokens a request can wait for: more than a minute's are never there."""
        return tokens if self._tokens is None else min(tokens, int(self._tokens.per_minute))

    def reserve(self, tokens: int, now: float) -> float:
        """Take one request and so many tokens; return the seconds to wait before it is sent."""
        wanted = ((self._requests, 1), (self._tokens, tokens))
        wait = max(bucket.take(amount, now) if bucket else 0.0 for bucket, amount in wanted)
        requests_lost, tokens_lost = (
            bucket.delay(amount, wait) if bucket else 0.0 for bucket, amount in wanted
        )
        self._lost = requests_lost, tokens_lost
        return wait

    def give_back(self, tokens: int) -> None:
        """Give back the last reservation, whose request is not sent at all."""
        requests_lost, tokens_lost = self._lost
        if self._requests is not None:
            self._requests.give_back(1 + requests_lost)
        if self._tokens is not None:
            self._tokens.give_back(tokens + tokens_lost)
        self._lost = (0.0, 0.0)

    def used(self, reserved: int, tokens: int) -> None:
        """Correct a reservation by what was really used."""
        if self._tokens is not None:
            self._tokens.give_back(reserved - tokens)
