"""How a read that waits learns of an append, wherever it happened.

The store announces each append on a channel of the stream. A process has one subscription, to the
channels of the streams that somebody here waits for. An announcement carries nothing: whoever
waits reads the stream itself. So an announcement that is lost costs time and no data, and how much
time is bounded twice. When a subscription begins, or begins anew, those who wait look again. And
every few seconds one look at all of their streams, in a few round trips, finds what was missed.

It is plain pub/sub and no sharded one: a cluster passes it on to every node, so that one connection
to any node is enough, where sharded channels would take one to each.
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

from ...._retry import Backoff
from .._waiters import Waiters
from ._errors import STORE_ERRORS, LaneStopped, StoreSilent, is_passing
from ._keys import KeyNames
from ._store import Store
from ._tasks import cancel_all, run_for_ever

__all__ = ["Wakeup"]

logger = logging.getLogger("coreason_client.server")

_BACKOFF = Backoff(first=0.05, longest=2.0)
_CHANNELS_AT_ONCE = 500  # in one command
_REPEAT = 0.2  # seconds after which the message of a probe is published again
_POLLED_AT_ONCE = 500
_QUIET = 5.0  # seconds of silence before the subscription is PINGed


class Wakeup:
    """The subscription of one event loop, and the poll that backs it up."""

    def __init__(self, store: Store, keys: KeyNames, waiters: Waiters, poll: float) -> None:
        self._store = store
        self._keys = keys
        self._waiters = waiters
        self._poll = poll
        self._connection: Connection | None = None
        self._failures = 0  # in a row
        self._wanted: dict[UUID, bool] = {}  # and whether somebody waited since the last look
        self._by_channel: dict[bytes, UUID] = {}
        self._outbox: list[tuple[str, list[str]]] = []
        self._probe: tuple[bytes, asyncio.Queue[bytes | Exception]] | None = None
        self._sender: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(run_for_ever(self._listen, "the subscription of the log")),
            loop.create_task(run_for_ever(self._look, "the poll of the log")),
        ]

    def want(self, stream_id: UUID) -> None:
        """Listen for a stream from now on, until nobody waits for it any more."""
        if stream_id in self._wanted:
            self._wanted[stream_id] = True
            return
        self._wanted[stream_id] = True
        channel = self._keys.channel(stream_id)
        self._by_channel[channel.encode()] = stream_id
        self._tell("SUBSCRIBE", [channel])

    async def receive(
        self, probe: UUID, publish: Callable[[], Awaitable[object]]
    ) -> Exception | None:
        """Receive a message on a channel of its own, which `publish` sends.

        Return the error with which the store refuses the subscription, None if all is well. It
        waits for as long as the store cannot be reached.
        """
        channel = self._keys.channel(probe).encode()
        events: asyncio.Queue[bytes | Exception] = asyncio.Queue()
        self.want(probe)
        self._probe = channel, events
        subscribed = False
        try:
            while (event := await _next_of(events)) != b"message":
                if isinstance(event, Exception):
                    return event
                subscribed = subscribed or event == b"subscribe"
                if subscribed:  # again and again: nodes that just met lose a message
                    await publish()
            return None
        finally:
            self._probe = None
            self._leave([probe])

    async def close(self) -> None:
        """Stop listening."""
        await cancel_all([*self._tasks, *([] if self._sender is None else [self._sender])])

    # The subscription.

    async def _listen(self) -> None:
        while True:
            client = self._store.listener()
            try:
                await self._subscribe(client)
                await self._hear()
            except STORE_ERRORS as error:
                self._failures += 1
                if self._probe is not None and not is_passing(error):
                    self._probe[1].put_nowait(error)
                logger.debug("the subscription broke and is made again: %s", type(error).__name__)
            finally:
                await self._hang_up(client)
            await asyncio.sleep(_BACKOFF.delay(self._failures, random.random))

    async def _subscribe(self, client: Redis) -> None:
        connection = await client.connection_pool.get_connection()  # type: ignore[no-untyped-call]
        self._outbox.clear()  # all of it is in what follows
        channels = [self._keys.hello(), *map(self._keys.channel, self._wanted)]
        self._connection = connection
        for part in _parts(channels, _CHANNELS_AT_ONCE):
            await connection.send_command("SUBSCRIBE", *part, check_health=False)

    async def _hang_up(self, client: Redis) -> None:
        connection, self._connection = self._connection, None
        with suppress(*STORE_ERRORS):
            if connection is not None:
                await connection.disconnect(nowait=True)
                await client.connection_pool.release(connection)
            await client.aclose()

    async def _hear(self) -> None:
        connection, asked = self._connection, False
        assert connection is not None  # noqa: S101
        while True:
            message = await connection.read_response(timeout=_QUIET, disconnect_on_error=False)
            if message is not None:
                asked = False
                self._failures = 0
                self._take(message)
            elif asked:
                raise StoreConnectionError("the subscription is silent")
            else:
                asked = True
                await connection.send_command("PING", check_health=False)

    def _take(self, message: Any) -> None:
        # A confirmation is as good as an announcement: what was appended before the subscription
        # took effect has been announced to nobody.
        if isinstance(message, list) and message[0] in (b"message", b"subscribe"):
            if self._probe is not None and message[1] == self._probe[0]:
                self._probe[1].put_nowait(message[0])
            stream_id = self._by_channel.get(message[1])
            if stream_id is not None:
                self._waiters.wake(stream_id)

    def _tell(self, command: str, channels: list[str]) -> None:
        self._outbox.append((command, channels))
        if self._sender is None:
            self._sender = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        try:
            # Not on one that broke: it would connect again, without what it was subscribed to.
            while self._outbox and (to := self._connection) is not None and to.is_connected:
                command, channels = _merge(self._outbox)
                await to.send_command(command, *channels, check_health=False)
        except STORE_ERRORS:
            pass  # whoever listens on the connection notices too, and makes another one
        finally:
            self._sender = None

    # The look that finds what was missed.

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self._poll)
            self._forget_idle()
            # A store that cannot be reached is for the readers to notice, when they read.
            with suppress(*STORE_ERRORS, LaneStopped, StoreSilent):
                await self._wake_late()

    async def _wake_late(self) -> None:
        for part in _parts(self._waiters.positions(), _POLLED_AT_ONCE):
            looks = [self._store.poll("HGET", self._keys.meta(id_), "last") for id_, _ in part]
            found = await asyncio.gather(*looks, return_exceptions=True)
            for (stream_id, position), last in zip(part, found, strict=True):
                if isinstance(last, BaseException):
                    continue
                if last is None or not last.isdigit() or int(last) > position:
                    self._waiters.wake(stream_id)

    def _forget_idle(self) -> None:
        idle = []
        probed = None if self._probe is None else self._by_channel[self._probe[0]]
        for stream_id, waited in self._wanted.items():
            if stream_id in self._waiters or stream_id == probed:
                continue
            if waited:
                self._wanted[stream_id] = False
            else:
                idle.append(stream_id)
        self._leave(idle)

    def _leave(self, streams: Iterable[UUID]) -> None:
        channels = []
        for stream_id in streams:
            del self._wanted[stream_id]
            channels.append(self._keys.channel(stream_id))
            del self._by_channel[channels[-1].encode()]
        for part in _parts(channels, _CHANNELS_AT_ONCE):
            self._tell("UNSUBSCRIBE", list(part))


async def _next_of(events: "asyncio.Queue[bytes | Exception]") -> bytes | Exception | None:
    """Return the next event of a probe, None if there is none for a while."""
    try:
        return await asyncio.wait_for(events.get(), _REPEAT)
    except TimeoutError:
        return None


def _merge(outbox: list[tuple[str, list[str]]]) -> tuple[str, list[str]]:
    """Take the first command out, with those after it that are of the same kind."""
    command, channels = outbox.pop(0)
    count = 0
    for other, more in outbox:
        if other != command or len(channels) + len(more) > _CHANNELS_AT_ONCE:
            break
        channels = channels + more
        count += 1
    del outbox[:count]
    return command, channels


def _parts(items: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
