"""What a log has on one event loop: the store, the subscription, and the streams written here."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from uuid import UUID, uuid4

from ...errors import LogUnavailable
from .._waiters import Waiters
from . import _scripts as scripts
from ._address import Address
from ._errors import refusal
from ._indexes import Indexes
from ._keys import KeyNames
from ._ownership import Ownership
from ._store import Store
from ._store_clock import StoreClock
from ._wakeup import Wakeup

__all__ = ["Session"]

logger = logging.getLogger("coreason_client.server")

_SKEW = 1.0  # seconds between the clocks that are worth a warning
_SLICES = 40  # of the patience, in which the message of the check must come


class Session:
    """The parts of a log on one event loop; `start` before use, `close` at the end."""

    def __init__(
        self,
        address: Address,
        keys: KeyNames,
        *,
        clock: Callable[[], float] | None,
        patience: float,
        poll: float,
        cluster: bool,
    ) -> None:
        self.name = address.shown
        self.owners: set[str] = set()
        self.loop = asyncio.get_running_loop()
        self.store = Store(address, keys.prefix, patience=patience, cluster=cluster)
        self.indexes = Indexes(self.store, keys)
        self.waiters = Waiters()
        self.wakeup = Wakeup(self.store, keys, self.waiters, poll)
        self.owned = Ownership()
        self._address = address
        self._keys = keys
        self._patience = patience
        self._starting = asyncio.Lock()
        self._store_clock = StoreClock()
        self._clock = clock

    async def start(self) -> None:
        """Try everything that the log will need.

        Raises:
            LogUnavailable: the store cannot be reached, or does not allow something.
        """
        async with self._starting:  # one after the other: there is one probe at a time
            await self._check_commands()
            await self._check_messages()
            await self._check_clock()

    async def started(self) -> None:
        """Wait for a start that is under way."""
        async with self._starting:
            pass

    async def close(self) -> None:
        """Close all connections; reads that wait return."""
        await self.wakeup.close()
        await self.store.close()
        self.waiters.wake_all()

    # Time.

    def now(self) -> float:
        """Return the time: that of the store, or of the clock that the log was given."""
        return self._store_clock() if self._clock is None else self._clock()

    async def measure_clock(self) -> None:
        """Compare with the clock of the store."""
        if self._clock is None:
            await self._ask_time()

    async def _ask_time(self) -> float:
        """Return for how long the store took."""
        clock = self._store_clock
        sent = clock.local()
        seconds, micros = await self.store.query(scripts.NOW, [self._keys.leases[0]])
        received = clock.local()
        clock.measured(sent, received, int(seconds) + int(micros) / 1e6)
        return received - sent

    async def _check_clock(self) -> None:
        took = await self._ask_time()
        ahead = time.time() - self._store_clock()
        if self._clock is None and abs(ahead) - took > _SKEW:
            logger.warning(
                "the clock of this machine is %.1f s %s the clock of the store %s: leases and "
                "retention follow the store, but set the clock, for logs and certificates",
                abs(ahead),
                "ahead of" if ahead > 0 else "behind",
                self._address.shown,
            )

    # What the store must allow.

    async def _check_commands(self) -> None:
        probe = uuid4()
        refused: Sequence[bytes] = await self.store.script(
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
            self.wakeup.receive(
                probe, lambda: self.store.script(scripts.NEEDED, self._keys.probes(probe), channel)
            )
        )
        try:
            # In slices: a process that was frozen meanwhile loses one of them, not all.
            for _ in range(_SLICES):
                if (await asyncio.wait({arrived}, timeout=self._patience / _SLICES))[0]:
                    break
            else:
                raise LogUnavailable(
                    f"the store {self._address.shown} did not pass on a published message within "
                    f"{self._patience:g} s"
                )
            error = arrived.result()
        finally:
            arrived.cancel()
            with suppress(asyncio.CancelledError):
                await arrived
        if error is not None:
            raise refusal(self._address, self._keys.prefix, error)

    def _not_allowed(self, command: str, why: str) -> LogUnavailable:
        return LogUnavailable(
            f"the store {self._address.shown} does not allow {command}, which the log needs: "
            f"{self._address.redact(why)}"
        )

    # The streams that are written here.

    def disown(self, stream_id: UUID) -> None:
        """Record that a stream may be written elsewhere from now on."""
        if self.owned.disown(stream_id):
            self.waiters.wake(stream_id)  # whoever waits must listen elsewhere now

    def listen(self, stream_id: UUID) -> None:
        """Subscribe to a stream, unless it is written here."""
        if not self.owned.owns(stream_id):
            self.wakeup.want(stream_id)

    def show(self, stream_id: UUID, first_seq: int, entries: Sequence[bytes]) -> None:
        """Let readers in this process see what the store has taken."""
        self.owned.add(stream_id, first_seq, entries)
        self.waiters.wake(stream_id)

    def hide(self, stream_id: UUID) -> None:
        """Let readers in this process ask the store."""
        self.owned.drop(stream_id)
        self.waiters.wake(stream_id)
