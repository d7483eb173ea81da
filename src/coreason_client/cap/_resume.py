"""The resume machine: every rule that decides whether a packet is lost, duplicated or spliced.

It does no I/O and uses no threads and no event loop. Rules that do not depend on the protocol are
in `_connections`. The rules, by their numbers in `docs/decisions.md`:

* Cursor (13). The last SSE id of a complete event, kept across connections; the stream id if there
  is no SSE id. It moves when the packet is handed out, never before.
* Duplicates (10, 34). The numbers are kept per stream. A number that has arrived is dropped; one
  that is not above the last and never arrived is an error. A CLOSE or FATAL packet counts whatever
  its number.
* No splice (11). Once packets were handed out, a new connection may only bring streams that
  this request has seen, and no packet of a later epoch that began before the position.
* Rereads (11). A caller that handles REWIND events gets one instead of that error, and instead of a
  410 for its position: the stream is read again from its start.
* Gaps (12). A jump means lost packets: reconnect once from the last good position. If the gap is
  still there, the server skips sequence numbers, which is legal: log one warning, or raise an error
  if `strict_sequence` is set.
* Loss (6). Any transport failure, and an end of the body before CLOSE. A failed certificate check
  and a closed client are final.
* Budget (7, 35). It limits losses in a row without a new packet; see `RetryBudget`. Only a DELTA
  or an EVENT packet refills it. The delay doubles, and is at least what the server asks for.
* Conversations (35). One that is followed may be silent for days, so each accepted response
  restores the retries, and the delay grows on. After a position the first attempt is a reconnect.
* Deadline. A limit on the whole answer; heartbeats and reconnects do not extend it.
* Statuses (8, 9). First attempt: anything but a 200 event stream is an error. Reconnect:
  retryable statuses, and a 200 of another type, count as a loss; the rest is final. A 204 for a
  saved position means that nothing follows it; it may name an outcome that is an error. 307 and
  308 are followed; credentials stay at their origin.
* Errors in the stream (14). FATAL raises, TRANSIENT is a loss that moves the cursor, after WARNING
  reading continues. An event that is not a packet is a protocol error, and is not retried.
"""

import logging
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeGuard

from pydantic import ValidationError

from coreason_manifest.definitions._base import explain
from coreason_manifest.definitions.presentation import (
    ClosePacket,
    DeltaPacket,
    ErrorPacket,
    ErrorSeverity,
    EventPacket,
    Packet,
    StreamError,
    StreamOpCode,
    parse_packet,
)
from coreason_manifest.definitions.rewind import REWIND, rewound_to

from .._clock import monotonic
from .._connections import Connections, RetryBudget, State
from .._drive import Wait
from .._http._types import FINAL_FAILURES, Request, ResponseHead, TransportFailure
from .._retry import RETRIED_STATUSES, Backoff, retry_after
from .._secret import redact_chain
from ..sse import ServerSentEvent, SSEEventTooLarge
from ..sse._decode import DEFAULT_MAX_EVENT_BYTES
from ._stream_state import (
    NO_DETAILS,
    FailureDetails,
    Numbering,
    StreamErrors,
    details_of,
    ended_with,
    is_position_gone,
)
from .errors import CAPConnectionError, CAPProtocolError, CAPRuntimeError, CAPStreamReset
from .position import Position

logger = logging.getLogger("coreason_client.cap")

_CONTENT_PACKETS = (DeltaPacket, EventPacket)
_READING = State.READING
_COMPLETE = "complete"


