"""Orphaned streams: they have no producer any more and must still be ended.

There are two kinds. The lease of a stream expired because its process died, was blocked or could
not reach the log: the process that claims the stream ends it with `producer_lost`. Or the agent of
a stream in this process has finished, but the last packet could not be written: this process
retries until it is written, with the original outcome.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from time import monotonic
from uuid import UUID

from coreason_manifest.definitions.presentation import StreamError, StreamOpCode

from ..durable._packets import ValidText, follow_text, logged_packets
from ..errors import Fenced, LogError, UnknownStream
from ..log.base import Claim, StreamLog
from ..observe import _log_lines
from ..observe._metrics import Metrics, StreamMeter
from ._conversation import dump_turn, make_turn, parse_question
from ._packets import CANCELLED, PRODUCER_LOST, Frames

logger = logging.getLogger("coreason_client.server")

_BATCH = 100  # streams ended at once: a dead process may leave thousands
_PAGE = 1000  # entries in one read
_MAX_UNWRITTEN = 1000  # each one holds its request in memory


@dataclass(frozen=True, slots=True)
class UnwrittenEnd:
    """The end of a stream that the log did not accept; `held` is how its producer holds it.

    `naming` adds to an error the messages that the agent did not get; it is called with an epoch.
    """

    held: Claim
    question: Callable[[], bytes]
    error: StreamError
    meter: StreamMeter
    naming: Callable[[StreamError, int], Awaitable[StreamError]] | None = None

    async def error_in(self, epoch: int) -> StreamError:
        """Return the error with which the stream ends in an epoch."""
        return self.error if self.naming is None else await self.naming(self.error, epoch)


class Orphans:
    """Ends orphaned streams; `restart` returns True for a claimed one that need not end."""

    def __init__(
        self,
        log: StreamLog,
        owner: str,
        metrics: Metrics,
        restart: Callable[[Claim], Awaitable[bool]] | None = None,
    ) -> None:
        self._log = log
        self._restart = restart
        self._owner = owner
        self._metrics = metrics
        self._unwritten: dict[UUID, UnwrittenEnd] = {}

    def __contains__(self, stream_id: UUID) -> bool:
        return stream_id in self._unwritten

    def __len__(self) -> int:
        return len(self._unwritten)

    def add(self, end: UnwrittenEnd) -> None:
        """Keep an end until the log accepts it.

        The number is limited. A stream whose end is dropped still ends: its lease is not renewed,
        so it is claimed and ends with `producer_lost`.
        """
        self._unwritten[end.held.stream_id] = end
        if len(self._unwritten) > _MAX_UNWRITTEN:
            del self._unwritten[next(iter(self._unwritten))]

    async def close_lost(self) -> None:
        """Claim the streams whose lease has expired, and end them."""
        while claims := await self._log.claim_lost(self._owner, _BATCH):
            await asyncio.gather(*(self._close_claimed(claim) for claim in claims))

    async def write_ends(self) -> None:
        """Write the ends that the log did not accept before.

        Raises:
            LogError: the log still does not accept them.
        """
        left, at_once = len(self._unwritten), 1  # the first one alone: the log may still fail
        while left > 0:
            ends = list(islice(self._unwritten.values(), min(left, at_once)))
            results = await asyncio.gather(*map(self._write_end, ends), return_exceptions=True)
            for error in results:
                if isinstance(error, BaseException):
                    raise error
            left, at_once = left - len(ends), _BATCH
            if not ends:
                return

    async def _write_end(self, end: UnwrittenEnd) -> None:
        stream_id = end.held.stream_id
        # Move it to the end of the order, so one that always fails does not delay the others.
        if (known := self._unwritten.pop(stream_id, None)) is None:
            return
        self._unwritten[stream_id] = known
        try:
            # In a new epoch: the store may have lost entries of this one that readers have, and
            # one of its packets may still be on its way.
            claim = await self._log.claim_held(stream_id, end.held.epoch, self._owner)
            end = self._unwritten[stream_id] = replace(end, held=claim)
            await self.close_claim(
                replace(claim, question=end.question()), await end.error_in(claim.epoch)
            )
            self._record_end(end, claim.last_seq + 1)
        except (Fenced, UnknownStream):
            pass  # another process has ended it, or it is no longer kept
        self._unwritten.pop(stream_id, None)

    async def _close_claimed(self, claim: Claim) -> None:
        end = self._unwritten.get(claim.stream_id)
        try:
            if end is None and self._restart is not None and await self._restart(claim):
                return
            error = await (self._loss(claim) if end is None else end.error_in(claim.epoch))
            await self.close_claim(claim, error)
        except Fenced:  # another process was faster
            return
        if end is not None:
            self._unwritten.pop(claim.stream_id, None)
            self._record_end(end, claim.last_seq + 1)
        else:
            self._metrics.taken_over()
            _log_lines.taken_over(claim.stream_id, claim.last_seq)

    async def _loss(self, claim: Claim) -> StreamError:
        """Return how a stream without a producer ends: as a cancel before wanted it, if any."""
        meta = await self._log.meta(claim.stream_id)
        return CANCELLED if meta.cancel_requested else PRODUCER_LOST

    def _record_end(self, end: UnwrittenEnd, seq: int) -> None:
        now = monotonic()
        end.meter.appended(seq, 1, [StreamOpCode.ERROR], now, now)
        end.meter.ended(end.error.code)
        _log_lines.end_written(end.held.stream_id, end.error.code, seq)

    async def close_claim(self, claim: Claim, error: StreamError) -> None:
        """End a stream that was claimed.

        Raises:
            LogError: the log did not accept it.
        """
        # The turn first: a reader that sees the end may send the next question at once.
        failure = await self._store_turn(claim, error)
        seq = claim.last_seq + 1
        frames = Frames(claim.stream_id, epoch=claim.epoch, first_seq=seq)
        frame, _ = frames.packet(seq, StreamOpCode.ERROR, error)
        await self._log.close(claim.stream_id, claim.epoch, seq, [frame], error.code)
        # The stream must end even if its turn cannot be stored: its readers wait for the end.
        if failure is not None and (failure := await self._store_turn(claim, error)) is not None:
            logger.warning("the turn of stream %s was not stored: %s", claim.stream_id, failure)

    async def _store_turn(self, claim: Claim, error: StreamError) -> str | None:
        """Store the question and the written text of a stream; return the reason if that fails."""
        if not claim.question:  # its turn is not stored
            return None
        try:
            asked = parse_question(claim.question)
            if asked.conversation is None:
                return None
            turn = make_turn(asked.messages, await self._written_text(claim), error.code)
            stored = dump_turn(turn, asked.earlier)
            await self._log.add_turn(asked.conversation, claim.stream_id, stored, claim.epoch)
        except LogError as failure:
            return str(failure)
        except ValueError as failure:  # its message may quote what the user wrote
            return f"its stored question or text is damaged ({type(failure).__name__})"
        return None

    async def _written_text(self, claim: Claim) -> str:
        text = ValidText()
        with closing(self._log.follow(claim.stream_id, 0)) as follower:
            while (position := follower.position) < claim.last_seq:
                page = await follower.next(_PAGE, 0)
                if not page.entries:
                    break
                for packet in logged_packets(position + 1, page.entries):
                    follow_text(text, packet)
        return "".join(text.values)
