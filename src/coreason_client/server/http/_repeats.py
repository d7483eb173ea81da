"""Requests that a client sends again without naming them.

The SDKs of OpenAI repeat a request whose connection was lost, and only a counter in a header tells
that it is a repetition. Such a request joins the newest stream of an equal request that began in
the last minute and whose response was never delivered completely; this process knows only of its
own deliveries. Equal requests that are no repetitions get streams of their own.

So that every process finds the stream, the id of a request is made from its digest, the minute and
a number. A number that another request has taken is noticed when the stream is opened, and the next
one is tried. Only the highest number that this process knows is kept in memory, to begin there.
"""

import time
from collections.abc import Callable
from uuid import NAMESPACE_URL, UUID, uuid5

from ..log.base import StreamLog, StreamMeta

__all__ = ["Repeats"]

_SECONDS = 60.0
_MAX_KNOWN = 10_000  # digests of the current and the last minute, and deliveries of each
_MAX_CANDIDATES = 8  # of one minute; more equal requests are hardly open at the same time
_NAMESPACE = uuid5(NAMESPACE_URL, "urn:coreason:repeated-request")


class Repeats:
    """The requests of this process in the current and the last minute."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._minute = 0
        self._next: dict[tuple[int, str], int] = {}
        self._delivered: dict[UUID, int] = {}  # and the minute

    def new_id(self, digest: str) -> UUID:
        """Return an id for a request that is not a repetition."""
        minute = self._now()
        number = self._next.get((minute, digest), 0)
        self._next[minute, digest] = number + 1
        return _request_id(digest, minute, number)

    async def repeated(self, log: StreamLog, principal: str, digest: str) -> UUID | None:
        """Return the id of the request that one with this digest repeats, None if there is none.

        Raises:
            LogError: the log does not answer.
        """
        minute = self._now()
        for each in (minute, minute - 1):
            found = await self._newest(log, principal, digest, each)
            if found is not None:
                return found.request_id
        return None

    def delivered(self, stream_id: UUID) -> None:
        """Record that a response was delivered completely."""
        self._delivered[stream_id] = self._now()

    async def _newest(
        self, log: StreamLog, principal: str, digest: str, minute: int
    ) -> StreamMeta | None:
        end = self._next.get((minute, digest), 0)
        while await log.find(principal, _request_id(digest, minute, end)) is not None:
            end += 1
        for number in range(end - 1, max(end - 1 - _MAX_CANDIDATES, -1), -1):
            meta = await log.find(principal, _request_id(digest, minute, number))
            if meta is not None and self._may_join(meta):
                return meta
        return None

    def _may_join(self, meta: StreamMeta) -> bool:
        is_recent = self._clock() - meta.opened_at <= _SECONDS
        return is_recent and meta.stream_id not in self._delivered

    def _now(self) -> int:
        minute = int(self._clock() // _SECONDS)
        too_many = len(self._next) > _MAX_KNOWN or len(self._delivered) > _MAX_KNOWN
        if minute != self._minute or too_many:
            self._minute = minute
            oldest = minute if too_many else minute - 1
            self._next = {key: n for key, n in self._next.items() if key[0] >= oldest}
            self._delivered = {key: n for key, n in self._delivered.items() if n >= oldest}
        return minute


def _request_id(digest: str, minute: int, number: int) -> UUID:
    return uuid5(_NAMESPACE, f"{digest}:{minute}:{number}")
