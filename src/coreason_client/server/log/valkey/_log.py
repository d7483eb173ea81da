"""The contract of a log, as commands to the store."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from uuid import UUID, uuid4

from ....errors import ArgumentError
from ...errors import (
    Fenced,
    LogUnavailable,
    OutOfSequence,
    PositionGone,
    RequestConflict,
    UnknownStream,
)
from ..base import (
    DEFAULT_LEASE,
    MOST_TURN_BYTES,
    MOST_TURNS,
    PAGE_BYTES,
    Claim,
    Conversation,
    Follower,
    LeaseState,
    NewStream,
    Opened,
    Page,
    StreamLog,
    StreamMeta,
)
from . import _scripts as scripts
from ._address import parse_address
from ._errors import ForeignValue, foreign
from ._expiry import claim_due, drop_old
from ._follower import ValkeyFollower
from ._keys import Keys, digest, parse_stream_id
from ._meta import FIELDS, new_meta, parse_meta, text
from ._session import Session

__all__ = ["ValkeyStreamLog"]

_STATES = {
    b"held": LeaseState.HELD,
    b"cancel": LeaseState.CANCEL_REQUESTED,
    b"lost": LeaseState.LOST,
}


class ValkeyStreamLog(StreamLog):
    """Streams on a Valkey or Redis server, for any number of processes at once.

    ``ValkeyStreamLog("valkey://:password@host:6379/0")``; also redis, and rediss or valkeys with
    TLS. `patience` is for how many seconds the store may be silent before an operation is
    `LogUnavailable`; time in which this process did not run is not counted. `poll` is how late a
    waiting read may learn of an append whose announcement was lost. With `cluster` the address is
    that of any node. All processes that share streams need the same `prefix`. Leases and retention
    follow the clock of the store, unless a `clock` is given.
    """

    shared = True

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "coreason",
        lease: float = DEFAULT_LEASE,
        clock: Callable[[], float] | None = None,
        patience: float = 10.0,
        poll: float = 5.0,
        cluster: bool = False,
    ) -> None:
        for name, seconds in (("lease", lease), ("patience", patience), ("poll", poll)):
            if not 0 < seconds < 1e9:
                raise ArgumentError(name, "must be a number of seconds greater than 0", seconds)
        self.lease = lease
        self._address = parse_address(url)
        if cluster and self._address.db:
            raise ArgumentError("url", "must name database 0, the only one of a cluster")
        self._keys = Keys(prefix)
        self._clock = clock
        self._patience = patience
        self._poll = poll
        self._cluster = cluster
        self._sessions: dict[asyncio.AbstractEventLoop, Session] = {}
        self._process = os.getpid()

    def __repr__(self) -> str:
        return f"<ValkeyStreamLog {self._address.shown!r} prefix={self._keys.prefix!r}>"

    async def start(self, owner: str) -> None:
        """Connect, and try what the log will need: to write, to run scripts, to subscribe.

        Raises:
            LogUnavailable: the store cannot be reached, or does not allow something of that.
        """
        self._forget_dead_sessions()
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            session = self._sessions[loop] = Session(
                self._address,
                self._keys,
                clock=self._clock,
                patience=self._patience,
                poll=self._poll,
                cluster=self._cluster,
            )
        elif owner in session.owners:
            await session.started()
            return
        session.owners.add(owner)
        try:
            await session.start()
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
        until = session.owned.now() + self.lease
        own, name = stream.stream_id.hex.encode(), _request(stream.principal, stream.request_id)
        key = self._keys.request(name)
        made: StreamMeta | None = None
        holder: bytes | None
        if self._cluster:
            holder = await session.store.command("GET", key)
        else:
            holder, meta = await self._open_at_once(stream, name)
            if not holder:
                session.owned.own(stream.stream_id, until)
                return Opened(meta, created=True)
        while True:
            if made is not None and holder == own:
                session.owned.own(stream.stream_id, until)
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
        reply = await self._append(stream_id, epoch, first_seq, entries, b"")
        return reply[1] == b"1"

    def begin_append(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes]
    ) -> "asyncio.Future[bool]":
        """Begin an append."""
        session, keys = self._session(), self._keys
        names = [keys.meta(stream_id), keys.entries(stream_id)]

        def appended(line: bytes) -> bool:
            reply = self._appended(session, stream_id, epoch, first_seq, entries, line)
            return reply[1] == b"1"

        return session.store.begin_script(
            scripts.APPEND, names, appended, epoch, first_seq, b"", *entries
        )

    async def close(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], outcome: str
    ) -> None:
        """Append the last entries and end the stream."""
        if not entries:
            raise ValueError("a stream ends with an entry that says so")
        session = self._session()
        end = b"%b %b" % (repr(session.now()).encode(), text(outcome))
        reply = await self._append(stream_id, epoch, first_seq, entries, end)
        session.disown(stream_id)
        ended, request = reply[2], reply[3]
        if ended:
            # The stream has ended, whatever becomes of the indexes: claims put them right.
            with suppress(LogUnavailable):
                await session.indexes.ended(stream_id, request.decode("ascii"), float(ended))

    async def read(self, stream_id: UUID, after_seq: int, limit: int, wait: float) -> Page:
        """Return up to `limit` entries after a position; if there are none, wait."""
        with closing(self._follower(stream_id, after_seq)) as follower:
            return await follower.next(limit, wait)

    def follow(self, stream_id: UUID, after_seq: int) -> Follower:
        """Return a reader of one stream from a position on."""
        return self._follower(stream_id, after_seq)

    def _follower(self, stream_id: UUID, after_seq: int) -> Follower:
        return ValkeyFollower(self._session(), stream_id, after_seq, self._page)

    def nudge(self) -> None:
        """Make every `read` that waits in this process return with what there is."""
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        self._forget_dead_sessions()
        for loop, session in list(self._sessions.items()):
            if loop is here:
                session.watch.nudge()
            else:
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
        until, ours_until = session.now() + self.lease, session.owned.now() + self.lease
        *replies, _ = await asyncio.gather(
            *(
                session.store.script(scripts.RENEW, [self._keys.meta(id_)], epoch, repr(until))
                for id_, epoch in held.items()
            ),
            session.measure_clock(),
        )
        states = {id_: _STATES[reply] for id_, reply in zip(held, replies, strict=True)}
        session.owned.forget_old()
        for stream_id, state in states.items():
            self._renewed(stream_id, state, ours_until)
        await session.indexes.leased(
            [id_ for id_, state in states.items() if state is not LeaseState.LOST], until
        )
        return states

    async def claim_lost(self, owner: str, limit: int) -> Sequence[Claim]:
        """Take over unfinished streams whose lease ran out."""
        session = self._session()
        await session.measure_clock()
        with self._only_ours():
            return await claim_due(session, self._keys, self.lease, limit)

    async def expire(self, retention: float, final_retention: float) -> None:
        """Drop entries and, later, streams and conversations, by their age in seconds."""
        session = self._session()
        await session.measure_clock()
        now = session.now()
        final = now - final_retention
        with self._only_ours():
            await drop_old(session, self._keys, max(now - retention, final), final)

    async def add_turn(self, conversation: Conversation, stream_id: UUID, turn: bytes) -> None:
        """Add what one stream contributed to a conversation."""
        session = self._session()
        now, name = session.now(), _conversation(conversation)
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

    def _session(self) -> Session:
        session = self._sessions.get(asyncio.get_running_loop())
        if session is None:
            raise LogUnavailable(f"the log on {self._address.shown} has not been started here")
        return session

    def _forget_dead_sessions(self) -> None:
        if self._process != os.getpid():
            # A fork: the connections are those of the parent, and must not be touched here.
            self._process = os.getpid()
            self._sessions.clear()
        for loop in [loop for loop in self._sessions if loop.is_closed()]:
            del self._sessions[loop]  # nothing of it can be closed any more

    def _renewed(self, stream_id: UUID, state: LeaseState, until: float) -> None:
        """Record a renewal on every event loop: it need not be the one that writes the stream."""
        here = self._session()
        known = False
        for loop, session in list(self._sessions.items()):
            if state is not LeaseState.LOST:
                known = session.owned.extend(stream_id, until) or known
            elif session is here:
                session.disown(stream_id)
            elif not loop.is_closed():
                loop.call_soon_threadsafe(session.disown, stream_id)
        if state is not LeaseState.LOST and not known:
            here.owned.own(stream_id, until)

    def _stream_id(self, name: bytes) -> UUID:
        with self._only_ours():
            return parse_stream_id(name)

    @contextmanager
    def _only_ours(self) -> Iterator[None]:
        """Read what the log has written.

        Raises:
            LogUnavailable: something else wrote it.
        """
        try:
            yield
        except ForeignValue:
            raise foreign(
                self._address, self._keys.prefix, "a value is none that the log has written"
            ) from None

    # Opening.

    async def _load(self, stream_id: UUID) -> StreamMeta | None:
        values = await self._session().store.command("HMGET", self._keys.meta(stream_id), *FIELDS)
        with self._only_ours():
            return parse_meta(stream_id, values)

    async def _open_at_once(self, stream: NewStream, name: str) -> tuple[bytes, StreamMeta]:
        """Do all steps of an opening in one; return the stream that was there, if there was one."""
        keys, now = self._keys, self._session().now()
        holder: bytes = await self._session().store.script(
            scripts.OPEN,
            [
                keys.request(name),
                keys.meta(stream.stream_id),
                keys.question(stream.stream_id),
                keys.lease_index(stream.stream_id),
            ],
            stream.stream_id.hex,
            uuid4().hex,
            keys.prefix,
            *self._fields(stream, name, now),
        )
        return holder, new_meta(stream, now)

    async def _make(self, stream: NewStream, name: str) -> StreamMeta:
        session = self._session()
        now = session.now()
        until = now + self.lease
        await session.indexes.opened(stream.stream_id, until)
        await session.store.script(
            scripts.CREATE,
            [self._keys.meta(stream.stream_id), self._keys.question(stream.stream_id)],
            *self._fields(stream, name, now),
        )
        if session.now() >= until:
            # The store was slow. A claim may have found a name without a stream in the index.
            await session.indexes.leased([stream.stream_id], until)
        return new_meta(stream, now)

    def _fields(self, stream: NewStream, name: str, now: float) -> tuple[str | bytes, ...]:
        return (
            text(stream.principal),
            stream.request_id.hex,
            text(stream.fingerprint),
            repr(now),
            repr(now + self.lease),
            name,
            stream.question,
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
        end: bytes,
    ) -> Sequence[bytes]:
        """Append entries; `end` is empty, or the moment and the outcome of the end."""
        session, keys = self._session(), self._keys
        names = [keys.meta(stream_id), keys.entries(stream_id)]
        if end:
            names.append(keys.question(stream_id))
        line = await session.store.script(scripts.APPEND, names, epoch, first_seq, end, *entries)
        return self._appended(session, stream_id, epoch, first_seq, entries, line)

    def _appended(
        self,
        session: Session,
        stream_id: UUID,
        epoch: int,
        first_seq: int,
        entries: Sequence[bytes],
        line: bytes,
    ) -> Sequence[bytes]:
        """Let readers see what the store has taken; return its reply in parts."""
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


def _request(principal: str, request_id: UUID) -> str:
    return digest(principal, request_id.bytes)


def _conversation(conversation: Conversation) -> str:
    return digest(conversation.principal, text(conversation.session_id))
