"""The limits of the engine: streams and readers of a principal, work in one turn of the event loop.

With a store, the limits of a principal apply to all processes together: see `Quota` for the rule.
There is one exchange with the store at a time for each principal; the requests that wait share it.

The event loop runs everything that is ready before it polls its sockets again. If a hundred
requests arrived at once, it would check all of them before the first agent starts, and no running
stream would send anything meanwhile. If hundreds of agents wrote without a pause, each iteration
would take long, and a request needs many of them. Therefore a few requests begin, and a few agents
go on writing, in each iteration, in the order of arrival, and all other work runs in between.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final
from uuid import uuid4
from weakref import WeakKeyDictionary

from .._options import Options
from ..errors import LogError
from ..log.quotas import QuotaStore, Reservation
from ..observe._metrics import Limit

# The units of a limit that each principal uses, and may use, in this process. Pure.
#
# On a log of one process a principal may use the limit. On a shared log all processes count
# together: each one reserves units of the limit in the store and uses only what it has reserved, so
# all of them never use more than the limit. A process reserves a few units more than it needs and
# keeps them for a while, which saves most of the requests to the store. Of a small limit there is
# nothing to spare.

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


# Before a request is refused. A client that has read the end of its stream may send the next
# request to another process before this one has given back its unit.
_SECOND_LOOK: Final = 0.1
_AT_ONCE: Final = 128  # exchanges
_RENEWALS_PER_LEASE: Final = 3


class Unit:
    """One unit of a limit. Who has taken it releases it, or hands it on to somebody who will."""

    __slots__ = ("_release", "held")

    def __init__(self, release: Callable[[], None]) -> None:
        self._release = release
        self.held = True
        """True until it was released or handed on."""

    def hand_on(self) -> "Unit":
        """Return the unit for somebody else; a release of this object no longer has an effect."""
        self.held = False
        return Unit(self._release)

    def release(self) -> None:
        """Release the unit, once."""
        if self.held:
            self.held = False
            self._release()


class Quotas:
    """The limits of all principals, in one process or in all that share a store."""

    def __init__(self, options: Options, store: QuotaStore | None) -> None:
        shared = store is not None
        self._streams = Quota(options.max_streams_per_key, shared=shared)
        self._readers = Quota(options.max_readers_per_key, shared=shared)
        self._store = store
        # Not the owner of the log: workers that were forked have the same one.
        self._name = uuid4().hex
        self._exchanging: dict[str, asyncio.Task[None]] = {}
        self._next: dict[str, asyncio.Task[None]] = {}  # have not begun
        # The principals whose last exchange has no reply: the store may have other numbers.
        self._unconfirmed: set[str] = set()
        self._loop = asyncio.get_running_loop()
        self._renewed_at = self._loop.time()

    @property
    def readers(self) -> int:
        """The number of readers in this process."""
        return self._readers.total

    def limits(self) -> list[tuple[Limit, Callable[[], int], int]]:
        """Return the limits, each with a function that returns how much of it is used here."""
        return [
            ("streams", lambda: self._streams.most_used, self._streams.limit),
            ("readers", lambda: self._readers.most_used, self._readers.limit),
        ]

    async def take_stream(self, principal: str, release_ended: Callable[[], None]) -> Unit | None:
        """Return the unit of another stream, None if its principal must not have one.

        `release_ended` is called before a refusal; it releases the units of streams that have just
        ended.
        """
        streams = self._streams
        if streams.take(principal) or await self._take_more(streams, principal, release_ended):
            return self._stream_unit(principal)
        return None

    async def take_reader(self, principal: str) -> Unit | None:
        """Return the unit of another reader, None if its principal must not have one."""
        readers = self._readers
        if readers.take(principal) or await self._take_more(readers, principal, _nothing):
            return Unit(lambda: self.release_reader(principal))
        return None

    def add_stream(self, principal: str) -> Unit:
        """Return the unit of a stream that must run whatever the limit."""
        self._streams.add(principal)
        return self._stream_unit(principal)

    def _stream_unit(self, principal: str) -> Unit:
        return Unit(lambda: self._release(self._streams, principal))

    def release_reader(self, principal: str) -> None:
        """Stop counting a reader."""
        self._release(self._readers, principal)

    async def renew(self) -> None:
        """Repeat what this process has reserved, if that is due; give back what it did not use.

        Raises:
            LogUnavailable: the store does not answer.
        """
        store, now = self._store, self._loop.time()
        if store is None or now - self._renewed_at < store.lease / _RENEWALS_PER_LEASE:
            return
        self._renewed_at = now
        await self._exchange_all()
        self._forget_idle()

    async def close(self) -> None:
        """Give everything back that is not in use."""
        if self._store is not None:
            self._forget_idle()
            with suppress(LogError):  # the store forgets it by itself
                await self._exchange_all()

    def _forget_idle(self) -> None:
        self._streams.forget_idle()
        self._readers.forget_idle()

    async def _take_more(
        self, quota: Quota, principal: str, release_ended: Callable[[], None]
    ) -> bool:
        """Take a unit of which none is left here."""
        release_ended()
        if quota.take(principal):
            return True
        if self._store is None:
            return False
        quota.wait(principal)
        try:
            await self._exchanged(principal)
            if quota.take(principal):
                return True
            await asyncio.sleep(_SECOND_LOOK)
            await self._exchanged(principal)
            return quota.take(principal)
        finally:
            if quota.stop_waiting(principal):
                self._exchange_soon(principal)

    def _release(self, quota: Quota, principal: str) -> None:
        if quota.release(principal) and self._store is not None:
            self._exchange_soon(principal)

    async def _exchange_all(self) -> None:
        reserved = {*self._streams.principals(), *self._readers.principals()}
        principals = sorted(reserved | self._unconfirmed)
        for begin in range(0, len(principals), _AT_ONCE):
            some = principals[begin : begin + _AT_ONCE]
            await asyncio.gather(*map(self._exchanged, some))

    async def _exchanged(self, principal: str) -> None:
        """Wait for an exchange with the store that begins after this call."""
        await asyncio.shield(self._exchange_soon(principal))

    def _exchange_soon(self, principal: str) -> "asyncio.Task[None]":
        """Return the next exchange of a principal; it has not begun yet."""
        task = self._next.get(principal)
        if task is None:
            earlier = self._exchanging.get(principal)
            task = self._next[principal] = self._loop.create_task(
                self._exchange(principal, earlier)
            )
            task.add_done_callback(_ignore_failure)
        return task

    async def _exchange(self, principal: str, earlier: "asyncio.Task[None] | None") -> None:
        if earlier is not None:
            await asyncio.wait({earlier})
        this = self._exchanging[principal] = self._next.pop(principal)
        try:
            await self._reserve(principal)
        finally:
            if self._exchanging.get(principal) is this:
                del self._exchanging[principal]

    async def _reserve(self, principal: str) -> None:
        assert self._store is not None  # noqa: S101 - otherwise there are no exchanges
        streams, readers = self._streams, self._readers
        asks = streams.is_awaited(principal) or readers.is_awaited(principal)
        self._unconfirmed.add(principal)
        granted = await self._store.reserve(
            principal,
            self._name,
            streams.reservation(principal, asks=asks),
            readers.reservation(principal, asks=asks),
        )
        self._unconfirmed.discard(principal)
        streams.grant(principal, granted[0])
        readers.grant(principal, granted[1])
        if streams.has_too_many(principal) or readers.has_too_many(principal):
            self._exchange_soon(principal)  # a request that waited for them was cancelled


def _nothing() -> None:
    """Do nothing: a reader that has left is released at once."""


def _ignore_failure(task: "asyncio.Task[None]") -> None:
    """Retrieve the error of an exchange that nobody waits for: the next one repeats it."""
    if not task.cancelled():
        task.exception()


# Measured with 100 requests at once: with 8 the median first packet came 10 % later; with 2 it did
# not come earlier, and the additional iterations cost 3 to 10 % more CPU time.
REQUESTS: Final = 4
# Each writes up to `FLUSH_BYTES`, which takes about 0.3 ms with its readers.
WRITERS: Final = 8


class Pace:
    """Lets callers of `wait` go on, `each` of them in each iteration of the event loop."""

    __slots__ = ("_begun", "_each", "_loop", "_scheduled", "_waiting")

    def __init__(self, each: int) -> None:
        self._each = each
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begun = 0  # in this iteration
        self._scheduled = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Return when the caller may go on."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # the previous loop has ended, and with it its requests
            self._loop, self._begun, self._scheduled = loop, 0, False
            self._waiting.clear()
        if not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._next_iteration, loop)
        if self._begun < self._each and not self._waiting:
            self._begun += 1
            return
        future = loop.create_future()
        self._waiting.append(future)
        await future

    def _next_iteration(self, loop: asyncio.AbstractEventLoop) -> None:
        self._begun = 0
        while self._waiting and self._begun < self._each:
            future = self._waiting.popleft()
            if not future.done():  # it may have been cancelled
                future.set_result(None)
                self._begun += 1
        self._scheduled = self._begun > 0
        if self._scheduled:
            loop.call_soon(self._next_iteration, loop)


_writers: WeakKeyDictionary[asyncio.AbstractEventLoop, Pace] = WeakKeyDictionary()


def pace_of_writers(loop: asyncio.AbstractEventLoop) -> Pace:
    """Return the pace of all agents that write on an event loop."""
    pace = _writers.get(loop)
    if pace is None:
        pace = _writers[loop] = Pace(WRITERS)
    return pace
