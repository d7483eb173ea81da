"""The state of the log in one event loop: connections, subscription, and the streams it writes.

The indexes by time are used to find what has run out. They may be out of date; see the package.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from uuid import UUID, uuid4

from ...._valkey_address import Address
from ...errors import LogUnavailable
from ..remote._clocks import StoreClock
from ..remote._owned import StreamSession
from ..remote._store import finished_within
from . import _scripts as scripts
from ._errors import rejected
from ._keys import KeyNames, ended_member, parse_name, shard
from ._store import Store
from ._subscription import Subscription

_AT_ONCE = 500  # changes in one script


class Indexes:
    """Sorted sets, each in a few shards. Every change may be repeated."""

    __slots__ = ("_keys", "_store")

    def __init__(self, store: Store, keys: KeyNames) -> None:
        self._store = store
        self._keys = keys

    async def due(self, index: Sequence[str], until: float, limit: int) -> list[bytes]:
        """Return up to `limit` members of each shard with a time up to `until`."""
        found: list[list[bytes]] = await asyncio.gather(
            *(
                self._store.command("ZRANGEBYSCORE", key, "-inf", repr(until), "LIMIT", 0, limit)
                for key in index
            )
        )
        return [name for names in found for name in names]

    async def add_new_stream(self, stream_id: UUID, until: float, agent: str = "") -> None:
        """Add a new stream to the leases; a full store rejects it."""
        key = self._keys.lease_index(stream_id, agent)
        await self._store.command("ZADD", key, "GT", repr(until), stream_id.hex)

    async def extend_leases(self, streams: Mapping[UUID, str], until: float) -> None:
        """Set the end of the leases of streams; it works on a full store too.

        Each stream has the digest of its agent if it is durable, otherwise an empty string.
        """
        by_key: dict[str, list[str]] = {}
        for stream_id, agent in streams.items():
            key = self._keys.lease_index(stream_id, agent)
            by_key.setdefault(key, []).extend((repr(until), stream_id.hex))
        # A time only becomes later (GT), so that a delayed command cannot undo a renewal.
        await asyncio.gather(
            *(
                self._store.script(scripts.INDEX, [key], "GT", *pairs[start : start + 2 * _AT_ONCE])
                for key, pairs in by_key.items()
                for start in range(0, len(pairs), 2 * _AT_ONCE)
            )
        )

    async def end_lease(self, stream_id: UUID, at: float, agent: str) -> None:
        """Set the end of the lease of a durable stream, which may be earlier than before."""
        key = self._keys.lease_index(stream_id, agent)
        await self._store.script(scripts.INDEX, [key], "", repr(at), stream_id.hex)

    async def remove_lease(self, stream_id: UUID, agent: str = "") -> None:
        """Remove a stream from the leases."""
        await self._store.command("ZREM", self._keys.lease_index(stream_id, agent), stream_id.hex)

    async def move_to_ended(
        self, stream_id: UUID, request: str, at: float, agent: str = ""
    ) -> None:
        """Move a stream from the leases to the ended streams."""
        await self._add(self._keys.bodies, stream_id, request, at)
        await self.remove_lease(stream_id, agent)

    async def move_to_without_entries(self, stream_id: UUID, request: str, at: float) -> None:
        """Move an ended stream to those without entries."""
        await self._add(self._keys.finals, stream_id, request, at)
        await self._remove(self._keys.bodies, stream_id, request)

    async def remove_ended(self, stream_id: UUID, request: str) -> None:
        """Remove a stream from the ended streams."""
        await self._remove(self._keys.bodies, stream_id, request)
        await self._remove(self._keys.finals, stream_id, request)

    async def touch_agent(self, agent: str, at: float) -> None:
        """Record that an agent has durable streams; it works on a full store too."""
        await self._store.script(scripts.INDEX, [self._keys.agents], "GT", repr(at), agent)

    async def agents(self) -> list[str]:
        """Return the digests of the agents that have durable streams."""
        found: list[bytes] = await self._store.command(
            "ZRANGEBYSCORE", self._keys.agents, "-inf", "+inf"
        )
        return [parse_name(name) for name in found]

    async def touch_conversation(self, conversation: str, at: float) -> None:
        """Set the time of the last turn of a conversation; a full store rejects it."""
        key = self._keys.conversations[shard(conversation)]
        await self._store.command("ZADD", key, "GT", repr(at), conversation)

    async def correct_conversation(self, conversation: str, at: float) -> None:
        """Correct the time of a conversation; it works on a full store too."""
        key = self._keys.conversations[shard(conversation)]
        await self._store.script(scripts.INDEX, [key], "GT", repr(at), conversation)

    async def remove_conversation(self, conversation: str) -> None:
        """Remove a conversation."""
        key = self._keys.conversations[shard(conversation)]
        await self._store.command("ZREM", key, conversation)

    async def _add(self, index: Sequence[str], stream_id: UUID, request: str, at: float) -> None:
        member = ended_member(stream_id, request)
        await self._store.script(scripts.INDEX, [index[shard(stream_id.hex)]], "", repr(at), member)

    async def _remove(self, index: Sequence[str], stream_id: UUID, request: str) -> None:
        member = ended_member(stream_id, request)
        await self._store.command("ZREM", index[shard(stream_id.hex)], member)


logger = logging.getLogger("coreason_client.server")

_MAX_SKEW = 1.0  # seconds between the clocks; a larger difference is logged


class Session(StreamSession):
    """One event loop's part of a log; call `start` before use and `close` at the end."""

    def __init__(
        self,
        address: Address,
        keys: KeyNames,
        *,
        clock: Callable[[], float] | None,
        patience: float,
        poll: float,
        cluster: bool,
        replicas: int,
        lease: float,
        store_listeners: Sequence[Callable[[], None]] = (),
    ) -> None:
        super().__init__()
        self.name = address.shown
        self.store = Store(
            address,
            keys.prefix,
            patience=patience,
            cluster=cluster,
            replicas=replicas,
            confirm_seconds=lease / 3,
            listeners=store_listeners,
        )
        self.indexes = Indexes(self.store, keys)
        self.subscription = Subscription(self.store, keys, self.waiters, poll, self._restore_lease)
        self.renewing = asyncio.Lock()
        self._address = address
        self._keys = keys
        self._patience = patience
        self._store_clock = StoreClock()
        self._clock = clock
        self._agents: set[str] = set()  # registered by this session

    async def start(self) -> None:
        """Check that the store allows everything that the log needs.

        Raises:
            LogUnavailable: the store cannot be reached, or does not allow something.
        """
        async with self._starting:  # one start at a time, because there is only one probe
            await self._check_commands()
            await self._check_messages()
            await self._check_clock()

    async def close(self) -> None:
        """Close all connections and end the waiting reads."""
        await self.subscription.close()
        await self.store.close()
        self.waiters.wake_all()

    # Time.

    def now(self) -> float:
        """Return the time of the store, or of the clock that was given to the log."""
        return self._store_clock() if self._clock is None else self._clock()

    def given_now(self) -> float | None:
        """Return the time of the clock that was given to the log, None if there is none."""
        return None if self._clock is None else self._clock()

    async def server_changed_within(self, seconds: float) -> bool:
        """Return True if another server became the primary less than so many seconds ago.

        The store remembers it, for processes that have just started. In a cluster, whose processes
        may see different primaries for a while, each process knows only what it has seen itself.
        """
        primary = self.store.primary
        if self.store.is_cluster or primary.identity is None:
            return primary.changed_within(seconds)
        given = repr(primary.identity), repr(self.now())
        since = float(await self.store.script(scripts.SERVING, [self._keys.serving], *given))
        return primary.changed_within(seconds) or since <= self.now() < since + seconds

    async def measure_clock(self) -> None:
        """Measure the clock of the store, unless the log has its own clock."""
        self.store.compare_primaries()
        if self._clock is None:
            await self._measure_store_clock()

    async def _measure_store_clock(self) -> float:
        """Measure the clock of the store; return the duration of the round trip."""
        clock = self._store_clock
        sent = clock.local()
        seconds, micros = await self.store.query(scripts.NOW, [self._keys.leases[0]])
        received = clock.local()
        clock.add_measurement(sent, received, int(seconds) + int(micros) / 1e6)
        return received - sent

    async def _check_clock(self) -> None:
        self.store.compare_primaries()
        round_trip = await self._measure_store_clock()
        ahead = time.time() - self._store_clock()
        if self._clock is None and abs(ahead) - round_trip > _MAX_SKEW:
            logger.warning(
                "the clock of this machine is %.1f s %s the clock of the store %s: leases and "
                "retention use the clock of the store, but correct this one for the sake of log "
                "times and certificates",
                abs(ahead),
                "ahead of" if ahead > 0 else "behind",
                self._address.shown,
            )

    # Agents.

    async def register_agent(self, agent: str) -> None:
        """Record once that an agent has durable streams, so that any process can end them."""
        if agent not in self._agents:
            await self.indexes.touch_agent(agent, self.now())
            self._agents.add(agent)

    # Checks of what the store allows.

    async def _check_commands(self) -> None:
        probe = uuid4()
        refused: Sequence[bytes] = await self.store.confirmed_script(
            scripts.NEEDED, self._keys.probes(probe), self._keys.channel(probe)
        )
        if refused:
            command, why = (part.decode("utf-8", "replace") for part in refused)
            raise self._not_allowed(command, why)

    async def _check_messages(self) -> None:
        """Subscribe to a channel, and receive a message that a script publishes there."""
        probe = uuid4()
        channel = self._keys.channel(probe)
        arrived = self.loop.create_task(
            self.subscription.receive_probe(
                probe, lambda: self.store.script(scripts.NEEDED, self._keys.probes(probe), channel)
            )
        )
        try:
            if not await finished_within(arrived, self._patience):
                raise LogUnavailable(
                    f"the store {self._address.shown} did not deliver a published message within "
                    f"{self._patience:g} s"
                )
            error = arrived.result()
        finally:
            arrived.cancel()
            with suppress(asyncio.CancelledError):
                await arrived
        if error is not None:
            raise rejected(self._address, self._keys.prefix, error)

    def _not_allowed(self, command: str, why: str) -> LogUnavailable:
        return LogUnavailable(
            f"the store {self._address.shown} does not allow {command}, which the log needs: "
            f"{self._address.redact(why)}"
        )

    # The streams that this event loop writes.

    async def _restore_lease(self, stream_id: UUID, until: float, agent: str) -> None:
        """Add a stream whose lease ran out to the index, in case a failover has lost its entry."""
        if until < self.now():
            await self.indexes.extend_leases({stream_id: agent}, until)

    def subscribe(self, stream_id: UUID) -> None:
        """Subscribe to a stream, unless this event loop writes it."""
        if not self.owned.owns(stream_id):
            self.subscription.subscribe(stream_id)

    @property
    def confirms(self) -> bool:
        """True if replicas must have entries before readers get them."""
        return self.store.confirmation is not None

    async def show(self, stream_id: UUID, epoch: int | str = "", number: int | str = "") -> None:
        """Show the entries up to a number, by default all, to the readers of other processes.

        With an epoch it has no effect if another one has begun.
        """
        keys = [self._keys.meta(stream_id)]
        await self.store.script(scripts.SHOW, keys, epoch, number)
