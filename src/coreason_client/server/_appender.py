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

from ._metrics import NOT_METERED, StreamMeter
from .errors import StreamEnded
from .log.base import StreamLog

__all__ = ["FLUSH_BYTES", "FLUSH_EVERY", "Appender"]

FLUSH_EVERY: Final = 0.025
FLUSH_BYTES: Final = 4096


class Appender:
    """Takes entries in order and appends them in batches under one epoch."""

    __slots__ = (
        "_acked",
        "_began",
        "_due",
        "_epoch",
        "_error",
        "_goal",
        "_in_flight",
        "_in_flight_others",
        "_in_flight_outcome",
        "_last_seq",
        "_log",
        "_loop",
        "_meter",
        "_on_cancel",
        "_others",
        "_outcome",
        "_pending",
        "_progress",
        "_size",
        "_stream_id",
        "_timer",
        "_under_way",
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
        self._last_seq = 0  # of what was taken
        self._acked = 0  # of what is in the log
        self._goal = 0  # of what somebody waits for
        self._pending: list[bytes] = []
        self._size = 0
        # Sent and not acknowledged. It stays as it is until it is: should the append be cancelled
        # meanwhile, the same batch goes out again, which a log acknowledges without a second copy.
        self._in_flight: list[bytes] = []
        # The ops of what is no DELTA, so that the many DELTA packets cost nothing to count.
        self._others: list[StreamOpCode] = []
        self._in_flight_others: list[StreamOpCode] = []
        self._in_flight_outcome: str | None = None
        self._due = 0.0  # the moment from which a DELTA need not wait for others
        self._outcome: str | None = None
        self._error: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._under_way: asyncio.Future[Any] | None = None  # an append
        self._began = 0.0  # that append
        self._progress: asyncio.Future[None] | None = None  # for those who wait until it is over

    @property
    def next_seq(self) -> int:
        """The number of the next entry."""
        return self._last_seq + 1

    @property
    def acked(self) -> int:
        """How many entries are in the log."""
        return self._acked

    @property
    def outcome(self) -> str | None:
        """How the stream ended; None while its last entry is not in the log."""
        return self._outcome if self._acked == self._last_seq else None

    def check_open(self) -> None:
        """Raise when nothing more can be written."""
        if self._error is not None:
            raise self._error
        if self._outcome is not None:
            raise StreamEnded(self._stream_id)

    async def add_delta(self, entry: bytes) -> None:
        """Take an entry that may wait for others."""
        self._take(entry)
        if self._size >= FLUSH_BYTES or self._last_seq == 1:
            await self.flush()
        elif self._under_way is None and self._timer is None:
            self._schedule()

    async def add(self, entry: bytes, op: StreamOpCode = StreamOpCode.EVENT) -> None:
        """Take an entry that goes out at once, with what was waiting."""
        self._others.append(op)
        self._take(entry)
        await self.flush()

    async def finish(
        self, entry: bytes, outcome: str, op: StreamOpCode = StreamOpCode.CLOSE
    ) -> None:
        """Take the last entry; the stream ends with it."""
        self._outcome = outcome
        await self.add(entry, op)

    async def flush(self) -> None:
        """Return when all that was taken so far is in the log.

        Raises:
            LogError: the log did not take it.
        """
        goal = self._goal = self._last_seq
        while self._acked < goal and self._error is None:
            self._start()
            if self._under_way is not None:
                await self._until_progress()
        if self._error is not None:
            raise self._error

    def give_up(self, error: Exception) -> None:
        """Write nothing more: the stream belongs to somebody else."""
        self._fail(error)

    def _take(self, entry: bytes) -> None:
        self._pending.append(entry)
        self._size += len(entry)
        self._last_seq += 1

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
            self._under_way is None and self._error is None and (self._in_flight or self._pending)
        ):
            self._send_batch()
            if self._acked >= self._goal:
                break
        if self._pending and self._under_way is None and self._timer is None:
            self._schedule()

    def _send_batch(self) -> None:
        if not self._in_flight:
            self._in_flight, self._pending = self._pending, []
            self._in_flight_others, self._others = self._others, []
            self._size = 0
            self._in_flight_outcome = self._outcome
        self._began = monotonic()
        self._due = self._began + FLUSH_EVERY
        try:
            result = self._handed_over(self._acked + 1)
            if isinstance(result, asyncio.Future):
                self._under_way = result
                result.add_done_callback(self._done)
            else:
                self._acknowledged(result)
        except Exception as error:  # noqa: BLE001 - whatever the log raises, the writer gets it
            self._fail(error)

    def _handed_over(self, first_seq: int) -> "bool | asyncio.Future[Any] | None":
        """Give the batch to the log; the last one ends the stream."""
        log, stream_id, epoch, entries = self._log, self._stream_id, self._epoch, self._in_flight
        outcome = self._in_flight_outcome
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
        if self._acked < self._goal and not append.cancelled():
            self._start()
        elif self._pending and self._timer is None:
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
        first_seq, count = self._acked + 1, len(self._in_flight)
        others, outcome = self._in_flight_others, self._in_flight_outcome
        self._acked += count
        self._in_flight = []
        self._meter.appended(first_seq, count, others, self._began, monotonic())
        if outcome is not None:
            self._meter.ended(outcome)
        if cancel_requested:
            self._on_cancel()

    def _fail(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
        self._pending = []
        self._stop_timer()
        self._report_progress()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
