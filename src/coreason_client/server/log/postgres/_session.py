"""The part of the log that belongs to one event loop: the database, and what it announces."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from ...errors import Fenced, OutOfSequence, UnknownStream
from ..remote._owned import StreamSession
from ._announcements import Announcements
from ._errors import Address
from ._schema import ensure_schema
from ._store import Store

__all__ = ["Session"]


class Session(StreamSession):
    """One event loop's part of a log; call `start` before use and `close` at the end."""

    def __init__(
        self,
        address: Address,
        schema: str,
        *,
        listen_url: str | None,
        clock: Callable[[], float] | None,
        patience: float,
        poll: float,
        replicas: int,
        listeners: Sequence[Callable[[], None]],
    ) -> None:
        super().__init__()
        self.store = Store(
            address,
            schema,
            clock=clock,
            patience=patience,
            pooled=listen_url is not None,
            replicas=replicas,
            listeners=listeners,
        )
        self.announcements: Announcements | None = None
        self._address = address
        self._listen_url = listen_url
        self._poll = poll
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Connect, create the schema if there is none, and listen."""
        async with self._starting:
            await self.store.prepare(
                lambda connection: ensure_schema(connection, self._address, self.store.schema)
            )
            if self.announcements is None:
                self.announcements = Announcements(
                    self.store, self.waiters, self._poll, self._listen_url
                )
            await self.store.limited(self.announcements.started())

    async def started(self) -> None:
        """Wait until a running `start` has finished."""
        async with self._starting:
            pass

    async def close(self) -> None:
        """Close all connections and end the waiting reads."""
        if self.announcements is not None:
            await self.announcements.close()
        await self.store.close()
        self.waiters.wake_all()

    def subscribe(self, stream_id: UUID) -> None:
        """Listen to a stream, unless this event loop writes it."""
        if self.announcements is not None and not self.owned.owns(stream_id):
            self.announcements.subscribe(stream_id)

    def announce(self, stream_id: UUID) -> None:
        """Tell all processes that a stream or a task has changed."""
        if self.announcements is not None:
            self.announcements.announce(stream_id)

    def handle_append(
        self,
        stream_id: UUID,
        epoch: int,
        first_seq: int,
        entries: Sequence[bytes],
        row: Any,
        *,
        ended: bool = False,
    ) -> None:
        """Show accepted entries to readers, or raise the error of an append."""
        state = row["state"]
        if state == "ok":
            if entries:
                self.add_entries(stream_id, epoch, first_seq, entries)
                self.announce(stream_id)
        elif state == "held":  # a repeated append: the database already had the entries
            self.drop_entries(stream_id)
            self.announce(stream_id)  # the first one may not have been announced
        if ended or state not in ("ok", "held"):
            self.disown(stream_id)
        raise_state(state, stream_id, epoch, first_seq, row["last"])


def raise_state(
    state: str, stream_id: UUID, epoch: int, first_seq: int = 0, last: int | None = None
) -> None:
    """Raise the error that a function of the schema has returned as a state, if it is one.

    Raises:
        Fenced, OutOfSequence, UnknownStream: that is what it says.
    """
    if state == "fenced":
        raise Fenced(stream_id, epoch)
    if state == "gap":
        raise OutOfSequence(stream_id, first_seq, last or 0)
    if state == "unknown":
        raise UnknownStream(stream_id)
