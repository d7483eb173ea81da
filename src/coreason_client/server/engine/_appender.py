"""The only appender of a stream: it keeps the order, makes batches and waits for the log.

Entries are collected while the log is busy and sent together:

* the first packet, unless nobody reads it yet, and any packet that is not a DELTA, is sent at once;
* a DELTA is sent at once if nothing was sent for `FLUSH_EVERY` seconds, otherwise after that time
  or when `FLUSH_BYTES` are pending;
* the writer waits for the log, except for a DELTA that is only collected. So a slow log slows down
  the producer, and a slow reader does not.

Notes for the journal of a durable stream are sent with the entries that were added before them.

A shared store may lose its latest state, such as in a failover. The next append is then refused,
because it does not follow the last entry or the last note. The appender keeps what was
acknowledged lately, and sends it again, unchanged: readers may have it already. If it no longer has
it, the stream cannot be continued in this epoch.

An append belongs to the appender and not to the agent that writes, so a cancelled agent cannot
leave an append in an unknown state. An append needs no task: the log returns a future, or the
result if it has it at once.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, ClassVar, Final, TypeVar
from uuid import UUID

from coreason_manifest.definitions.presentation import StreamOpCode

from ..errors import LogUnavailable, OutOfSequence
from ..log.base import DurableLog, Notes, StreamLog
from ..observe._metrics import NOT_METERED, StreamMeter
from ._limits import pace_of_writers
from ._packets import Ending

T = TypeVar("T")

FLUSH_EVERY: Final = 0.025
FLUSH_BYTES: Final = 4096
KEEP_SECONDS: Final = 10.0
KEEP_BYTES: Final = 1024 * 1024
# Of all streams of the process together; a stream beyond it keeps nothing.
_KEEP_BYTES_IN_ALL: Final = 128 * 1024 * 1024
_RESENDS: Final = 10  # in a row, without a new batch that is acknowledged


class _Batch:
    """Entries that are sent together; `outcome` is set if the stream ends with them.

    When it is sent, it gets the numbers of its first entry and its first note.
    """

    __slots__ = (
        "acked",
        "awaited",
        "began",
        "entries",
        "first_note",
        "first_seq",
        "notes",
        "other_ops",
        "outcome",
        "size",
        "waits",
    )

    def __init__(self, *, waits: bool = False) -> None:
        self.first_seq = self.first_note = 0
        self.entries: list[bytes] = []
        self.notes: list[bytes] = []
        self.size = 0
        # Only the ops that are not DELTA: most packets are, and their number follows from these.
        self.other_ops: list[StreamOpCode] = []
        self.outcome: str | None = None
        self.began = 0.0  # start of the append
        self.awaited = False  # a writer waits until it is acknowledged
        self.waits = waits  # the first packet of the stream may wait for the next ones
        self.acked = False

    def __bool__(self) -> bool:
        return bool(self.entries or self.notes)

    def is_after(self, last_seq: int) -> bool:
        """Return True if a log whose last entry is `last_seq` may not have the batch."""
        next_seq = self.first_seq + len(self.entries)
        return next_seq > last_seq + 1 or (not self.entries and next_seq == last_seq + 1)


class KeptBatches:
    """The latest entries of one stream that the log has acknowledged; they can be sent again.

    `notes` is the number of notes in the log, None if the stream has no journal. `lost` are the
    batches that the log has lost, and `resends` is how often in a row it has lost some. Without
    `keep`, nothing can be sent again.
    """

    __slots__ = ("_batches", "_keep", "_size", "lost", "notes", "resends")

    in_all: ClassVar[int] = 0
    """The bytes that all streams of this process keep."""

    def __init__(self, *, keep: bool, notes: int | None = None) -> None:
        self.notes = notes
        self.lost: list[_Batch] = []
        self.resends = 0
        self._keep = keep
        self._batches: deque[_Batch] = deque()
        self._size = 0

    def __del__(self) -> None:
        self.clear()

    def acked(self, batch: _Batch) -> None:
        """Record a new batch that the log has acknowledged."""
        if self.notes is not None:
            self.notes += len(batch.notes)
        self.resends = 0
        if batch.outcome is not None:
            self.clear()
        elif self._keep:
            self._add(batch)

    def plan_resend(self, error: Exception) -> bool:
        """Plan to send again what the log has lost; return False if that is not possible."""
        if isinstance(error, OutOfSequence) and self._keep and self.resends < _RESENDS:
            lost = self._after(error.last_seq)
            if lost is not None:
                self.lost = lost
                self.resends += 1
                return True
        return False

    def _add(self, batch: _Batch) -> None:
        """Keep a batch, and drop those that are too old or too many."""
        batch.size += sum(map(len, batch.notes))
        self._batches.append(batch)
        self._grow(batch.size)
        oldest = batch.began - KEEP_SECONDS
        while self._batches and (
            self._batches[0].began < oldest
            or self._size > KEEP_BYTES
            or KeptBatches.in_all > _KEEP_BYTES_IN_ALL
        ):
            self._grow(-self._batches.popleft().size)

    def _after(self, last_seq: int) -> list[_Batch] | None:
        """Return what a log whose last entry is `last_seq` has lost, None if it is not kept."""
        if not self._batches or self._batches[0].first_seq > last_seq + 1:
            return None
        return [batch for batch in self._batches if batch.is_after(last_seq)]

    def clear(self) -> None:
        """Drop all batches."""
        self._batches.clear()
        self._grow(-self._size)

    def _grow(self, size: int) -> None:
        self._size += size
        KeptBatches.in_all += size


class Appender:
    """Appends entries in order, in batches and under one epoch.

    `last_seq` is the number of the last entry that was added, `acked` of the last one in the log.
    """

    __slots__ = (
        "_due",
        "_epoch",
        "_in_flight",
        "_kept",
        "_log",
        "_loop",
        "_meter",
        "_on_cancel",
        "_pending",
        "_running_append",
        "_stream_id",
        "_timer",
        "_waiters",
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
        *,
        last_seq: int = 0,
        notes: int | None = None,
        first_waits: bool = False,
    ) -> None:
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._stream_id = stream_id
        self._epoch = epoch
        self._on_cancel = on_cancel
        self._meter = meter
        self.ending = Ending(stream_id)
        self.last_seq = self.acked = last_seq
        self._pending = _Batch(waits=first_waits)
        # Sent and not acknowledged. It does not change until then: if the append is cancelled, the
        # same batch is sent again, and the log acknowledges it without storing a second copy.
        self._in_flight: _Batch | None = None
        self._kept = KeptBatches(keep=log.shared, notes=notes)
        # From this time on a DELTA is sent at once.
        self._due = monotonic() + FLUSH_EVERY if first_waits else 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._running_append: asyncio.Future[Any] | None = None
        self._waiters: list[asyncio.Future[None]] = []  # each is done when the append is

    async def add_delta(self, entry: bytes) -> None:
        """Add an entry that may wait for others."""
        self.enqueue(entry)
        if self.last_seq == 1 and not self._pending.waits:
            await self.flush()
        elif self._pending.size >= FLUSH_BYTES:
            await self._flush_and_yield()
        elif self._running_append is None and self._timer is None:
            self._schedule()

    async def add(self, entry: bytes, op: StreamOpCode = StreamOpCode.EVENT) -> None:
        """Add an entry that is sent at once, together with the pending ones."""
        self._pending.other_ops.append(op)
        self.enqueue(entry)
        await self._flush_and_yield()

    def add_note(self, note: bytes) -> None:
        """Add a note; it is sent with the pending entries, or with the next ones."""
        self._pending.notes.append(note)

    async def finish(
        self, entry: bytes, outcome: str, op: StreamOpCode = StreamOpCode.CLOSE
    ) -> None:
        """Add the last entry; the stream ends with it."""
        self.ending.begun = True
        self._pending.outcome = outcome
        await self.add(entry, op)

    async def flush(self) -> bool:
        """Wait until everything added so far is in the log; return True if that took a wait.

        Raises:
            LogError: the log did not accept them.
        """
        waited = False
        batch = self._pending or self._in_flight
        if batch:
            batch.awaited = True
            while not batch.acked and self.ending.error is None:
                self._start()
                if self._running_append is not None:
                    waited = True
                    await self._wait_for_progress()
        self.ending.raise_error()
        return waited

    async def _flush_and_yield(self) -> None:
        # A log in memory acknowledges at once. Without a pause, an agent that only writes would
        # stop everything else on the event loop until it is done; and so would many, if all of
        # them went on in the same iteration.
        if not await self.flush():
            await asyncio.sleep(0)
        await pace_of_writers(self._loop).wait()

    def give_up(self, error: Exception) -> None:
        """Write nothing more, because another process owns the stream."""
        self.ending.given_up = True
        self._fail(error)

    def enqueue(self, entry: bytes) -> None:
        """Add an entry that is sent together with the next one."""
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
        """Send the pending entries, and repeat while a writer waits for more."""
        self._stop_timer()
        while (
            self._running_append is None
            and self.ending.error is None
            and (self._in_flight is not None or self._pending)
        ):
            self._send_batch()
            if not (self._pending.awaited or self._kept.resends):
                break
        if self._pending.entries and self._running_append is None and self._timer is None:
            self._schedule()

    def _send_batch(self) -> None:
        if self._kept.lost:
            batch = self._kept.lost[0]
        elif self._in_flight is not None:
            batch = self._in_flight
        else:
            batch = self._in_flight = self._pending
            batch.first_seq, batch.first_note = self.acked + 1, (self._kept.notes or 0) + 1
            self._pending = _Batch()
        batch.began = monotonic()
        self._due = batch.began + FLUSH_EVERY
        try:
            result = self._hand_to_log(batch)
            if isinstance(result, asyncio.Future):
                self._running_append = result
                result.add_done_callback(self._append_done)
            else:
                self._record_ack(result)
        except Exception as error:  # noqa: BLE001 - the writer raises every error of the log
            self._refused(error)

    def _hand_to_log(self, batch: _Batch) -> "bool | asyncio.Future[Any] | None":
        """Pass the batch to the log; the last batch ends the stream."""
        log, stream_id, epoch, entries = self._log, self._stream_id, self._epoch, batch.entries
        first_seq, outcome = batch.first_seq, batch.outcome
        if outcome is None:
            # A shared store may have lost notes alone, so the next one is named even without notes.
            if not batch.notes and (self._kept.notes is None or not log.shared):
                return log.begin_append(stream_id, epoch, first_seq, entries)
            assert isinstance(log, DurableLog)  # noqa: S101 - only durable streams have notes
            notes = Notes(batch.first_note, batch.notes)
            return log.begin_append(stream_id, epoch, first_seq, entries, notes)
        last = (stream_id, epoch, first_seq, entries, outcome)
        return self._loop.create_task(twice(log, lambda: log.close(*last)))

    def _append_done(self, append: "asyncio.Future[Any]") -> None:
        self._running_append = None
        try:
            if (
                not append.cancelled()
            ):  # otherwise the event loop is closing, and the batch is sent again
                self._record_ack(append.result())
        except Exception as error:  # noqa: BLE001 - the writer raises every error of the log
            self._refused(error)
        if (self._pending.awaited or self._kept.resends) and not append.cancelled():
            self._start()
        elif self._pending.entries and self._timer is None:
            self._schedule()
        self._report_progress()

    async def _wait_for_progress(self) -> None:
        # Each writer has its own, because it may be cancelled. That is cheaper than asyncio.shield.
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        await waiter

    def _report_progress(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    def _refused(self, error: Exception) -> None:
        """Plan to send again what the log has lost, or fail."""
        if not self._kept.plan_resend(error):
            self._fail(error)

    def _record_ack(self, cancel_requested: bool | None) -> None:
        if cancel_requested:
            self._on_cancel()
        if self._kept.lost:
            self._kept.lost.pop(0)
            return
        batch = self._in_flight
        assert batch is not None  # noqa: S101 - only a sent batch is acknowledged
        self._in_flight = None
        batch.acked = True
        self._kept.acked(batch)
        first_seq, count = self.acked + 1, len(batch.entries)
        self.acked += count
        if count:
            self._meter.appended(first_seq, count, batch.other_ops, batch.began, monotonic())
        if batch.outcome is not None:
            self.ending.outcome = batch.outcome
            self._meter.ended(batch.outcome)

    def _fail(self, error: Exception) -> None:
        self.ending.fail(error)
        self._kept.clear()
        self._pending = _Batch()
        self._stop_timer()
        self._report_progress()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def twice(log: StreamLog, call: Callable[[], Awaitable[T]]) -> T:
    """Return the result of a call that may be repeated: once it is, if the log does not answer.

    A log that is shared has repeated it itself.

    Raises:
        LogError: the log refuses it, or does not answer.
    """
    try:
        return await call()
    except LogUnavailable:
        if log.shared:
            raise
        return await call()
