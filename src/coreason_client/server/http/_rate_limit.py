"""The rate limit of each key. Pure: the caller brings the time, in whole nanoseconds.

Each key has a bucket of as many tokens as it may ask in a minute. An attempt takes one, and one
comes back every 60 / n seconds; an idle key may therefore ask n times at once, and a busy one
keeps a steady pace instead of being let in and locked out by turns.

A bucket is stored as the moment at which it will be full again. Full buckets are dropped. Integer
arithmetic avoids rounding, so the Retry-After that is sent is always long enough.
"""

from typing import Final

__all__ = ["RequestRate", "retry_after"]

_MINUTE: Final = 60_000_000_000
_SECOND: Final = 1_000_000_000
_FEW: Final = 64


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
        """Take a token and return 0, or take none and return for how long there will be none."""
        full_at = max(self._full_at.get(key, now), now) + self._interval
        wait = full_at - now - self._window
        if wait > 0:
            return wait
        if key not in self._full_at:
            self._make_room(now)
        self._full_at[key] = full_at
        return 0

    def give_back(self, key: str, now: int) -> None:
        """Return a token that was taken for what turned out not to count."""
        full_at = self._full_at.get(key, now) - self._interval
        if full_at > now:
            self._full_at[key] = full_at
        else:
            self._full_at.pop(key, None)

    def _make_room(self, now: int) -> None:
        """Forget the keys that are idle, each time that the table has doubled."""
        if len(self._full_at) >= self._sweep_at:
            self._full_at = {key: full for key, full in self._full_at.items() if full > now}
            self._sweep_at = max(_FEW, 2 * len(self._full_at))


def retry_after(wait: int) -> str:
    """Return a wait as the value of `Retry-After`: whole seconds, never too few, at least one."""
    return str(max(1, -(-wait // _SECOND)))