class ResumeMachine:
    """Reads one logical stream over as many connections as needed.

    `attempt(cursor)` builds the request for a connection; the cursor is None on the first one.
    `position` is where to continue a stream that was begun elsewhere; `complete` means that it was
    read to its end there, and `error` is the fatal error that ended it there. With `rewinds` the
    stream is read again from its start if the server has lost packets. `after` is given for the
    next answer of a conversation: the event id after which it begins, or "". `deadline` limits the
    whole answer, in seconds from the first request. `redact` removes credentials from text that the
    server sent, and `proxy_for` returns the proxy for a URL. `jitter` returns numbers from 0 to 1,
    `now` the Unix time and `clock` monotonic seconds; tests replace them.

    Attributes:
        stream_error: the fatal error that ended the stream.
        text_only: the caller can take back no text, so a REWIND event is an error.
    """

    def __init__(
        self,
        attempt: Callable[[str | None], Request],
        *,
        position: Position | None = None,
        complete: bool = False,
        error: StreamError | None = None,
        rewinds: bool = False,
        after: str | None = None,
        max_retries: int = 3,
        reconnect_for: float = 0.0,
        deadline: float | None = None,
        backoff: Backoff = Backoff(),  # noqa: B008 - immutable
        strict_sequence: bool = False,
        max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES,
        redact: Callable[[str], str] = str,
        proxy_for: Callable[[str], str | None] = lambda url: None,
        jitter: Callable[[], float] = random.random,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        budget = RetryBudget(
            backoff, max_retries, reconnect_for=reconnect_for, jitter=jitter, clock=clock
        )
        self._attempt = attempt
        self._after = after
        self._strict_sequence = strict_sequence
        self._gaps_are_legal = False
        self._now = now
        self.stream_error = error
        self.text_only = False
        self._numbering = Numbering(position, rewinds=rewinds)
        if after:
            self._numbering.set_id(after.encode())
        self._connections = Connections(
            budget, max_event_bytes=max_event_bytes, deadline=deadline, clock=clock
        )
        self._errors = StreamErrors(self._connections, self._numbering, redact, proxy_for)
        if complete:
            self._connections.finish()

    @property
    def position(self) -> Position | None:
        """The position after the last packet that was handed out; None before the first."""
        return self._numbering.position

    @property
    def complete(self) -> bool:
        """True if the stream was read to its end."""
        return self._connections.finished

    @property
    def started(self) -> bool:
        """True if a request was sent."""
        return self._connections.attempts > 0

    @property
    def reconnects(self) -> int:
        """The number of connections after the first."""
        return self._connections.reconnects

    @property
    def response_head(self) -> ResponseHead | None:
        """The head of the last response."""
        return self._connections.head

    @property
    def reading(self) -> bool:
        """True if more bytes of this response are wanted."""
        return self._connections.state is _READING

    def ended_early(self, why: str) -> CAPConnectionError:
        """Return the error for reading a stream that was closed or has failed."""
        call = "resume()" if self._after is None else "follow_conversation() with its position"
        return self._errors.make(CAPConnectionError, f"{why}; use {call} to continue it")

    # Steps

    def next_step(self) -> Request | Wait | None:
        """Return the next step; None if the stream is over.

        Raises:
            CAPRuntimeError: the stream has ended with a fatal error before.
        """
        if self.stream_error is not None:
            raise self._errors.fatal(self.stream_error)
        connections, numbering = self._connections, self._numbering
        if connections.finished:
            return None
        step = connections.planned_step()
        if step is not None:
            return step
        numbering.connect()
        return connections.open(self._attempt(numbering.cursor), numbering.last_event_id)

    def accepts(self, head: ResponseHead) -> bool:
        """Return True if this response carries the stream."""
        self._connections.head = head
        if head.status != 200 or head.content_type != "text/event-stream":
            return False
        self._connections.read()
        if self._after is not None:
            self._connections.budget.restore_retries()
        return True

    def refused(self, head: ResponseHead, body: bytes) -> None:
        """Follow a redirect, count a loss, or raise the error that the response means.

        Raises:
            CAPRuntimeError: the server rejected the request.
            CAPProtocolError: the response is not an event stream, on the first attempt.
            CAPConnectionError: the retry budget is exhausted.
            CAPTimeoutError: the deadline has passed.
        """
        connections = self._connections
        if connections.is_redirect(head):
            try:
                connections.redirect(head)
            except ValueError as error:
                raise self._errors.unusable_redirect(head, body, error) from None
            return
        details = FailureDetails(retry_after(head.headers, self._now), head=head, body=body)
        if head.status == 204:
            outcome = head.headers.get("x-stream-outcome", "")
            if outcome not in ("", _COMPLETE):
                self._handle_error(ended_with(outcome), details)
            # Other servers name no outcome: then only a saved position can have been the end.
            if self._numbering.is_at_start or (outcome and self._numbering.seq >= 0):
                connections.finish()
                return
        if head.status == 410 and is_position_gone(body) and self._numbering.start_over():
            connections.settle()
            return
        message = self._errors.describe_response(head, body)
        if (self._after or connections.attempts > 1) and head.status in {200, *RETRIED_STATUSES}:
            self._count_loss(message, details)
            return
        kind = CAPProtocolError if head.status == 200 else CAPRuntimeError
        raise self._errors.make(kind, message, details)

    def lost(self, failure: TransportFailure | None) -> tuple[()]:
        """Record that the connection has ended, with a failure or cleanly.

        Raises:
            CAPConnectionError: the retry budget is exhausted, or a retry cannot help.
            CAPTimeoutError: the deadline has passed.
        """
        connections, errors = self._connections, self._errors
        if failure is None:
            if not connections.settled:
                drained = connections.decoder.retry_ms is not None
                self._count_loss("the response ended before a CLOSE packet", drained=drained)
            return ()
        redact_chain(failure, errors.redact)
        details = FailureDetails(failure=failure)
        if failure.kind in FINAL_FAILURES:
            message = f"{errors.describe_request()} failed: {failure}"
            raise errors.make(CAPConnectionError, message, details) from details.cause
        if not connections.settled:
            self._count_loss(str(failure), details)
        return ()

    # Packets

    def receive(self, chunk: bytes) -> Iterator[Packet]:
        """Process bytes and yield the new packets in them, one at a time.

        Raises:
            CAPProtocolError: an event is not a packet, too large, or of another stream.
            CAPRuntimeError: a FATAL error packet.
            CAPConnectionError: the retry budget is exhausted.
            CAPTimeoutError: the deadline has passed.
        """
        connections, numbering = self._connections, self._numbering
        decoder, budget = connections.decoder, connections.budget
        id_length, epoch_part = numbering.id_length, numbering.epoch_part
        event_id = decoder.last_event_id_bytes
        too_large: SSEEventTooLarge | None = None
        try:
            for event in decoder.events(chunk):
                event_id = event.id_bytes
                packet = self._parse(event)
                if packet.stream_id.int != numbering.stream:
                    numbering.switch_stream(packet.stream_id, packet.seq)
                if (
                    packet.seq != numbering.seq + 1
                    or len(event_id) != id_length
                    or (epoch_part and not event_id.endswith(epoch_part))
                    or type(packet) is EventPacket
                ):
                    yield from self._check(packet, event_id)
                    id_length, epoch_part = numbering.id_length, numbering.epoch_part
                    if connections.state is not _READING:
                        return
                    if packet.seq <= numbering.seq:
                        continue
                # The position moves only now, as the packet is handed out.
                numbering.seq = packet.seq
                numbering.last_event_id = event_id
                if isinstance(packet, _CONTENT_PACKETS):
                    if budget.used:
                        budget.refill()
                    yield packet
                else:
                    yield from self._handle_control(packet)
                    if connections.state is not _READING:
                        return
        except SSEEventTooLarge as error:
            too_large = error
        self._end_chunk(event_id, too_large)

    def _end_chunk(self, event_id: bytes, too_large: SSEEventTooLarge | None) -> None:
        """Check cursor, size and deadline after a chunk; `event_id` is that of its last event."""
        connections = self._connections
        last_id = connections.decoder.last_event_id_bytes
        if last_id != event_id:  # a block without data has changed it
            self._numbering.set_id(last_id)
        if too_large is not None:
            raise self._errors.make(CAPProtocolError, str(too_large)) from too_large
        if connections.time_left() <= 0:
            connections.settle()
            raise self._errors.expired("the answer was not complete")

    def _parse(self, event: ServerSentEvent) -> Packet:
        try:
            return parse_packet(event.data_bytes)
        except ValidationError as error:
            why = explain(error)
        # Not chained to the validation error, which quotes what the server sent: that may be a key.
        where = "the first packet" if self.position is None else f"a packet after {self.position}"
        raise self._errors.make(CAPProtocolError, f"{where} is not valid: {why}")

    def _check(self, packet: Packet, event_id: bytes) -> tuple[Packet, ...]:
        """Check a packet whose number is not the next one, or that may make text void.

        Return what is handed out before it: a REWIND event before the first packet of a reread. A
        duplicate is dropped. A CLOSE or FATAL packet counts whatever its number, and CLOSE is
        returned itself if it is not above the last one. A gap causes one reconnect, and is accepted
        after it.

        Raises:
            CAPProtocolError: the number was skipped before, or is below the first of the stream;
                or a gap remained after a reconnect, and `strict_sequence` forbids that.
            CAPStreamReset: the packet is of another run, or a REWIND event, and the caller handles
                no rewinds.
            CAPRuntimeError: a FATAL error packet.
        """
        numbering = self._numbering
        if numbering.starting_over:
            numbering.begin_again(packet.seq)
            return (rewind_to_start(packet),)
        if packet.seq > numbering.seq + 1:
            self._check_gap(packet)
        if packet.seq > numbering.seq or isinstance(packet, ClosePacket):
            follows = not (self.text_only and is_rewind(packet))
            # A fatal error is raised whatever run it ends.
            if self.reading and not (
                (follows and numbering.follows(packet.seq, event_id)) or _is_fatal(packet)
            ):
                if not numbering.start_over():
                    raise CAPStreamReset(packet.stream_id, packet.stream_id, position=self.position)
                self._connections.settle()
            elif packet.seq <= numbering.seq:
                self._connections.finish()
                return (packet,)
        elif _is_fatal(packet):
            self._handle_error(packet.p)
        elif not numbering.has_arrived(packet.seq):
            raise self._errors.make(
                CAPProtocolError,
                f"seq {packet.seq} of stream {packet.stream_id} came after seq {numbering.seq}:"
                " the server sends packets out of order, so text would be missing",
            )
        return ()

    def _check_gap(self, packet: Packet) -> None:
        """Reconnect once because of a gap; accept the gap if it is still there."""
        numbering = self._numbering
        if not self._gaps_are_legal:
            missing = (
                f"seq {packet.seq} came after seq {numbering.seq} of stream {packet.stream_id}"
            )
            if not numbering.gap_was_retried:
                numbering.record_gap_retry()
                self._count_loss(missing)
                return
            if self._strict_sequence:
                raise self._errors.make(CAPProtocolError, f"{missing}, also after a reconnect")
            logger.warning("%s, also after a reconnect: the server skips sequence numbers", missing)
            self._gaps_are_legal = True
        numbering.skip_to(packet.seq)

    def _handle_control(self, packet: Packet) -> tuple[Packet, ...]:
        """Handle a CLOSE or ERROR packet; return the packet if the caller gets it."""
        if not isinstance(packet, ErrorPacket):
            self._connections.finish()
            return (packet,)
        self._handle_error(packet.p)
        return (packet,) if self._connections.reading else ()

    def _handle_error(self, error: StreamError, details: FailureDetails = NO_DETAILS) -> None:
        """Raise a FATAL error, reconnect after a TRANSIENT one, log a WARNING."""
        match error.severity:
            case ErrorSeverity.FATAL:
                self.stream_error = error
                self._connections.settle()
                raise self._errors.fatal(error, details)
            case ErrorSeverity.TRANSIENT:
                self._count_loss(self._errors.describe(error), details_of(error))
            case ErrorSeverity.WARNING:
                message = self._errors.describe(error)
                logger.warning("the agent sent a warning after %s: %s", self.position, message)

    # Losses

    def _count_loss(
        self, why: str, details: FailureDetails = NO_DETAILS, *, drained: bool = False
    ) -> None:
        """Plan the reconnect after a loss, or raise if the budget is exhausted.

        `drained` means that the server ended the response properly and asked to reconnect.
        """
        connections = self._connections
        asked = connections.server_delay(details.server_delay)
        begun = self._numbering.cursor is not None
        delay = connections.lose(asked, begun=begun, drained=drained)
        if connections.expires_within(delay):
            raise self._errors.expired(why, details) from details.cause
        if delay is None:
            details = replace(details, server_delay=asked)
            raise self._errors.exhausted(why, details) from details.cause
        logger.warning(
            "connection lost after %s (%s); reconnecting in %.2f s, %s",
            self.position or "no packet",
            why,
            delay,
            connections.budget.describe(),
        )
        connections.wait(delay)


def _is_fatal(packet: Packet) -> TypeGuard[ErrorPacket]:
    return isinstance(packet, ErrorPacket) and packet.p.severity is ErrorSeverity.FATAL


def is_rewind(packet: Packet) -> bool:
    """Return True if a packet makes text before it void."""
    return isinstance(packet, EventPacket) and rewound_to(packet.p) is not None


def rewind_to_start(packet: Packet) -> EventPacket:
    """Return the REWIND event with the number 0 before the first packet of a reread."""
    return EventPacket(
        stream_id=packet.stream_id,
        seq=0,
        op=StreamOpCode.EVENT,
        t=packet.t,
        p={"type": REWIND, "data": {"to_seq": 0}},
    )
