"""The subscription through which waiting reads learn of appends in any process.

The store announces each append on a channel of the stream. Each event loop has one subscription, to
the channels of the streams that its readers wait for. An announcement has no content: the readers
read the stream itself. So a lost announcement costs time but no data, and two rules limit that
time. When a subscription starts, or starts again, all its readers check their streams. And every
few seconds one poll of all these streams, in a few round trips, finds what was missed. It also
finds streams whose lease ran out: in a cluster, a failover may have lost the entry of the index
that says so, and then nobody would look for them.

It uses plain pub/sub, not sharded pub/sub: a cluster passes plain messages to every node, so one
connection to any node is enough. Sharded channels would need a connection to each node.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from redis.asyncio import Connection, Redis
from redis.exceptions import ConnectionError as StoreConnectionError
from redis.exceptions import ReadOnlyError, ResponseError

from ...._retry import Backoff
from ...errors import LogUnavailable
from .._live import Waiters
from ..remote._command_queue import PatienceExceeded, QueueStopped
from ..remote._store import cancel_all, run_forever
from ._errors import STORE_ERRORS, is_transient
from ._keys import KeyNames
from ._store import Store

logger = logging.getLogger("coreason_client.server")

_BACKOFF = Backoff(first=0.05, longest=2.0)
_CHANNELS_AT_ONCE = 500  # in one command
_PROBE_INTERVAL = 0.2  # seconds until the message of a probe is published again
_POLLED_AT_ONCE = 500
_POLLED = ("last", "lease", "ended", "durable")
_PING_INTERVAL = 5.0  # seconds of silence before the subscription sends a PING


class Subscription:
    """The subscription of one event loop, and the poll that backs it up."""

    def __init__(
        self,
        store: Store,
        keys: KeyNames,
        waiters: Waiters,
        poll: float,
        on_lease: Callable[[UUID, float, str], Awaitable[None]],
    ) -> None:
        self._on_lease = on_lease
        self._store = store
        self._keys = keys
        self._waiters = waiters
        self._poll = poll
        self._connection: Connection | None = None
        self._failures = 0  # in a row
        self._subscribed: dict[UUID, bool] = {}  # True if a reader waited since the last poll
        self._by_channel: dict[bytes, UUID] = {}
        self._outbox: list[tuple[str, list[str]]] = []
        self._probe: tuple[bytes, asyncio.Queue[bytes | Exception]] | None = None
        self._sender: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        store.primary.listen(self._leave_old_primary)
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(run_forever(self._listen_forever, "the subscription of the log")),
            loop.create_task(run_forever(self._poll_forever, "the poll of the log")),
        ]

    def subscribe(self, stream_id: UUID) -> None:
        """Subscribe to a stream, until no reader waits for it any more."""
        if stream_id in self._subscribed:
            self._subscribed[stream_id] = True
            return
        self._subscribed[stream_id] = True
        channel = self._keys.channel(stream_id)
        self._by_channel[channel.encode()] = stream_id
        self._queue_command("SUBSCRIBE", [channel])

    async def receive_probe(
        self, probe: UUID, publish: Callable[[], Awaitable[object]]
    ) -> Exception | None:
        """Receive a message that `publish` sends on the channel of `probe`.

        Return None if it was received, or the error with which the store rejects the subscription.
        It waits while the store cannot be reached.
        """
        channel = self._keys.channel(probe).encode()
        events: asyncio.Queue[bytes | Exception] = asyncio.Queue()
        self.subscribe(probe)
        self._probe = channel, events
        subscribed = False
        try:
            while (event := await _next_event(events)) != b"message":
                if isinstance(event, Exception):
                    return event
                subscribed = subscribed or event == b"subscribe"
                if subscribed:  # repeatedly: new connections between nodes may lose a message
                    await publish()
            return None
        finally:
            self._probe = None
            self._unsubscribe([probe])

    async def close(self) -> None:
        """Cancel the tasks and close the subscription."""
        others = [task for task in (self._sender, self._leaving) if task is not None]
        await cancel_all([*self._tasks, *others])

    # The subscription.

    async def _listen_forever(self) -> None:
        while True:
            client: Redis | None = None
            try:
                client = await self._store.make_subscriber()
                await self._subscribe(client)
                await self._receive()
            except (*STORE_ERRORS, RuntimeError) as error:
                # A RuntimeError comes from uvloop, if a connection breaks in the client library.
                self._failures += 1
                lost = isinstance(error, RuntimeError) or is_transient(error)
                if self._probe is not None and not lost:
                    self._probe[1].put_nowait(error)
                logger.debug(
                    "the subscription was lost, connecting again: %s", type(error).__name__
                )
            finally:
                await self._disconnect(client)
            await asyncio.sleep(_BACKOFF.delay(self._failures, random.random))

    async def _subscribe(self, client: Redis) -> None:
        connection = await client.connection_pool.get_connection()  # type: ignore[no-untyped-call]
        await self._check_primary(connection)
        self._outbox.clear()  # the following commands subscribe to all channels
        channels = [self._keys.idle_channel(), *map(self._keys.channel, self._subscribed)]
        self._connection = connection
        for chunk in _chunks(channels, _CHANNELS_AT_ONCE):
            await connection.send_command("SUBSCRIBE", *chunk, check_health=False)

    async def _check_primary(self, connection: Connection) -> None:
        """Check that messages come from the primary; any node of a cluster passes them on.

        Raises:
            ReadOnlyError: the server is a replica.
        """
        if self._store.is_cluster:
            return
        await connection.send_command("ROLE", check_health=False)
        try:
            role = await connection.read_response(timeout=_PING_INTERVAL)
        except ResponseError:  # a store that does not allow the command is not checked
            return
        if isinstance(role, list) and role and role[0] == b"slave":
            raise ReadOnlyError("the server is a replica")

    def _leave_old_primary(self) -> None:
        """Subscribe again, because the primary has changed."""
        if self._connection is not None and self._leaving is None:
            leave = self._connection.disconnect(nowait=True)
            self._leaving = asyncio.get_running_loop().create_task(leave)
            self._leaving.add_done_callback(lambda _: setattr(self, "_leaving", None))

    async def _disconnect(self, client: Redis | None) -> None:
        connection, self._connection = self._connection, None
        if client is None:
            return
        with suppress(*STORE_ERRORS, RuntimeError):
            if connection is not None:
                await connection.disconnect(nowait=True)
                await client.connection_pool.release(connection)
            await client.aclose()

    async def _receive(self) -> None:
        connection, pinged = self._connection, False
        assert connection is not None  # noqa: S101
        while True:
            message = await connection.read_response(
                timeout=_PING_INTERVAL, disconnect_on_error=False
            )
            if message is not None:
                pinged = False
                self._failures = 0
                self._handle_message(message)
            elif pinged:
                raise StoreConnectionError("the subscription did not answer a PING")
            else:
                pinged = True
                await connection.send_command("PING", check_health=False)

    def _handle_message(self, message: Any) -> None:
        # A confirmation wakes like an announcement, because appends before the subscription took
        # effect were not announced here.
        if isinstance(message, list) and message[0] in (b"message", b"subscribe"):
            if self._probe is not None and message[1] == self._probe[0]:
                self._probe[1].put_nowait(message[0])
            stream_id = self._by_channel.get(message[1])
            if stream_id is not None:
                self._waiters.wake(stream_id)

    def _queue_command(self, command: str, channels: list[str]) -> None:
        self._outbox.append((command, channels))
        if self._sender is None:
            self._sender = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        try:
            # Not on a lost connection: it would connect again, without its subscriptions.
            while self._outbox and (target := self._connection) is not None and target.is_connected:
                command, channels = _merge(self._outbox)
                await target.send_command(command, *channels, check_health=False)
        except (*STORE_ERRORS, AttributeError, RuntimeError):
            # `_receive` notices it too, and the subscription starts again. redis-py raises an
            # AttributeError if the connection is closed between its check and the write.
            pass
        finally:
            self._sender = None

    # The poll that finds missed announcements.

    async def _poll_forever(self) -> None:
        while True:
            await asyncio.sleep(self._poll)
            self._unsubscribe_idle()
            # If the store cannot be reached, the readers get the error when they read.
            with suppress(*STORE_ERRORS, QueueStopped, PatienceExceeded):
                await self._wake_missed()

    async def _wake_missed(self) -> None:
        for chunk in _chunks(self._waiters.positions(), _POLLED_AT_ONCE):
            replies = [
                self._store.poll_once("HMGET", self._keys.meta(id_), *_POLLED) for id_, _ in chunk
            ]
            found = await asyncio.gather(*replies, return_exceptions=True)
            for (stream_id, position), fields in zip(chunk, found, strict=True):
                if isinstance(fields, BaseException):
                    continue
                last, lease, ended, agent = fields
                if last is None or not last.isdigit() or int(last) > position:
                    self._waiters.wake(stream_id)
                if lease is not None and ended is None:
                    with suppress(LogUnavailable, ValueError):
                        await self._on_lease(stream_id, float(lease), (agent or b"").decode())

    def _unsubscribe_idle(self) -> None:
        idle = []
        probed = None if self._probe is None else self._by_channel[self._probe[0]]
        for stream_id, waited in self._subscribed.items():
            if stream_id in self._waiters or stream_id == probed:
                continue
            if waited:
                self._subscribed[stream_id] = False
            else:
                idle.append(stream_id)
        self._unsubscribe(idle)

    def _unsubscribe(self, streams: Iterable[UUID]) -> None:
        channels = []
        for stream_id in streams:
            del self._subscribed[stream_id]
            channels.append(self._keys.channel(stream_id))
            del self._by_channel[channels[-1].encode()]
        for chunk in _chunks(channels, _CHANNELS_AT_ONCE):
            self._queue_command("UNSUBSCRIBE", list(chunk))


async def _next_event(events: "asyncio.Queue[bytes | Exception]") -> bytes | Exception | None:
    """Return the next event of a probe, None if there is none within `_PROBE_INTERVAL`."""
    try:
        return await asyncio.wait_for(events.get(), _PROBE_INTERVAL)
    except TimeoutError:
        return None


def _merge(outbox: list[tuple[str, list[str]]]) -> tuple[str, list[str]]:
    """Remove the first command, merged with the same commands that follow it directly."""
    command, channels = outbox.pop(0)
    count = 0
    for other, more in outbox:
        if other != command or len(channels) + len(more) > _CHANNELS_AT_ONCE:
            break
        channels = channels + more
        count += 1
    del outbox[:count]
    return command, channels


def _chunks(items: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
