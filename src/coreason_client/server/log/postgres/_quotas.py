"""The limits of principals in the database."""

from collections.abc import Callable
from typing import Final

from ..quotas import QuotaStore, Reservation
from ._rows import owner_digest
from ._session import Session

__all__ = ["PostgresQuotas"]

_LEASES: Final = 3  # of a stream, for which a reservation holds
_MINUTE: Final = 60_000_000  # microseconds
_NANOSECONDS: Final = 1_000  # in a microsecond


class PostgresQuotas(QuotaStore):
    """Limits that all replicas share; `session` returns the session of this event loop."""

    def __init__(self, session: Callable[[], Session], lease: float) -> None:
        self.lease = _LEASES * lease
        self._session = session

    async def reserve(
        self, principal: str, owner: str, streams: Reservation, readers: Reservation
    ) -> tuple[int, int]:
        """Replace what an owner has reserved; return how many of the wanted units were granted."""
        store = self._session().store
        held, wanted, limits = zip(streams, readers, strict=True)
        (((of_streams, of_readers),),) = await store.call(
            "reserve",
            *(store.now(), self.lease, owner_digest(principal), owner, held, wanted, limits),
        )
        return of_streams, of_readers

    async def take_token(self, principal: str, per_minute: int) -> int:
        """Take a token and return 0, or return the nanoseconds until one is available."""
        return await self._change_bucket(principal, per_minute, 1) * _NANOSECONDS

    async def give_token_back(self, principal: str, per_minute: int) -> None:
        """Give back the token of a request that does not count."""
        await self._change_bucket(principal, per_minute, -1)

    async def _change_bucket(self, principal: str, per_minute: int, count: int) -> int:
        store = self._session().store
        span = max(1, _MINUTE // per_minute)
        ((wait,),) = await store.call(
            "change_bucket", store.now(), owner_digest(principal), span, per_minute, count
        )
        return int(wait)
