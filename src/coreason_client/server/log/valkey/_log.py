"""The contract of a log, as commands to the store."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar
from uuid import UUID, uuid4

from ...errors import (
    Fenced,
    LogUnavailable,
    OutOfSequence,
    PositionGone,
    RequestConflict,
    UnknownStream,
)
from .._tails import Tails
from .._waiters import wait as wait_for
from ..base import (
    DEFAULT_LEASE,
    MOST_TURN_BYTES,
    MOST_TURNS,
    PAGE_BYTES,
    Claim,
    Conversation,
    LeaseState,
    NewStream,
    Opened,
    Page,
    StreamLog,
    StreamMeta,
)
from . import _scripts as scripts
from ._address import parse_address
from ._errors import foreign
from ._indexes import Indexes
from ._keys import Keys, digest, split_member
from ._meta import FIELDS, parse_meta, text
from ._store import Store
from ._wakeup import Wakeup, Watch

__all__ = ["ValkeyStreamLog"]

T = TypeVar("T")

_AT_ONCE = 100  # streams looked at together when something has run out
_TAIL_BYTES = 16 * 1024 * 1024  # of the latest entries of the streams that are written here
_STATES = {
    b"held": LeaseState.HELD,
    b"cancel": LeaseState.CANCEL_REQUESTED,
    b"lost": LeaseState.LOST,
}


class _Session:
    """What the log has on one event loop."""

    def __init__(self, store: Store, keys: Keys, poll: float) -> None:
        self.owners: set[str] = set()
        self.loop = asyncio.get_running_loop()
        self.store = store
        self.indexes = Indexes(store, keys)
        self.watch = Watch()
        self.wakeup = Wakeup(store, keys, self.watch, poll)
        # Streams that are written here, and until when that is sure: their readers in this process
        # are woken directly and need no announcement, and nobody else can have added to the tail.
        self.ours: dict[UUID, float] = {}
        self._tails = Tails(_TAIL_BYTES)

    async def close(self) -> None:
        await self.wakeup.close()
        await self.store.close()
        self.watch.nudge()

    def own(self, stream_id: UUID, until: float) -> None:
        self.ours[stream_id] = until

    def disown(self, stream_id: UUID) -> None:
        self._tails.drop(stream_id)
        if self.ours.pop(stream_id, None) is not None:
            self.watch.wake(stream_id)  # whoever waits must listen elsewhere now

    def owns(self, stream_id: UUID) -> bool:
        return self.ours.get(stream_id, 0.0) > self.loop.time()

    def listen(self, stream_id: UUID) -> None:
        if not self.owns(stream_id):
            self.wakeup.want(stream_id)

    def show(self, stream_id: UUID, first_seq: int, entries: Sequence[bytes]) -> None:
        """Let readers in this process see what the store has taken."""
        if stream_id in self.ours:
            self._tails.add(stream_id, first_seq, entries, ended=False)
        self.watch.wake(stream_id)

    def hide(self, stream_id: UUID) -> None:
        """Let readers in this process ask the store."""
        self._tails.drop(stream_id)
        self.watch.wake(stream_id)

    def tail(self, stream_id: UUID, after_seq: int, limit: int) -> Page | None:
        """Return what follows a position, None when only the store knows."""
        return self._tails.page(stream_id, after_seq, limit) if self.owns(stream_id) else None

    def forget_old(self) -> None:
        now = self.loop.time()
        for stream_id in [id_ for id_, until in self.ours.items() if until <= now]:
            del self.ours[stream_id]
            self._tails.drop(stream_id)


class ValkeyStreamLog(StreamLog):
    """Streams on a Valkey or Redis server, for any number of processes at once.

    ``ValkeyStreamLog("valkey://:password@host:6379/0")``; also redis, and rediss or valkeys with
    TLS. `patience` is for how many seconds an operation is tried before it is `LogUnavailable`.
    `poll` is how late a waiting read may learn of an append whose announcement was lost. With
    `cluster` the address is that of any node. All processes that share streams need the same
    `prefix`, and clocks that agree within a second.
    """

    shared = True

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "coreason",
        lease: float = DEFAULT_LEASE,
        clock: Callable[[], float] = time.time,
        patience: float = 10.0,
        poll: float = 5.0,
        cluster: bool = False,
    ) -> None:
        for name, seconds in (("lease", lease), ("patience", patience), ("poll", poll)):
            if not 0 < seconds < 1e9:
                raise ValueError(f"{name} is a number of seconds above 0, not {seconds!r}")
        self.lease = lease
        self._address = parse_address(url)
        if cluster and self._address.db:
            raise ValueError("a cluster has the one database 0, so the address names no other")
        self._keys = Keys(prefix)
        self._clock = clock
        self._patience = patience
        self._poll = poll
        self._cluster = cluster
        self._sessions: dict[asyncio.AbstractEventLoop, _Session] = {}

    def __repr__(self) -> str:
        return f"<ValkeyStreamLog {self._address.shown!r} prefix={self._keys.prefix!r}>"

    async def start(self, owner: str) -> None:
        """Connect, and listen for what other processes append."""
        loop = asyncio.get_running_loop()
        for other in [other for other in self._sessions if other.is_closed()]:
            del self._sessions[other]  # nothing of it can be closed any more
        session = self._sessions.get(loop)
        if session is None:
            store = Store(
                self._address, self._keys.prefix, patience=self._patience, cluster=self._cluster
            )
            session = self._sessions[loop] = _Session(store, self._keys, self._poll)
        session.owners.add(owner)
        try:
            # Any command; this one a cluster knows where to send.
            await session.store.command("EXISTS", self._keys.leases[0])
        except BaseException:
            await self.stop(owner)
            raise

    async def stop(self, owner: str) -> None:
        """Close all connections of this event loop when its last owner stops."""
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            return
        session.owners.discard(owner)
        if not session.owners:
            del self._sessions[loop]
            await session.close()

    async def open(self, stream: NewStream, owner: str) -> Opened:
        """Return the stream of the request, made now if there is none."""
        session = self._session()
        until = session.loop.time() + self.lease
        own, name = stream.stream_id.hex.encode(), _request(stream.principal, stream.request_id)
        key = self._keys.request(name)
        made: StreamMeta | None = None
        holder: bytes | None = await session.store.command("GET", key)
        while True:
            if made is not None and holder == own:
                session.own(stream.stream_id, until)
                return Opened(made, created=True)
            known = None if holder is None else await self._load(self._stream_id(holder))
            if known is not None:
                if made is not None:
                    await self._take_back(stream.stream_id)
                if known.fingerprint != stream.fingerprint:
                    raise RequestConflict(stream.request_id)
                return Opened(known, created=False)
            if made is None:
                made = await self._make(stream, name)
            holder = await session.store.script(
                scripts.TAKE_REQUEST, [key], own, holder if holder is not None else b""
            )

    async def find(self, principal: str, request_id: UUID) -> StreamMeta | None:
        """Return the stream of a request, None when there is none."""
        key = self._keys.request(_request(principal, request_id))
        holder = await self._session().store.command("GET", key)
        return None if holder is None else await self._load(self._stream_id(holder))

    async def append(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes]
    ) -> bool:
        """Append entries; return whether somebody has asked for a cancel."""
        reply = await self._append(stream_id, epoch, first_seq, entries, b"append", b"", 0.0)
        return bool(reply[1] == b"1")

    async def close(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], outcome: str
    ) -> None:
        """Append the last entries and end the stream."""
        if not entries:
            raise ValueError("a stream ends with an entry that says so")
        reply = await self._append(
            stream_id, epoch, first_seq, entries, b"close", text(outcome), self._clock()
        )
        session = self._session()
        session.disown(stream_id)
        ended, request = reply[2], reply[3]
        if ended:
            # The stream has ended, whatever becomes of the indexes: claims put them right.
            with suppress(LogUnavailable):
                await session.indexes.ended(stream_id, request.decode("ascii"), float(ended))

    async def read(self, stream_id: UUID, after_seq: int, limit: int, wait: float) -> Page:
        """Return up to `limit` entries after a position; if there are none, wait."""
        if wait <= 0:
            return await self._page(stream_id, after_seq, limit)
        session = self._session()
        watch, loop = session.watch, session.loop
        deadline, nudges = loop.time() + wait, watch.nudges
        woken = False
        while True:
            # Before the look at the store: what is announced from here on wakes this waiter.
            waiter = watch.enter(stream_id, after_seq)
            try:
                page = session.tail(stream_id, after_seq, limit)
                # Whoever was woken and finds nothing here was woken for something in the store.
                if page is None or (woken and not page.entries):
                    page = await self._page(stream_id, after_seq, limit)
                left = deadline - loop.time()
                if page.entries or page.ended or left <= 0 or watch.nudges != nudges:
                    return page
                session.listen(stream_id)
                await wait_for(waiter, left)
                woken = True
                if watch.nudges != nudges:  # without another look: the log may be about to stop
                    return page
            finally:
                watch.leave(stream_id, waiter)

    def nudge(self) -> None:
        """Make every `read` that waits in this process return with what there is."""
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        for loop, session in list(self._sessions.items()):
            if loop is here:
                session.watch.nudge()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(session.watch.nudge)

    async def meta(self, stream_id: UUID) -> StreamMeta:
        """Describe a stream."""
        meta = await self._load(stream_id)
        if meta is None:
            raise UnknownStream(stream_id)
        return meta

    async def request_cancel(self, stream_id: UUID) -> None:
        """Ask the producer to stop."""
        keys = [self._keys.meta(stream_id)]
        if await self._session().store.script(scripts.CANCEL, keys) == b"unknown":
            raise UnknownStream(stream_id)

    async def renew(self, held: Mapping[UUID, int]) -> Mapping[UUID, LeaseState]:
        """Renew the leases of streams held with these epochs."""
        session = self._session()
        until, ours_until = self._clock() + self.lease, session.loop.time() + self.lease
        replies = await asyncio.gather(
            *(
                session.store.script(scripts.RENEW, [self._keys.meta(id_)], epoch, repr(until))
                for id_, epoch in held.items()
            )
        )
        states = {id_: _STATES[reply] for id_, reply in zip(held, replies, strict=True)}
        session.forget_old()
        for stream_id, state in states.items():
            if state is LeaseState.LOST:
                session.disown(stream_id)
            else:
                session.own(stream_id, ours_until)
        await session.indexes.leased(
            [id_ for id_, state in states.items() if state is not LeaseState.LOST], until
        )
        return states

    async def claim_lost(self, owner: str, limit: int) -> Sequence[Claim]:
        """Take over unfinished streams whose lease ran out."""
        session = self._session()
        now, name = self._clock(), uuid4().hex
        claims: list[Claim] = []
        while (room := min(limit - len(claims), _AT_ONCE)) > 0:
            due = (await session.indexes.due(self._keys.leases, now, room))[:room]
            if not due:
                break
            ids = [self._stream_id(member) for member in due]
            found = await asyncio.gather(*(self._claim(id_, now, name) for id_ in ids))
            claims += [claim for claim in found if claim is not None]
        return claims

    async def expire(self, retention: float, final_retention: float) -> None:
        """Drop entries and, later, streams and conversations, by their age in seconds."""
        now = self._clock()
        final = now - final_retention
        body = max(now - retention, final)
        await self._drop_all(self._keys.bodies, body, body, final)
        await self._drop_all(self._keys.finals, final, body, final)
        await self._forget_conversations(final)

    async def add_turn(self, conversation: Conversation, stream_id: UUID, turn: bytes) -> None:
        """Add what one stream contributed to a conversation."""
        session, now = self._session(), self._clock()
        name = _conversation(conversation)
        # The index comes first, or a crash between the two would leave turns that never expire.
        await session.indexes.touched(name, now)
        await session.store.script(
            scripts.ADD_TURN,
            [self._keys.turns(name), self._keys.order(name)],
            stream_id.hex,
            turn,
            repr(now),
            MOST_TURNS,
            MOST_TURN_BYTES,
        )

    async def turns(self, conversation: Conversation, limit: int) -> Sequence[bytes]:
        """Return the latest turns of a conversation, oldest first."""
        name = _conversation(conversation)
        if limit < 1:
            return []
        found: list[bytes | None] = await self._session().store.query(
            scripts.TURNS,
            [self._keys.turns(name), self._keys.order(name)],
            min(limit, MOST_TURNS),
            MOST_TURN_BYTES,
        )
        return [turn for turn in found if turn is not None]

    def _session(self) -> _Session:
        session = self._sessions.get(asyncio.get_running_loop())
        if session is None:
            raise LogUnavailable(f"the log on {self._address.shown} has not been started here")
        return session

    def _stream_id(self, name: bytes) -> UUID:
        return self._ours(lambda: UUID(name.decode("ascii")))

    def _ours(self, read: Callable[[], T]) -> T:
        """Read something that the log has written.

        Raises:
            LogUnavailable: it was somebody else who wrote it.
        """
        try:
            return read()
        except (ValueError, TypeError, AttributeError, IndexError):
            raise foreign(
                self._address, self._keys.prefix, "a value is none that the log has written"
            ) from None

    # Opening.

    async def _load(self, stream_id: UUID) -> StreamMeta | None:
        values = await self._session().store.command("HMGET", self._keys.meta(stream_id), *FIELDS)
        return self._ours(lambda: parse_meta(stream_id, values))

    async def _make(self, stream: NewStream, name: str) -> StreamMeta:
        session, now = self._session(), self._clock()
        until = now + self.lease
        await session.indexes.leased([stream.stream_id], until)
        await session.store.script(
            scripts.CREATE,
            [self._keys.meta(stream.stream_id), self._keys.question(stream.stream_id)],
            text(stream.principal),
            stream.request_id.hex,
            text(stream.fingerprint),
            repr(now),
            repr(until),
            name,
            stream.question,
        )
        if self._clock() >= until:
            # The store was slow. A claim may have found a name without a stream in the index.
            await session.indexes.leased([stream.stream_id], until)
        return StreamMeta(
            stream_id=stream.stream_id,
            principal=stream.principal,
            request_id=stream.request_id,
            fingerprint=stream.fingerprint,
            epoch=1,
            last_seq=0,
            opened_at=now,
            outcome=None,
            ended_at=None,
            cancel_requested=False,
            body_gone=False,
        )

    async def _take_back(self, stream_id: UUID) -> None:
        # Otherwise it ends as lost when its lease has run out.
        with suppress(LogUnavailable):
            session = self._session()
            keys = self._keys.meta(stream_id), self._keys.question(stream_id)
            await session.store.command("DEL", *keys)
            await session.indexes.unleased(stream_id)

    # Appending and reading.

    async def _append(
        self,
        stream_id: UUID,
        epoch: int,
        first_seq: int,
        entries: Sequence[bytes],
        kind: bytes,
        outcome: bytes,
        now: float,
    ) -> Sequence[bytes]:
        session, keys = self._session(), self._keys
        end = b""
        names = [keys.meta(stream_id), keys.entries(stream_id)]
        if kind == b"close":
            end = b"%b %b" % (repr(now).encode(), outcome)
            names.append(keys.question(stream_id))
        line = await session.store.script(scripts.APPEND, names, epoch, first_seq, end, *entries)
        reply: Sequence[bytes] = line.split(b" ")
        if reply[0] == b"ok":
            session.show(stream_id, first_seq, entries)
            return reply
        if reply[0] == b"held":  # it was there before, and what counts is what is there
            session.hide(stream_id)
            return reply
        session.disown(stream_id)
        if reply[0] == b"fenced":
            raise Fenced(stream_id, epoch)
        if reply[0] == b"gap":
            raise OutOfSequence(stream_id, first_seq, int(reply[1]))
        raise UnknownStream(stream_id)

    async def _page(self, stream_id: UUID, after_seq: int, limit: int) -> Page:
        keys = [self._keys.meta(stream_id), self._keys.entries(stream_id)]
        reply: list[bytes] = await self._session().store.query(
            scripts.READ, keys, after_seq, limit, PAGE_BYTES
        )
        state = reply[0]
        if state == b"unknown":
            raise UnknownStream(stream_id)
        if state == b"gone":
            raise PositionGone(stream_id, after_seq)
        if state == b"damaged":
            raise LogUnavailable(
                f"the store {self._address.shown} has lost entries of the stream {stream_id}: it "
                "must not evict keys (maxmemory-policy noeviction)",
                stream_id,
            )
        return Page(reply[1:], state == b"end")

    # What ran out.

    async def _claim(self, stream_id: UUID, now: float, name: str) -> Claim | None:
        session = self._session()
        until = now + self.lease
        keys = [self._keys.meta(stream_id), self._keys.question(stream_id)]
        reply: Sequence[bytes] = await session.store.script(
            scripts.CLAIM, keys, repr(now), repr(until), name
        )
        state = reply[0]
        if state == b"gone":
            await session.indexes.unleased(stream_id)
        elif state == b"ended":
            await session.indexes.ended(stream_id, reply[2].decode("ascii"), float(reply[1]))
        elif state == b"held":
            await session.indexes.leased([stream_id], float(reply[1]))
        else:
            await session.indexes.leased([stream_id], float(reply[3]))
            return Claim(stream_id, int(reply[1]), int(reply[2]), reply[4])
        return None

    async def _drop_all(self, index: Sequence[str], due: float, body: float, final: float) -> None:
        indexes = self._session().indexes
        while members := await indexes.due(index, due, _AT_ONCE):
            await asyncio.gather(*(self._drop(member, body, final) for member in members))

    async def _drop(self, member: bytes, body: float, final: float) -> None:
        session = self._session()
        stream_id, request = self._ours(lambda: split_member(member))
        reply: Sequence[bytes] = await session.store.script(
            scripts.DROP,
            [
                self._keys.meta(stream_id),
                self._keys.entries(stream_id),
                self._keys.question(stream_id),
            ],
            repr(body),
            repr(final),
        )
        state = reply[0]
        if state == b"gone":
            await session.store.script(
                scripts.FREE_REQUEST, [self._keys.request(request)], stream_id.hex
            )
            await session.indexes.forgotten(stream_id, request)
        elif state == b"bare":
            await session.indexes.bare(stream_id, request, float(reply[1]))
        elif state == b"kept":
            await session.indexes.ended(stream_id, request, float(reply[1]))
        else:  # a store that was restored from an older copy has forgotten the end
            await session.indexes.leased([stream_id], self._clock())
            await session.indexes.forgotten(stream_id, request)

    async def _forget_conversations(self, final: float) -> None:
        indexes = self._session().indexes
        while names := await indexes.due(self._keys.conversations, final, _AT_ONCE):
            await asyncio.gather(*(self._forget_turns(name.decode(), final) for name in names))

    async def _forget_turns(self, name: str, final: float) -> None:
        session = self._session()
        touched: bytes = await session.store.script(
            scripts.FORGET_TURNS, [self._keys.turns(name), self._keys.order(name)], repr(final)
        )
        if touched:
            await session.indexes.touched(name, float(touched))
        else:
            await session.indexes.untouched(name)


def _request(principal: str, request_id: UUID) -> str:
    return digest(principal, request_id.bytes)


def _conversation(conversation: Conversation) -> str:
    return digest(conversation.principal, text(conversation.session_id))
