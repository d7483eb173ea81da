"""Announcements: how waiting readers learn of appends in any process.

An announcement has digests of the ids of streams and tasks. Readers read the stream itself, so a
lost announcement costs time but no data: when the listening connection was opened again, all
readers look, and every few seconds one poll of all their streams finds what was missed.
"""

import asyncio
import logging
import random
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from typing import Any
from uuid import UUID

from ...._retry import Backoff
from ...errors import LogUnavailable
from .._live import Waiters
from ..remote._store import cancel_all, run_forever
from ._connection import Connection, answered
from ._errors import DATABASE_ERRORS, DatabaseAddress, is_transient, rejected
from ._store import PostgresStore

logger = logging.getLogger("coreason_client.server")

_BACKOFF = Backoff(first=0.05, longest=2.0)
_INTERVAL = 0.01  # seconds for which announcements are collected
_PING_INTERVAL = 5.0
_DIGEST = 8  # bytes
_DIGESTS_AT_ONCE = 400  # a payload is smaller than 8,000 bytes
_POLLED_AT_ONCE = 500


class Announcements:
    """What this event loop announces and hears; `address` is that of a direct connection."""

    def __init__(
        self, store: PostgresStore, waiters: Waiters, poll: float, address: DatabaseAddress | None
    ) -> None:
        self._store = store
        self._waiters = waiters
        self._poll = poll
        self._address = address
        self._loop = asyncio.get_running_loop()
        self._pending: set[UUID] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Future[Any]] = set()
        self._heard: dict[str, UUID] = {}  # the streams for which readers wait, by digest
        self._failures = 0
        self._lost = asyncio.Event()
        self._listening: asyncio.Future[None] = self._loop.create_future()
        store.server.listen(self._lost.set)
        self._tasks = [
            self._loop.create_task(run_forever(self._listen_forever, "the listener of the log")),
            self._loop.create_task(run_forever(self._poll_forever, "the poll of the log")),
        ]

    async def started(self) -> None:
        """Wait until announcements are heard.

        Raises:
            LogUnavailable: the database refuses to let this process listen.
        """
        await asyncio.shield(self._listening)

    def subscribe(self, stream_id: UUID) -> None:
        """Wake the readers of a stream, or those who wait for a task, when it is announced."""
        name = _digest(stream_id)
        if name not in self._heard:
            self._heard[name] = stream_id
            self._waiters.wake(stream_id)  # what was announced before was not heard

    def announce(self, stream_id: UUID) -> None:
        """Tell all processes that a stream or a task has changed."""
        self._pending.add(stream_id)
        if self._timer is None:
            self._timer = self._loop.call_later(_INTERVAL, self._send)

    async def close(self) -> None:
        """Send what is left, and stop listening."""
        if self._timer is not None:
            self._timer.cancel()
            self._send()
        if self._sending:
            await asyncio.wait(self._sending, timeout=1.0)
        await cancel_all(self._tasks)
        if not self._listening.done():
            self._listening.cancel()

    def _send(self) -> None:
        self._timer = None
        names = [_digest(stream_id) for stream_id in self._pending]
        self._pending.clear()
        for start in range(0, len(names), _DIGESTS_AT_ONCE):
            sent = self._store.notify("".join(names[start : start + _DIGESTS_AT_ONCE]))
            self._sending.add(sent)
            sent.add_done_callback(self._sent)

    def _sent(self, sent: "asyncio.Future[Any]") -> None:
        self._sending.discard(sent)
        if not sent.cancelled() and sent.exception() is not None:
            logger.debug("an announcement was lost: %s", type(sent.exception()).__name__)

    def _hear(self, *message: Any) -> None:
        payload: str = message[-1]
        width = 2 * _DIGEST
        for start in range(0, len(payload), width):
            stream_id = self._heard.get(payload[start : start + width])
            if stream_id is not None:
                self._waiters.wake(stream_id)

    async def _listen_forever(self) -> None:
        while True:
            connection: Connection = None
            try:
                self._lost.clear()
                connection, _ = await self._store.server.connect(self._address)
                connection.add_termination_listener(lambda _: self._lost.set())
                await connection.add_listener(self._store.schema, self._hear)
                self._on_listening()
                await self._wait_until_lost(connection)
            except (*DATABASE_ERRORS, LogUnavailable) as error:
                self._on_failure(error)
            finally:
                if connection is not None:
                    connection.terminate()
            await asyncio.sleep(_BACKOFF.delay(max(self._failures, 1), random.random))

    def _on_listening(self) -> None:
        self._failures = 0
        self._wake_all()
        if not self._listening.done():
            self._listening.set_result(None)

    def _on_failure(self, error: Exception) -> None:
        self._failures += 1
        final = isinstance(error, LogUnavailable) or not is_transient(error)
        if final and not self._listening.done():
            if not isinstance(error, LogUnavailable):
                error = rejected(self._store.server.address, self._store.schema, error)
            self._listening.set_exception(error)
            self._listening.exception()  # it may be that nobody waits for it
        logger.debug("the listener was lost, connecting again: %s", type(error).__name__)

    async def _wait_until_lost(self, connection: Connection) -> None:
        """Return when the connection was lost, or does not answer."""
        while not self._lost.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._lost.wait(), _PING_INTERVAL)
                return
            await answered(connection, connection.fetchval("SELECT 1"), _PING_INTERVAL)

    def _wake_all(self) -> None:
        for stream_id in self._heard.values():
            self._waiters.wake(stream_id)

    async def _poll_forever(self) -> None:
        while True:
            await asyncio.sleep(self._poll)
            waited = self._waiters.positions()
            ids = {stream_id for stream_id, _ in waited}
            for name in [name for name, id_ in self._heard.items() if id_ not in ids]:
                del self._heard[name]
            # If the database cannot be reached, the readers get the error when they read.
            with suppress(LogUnavailable):
                await self._wake_missed(dict(waited))

    async def _wake_missed(self, positions: dict[UUID, int]) -> None:
        for ids in _chunks(list(positions), _POLLED_AT_ONCE):
            for stream_id, last in await self._store.read("positions", ids):
                if last is None or last > positions[stream_id]:
                    self._waiters.wake(stream_id)


def _digest(stream_id: UUID) -> str:
    return blake2b(stream_id.bytes, digest_size=_DIGEST).hexdigest()


def _chunks(items: list[UUID], size: int) -> Iterable[list[UUID]]:
    return (items[start : start + size] for start in range(0, len(items), size))
