"""The limits of principals on the store."""

from collections.abc import Callable
from typing import Final

from ..quotas import QuotaStore, Reservation
from ._keys import KeyNames, digest
from ._quota_scripts import GIVE_TOKEN, RESERVE, TAKE_TOKEN
from ._scripts import Script
from ._session import Session

__all__ = ["ValkeyQuotas"]

_LEASES: Final = 3  # of a stream, for which a reservation holds
_MINUTE: Final = 60_000_000  # microseconds
_NANOSECONDS: Final = 1_000  # in a microsecond


class ValkeyQuotas(QuotaStore):
    """Limits that all replicas share; `session` returns the session of this event loop."""

    def __init__(self, session: Callable[[], Session], keys: KeyNames, lease: float) -> None:
        self.lease = _LEASES * lease
        self._session = session
        self._keys = keys

    async def reserve(
        self, principal: str, owner: str, streams: Reservation, readers: Reservation
    ) -> tuple[int, int]:
        """Replace what an owner has reserved; return how many of the wanted units were granted."""
        session = self._session()
        now = session.now()
        granted: list[int] = await session.store.script(
            RESERVE,
            [self._keys.of_principal(digest(principal, b""), "reservations")],
            *(owner, repr(now), repr(now + self.lease), int(self.lease * 1000)),
            *streams,
            *readers,
        )
        return granted[0], granted[1]

    async def take_token(self, principal: str, per_minute: int) -> int:
        """Take a token and return 0, or return the nanoseconds until one is available."""
        wait: int = await self._change_bucket(TAKE_TOKEN, principal, per_minute)
        return wait * _NANOSECONDS

    async def give_token_back(self, principal: str, per_minute: int) -> None:
        """Give back the token of a request that does not count."""
        await self._change_bucket(GIVE_TOKEN, principal, per_minute)

    async def _change_bucket(self, script: Script, principal: str, per_minute: int) -> int:
        session = self._session()
        interval = max(1, _MINUTE // per_minute)
        key = self._keys.of_principal(digest(principal, b""), "bucket")
        times = (int(session.now() * 1e6), interval, interval * per_minute)
        wait: int = await session.store.script(script, [key], *times)
        return wait
