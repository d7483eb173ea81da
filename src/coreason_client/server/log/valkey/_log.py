"""The log on a Valkey or Redis server: the methods of the contract."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from uuid import UUID

from ...._valkey_address import parse_address
from ....errors import ArgumentError
from ...errors import Fenced, UnknownStream
from .._rules import check_last_entries, digest, text
from ..base import (
    DEFAULT_LEASE,
    MAX_TURN_BYTES,
    MAX_TURNS,
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
from . import _scripts as scripts
from ._entries import begin_append, close_stream, read_journal, read_page
from ._errors import ForeignValue, foreign_data
from ._keys import KeyNames
from ._leases import Claims, drop_old, release, renew
from ._opening import (
    NewTask,
    agent_digest,
    find_stream,
    load_meta,
    open_in_one_script,
    open_in_steps,
)
from ._quota_store import ValkeyQuotas
from ._session import Session
from ._task_store import ValkeyTasks


class ValkeyStreamLog(RemoteLog[Session]):
    """Streams on a Valkey or Redis server, for any number of processes at once.

    Args:
        url: such as `valkey://:password@host:6379/0`; the scheme may also be redis, or rediss or
            valkeys with TLS. With Sentinel: `valkey+sentinel://host:26379,host:26379/name/0`.
        prefix: the beginning of all keys; all processes that share streams need the same.
        lease: the seconds for which a process holds a stream without renewing it.
        clock: a function that returns the time in seconds since 1970; by default leases and
            retention use the clock of the store.
        patience: the seconds without an answer of the store after which an operation raises
            `LogUnavailable`; time in which this process did not run does not count.
        poll: the longest delay in seconds before a waiting read learns of an append whose message
            was lost.
        cluster: True for a cluster; the URL may be that of any node.
        replicas: how many replicas must have an entry before it is acknowledged and shown to
            readers, so that it survives a failover to one of them. If too few confirm it within a
            third of `lease`, it is sent again until `patience` has passed.
    """

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
        replicas: int = 0,
    ) -> None:
        self._address = parse_address(url, with_sentinel=True)
        super().__init__(self._address.shown, lease, patience, poll, replicas)
        if cluster and self._address.db:
            raise ArgumentError("url", "must name database 0, because a cluster has no other")
        if cluster and self._address.sentinels:
            raise ArgumentError("url", "must not name Sentinel, because a cluster does without it")
        self._keys = KeyNames(prefix)
        self._clock = clock
        self._cluster = cluster
        self.tasks = ValkeyTasks(self._session, self._keys, self._open)
        self.quotas = ValkeyQuotas(self._session, self._keys, lease)

    def __repr__(self) -> str:
        return f"<ValkeyStreamLog {self._address.shown!r} prefix={self._keys.prefix!r}>"

    @property
    def degraded(self) -> str | None:
        """The reason why new streams should go to another server, None if there is no reason."""
        session = self._sessions.get()
        confirmation = None if session is None else session.store.confirmation
        return "replicas missing" if confirmation is not None and confirmation.missing else None

    def _make_session(self) -> Session:
        return Session(
            self._address,
            self._keys,
            clock=self._clock,
            patience=self._patience,
            poll=self._poll,
            cluster=self._cluster,
            replicas=self._replicas,
            lease=self.lease,
            store_listeners=self._store_listeners,
        )

    async def open(self, stream: NewStream, owner: str) -> Opened:
        """Return the stream of the request; create it if there is none."""
        return await self._open(stream)

    async def _open(self, stream: NewStream, task: NewTask | None = None) -> Opened:
        session = self._session()
        if stream.agent is not None:
            await session.register_agent(agent_digest(stream.agent))
        open_stream = open_in_steps if self._cluster else open_in_one_script
        with self._report_foreign_data():
            return await open_stream(session, self._keys, self.lease, stream, task)

    async def find(self, principal: str, request_id: UUID) -> StreamMeta | None:
        """Return the stream of a request, None if there is none."""
        with self._report_foreign_data():
            return await find_stream(self._session(), self._keys, principal, request_id)

    def _begin_append(
        self,
        stream_id: UUID,
        epoch: int,
        first_seq: int,
        entries: Sequence[bytes],
        notes: Notes | None = None,
    ) -> "asyncio.Future[bool]":
        """Begin an append; return a future of its result."""
        session, keys = self._session(), self._keys
        return begin_append(session, keys, stream_id, epoch, first_seq, entries, notes)

    begin_append = _begin_append

    async def close(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], outcome: str
    ) -> None:
        """Append the last entries and end the stream."""
        check_last_entries(entries)
        session, keys = self._session(), self._keys
        await close_stream(session, keys, stream_id, epoch, first_seq, entries, outcome)

    async def meta(self, stream_id: UUID) -> StreamMeta:
        """Return the description of a stream."""
        with self._report_foreign_data():
            meta = await load_meta(self._session(), self._keys, stream_id)
        if meta is None:
            raise UnknownStream(stream_id)
        return meta

    async def request_cancel(self, stream_id: UUID) -> None:
        """Ask the producer to stop."""
        keys = [self._keys.meta(stream_id)]
        if await self._session().store.script(scripts.CANCEL, keys) == b"unknown":
            raise UnknownStream(stream_id)

    async def _renew(self, held: Mapping[UUID, int]) -> Mapping[UUID, LeaseState]:
        return await renew(self._session(), self._keys, self.lease, held)

    async def claim_lost(self, owner: str, limit: int) -> Sequence[Claim]:
        """Take over unfinished streams whose lease ran out."""
        session = self._session()
        await session.measure_clock()
        if await session.server_changed_within(self.lease):
            return []  # living producers renew their leases first
        with self._report_foreign_data():
            claims = Claims(session, self._keys, self.lease, on_ended=self.tasks.on_ended)
            return await claims.claim_lost(limit)

    async def claim_durable(self, owner: str, agent: AgentVersion, limit: int) -> Sequence[Claim]:
        """Take over unfinished durable streams of an agent whose lease ran out."""
        session = self._session()
        if await session.server_changed_within(self.lease):
            return []
        with self._report_foreign_data():
            claims = Claims(
                *(session, self._keys, self.lease, text(agent.version), self.tasks.on_ended)
            )
            return await claims.claim_durable(agent_digest(agent), limit)

    async def claim_held(self, stream_id: UUID, epoch: int, owner: str) -> Claim:
        """Begin the next epoch of a stream that the caller holds with this epoch."""
        session = self._session()
        with self._report_foreign_data():
            agent = (await self.meta(stream_id)).agent
            claims = Claims(session, self._keys, self.lease)
            claim = await claims.claim(stream_id, agent_digest(agent), epoch)
        if claim is None:
            raise Fenced(stream_id, epoch)
        return claim

    async def journal(self, stream_id: UUID, after: int = 0) -> Sequence[bytes]:
        """Return notes of a running stream after a number."""
        return await read_journal(self._session(), self._keys, stream_id, after)

    async def release(self, stream_id: UUID, epoch: int) -> None:
        """Give up a durable stream, so that it can be claimed at once."""
        await release(self._session(), self._keys, stream_id, epoch)

    async def expire(self, retention: float, final_retention: float) -> None:
        """Drop entries and, later, streams and conversations, by their age in seconds."""
        session = self._session()
        await session.measure_clock()
        now = session.now()
        final = now - final_retention
        with self._report_foreign_data():
            await drop_old(session, self._keys, max(now - retention, final), final)

    async def add_turn(
        self, conversation: Conversation, stream_id: UUID, turn: bytes, epoch: int = 1
    ) -> None:
        """Add the turn of one stream to a conversation."""
        session = self._session()
        now, name = session.now(), _conversation_digest(conversation)
        # First the index: after a crash between the two, the turns would never expire otherwise.
        await session.indexes.touch_conversation(name, now)
        await session.store.confirmed_script(
            scripts.ADD_TURN,
            [self._keys.turns(name), self._keys.order(name)],
            stream_id.hex,
            turn,
            repr(now),
            MAX_TURNS,
            MAX_TURN_BYTES,
            epoch,
        )

    async def turns(self, conversation: Conversation, limit: int) -> Sequence[bytes]:
        """Return the latest turns of a conversation, oldest first."""
        name = _conversation_digest(conversation)
        if limit < 1:
            return []
        found: list[bytes | None] = await self._session().store.query(
            scripts.TURNS,
            [self._keys.turns(name), self._keys.order(name)],
            min(limit, MAX_TURNS),
            MAX_TURN_BYTES,
        )
        return [turn for turn in found if turn is not None]

    @contextmanager
    def _report_foreign_data(self) -> Iterator[None]:
        """Turn a `ForeignValue` into an error for the caller.

        Raises:
            LogUnavailable: the store has a value that the log did not write.
        """
        try:
            yield
        except ForeignValue:
            raise foreign_data(
                self._address, self._keys.prefix, "a value was not written by the log"
            ) from None

    async def _load_page(
        self, stream_id: UUID, after_seq: int, after_epoch: int, limit: int
    ) -> Page:
        position = (stream_id, after_seq, after_epoch)
        return await read_page(self._session(), self._keys, *position, limit)


def _conversation_digest(conversation: Conversation) -> str:
    return digest(conversation.principal, text(conversation.session_id))
