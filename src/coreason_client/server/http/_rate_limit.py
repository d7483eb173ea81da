"""The rate limit of each key. Pure: the caller has the clock, in whole nanoseconds.

Each key has a bucket with n tokens, the number of requests that it may send in a minute. A request
takes one, and one is added every 60 / n seconds. So an idle key may send n requests at once, and a
busy key is served at a steady rate instead of in bursts.

A bucket is stored as the time at which it will be full again. Full buckets are dropped. Integer
arithmetic avoids rounding, so the Retry-After that is sent is always long enough.
"""

from typing import Final, Protocol

_MINUTE: Final = 60_000_000_000
_SECOND: Final = 1_000_000_000
_FEW: Final = 64


class TokenStore(Protocol):
    """A store of buckets that several processes share, by the same rule."""

    async def take_token(self, principal: str, per_minute: int) -> int:
        """Take a token and return 0, or return the nanoseconds until one is available."""

    async def give_token_back(self, principal: str, per_minute: int) -> None:
        """Give back the token of a request that does not count."""


class RequestRate:
    """The buckets of all keys of one process."""

    __slots__ = ("_full_at", "_interval", "_sweep_at", "_window")

    def __init__(self, per_minute: int) -> None:
        self._interval = max(1, _MINUTE // per_minute)
        self._window = self._interval * per_minute
        self._full_at: dict[str, int] = {}
        self._sweep_at = _FEW

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, key: str, now: int) -> int:
        """Take a token and return 0, or return the time until one is available."""
        full_at = max(self._full_at.get(key, now), now) + self._interval
        wait = full_at - now - self._window
        if wait > 0:
            return wait
        if key not in self._full_at:
            self._drop_idle_keys(now)
        self._full_at[key] = full_at
        return 0

    def give_back(self, key: str, now: int) -> None:
        """Give back the token of a request that does not count."""
        full_at = self._full_at.get(key, now) - self._interval
        if full_at > now:
            self._full_at[key] = full_at
        else:
            self._full_at.pop(key, None)

    def _drop_idle_keys(self, now: int) -> None:
        """Drop the idle keys each time the table has doubled."""
        if len(self._full_at) >= self._sweep_at:
            self._full_at = {key: full for key, full in self._full_at.items() if full > now}
            self._sweep_at = max(_FEW, 2 * len(self._full_at))


def retry_after(wait: int) -> str:
    """Return a wait as the value of `Retry-After`: whole seconds, rounded up, at least 1."""
    return str(max(1, -(-wait // _SECOND)))
