"""The one appender of a stream: it keeps the order, makes batches and waits for the log.

Entries gather while the log is busy and go out together:

* the first packet, and any packet that is not a DELTA, is on its way at once;
* a DELTA is on its way at once if nothing was for `FLUSH_EVERY` seconds, otherwise when these
  are over or when `FLUSH_BYTES` have gathered;
* the writer waits for the log in all cases but a gathered DELTA. That is what slows a producer:
  the log, and never a reader.

An append belongs to the appender and not to the agent that writes, so that a cancelled agent never
leaves one behind of which nobody knows whether it happened. No task is made for it: a log gives a
future, or the result itself if it has it at once.
"""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any, Final
from uuid import UUID

from coreason_manifest.definitions.presentation import StreamOpCode

from ..log.base import StreamLog
from ..observe._metrics import NOT_METERED, StreamMeter
from ._ending import Ending

__all__ = ["FLUSH_BYTES", "FLUSH_EVERY", "Appender"]

FLUSH_EVERY: Final = 0.025
FLUSH_BYTES: Final = 4096


class _Batch:
    """Entries that go out together, and the outcome if the stream ends with them."""

    __slots__ = ("began", "entries", "others", "outcome", "size")

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.size = 0
        # The ops of what is no DELTA, so that the many DELTA packets cost nothing to count.
        self.others: list[StreamOpCode] = []
        self.outcome: str | None = None
        self.began = 0.0  # the append


class Appender:
    """Takes entries in order and appends them in batches under one epoch.

    `last_seq` is the number of the last entry that was taken, `acked` of the last one in the log.
    """

    __slots__ = (
        "_due",
        "_epoch",
        "_goal",
        "_in_flight",
        "_log",
        "_loop",
        "_meter",
        "_on_cancel",
        "_pending",
        "_progress",
        "_stream_id",
        "_timer",
        "_under_way",
        "acked",
        "ending",
        "last_seq",
    )

    def __init__(
        self,
        log: StreamLog,
        stream_id: UUID,
        epoch: int,
        on_cancel: Callable[[], None],
        meter: StreamMeter = NOT_METERED,
    ) -> None:
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._stream_id = stream_id
        self._epoch = epoch
        self._on_cancel = on_cancel
        self._meter = meter
        self.ending = Ending(stream_id)
        self.last_seq = 0
        self.acked = 0
        self._goal = 0  # of what somebody waits for
        self._pending = _Batch()
        # Sent and not acknowledged. It stays as it is until it is: should the append be cancelled
        # meanwhile, the same batch goes out again, which a log acknowledges without a second copy.
        self._in_flight: _Batch | None = None
        self._due = 0.0  # the moment from which a DELTA need not wait for others
        self._timer: asyncio.TimerHandle | None = None
        self._under_way: asyncio.Future[Any] | None = None  # an append
        self._progress: asyncio.Future[None] | None = None  # for those who wait until it is over

    async def add_delta(self, entry: bytes) -> None:
        """Take an entry that may wait for others."""
        self._take(entry)
        if self._pending.size >= FLUSH_BYTES or self.last_seq == 1:
            await self.flush()
        elif self._under_way is None and self._timer is None:
            self._schedule()

    async def add(self, entry: bytes, op: StreamOpCode = StreamOpCode.EVENT) -> None:
        """Take an entry that goes out at once, with what was waiting."""
        self._pending.others.append(op)
        self._take(entry)
        await self.flush()

    async def finish(
        self, entry: bytes, outcome: str, op: StreamOpCode = StreamOpCode.CLOSE
    ) -> None:
        """Take the last entry; the stream ends with it."""
        self.ending.begun = True
        self._pending.outcome = outcome
        await self.add(entry, op)

    async def flush(self) -> None:
        """Return when all that was taken so far is in the log.

        Raises:
            LogError: the log did not take it.
        """
        goal = self._goal = self.last_seq
        while self.acked < goal and self.ending.error is None:
            self._start()
            if self._under_way is not None:
                await self._until_progress()
        self.ending.raise_error()

    def give_up(self, error: Exception) -> None:
        """Write nothing more: the stream belongs to another process."""
        self.ending.given_up = True
        self._fail(error)

    def _take(self, entry: bytes) -> None:
        pending = self._pending
        pending.entries.append(entry)
        pending.size += len(entry)
        self.last_seq += 1

    def _schedule(self) -> None:
        delay = self._due - monotonic()
        if delay <= 0:
            self._start()
        else:
            self._timer = self._loop.call_later(delay, self._start)

    def _start(self) -> None:
        """Send what has gathered, and more as long as somebody waits for it."""
        self._stop_timer()
        while (
            self._under_way is None
            and self.ending.error is None
            and (self._in_flight is not None or self._pending.entries)
        ):
            self._send_batch()
            if self.acked >= self._goal:
                break
        if self._pending.entries and self._under_way is None and self._timer is None:
            self._schedule()

    def _send_batch(self) -> None:
        batch = self._in_flight
        if batch is None:
            batch = self._in_flight = self._pending
            self._pending = _Batch()
        batch.began = monotonic()
        self._due = batch.began + FLUSH_EVERY
        try:
            result = self._handed_over(self.acked + 1, batch)
            if isinstance(result, asyncio.Future):
                self._under_way = result
                result.add_done_callback(self._done)
            else:
                self._acknowledged(result)
        except Exception as error:  # noqa: BLE001 - whatever the log raises, the writer gets it
            self._fail(error)

    def _handed_over(self, first_seq: int, batch: _Batch) -> "bool | asyncio.Future[Any] | None":
        """Give the batch to the log; the last one ends the stream."""
        log, stream_id, epoch, entries = self._log, self._stream_id, self._epoch, batch.entries
        outcome = batch.outcome
        if outcome is None:
            return log.begin_append(stream_id, epoch, first_seq, entries)
        return self._loop.create_task(log.close(stream_id, epoch, first_seq, entries, outcome))

    def _done(self, append: "asyncio.Future[Any]") -> None:
        self._under_way = None
        try:
            if not append.cancelled():  # else the event loop is closing, and it goes out again
                self._acknowledged(append.result())
        except Exception as error:  # noqa: BLE001 - whatever the log raises, the writer gets it
            self._fail(error)
        if self.acked < self._goal and not append.cancelled():
            self._start()
        elif self._pending.entries and self._timer is None:
            self._schedule()
        self._report_progress()

    async def _until_progress(self) -> None:
        if self._progress is None:
            self._progress = self._loop.create_future()
        await asyncio.shield(self._progress)  # others may wait for it too

    def _report_progress(self) -> None:
        if self._progress is not None:
            self._progress.set_result(None)
            self._progress = None

    def _acknowledged(self, cancel_requested: bool | None) -> None:
        batch = self._in_flight
        assert batch is not None  # noqa: S101 - it is what was sent
        self._in_flight = None
        first_seq, count = self.acked + 1, len(batch.entries)
        self.acked += count
        self._meter.appended(first_seq, count, batch.others, batch.began, monotonic())
        if batch.outcome is not None:
            self.ending.outcome = batch.outcome
            self._meter.ended(batch.outcome)
        if cancel_requested:
            self._on_cancel()

    def _fail(self, error: Exception) -> None:
        self.ending.fail(error)
        self._pending = _Batch()
        self._stop_timer()
        self._report_progress()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
