"""The resume machine: every rule that decides whether a word is lost, doubled or spliced.

It knows no socket, clock, thread or event loop. The rules, by the names of `docs/decisions.md`:

* Cursor (13). The last SSE id of a complete event, in force across connections; without one, the
  stream's id. It moves when the packet is handed out, never before.
* Duplicates (10, 34). The numbers are kept per stream. A number that has arrived is dropped; one
  that is not above the last and never arrived is an error. An end counts whatever its number.
* No splice (11). Once packets were handed out, a new connection may only bring streams that this
  request has seen.
* Gaps (12). A jump means lost packets: reconnect once from the last good position. If it is still
  there the server numbers with gaps, which is legal: one warning, or an error if `strict_sequence`.
* Loss (6). Any transport failure, and an end of body before CLOSE. A failed certificate check and
  a closed client are final.
* Budget (7, 35). Losses in a row without a new packet; see `_budget`. Only a DELTA or an EVENT
  packet refills it. The delay doubles, and is never shorter than what the server asks for.
* Deadline. A limit on the whole answer; heartbeats and reconnects do not extend it.
* Statuses (8, 9). First attempt: anything but a 200 event stream is an error. Reconnect: some
  statuses, and a 200 of another type, are one more loss; the rest is final. A 204 for a saved
  position means that nothing follows it. 307 and 308 are followed; credentials stay at their
  origin.
* Errors in the stream (14). FATAL raises, TRANSIENT is a loss that moves the cursor, WARNING goes
  on. What is not a packet is a protocol error, and is not retried.
"""

import logging
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import TypeVar
from uuid import UUID

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
    parse_packet,
)

from .._drive import Wait
from .._http._checks import shown
from .._http._redirect import Redirects
from .._http._types import FINAL_FAILURES, Request, ResponseHead, TransportFailure
from .._retry import RETRIED_STATUSES, Backoff, retry_after, seconds
from .._secret import redact_chain
from ..sse import ServerSentEvent, SSEDecoder, SSEEventTooLarge
from ..sse._decode import DEFAULT_MAX_EVENT_BYTES
from ._budget import RetryBudget
from ._sequence import SequenceNumbers
from ._words import describe, where
from .errors import (
    CAPConnectionError,
    CAPError,
    CAPProtocolError,
    CAPRuntimeError,
    CAPStreamReset,
    CAPTimeoutError,
)
from .position import Position

__all__ = ["ResumeMachine"]

logger = logging.getLogger("coreason_client.cap")

