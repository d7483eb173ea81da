"""The base of the logs on a server: an event loop that uses one has its own part of it."""

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar
from uuid import UUID

from ...._ownership import PerLoop
from ....errors import ArgumentError
from ...errors import LogUnavailable
from .._live import LiveLog
from ..base import Follower, LeaseState, Page
from ._owned import SharedFollower, StreamSession

Session = TypeVar("Session", bound=StreamSession)


class RemoteLog(LiveLog, Generic[Session]):
    """A log that several processes share; `shown` is the address of its server."""

    shared = True

    def __init__(
        self, shown: str, lease: float, patience: float, poll: float, replicas: int
    ) -> None:
        for name, seconds in (("lease", lease), ("patience", patience), ("poll", poll)):
            if not 0 < seconds < 1e9:
                raise ArgumentError(name, "must be a number of seconds greater than 0", seconds)
        if not 0 <= replicas < 100:
            raise ArgumentError("replicas", "must be a number from 0 to 99", replicas)
        self.may_forget = not replicas
        self.lease = lease
        self._shown = shown
        self._patience = patience
        self._poll = poll
        self._replicas = replicas
        self._store_listeners: list[Callable[[], None]] = []
        self._sessions: PerLoop[Session] = PerLoop(asyncio.get_running_loop)

    @abstractmethod
    def _make_session(self) -> Session:
        """Return the part of the log for this event loop, not started."""

    @abstractmethod
    def _load_page(
        self, stream_id: UUID, after_seq: int, after_epoch: int, limit: int
    ) -> Awaitable[Page]:
        """Return up to `limit` entries after a position, from the store."""

    @abstractmethod
    def _renew(self, held: Mapping[UUID, int]) -> Awaitable[Mapping[UUID, LeaseState]]:
        """Renew leases on the store."""

    async def start(self, owner: str) -> None:
        """Connect, and check that the store allows what the log needs.

        Raises:
            LogUnavailable: the store cannot be reached, or does not allow something.
        """
        self._sessions.forget_dead()
        session = self._sessions.get()
        if session is None:
            session = self._make_session()
            self._sessions.set(session)
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
        session = self._sessions.get()
        if session is None:
            return
        session.owners.discard(owner)
        if not session.owners:
            self._sessions.discard(session.loop, session)
            await session.close()

    def on_store_changed(self, listener: Callable[[], None]) -> None:
        """Call a function when the store was restarted or replaced."""
        self._store_listeners.append(listener)

    def wake_readers(self) -> None:
        """Make every waiting `read` in this process return now, with or without entries."""
        self._sessions.call_on_each(lambda session: session.waiters.wake_all())

    def _make_follower(self, stream_id: UUID, after_seq: int, after_epoch: int) -> Follower:
        return SharedFollower(self._session(), stream_id, after_seq, after_epoch, self._load_page)

    def _session(self) -> Session:
        session = self._sessions.get()
        if session is None:
            raise LogUnavailable(
                f"the log on {self._shown} has not been started in this event loop"
            )
        return session

    async def renew(self, held: Mapping[UUID, int]) -> Mapping[UUID, LeaseState]:
        """Renew the leases of streams held with these epochs."""
        session = self._session()
        owned_until = session.owned.now() + self.lease
        states = await self._renew(held)
        session.owned.forget_old()
        for stream_id, state in states.items():
            self._record_renewal(stream_id, state, owned_until)
        return states

    def _record_renewal(self, stream_id: UUID, state: LeaseState, until: float) -> None:
        """Record a renewal in all event loops: another one may write the stream."""
        if state is LeaseState.LOST:
            self._sessions.call_on_each(lambda session: session.disown(stream_id))
            return
        # A list, because `any` of a generator would stop at the first one.
        known = [s.owned.extend(stream_id, until) for _, s in self._sessions.items()]
        if not any(known):
            self._session().owned.own(stream_id, until)
