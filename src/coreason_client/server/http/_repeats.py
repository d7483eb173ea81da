"""Requests that a client sends again without naming them.

The SDKs of OpenAI repeat a request whose connection was lost, and only a counter in a header tells
that it is a repetition. Such a request joins the newest stream of an equal request that began in
the last minute, unless this process has written its whole response some time ago: the SDKs repeat
within seconds, so that response has arrived. Equal requests that are no repetitions get streams of
their own.

So that every process finds the stream, the id of a request is made from its digest, the minute and
a number. A number that another request has taken is noticed when the stream is opened, and the next
one is tried. Only the highest number that this process knows is kept in memory, to begin there.
"""

import time
from collections.abc import Callable
from uuid import NAMESPACE_URL, UUID, uuid5

from ..log.base import StreamLog, StreamMeta

_SECONDS = 60.0
_LONGEST_PAUSE = 10.0  # seconds between a lost response and its repetition
_MAX_KNOWN = 10_000  # digests, and whole responses
_MAX_CANDIDATES = 8  # of one minute; more equal requests are hardly open at the same time
_NAMESPACE = uuid5(NAMESPACE_URL, "urn:coreason:repeated-request")


class Repeats:
    """The requests of this process in the current and the last minute."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._minute = 0
        self._next: dict[tuple[int, str], int] = {}
        self._written: dict[UUID, float] = {}  # whole responses, and when they were written

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

    def written(self, stream_id: UUID) -> None:
        """Record that a whole response was written; the client may not have it yet."""
        self._now()
        self._written[stream_id] = self._clock()

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
        now = self._clock()
        written = self._written.get(meta.stream_id, now)
        return now - meta.opened_at <= _SECONDS and now - written <= _LONGEST_PAUSE

    def _now(self) -> int:
        """Return the current minute, after forgetting what is too old or too much."""
        now = self._clock()
        minute = int(now // _SECONDS)
        if minute != self._minute:
            self._minute = minute
            self._next = {key: n for key, n in self._next.items() if key[0] == minute - 1}
            self._written = {id_: at for id_, at in self._written.items() if at > now - _SECONDS}
        for known in (self._next, self._written):
            if len(known) > _MAX_KNOWN:
                del known[next(iter(known))]  # type: ignore[arg-type]  # the oldest
        return minute


def _request_id(digest: str, minute: int, number: int) -> UUID:
    return uuid5(_NAMESPACE, f"{digest}:{minute}:{number}")