_TIMER_SLACK = 0.01
_CONTENT = (DeltaPacket, EventPacket)
_Error = TypeVar("_Error", bound=CAPError)


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What a refusal or a loss left behind, for the fields of an error."""

    server_delay: float | None = None
    failure: TransportFailure | None = None
    head: ResponseHead | None = None
    body: bytes | None = None
    stream_error: StreamError | None = None

    @property
    def cause(self) -> BaseException | None:
        return self.failure and (self.failure.__cause__ or self.failure)


_NOTHING = _Evidence()


class ResumeMachine:
    """Reads one logical stream over as many connections as it takes.

    `attempt(cursor)` builds the request for a connection; the cursor is None on the first one.
    `position` is where to continue a stream that was begun elsewhere, and `complete` says that it
    was read to its end there. `deadline` limits the whole
    answer, in seconds from the first request. `redact` removes our secrets from text that the
    server chose, and `proxy_for` names the proxy on the way to a URL. `jitter` returns numbers from
    0 to 1, `now` the seconds since 1970 and `clock` seconds that only grow; tests replace them.
    """

    def __init__(
        self,
        attempt: Callable[[str | None], Request],
        *,
        position: Position | None = None,
        complete: bool = False,
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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._attempt = attempt
        self._start = position
        self._backoff = backoff
        self._budget = RetryBudget(max_retries, reconnect_for, backoff, jitter, clock)
        self._deadline = deadline
        self._strict_sequence = strict_sequence
        self._max_event_bytes = max_event_bytes
        self._redact = redact
        self._proxy_for = proxy_for
        self._now = now
        self._clock = clock

        # What has been read.
        self._stream_id: UUID | None = None
        self._stream: int | None = None  # the same as a number: quicker to compare
        self._seq = -1
        self._numbers = SequenceNumbers(0)
        self._other_streams: dict[int, tuple[int, SequenceNumbers]] = {}  # with their last numbers
        self._last_event_id = b""
        self._later_id: bytes | None = None
        self._gap: tuple[int | None, int] | None = None  # the gap that already cost a reconnect
        self._gaps_are_legal = False
        if position is not None:
            self._stream_id, self._stream = position.stream_id, position.stream_id.int
            self._seq = position.seq
            self._last_event_id = (position.cursor or "").encode()

        # The connection at hand.
        self._attempts = 0
        self._losing = False  # there were losses since the last new packet
        self._expires: float | None = None  # on the clock
        self._retry_seconds: float | None = None
        self._wait: Wait | None = None
        self._request: Request | None = None
        self._redirected: Request | None = None
        self._redirects = Redirects()
        self._decoder = SSEDecoder(max_event_bytes)
        self._resumed = False  # packets were read before this connection
        self._settled = True  # what becomes of this connection is decided
        self._finished = complete
        self._reading = False
        self._head: ResponseHead | None = None

    @property
    def position(self) -> Position | None:
        """How far the stream was handed out; None before the first packet."""
        if self._stream_id is None:
            return None
        cursor = self._last_event_id.decode("utf-8", "replace") or None
        return Position(stream_id=self._stream_id, seq=self._seq, cursor=cursor)

    @property
    def complete(self) -> bool:
        """Whether the stream was read to its end."""
        return self._finished

    @property
    def started(self) -> bool:
        """Whether anything was sent."""
        return self._attempts > 0

    @property
    def reconnects(self) -> int:
        """How many connections there were after the first."""
        return max(self._attempts - 1, 0)

    @property
    def response_head(self) -> ResponseHead | None:
        """The head of the last response."""
        return self._head

    @property
    def reading(self) -> bool:
        """Whether more bytes of this response are wanted."""
        return self._reading

    def ended_early(self, why: str) -> CAPConnectionError:
        """Return the error for reading on after a stream was closed or has failed."""
        return self._error(CAPConnectionError, f"{why}; use resume() to continue it")

    # Steps

    def next_step(self) -> Request | Wait | None:
        """Return what to do next; None when the stream is over."""
        if self._finished:
            return None
        if self._wait is not None:
            wait, self._wait = self._wait, None
            return wait
        if self._redirected is not None:
            request, self._redirected = self._redirected, None
        else:
            self._attempts += 1
            self._redirects = Redirects()
            request = self._attempt(self._cursor())
        self._request = self._limited(request)
        self._decoder = SSEDecoder(
            self._max_event_bytes, last_event_id=self._last_event_id.decode("utf-8", "replace")
        )
        self._resumed = self._stream_id is not None
        self._settled = False
        return self._request

    def accepts(self, head: ResponseHead) -> bool:
        """Return True if this is the response that carries the stream."""
        self._head = head
        self._reading = head.status == 200 and head.content_type == "text/event-stream"
        return self._reading

    def refused(self, head: ResponseHead, body: bytes) -> None:
        """Follow a redirect, count a loss, or raise what the response means.

        Raises:
            CAPRuntimeError: the server refuses.
            CAPProtocolError: the response is not an event stream, on the first attempt.
            CAPConnectionError: the retry budget is spent.
            CAPTimeoutError: the deadline has passed.
        """
        if self._redirects.includes(head):
            self._redirect(head, body)
            return
        if head.status == 204 and self._start is not None and self._seq == self._start.seq:
            self._finish()  # the saved position was the end
            return
        evidence = _Evidence(retry_after(head.headers, self._now), head=head, body=body)
        if self._attempts > 1 and (head.status == 200 or head.status in RETRIED_STATUSES):
            self._lose(self._describe(head, body), evidence)
            return
        kind = CAPProtocolError if head.status == 200 else CAPRuntimeError
        raise self._error(kind, self._describe(head, body), evidence)

    def lost(self, failure: TransportFailure | None) -> tuple[()]:
        """Record that the connection is gone, with a failure or with a clean end.

        Raises:
            CAPConnectionError: the retry budget is spent, or no retry can help.
            CAPTimeoutError: the deadline has passed.
        """
        if failure is None:
            if not self._settled:
                drains = self._decoder.retry_ms is not None
                self._lose("the response ended before a CLOSE packet", drains=drains)
            return ()
        redact_chain(failure, self._redact)
        evidence = _Evidence(failure=failure)
        if failure.kind in FINAL_FAILURES:
            message = f"{self._where()} failed: {failure}"
            raise self._error(CAPConnectionError, message, evidence) from evidence.cause
        if not self._settled:
            self._lose(str(failure), evidence)
        return ()

    # Packets

    def receive(self, chunk: bytes) -> Iterator[Packet]:
        """Take bytes and hand out the new packets in them, one at a time.

        Raises:
            CAPProtocolError: an event is not a packet, too large, or of another stream.
            CAPRuntimeError: a FATAL error packet.
            CAPConnectionError: the retry budget is spent.
            CAPTimeoutError: the deadline has passed.
        """
        events, too_large = self._decode(chunk)
        for event in events:
            packet = self._parse(event)
            if packet.stream_id.int != self._stream:
                self._switch_stream(packet)
            if packet.seq != self._seq + 1 and not self._accepts_jump(packet):
                if self._finished:
                    yield packet  # a CLOSE, whatever its number
                if self._reading:
                    continue
                return
            # The position moves here, as the packet goes out and not before.
            self._seq = packet.seq
            self._last_event_id = event.id_bytes
            if isinstance(packet, _CONTENT):
                if self._losing:
                    self._refill()
                yield packet
            elif self._hands_out(packet):
                yield packet
            if not self._reading:
                return
        self._end_chunk(too_large)

    def _end_chunk(self, too_large: SSEEventTooLarge | None) -> None:
        """Check what concerns a chunk as a whole, after its packets were handed out."""
        if self._later_id is not None:
            self._last_event_id = self._later_id
        if too_large is not None:
            raise self._error(CAPProtocolError, str(too_large)) from too_large
        if self._time_left() <= 0:
            raise self._expired("the answer was not complete")

    def _decode(self, chunk: bytes) -> tuple[list[ServerSentEvent], SSEEventTooLarge | None]:
        """Return the events in a chunk; note the id of a block without data that follows them."""
        decoder = self._decoder
        last_id = decoder.last_event_id_bytes
        too_large: SSEEventTooLarge | None = None
        try:
            events = decoder.feed(chunk)
        except SSEEventTooLarge as error:
            events, too_large = error.events, error
        if events:
            last_id = events[-1].id_bytes
        changed = decoder.last_event_id_bytes != last_id
        self._later_id = decoder.last_event_id_bytes if changed else None
        return events, too_large

    def _parse(self, event: ServerSentEvent) -> Packet:
        try:
            return parse_packet(event.data_bytes)
        except ValidationError as error:
            why = explain(error)
        # Not from the error itself, which repeats what the server sent: that may be a key.
        where = "the first packet" if self.position is None else f"a packet after {self.position}"
        raise self._error(CAPProtocolError, f"{where} is not valid: {why}")

    def _switch_stream(self, packet: Packet) -> None:
        """Make the packet's stream the present one."""
        number = packet.stream_id.int
        known = self._other_streams.get(number)
        if self._stream_id is not None and self._stream is not None:
            if known is None and self._resumed:
                raise CAPStreamReset(self._stream_id, packet.stream_id, position=self.position)
            self._other_streams[self._stream] = self._seq, self._numbers
        self._stream_id, self._stream = packet.stream_id, number
        if known is None:  # a stream may start anywhere
            known = packet.seq - 1, SequenceNumbers(packet.seq)
        self._seq, self._numbers = known

    def _accepts_jump(self, packet: Packet) -> bool:
        """Return True if a packet that is not the next in number is new and to be handed out."""
        if packet.seq <= self._seq:
            self._check_late(packet)
            return False
        if not self._gaps_are_legal and not self._accepts_gap(packet):
            return False
        self._numbers.skip(self._seq, packet.seq)
        return True

    def _check_late(self, packet: Packet) -> None:
        """Accept an end and drop a duplicate; anything else was never delivered, and is an error.

        Raises:
            CAPProtocolError: the number was skipped before, or is below the first of the stream.
            CAPRuntimeError: a FATAL error packet.
        """
        if isinstance(packet, ClosePacket):
            self._finish()
        elif isinstance(packet, ErrorPacket) and packet.p.severity is ErrorSeverity.FATAL:
            self._take_error(packet.p)
        elif not self._numbers.arrived(packet.seq):
            raise self._error(
                CAPProtocolError,
                f"seq {packet.seq} of stream {packet.stream_id} came after seq {self._seq}:"
                " the server sends packets out of order, so text would be missing",
            )

    def _accepts_gap(self, packet: Packet) -> bool:
        """Return True if a gap is still there after one reconnect, so that it is legal."""
        missing = f"seq {packet.seq} came after seq {self._seq} of stream {packet.stream_id}"
        if self._gap != (self._stream, self._seq):
            self._gap = (self._stream, self._seq)
            self._lose(missing)
            return False
        if self._strict_sequence:
            raise self._error(CAPProtocolError, f"{missing}, also after a reconnect")
        logger.warning("%s, also after a reconnect: the server numbers with gaps", missing)
        self._gaps_are_legal = True
        return True

    def _hands_out(self, packet: Packet) -> bool:
        """Act on an end or an error; return True if the packet is for the caller."""
        if isinstance(packet, ErrorPacket):
            self._take_error(packet.p)
            return self._reading
        self._finish()
        return True

    def _take_error(self, error: StreamError) -> None:
        message = self._redact(f"{error.code}: {error.message}")
        server_delay = seconds((error.details or {}).get("retry_after"))
        evidence = _Evidence(server_delay, stream_error=error)
        match error.severity:
            case ErrorSeverity.FATAL:
                self._settle()
                raise self._error(CAPRuntimeError, message, evidence)
            case ErrorSeverity.TRANSIENT:
                self._lose(message, evidence)
            case ErrorSeverity.WARNING:
                logger.warning("the agent warns after %s: %s", self.position, message)

    # Losses

    def _refill(self) -> None:
        self._losing = False
        self._budget.refill()

    def _settle(self) -> None:
        self._settled = True
        self._reading = False

    def _finish(self) -> None:
        self._settle()
        self._finished = True

    def _lose(self, why: str, evidence: _Evidence = _NOTHING, *, drains: bool = False) -> None:
        """Plan the reconnect after a loss, or raise when the budget is spent.

        `drains` means that the server ended the response in order and asked to come back.
        """
        self._settle()
        self._losing = True
        asked = self._server_delay(evidence)
        delay = self._budget.after_drain(asked) if drains else None
        if delay is None:
            delay = self._budget.after_loss(asked, begun=self._stream_id is not None)
        # A timer may fire a moment early, and then the next attempt would come too late.
        if self._time_left() <= (delay or _TIMER_SLACK):
            raise self._expired(why, evidence) from evidence.cause
        if delay is None:
            raise self._exhausted(why, replace(evidence, server_delay=asked)) from evidence.cause
        self._log_loss(why, delay)
        self._wait = Wait(delay)

    def _server_delay(self, evidence: _Evidence) -> float | None:
        """Return the longest delay that the server has asked for; `retry:` stays in force."""
        if self._decoder.retry_ms is not None:
            self._retry_seconds = self._decoder.retry_ms / 1000
        return max(filter(None, (evidence.server_delay, self._retry_seconds)), default=None)

    def _log_loss(self, why: str, delay: float) -> None:
        logger.warning(
            "connection lost after %s (%s); reconnecting in %.2f s, %s",
            self.position or "no packet",
            why,
            delay,
            self._budget.describe(),
        )

    def _exhausted(self, why: str, evidence: _Evidence) -> CAPConnectionError:
        asked, longest = evidence.server_delay, self._backoff.max_server_delay
        if asked is not None and asked > longest:
            reason = f"the server asks to wait {asked:g} s, more than max_retry_delay={longest:g}"
        elif self._budget.failures == 1:
            reason = "the connection brought no new packet"
        else:
            reason = f"{self._budget.failures} connections in a row brought no new packet"
        message = f"{self._where()} failed: {reason}; the last one: {why}"
        return self._error(CAPConnectionError, message, evidence)

    def _time_left(self) -> float:
        return inf if self._expires is None else self._expires - self._clock()

    def _expired(self, why: str, evidence: _Evidence = _NOTHING) -> CAPTimeoutError:
        self._settle()
        message = f"{self._where()} passed its deadline of {self._deadline:g} s: {why}"
        return self._error(CAPTimeoutError, message, evidence)

    def _error(self, kind: type[_Error], message: str, evidence: _Evidence = _NOTHING) -> _Error:
        position, request, head = self.position, self._request, evidence.head
        message = self._redact(message)
        return kind(
            message if position is None else f"{message} (read up to {position})",
            position=position,
            attempts=self._budget.failures,
            method=None if request is None else request.method,
            url=None if request is None else shown(request.url),
            proxy=None if request is None else self._proxy_for(request.url),
            status_code=None if head is None else head.status,
            headers=None if head is None else head.headers,
            body=evidence.body,
            retry_after=evidence.server_delay,
            stream_error=evidence.stream_error,
        )

    # Requests

    def _where(self) -> str:
        """Return the request in words: method, URL and proxy."""
        request = self._request
        return "the request" if request is None else where(request, self._proxy_for(request.url))

    def _limited(self, request: Request) -> Request:
        """Return the request with what is left of the deadline as its limits."""
        if self._deadline is None:
            return request
        now = self._clock()
        if self._expires is None:
            self._expires = now + self._deadline
        return request.expiring(self._expires, now)

    def _cursor(self) -> str | None:
        """Return the Last-Event-ID of the next request."""
        cursor = self._last_event_id.decode("utf-8", "replace")
        if cursor and cursor == cursor.strip() and cursor.isprintable():
            return cursor
        # No id, or one that a header cannot carry as it is.
        return None if self._stream_id is None else str(self._stream_id)

    def _redirect(self, head: ResponseHead, body: bytes) -> None:
        assert self._request is not None  # noqa: S101 - a response follows a request
        try:
            self._redirected = self._redirects.follow(self._request, head)
        except ValueError as error:
            message = f"{self._describe(head, body)}, a redirect that is not followed: {error}"
            evidence = _Evidence(head=head, body=body)
            raise self._error(CAPRuntimeError, message, evidence) from None
        self._settle()

    def _describe(self, head: ResponseHead, body: bytes) -> str:
        assert self._request is not None  # noqa: S101 - a response follows a request
        return self._redact(describe(self._request, head, body))
