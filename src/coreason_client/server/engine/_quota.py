"""The units of a limit that each principal uses, and may use, in this process. Pure.

On a log of one process a principal may use the limit. On a shared log all processes count together:
each one reserves units of the limit in the store and uses only what it has reserved, so all of them
never use more than the limit. A process reserves a few units more than it needs and keeps them for
a while, which saves most of the requests to the store. Of a small limit there is nothing to spare.
"""

from collections import Counter
from collections.abc import Iterator

from ..log.quotas import Reservation

__all__ = ["Quota"]

_SPARE_SHARE = 64  # the part of a limit that a process may keep without using it


class Quota:
    """The units of one limit, by principal."""

    __slots__ = ("_idle", "_limit", "_reserved", "_shared", "_spare", "_used", "_waiting")

    def __init__(self, limit: int, *, shared: bool) -> None:
        self._limit = limit
        self._shared = shared
        self._spare = limit // _SPARE_SHARE
        self._used: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()  # those who wait for a reservation
        self._reserved: Counter[str] = Counter()
        self._idle: set[str] = set()  # principals that took nothing since the last `forget_idle`

    @property
    def total(self) -> int:
        """The units in use, of all principals."""
        return self._used.total()

    @property
    def limit(self) -> int:
        """The units that a principal may use."""
        return self._limit

    @property
    def most_used(self) -> int:
        """The units in use of the principal that uses most."""
        return max(list(self._used.values()), default=0)

    def take(self, principal: str) -> bool:
        """Use one more unit, if there is one."""
        room = self._reserved[principal] if self._shared else self._limit
        if self._used[principal] >= room:
            return False
        self.add(principal)
        return True

    def add(self, principal: str) -> None:
        """Use one more unit, whatever the limit."""
        self._used[principal] += 1
        self._idle.discard(principal)

    def release(self, principal: str) -> bool:
        """Stop using a unit; return True if the store should get reserved ones back."""
        _add(self._used, principal, -1)
        return self.has_too_many(principal)

    # Of a shared limit.

    def wait(self, principal: str) -> None:
        """Count a request that waits for a unit."""
        self._waiting[principal] += 1
        self._idle.discard(principal)

    def stop_waiting(self, principal: str) -> bool:
        """No longer count such a request; return True as `release`."""
        _add(self._waiting, principal, -1)
        return self.has_too_many(principal)

    def is_awaited(self, principal: str) -> bool:
        """Return True if requests wait for units."""
        return principal in self._waiting

    def has_too_many(self, principal: str) -> bool:
        """Return True if more units are reserved than are needed, those to spare included."""
        needed = self._used[principal] + self._waiting[principal]
        return self._reserved[principal] > needed + self._spare

    def reservation(self, principal: str, *, asks: bool) -> Reservation:
        """Return what to tell the store; unneeded units are given back from now on.

        `asks` is True if more units are wanted, those to spare included.
        """
        used = self._used[principal]
        keep = used + self._waiting[principal]
        if principal not in self._idle:
            keep += self._spare
        held = max(min(self._reserved[principal], keep), used)
        self._set(principal, held)
        return Reservation(held, keep - held if asks else 0, self._limit)

    def grant(self, principal: str, units: int) -> None:
        """Add units that the store has granted."""
        self._set(principal, self._reserved[principal] + units)

    def principals(self) -> Iterator[str]:
        """Iterate over the principals that have reserved or used units."""
        return iter({*self._reserved, *self._used})

    def forget_idle(self) -> None:
        """Let the next reservations give back what was not used since the last call."""
        self._idle = set(self._reserved)

    def _set(self, principal: str, units: int) -> None:
        if units:
            self._reserved[principal] = units
        else:
            self._reserved.pop(principal, None)


def _add(counts: Counter[str], key: str, change: int) -> None:
    counts[key] += change
    if not counts[key]:  # otherwise the table would keep every principal ever seen
        del counts[key]
