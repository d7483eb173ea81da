"""The contract of a store that counts the limits of principals for all processes of a shared log.

* Reservations. A process reserves units of a limit for a principal. The units of all processes
  together never exceed the limit, unless a process holds more than it was granted. A reservation
  has the whole state of its process, so a repeated one changes nothing. It ends by itself when it
  is not repeated for `lease` seconds, as after the death of its process.
* Requests. Each principal has a bucket of tokens for the requests of a minute, by the rule of
  `RequestRate`. All processes take from it.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol, runtime_checkable

__all__ = ["QuotaLog", "QuotaStore", "Reservation", "quotas_of"]


class Reservation(NamedTuple):
    """The units of a limit that a process reserves: `held`, and `wanted` more if they are free."""

    held: int
    wanted: int
    limit: int


class QuotaStore(ABC):
    """Counts for all processes. All methods may raise `LogUnavailable`."""

    lease: float
    """The seconds for which a reservation holds."""

    @abstractmethod
    async def reserve(
        self, principal: str, owner: str, streams: Reservation, readers: Reservation
    ) -> tuple[int, int]:
        """Replace what an owner has reserved; return how many of the wanted units were granted."""

    @abstractmethod
    async def take_token(self, principal: str, per_minute: int) -> int:
        """Take a token and return 0, or return the nanoseconds until one is available."""

    @abstractmethod
    async def give_token_back(self, principal: str, per_minute: int) -> None:
        """Give back the token of a request that does not count."""


@runtime_checkable
class QuotaLog(Protocol):
    """A log that counts limits for all its processes."""

    quotas: QuotaStore


def quotas_of(log: object) -> QuotaStore | None:
    """Return the store that counts the limits, None if each process counts its own."""
    return log.quotas if isinstance(log, QuotaLog) else None
