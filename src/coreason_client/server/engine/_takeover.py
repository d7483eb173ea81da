"""Restarts of durable agents whose streams have lost their producer."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from time import monotonic
from typing import Any
from uuid import UUID

from coreason_manifest.definitions.service import ServiceRequest

from .._options import Options
from ..durable._journal import Journal
from ..durable._notes import Started, dump_note, parse_note
from ..durable._packets import logged_packets
from ..durable._replay import Logged
from ..durable._slots import RestartSlots
from ..errors import Fenced, LogError, LogUnavailable, UnknownStream
from ..log.base import (
    AgentVersion,
    Claim,
    DurableLog,
    Notes,
    StreamMeta,
)
from ..observe import _log_lines
from ..observe._metrics import Metrics
from ..observe._spans import StoredHeaders
from ._conversation import parse_request
from ._durable_writer import Origin
from ._inbox import InboxStore, taken_in
from ._orphans import Orphans
from ._packets import CANCELLED, PRODUCER_LOST
from ._producers import Producers, as_claimed

logger = logging.getLogger("coreason_client.server")

_POLL_SECONDS = 0.5  # a stream that was handed over continues within a second
_BUSY_POLL_SECONDS = 0.05  # while streams wait for others to settle; it does not ask the log
_PAGE = 1000  # entries in one read


@dataclass(frozen=True, slots=True)
class _Restart:
    """A claimed stream that can be started again."""

    claim: Claim
    meta: StreamMeta
    journal: Journal
    request: ServiceRequest
    trace: Mapping[str, str]


class Takeover:
    """Claims durable streams without a producer, and starts their agents again."""

    def __init__(
        self,
        log: DurableLog,
        owner: str,
        options: Options,
        producers: Producers,
        orphans: Orphans,
        metrics: Metrics,
        *,
        may_claim: Callable[[], bool],
    ) -> None:
        self._log = log
        self._owner = owner
        self._agent = AgentVersion(options.agent_id, options.version)
        self._max_restarts = options.max_restarts
        self._has_inbox = options.inbox
        self._producers = producers
        self._orphans = orphans
        self._metrics = metrics
        self._may_claim = may_claim
        self._slots: RestartSlots[UUID] = RestartSlots(options.max_restarts)
        self._suspects: dict[UUID, _Restart] = {}
        self._claiming = asyncio.Lock()
        self._versions = {None, options.version}  # that need no warning, or had it

    async def run(self) -> None:
        """Look for streams to continue, until cancelled."""
        claim_at = monotonic()
        while True:
            full = not self._slots.free(monotonic())
            try:
                if self._may_claim():
                    self._settle()
                    async with self._claiming:
                        if full or monotonic() >= claim_at:
                            claim_at = monotonic() + _POLL_SECONDS
                            await self._claim()
                        await self._start_suspect()
            except LogError as error:  # the upkeep reports that the log does not work
                logger.debug("durable streams could not be claimed: %s", error)
            except Exception:  # a bug must not stop all restarts
                logger.exception("durable streams could not be continued")
            await asyncio.sleep(_BUSY_POLL_SECONDS if self._slots.busy else _POLL_SECONDS)

    async def once(self) -> None:
        """Claim and start as many streams as there are free slots."""
        self._settle()
        await self._claim()
        await self._start_suspect()

    async def leave(self) -> None:
        """Start what is being claimed, and let another process claim the streams that wait.

        Called once no more streams may be claimed. Without it, a stream that was claimed in the
        last moment has no producer until its lease ends.
        """
        async with self._claiming:
            waiting, self._suspects = self._suspects, {}
        for stream_id, restart in waiting.items():
            self._producers.waiting.pop(stream_id, None)
            try:
                await self._log.release(stream_id, restart.claim.epoch)
            except LogError as error:
                logger.debug("stream %s is free when its lease ends: %s", stream_id, error)

    def _settle(self) -> None:
        """Free the slots of streams that have made progress or ended."""
        for stream_id in self._slots.unsettled:
            producer = self._producers.get(stream_id)
            if producer is None or producer.settled:
                self._slots.settled(stream_id)

    async def _claim(self) -> None:
        now = monotonic()
        while self._may_claim() and (free := self._slots.free(now)):
            claims = await self._log.claim_durable(self._owner, self._agent, free)
            handled = [self._handle(claim, now) for claim in claims]
            results = await asyncio.gather(*handled, return_exceptions=True)
            for error in results:  # the others have been started all the same
                if isinstance(error, BaseException):
                    raise error
            if not claims:
                break

    async def _start_suspect(self) -> None:
        if (suspect := self._slots.next_suspect(monotonic())) is not None:
            self._producers.waiting.pop(suspect, None)
            await self._start(self._suspects.pop(suspect), suspect=True)

    async def _handle(self, claim: Claim, now: float) -> None:
        try:
            found, journal = await asyncio.gather(
                self._log.meta(claim.stream_id), self._load_journal(claim.stream_id)
            )
            meta = as_claimed(found, claim)
            request, trace = parse_request(claim.question)
        except UnknownStream:
            return
        except ValueError as error:
            await self._end_damaged(claim, error)
            return
        restarts = journal.restarts
        restarts.reached(meta.last_seq)
        if meta.cancel_requested or not restarts.may_start(self._max_restarts):
            if not meta.cancel_requested:
                _log_lines.restarts_used_up(meta, restarts.failed, restarts.total)
            unread = await self._unread(meta, journal)
            named = await self._producers.unread.name(request, meta, unread)
            await self._end(claim, cancelled=meta.cancel_requested, details=named)
            return
        restart = _Restart(claim, meta, journal, request, trace)
        if self._slots.is_suspect(restarts.failed) and not restarts.handed_over:
            self._slots.suspect(claim.stream_id, restarts.failed, now)
            self._suspects[claim.stream_id] = restart
            self._producers.waiting[claim.stream_id] = claim.epoch
        else:
            await self._start(restart, suspect=False)

    async def _start(self, restart: _Restart, *, suspect: bool) -> None:
        claim, meta, journal = restart.claim, restart.meta, restart.journal
        handed_over = journal.restarts.handed_over
        started = Started(journal.attempt + 1, meta.last_seq)
        notes = Notes(journal.count + 1, [dump_note(started)])
        try:
            await self._log.append(claim.stream_id, claim.epoch, meta.last_seq + 1, [], notes)
            origin = Origin(journal, tuple(await self._load_packets(meta)))
        except (Fenced, UnknownStream):  # another process was faster
            return
        except ValueError as error:
            await self._end_damaged(claim, error)
            return
        journal.add(started)
        self._metrics.restarted(len(origin.logged), handed_over=handed_over)
        _log_lines.restarted(meta, started.attempt, handed_over=handed_over)
        self._warn_of_other_version(meta)
        headers = StoredHeaders(restart.trace)
        self._producers.start(restart.request, meta, headers, monotonic(), origin=origin)
        if not handed_over:  # no process died of it, so it need not wait for a slot
            self._slots.started(claim.stream_id, monotonic(), suspect=suspect)

    def _warn_of_other_version(self, meta: StreamMeta) -> None:
        """Log once for each version that this process continues streams of another one."""
        version = None if meta.agent is None else meta.agent.version
        if version not in self._versions:
            self._versions.add(version)
            _log_lines.other_version(meta, self._agent)

    async def _load_journal(self, stream_id: UUID) -> Journal:
        journal = Journal()
        while notes := await self._log.journal(stream_id, journal.count):
            for note in notes:
                journal.add(parse_note(note))
        return journal

    async def _load_packets(self, meta: StreamMeta) -> list[Logged]:
        packets: list[Logged] = []
        with closing(self._log.follow(meta.stream_id, 0)) as follower:
            while len(packets) < meta.last_seq:
                page = await follower.next(_PAGE, 0)
                if not page.entries:  # a store that has failed over may have lost the last ones
                    raise LogUnavailable("the log has lost entries of a stream", meta.stream_id)
                packets += logged_packets(len(packets) + 1, page.entries)
                await asyncio.sleep(0)  # other tasks run between two pages
        return packets

    async def _end_damaged(self, claim: Claim, error: ValueError) -> None:
        """End a stream whose question, journal or packets cannot be read: no retry would help."""
        logger.error("stream %s cannot be continued: %s", claim.stream_id, error)
        await self._end(claim, cancelled=False)

    async def _unread(self, meta: StreamMeta, journal: Journal) -> list[str]:
        """Return the ids of the messages in the inbox that the agent did not get."""
        if not self._has_inbox:
            return []
        messages = await InboxStore(self._log, meta).seal()
        taken = taken_in(journal)
        return [message.id for message in messages if message.id not in taken]

    async def _end(
        self, claim: Claim, *, cancelled: bool, details: Mapping[str, Any] | None = None
    ) -> None:
        error = CANCELLED if cancelled else PRODUCER_LOST
        if details:
            error = error.model_copy(update={"details": details})
        try:
            await self._orphans.close_claim(claim, error)
        except Fenced:
            return
        if cancelled:
            self._metrics.cancelled_orphan()
        else:
            self._metrics.taken_over()
        _log_lines.taken_over(claim.stream_id, claim.last_seq)
