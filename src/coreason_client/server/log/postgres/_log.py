"""The log in a Postgres database: the methods of the contract."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, islice
from typing import Any
from uuid import UUID, uuid4

from ...errors import Fenced, LogUnavailable, UnknownStream
from .._rules import check_last_entries, make_page, new_epoch, take_page, text
from .._staging import RUN_BYTES, pack_runs, unpack_run
from ..base import (
    DEFAULT_LEASE,
    MAX_TURN_BYTES,
    MAX_TURNS,
    PAGE_BYTES,
    UNCLAIMED_SECONDS,
    AgentVersion,
    Claim,
    Conversation,
    LeaseState,
    NewStream,
    Notes,
    Opened,
    Page,
    StreamMeta,
)
from ..remote._log import RemoteLog
from ._errors import parse_address
from ._schema import DEFAULT_SCHEMA, check_name
from ._session import (
    DatabaseSession,
    conversation_digest,
    handle_opening,
    opening_arguments,
    parse_claim,
    parse_epochs,
    parse_meta,
    raise_state,
    request_digest,
)
from ._store import Append, PostgresStore
from ._tasks import PostgresQuotas, PostgresTasks

_RENEWED_AT_ONCE = 500
_EXPIRED_AT_ONCE = 500  # rows, in one transaction


class PostgresStreamLog(RemoteLog[DatabaseSession]):
    """Streams in a Postgres database, for any number of processes at once.

    Args:
        url: such as `postgresql://user:password@host/database`; several hosts are separated by
            commas, and the primary is found among them.
        schema: the name of the schema; all processes that share streams need the same.
        lease: the seconds for which a process holds a stream without renewing it.
        clock: a function that returns the time in seconds since 1970; by default leases and
            retention use the clock of the database.
        patience: the seconds without an answer of the database after which an operation raises
            `LogUnavailable`; time in which this process did not run does not count.
        poll: the longest delay in seconds before a waiting read learns of an append whose
            announcement was lost.
        replicas: how many standbys must confirm each commit. The database is configured for that;
            the log only checks that it is, with each connection.
        listen_url: the URL of a direct connection, if `url` is that of a pooler that gives each
            transaction another connection: such a pooler cannot listen.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str = DEFAULT_SCHEMA,
        lease: float = DEFAULT_LEASE,
        clock: Callable[[], float] | None = None,
        patience: float = 10.0,
        poll: float = 5.0,
        replicas: int = 0,
        listen_url: str | None = None,
    ) -> None:
        self._address = parse_address(url)
        super().__init__(self._address.shown, lease, patience, poll, replicas)
        self._listen = None if listen_url is None else parse_address(listen_url, "listen_url")
        self._schema = check_name(schema)
        self._clock = clock
        self.tasks = PostgresTasks(self._session, lease)
        self.quotas = PostgresQuotas(self._session, lease)

    def __repr__(self) -> str:
        return f"<PostgresStreamLog {self._shown!r} schema={self._schema!r}>"

    @property
    def degraded(self) -> str | None:
        """The reason why new streams should go to another server, None if there is no reason."""
        session = self._sessions.get()
        missing = session is not None and session.store.server.standby_missing
        return "standby missing" if missing else None

    def _make_session(self) -> DatabaseSession:
        store = PostgresStore(
            self._address,
            self._schema,
            clock=self._clock,
            patience=self._patience,
            pooled=self._listen is not None,
            replicas=self._replicas,
            listeners=self._store_listeners,
        )
        return DatabaseSession(store, self._listen, self._poll)

    async def open(self, stream: NewStream, owner: str) -> Opened:
        """Return the stream of the request; create it if there is none."""
        session = self._session()
        until = session.owned.now() + self.lease
        arguments = opening_arguments(session, self.lease, stream)
        (row,) = await session.store.call("open", *arguments)
        return handle_opening(session, stream, arguments, row, until)

    async def find(self, principal: str, request_id: UUID) -> StreamMeta | None:
        """Return the stream of a request, None if there is none."""
        request = request_digest(principal, request_id)
        rows = await self._session().store.read("describe", None, request)
        return parse_meta(rows[0]) if rows else None

    def _begin_append(
        self,
        stream_id: UUID,
        epoch: int,
        first_seq: int,
        entries: Sequence[bytes],
        notes: Notes | None = None,
    ) -> "asyncio.Future[bool]":
        """Begin an append; return a future of its result."""
        session = self._session()

        def read_row(row: Any) -> bool:
            session.handle_append(stream_id, epoch, first_seq, entries, row)
            return bool(row["cancel"])

        runs = [run for _, run in pack_runs(first_seq, entries)]
        note, bodies = (None, ()) if notes is None else notes
        append = Append(stream_id, epoch, first_seq, len(entries), None, runs, note, bodies)
        return session.store.begin_append(append, read_row)

    begin_append = _begin_append

    async def close(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], outcome: str
    ) -> None:
        """Append the last entries and end the stream."""
        check_last_entries(entries)
        session = self._session()
        runs = [run for _, run in pack_runs(first_seq, entries)]
        append = Append(stream_id, epoch, first_seq, len(entries), text(outcome), runs)
        row = await session.store.begin_append(append, lambda row: row)
        session.handle_append(stream_id, epoch, first_seq, entries, row, ended=True)

    async def meta(self, stream_id: UUID) -> StreamMeta:
        """Return the description of a stream."""
        rows = await self._session().store.read("describe", stream_id, None)
        if not rows:
            raise UnknownStream(stream_id)
        return parse_meta(rows[0])

    async def request_cancel(self, stream_id: UUID) -> None:
        """Ask the producer to stop."""
        ((known,),) = await self._session().store.call("request_cancel", stream_id)
        if not known:
            raise UnknownStream(stream_id)

    async def _renew(self, held: Mapping[UUID, int]) -> Mapping[UUID, LeaseState]:
        store = self._session().store
        states = dict.fromkeys(held, LeaseState.LOST)
        ids = list(held)
        for start in range(0, len(ids), _RENEWED_AT_ONCE):
            part = ids[start : start + _RENEWED_AT_ONCE]
            epochs = [held[stream_id] for stream_id in part]
            rows = await store.call("renew", store.now(), self.lease, part, epochs)
            for stream_id, cancel in rows:
                states[stream_id] = LeaseState.CANCEL_REQUESTED if cancel else LeaseState.HELD
        return states

    async def claim_lost(self, owner: str, limit: int) -> Sequence[Claim]:
        """Take over unfinished streams whose lease ran out."""
        return await self._claim(None, limit)

    async def claim_durable(self, owner: str, agent: AgentVersion, limit: int) -> Sequence[Claim]:
        """Take over unfinished durable streams of an agent whose lease ran out."""
        return await self._claim(agent, limit)

    async def _claim(self, agent: AgentVersion | None, limit: int) -> Sequence[Claim]:
        session = self._session()
        until = session.owned.now() + self.lease
        rows = await session.store.call(
            "claim",
            *(session.store.now(), self.lease, uuid4(), new_epoch(), limit),
            *((None, None) if agent is None else (text(agent.agent_id), text(agent.version))),
            UNCLAIMED_SECONDS,
        )
        if rows:
            session.store.server.identify(rows[0]["server"])
        claims = [parse_claim(row) for row in rows if row["stream_id"] is not None]
        for claim in claims:
            session.owned.own(claim.stream_id, until)
        return claims

    async def claim_held(self, stream_id: UUID, epoch: int, owner: str) -> Claim:
        """Begin the next epoch of a stream that the caller holds with this epoch."""
        session = self._session()
        until = session.owned.now() + self.lease
        rows = await session.store.call(
            "claim_held",
            *(session.store.now(), self.lease, stream_id, epoch, uuid4(), new_epoch()),
        )
        if not rows:
            raise Fenced(stream_id, epoch)
        if rows[0]["stream_id"] is None:
            raise UnknownStream(stream_id)
        session.drop_entries(stream_id)
        session.owned.own(stream_id, until)
        return parse_claim(rows[0])

    async def journal(self, stream_id: UUID, after: int = 0) -> Sequence[bytes]:
        """Return notes of a running stream after a number."""
        rows = await self._session().store.read("journal", stream_id, after, PAGE_BYTES)
        if not rows:
            await self.meta(stream_id)
        return [note for (note,) in rows]

    async def release(self, stream_id: UUID, epoch: int) -> None:
        """Give up a durable stream, so that it can be claimed at once."""
        session = self._session()
        session.disown(stream_id)
        ((state,),) = await session.store.call(
            "release", session.store.now(), stream_id, epoch, new_epoch()
        )
        raise_state(state, stream_id, epoch)

    async def expire(self, retention: float, final_retention: float) -> None:
        """Drop entries and, later, streams and conversations, by their age in seconds."""
        store = self._session().store
        ((now,),) = await store.call("moment", store.now())
        final = now - final_retention
        for step, *until in (
            ("mark_bodies", max(now - retention, final)),
            ("drop_bodies",),
            ("drop_streams", final),
            ("drop_conversations", final),
        ):
            await _in_steps(store, step, *until)
        await store.call("drop_limits", now)

    async def add_turn(
        self, conversation: Conversation, stream_id: UUID, turn: bytes, epoch: int = 1
    ) -> None:
        """Add the turn of one stream to a conversation."""
        store = self._session().store
        key = conversation_digest(conversation)
        limits = (MAX_TURNS, MAX_TURN_BYTES)
        await store.call("add_turn", store.now(), key, stream_id, turn, epoch, *limits)

    async def turns(self, conversation: Conversation, limit: int) -> Sequence[bytes]:
        """Return the latest turns of a conversation, oldest first."""
        if limit < 1:
            return []
        key = conversation_digest(conversation)
        limits = (min(limit, MAX_TURNS), MAX_TURN_BYTES)
        rows = await self._session().store.read("turns", key, *limits)
        return [turn for (turn,) in rows]

    async def _load_page(
        self, stream_id: UUID, after_seq: int, after_epoch: int, limit: int
    ) -> Page:
        # A part of the first run may be before the position, so a little more than a page.
        rows = await self._session().store.read(
            "read", stream_id, after_seq, max(limit, 1), PAGE_BYTES + RUN_BYTES
        )
        if not rows:
            raise UnknownStream(stream_id)
        last, ended, body_gone, epochs, first, upto, runs = rows[0]
        entries: list[bytes] = []
        if runs is not None and not body_gone:
            entries = self._unpack(stream_id, after_seq, first, upto, runs)
        return make_page(
            stream_id,
            after_seq,
            after_epoch,
            take_page(islice(entries, limit)),
            last_seq=last,
            epochs=parse_epochs(epochs),
            ended=ended,
            body_gone=body_gone,
        )

    def _unpack(
        self, stream_id: UUID, after_seq: int, first: int, upto: int, runs: Sequence[bytes]
    ) -> list[bytes]:
        try:
            entries = list(chain.from_iterable(map(unpack_run, runs)))
            if first > after_seq + 1 or len(entries) != upto - first + 1:
                raise ValueError("some are missing")
        except ValueError as error:
            raise LogUnavailable(
                f"the entries of the stream {stream_id} after {after_seq} are damaged in the "
                f"database {self._shown} ({error}): restore it from a backup; other streams can "
                "be read",
                stream_id,
            ) from None
        return entries[after_seq + 1 - first :]


async def _in_steps(store: PostgresStore, step: str, *until: float) -> None:
    """Repeat a step of an expiry until it has nothing to do."""
    while rows := await store.call(step, *until, _EXPIRED_AT_ONCE):
        if not rows[0][0]:
            return
