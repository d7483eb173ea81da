"""The resume machine: every rule that decides whether a word is lost, doubled or spliced.

It knows no socket, clock, thread or event loop. The rules, by the names of `docs/decisions.md`:

* Cursor (13). The last SSE id of a complete event, in force across connections; without one, the
  stream's id. It moves when the packet is handed out, never before.
* Duplicates (10). The last number is kept per stream; a packet not above it is dropped.
* No splice (11). Once packets were handed out, a new connection may only bring streams that this
  request has seen.
* Gaps (12). A jump means lost packets: reconnect once from the last good position. If it is still
  there the server numbers with gaps, which is legal: one warning, or an error if `strict_sequence`.
* Loss (6). Any transport failure, and an end of body before CLOSE. A failed certificate check and
  a closed client are final.
* Budget (7). Losses in a row without a new packet, `max_retries` of them. Only a DELTA, EVENT or
  CLOSE packet refills it. The delay doubles, and is never shorter than the server's wish.
* Statuses (8, 9). First attempt: anything but a 200 event stream is an error. Reconnect: some
  statuses, and a 200 of another type, are one more loss; the rest is final. 307 and 308 are
  followed; credentials stay at their origin.
* Errors in the stream (14). FATAL raises, TRANSIENT is a loss that moves the cursor, WARNING goes
  on. What is not a packet is a protocol error, and is not retried.
"""

import logging
import random
import time
from collections.abc import Callable, Iterator
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
from .._http._redirect import FOLLOWED, MOST_REDIRECTS, redirected
from .._http._types import FINAL_FAILURES, Request, ResponseHead, TransportFailure
from .._retry import RETRIED_STATUSES, Backoff, retry_after, seconds
from ..sse import ServerSentEvent, SSEDecoder, SSEEventTooLarge
from ..sse._decode import DEFAULT_MAX_EVENT_BYTES
from ._words import describe
from .errors import CAPConnectionError, CAPError, CAPProtocolError, CAPRuntimeError, CAPStreamReset
from .position import Position

__all__ = ["ResumeMachine"]

logger = logging.getLogger("coreason_client.cap")

_CONTENT = (DeltaPacket, EventPacket)


class ResumeMachine:
    """Reads one logical stream over as many connections as it takes.

    `attempt` makes the request for a connection from the cursor, None for none. `position` is
    where to go on, when the stream was begun elsewhere. `redact` takes our secrets out of words
    that the server chose. `jitter` gives numbers from 0 to 1, `now`
    the seconds since 1970; both are for tests to replace.
    """

    def __init__(
        self,
        attempt: Callable[[str | None], Request],
        *,
        position: Position | None = None,
        max_retries: int = 3,
        backoff: Backoff = Backoff(),  # noqa: B008 - immutable
        strict_sequence: bool = False,
        max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES,
        redact: Callable[[str], str] = str,
        jitter: Callable[[], float] = random.random,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._attempt = attempt
        self._max_retries = max_retries
        self._backoff = backoff
        self._strict_sequence = strict_sequence
        self._max_event_bytes = max_event_bytes
        self._redact = redact
        self._jitter = jitter
        self._now = now

        # What has been read.
        self._stream_id: UUID | None = None
        self._stream: int | None = None  # the same as a number: quicker to compare
        self._seq = -1
        self._other_streams: dict[int, int] = {}  # their last numbers
        self._last_event_id = b""
        self._later_id: bytes | None = None
        self._gap: tuple[int | None, int] | None = None  # where one reconnect was spent
        self._gaps_are_legal = False
        if position is not None:
            self._stream_id, self._stream = position.stream_id, position.stream_id.int
            self._seq = position.seq
            self._last_event_id = (position.cursor or "").encode()

        # Where we are.
        self._attempts = 0
        self._failures = 0
        self._retry_seconds: float | None = None
        self._wait: Wait | None = None
        self._request: Request | None = None  # of the connection at hand
        self._redirected: Request | None = None
        self._redirects = 0
        self._decoder = SSEDecoder(max_event_bytes)
        self._resumed = False  # packets were read before this connection
        self._settled = True  # what becomes of this connection is decided
        self._finished = False
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

    # Steps

    def next_step(self) -> Request | Wait | None:
        """Say what to do next; None when the stream is over."""
        if self._finished:
            return None
        if self._wait is not None:
            wait, self._wait = self._wait, None
            return wait
        if self._redirected is not None:
            self._request, self._redirected = self._redirected, None
        else:
            self._attempts += 1
            self._redirects = 0
            self._request = self._attempt(self._cursor())
        self._decoder = SSEDecoder(
            self._max_event_bytes, last_event_id=self._last_event_id.decode("utf-8", "replace")
        )
        self._resumed = self._stream_id is not None
        self._settled = False
        return self._request

    def accepts(self, head: ResponseHead) -> bool:
        """Say whether this is the response that carries the stream."""
        self._head = head
        self._reading = head.status == 200 and head.content_type == "text/event-stream"
        return self._reading

    def refused(self, head: ResponseHead, body: bytes) -> None:
        """Follow a redirect, count a loss, or raise what the response means.

        Raises:
            CAPRuntimeError: the server refuses.
            CAPProtocolError: it is no event stream, on the first attempt.
            CAPConnectionError: one loss too many.
        """
        if head.status in FOLLOWED and "location" in head.headers:
            self._redirect(head, body)
            return
        wish = retry_after(head.headers, self._now)
        if self._attempts > 1 and (head.status == 200 or head.status in RETRIED_STATUSES):
            self._lose(self._describe(head, body), wish=wish, head=head, body=body)
            return
        kind = CAPProtocolError if head.status == 200 else CAPRuntimeError
        raise self._error(kind, self._describe(head, body), wish=wish, head=head, body=body)

    def lost(self, failure: TransportFailure | None) -> tuple[()]:
        """Take note that the connection is gone, with a failure or with a clean end.

        Raises:
            CAPConnectionError: one loss too many, or one that no retry mends.
        """
        if failure is not None and failure.kind in FINAL_FAILURES:
            cause = failure.__cause__ or failure
            raise self._error(CAPConnectionError, f"no connection: {failure}") from cause
        if not self._settled:
            self._lose(
                "the response ended before a CLOSE packet" if failure is None else str(failure),
                failure=failure,
            )
        return ()

    # Packets

    def receive(self, chunk: bytes) -> Iterator[Packet]:
        """Take bytes and hand out the new packets in them, one at a time.

        Raises:
            CAPProtocolError: what came is no packet, or too large, or of another stream.
            CAPRuntimeError: a FATAL error packet.
            CAPConnectionError: one loss too many.
        """
        events, too_large = self._decode(chunk)
        for event in events:
            packet = self._parse(event)
            if packet.stream_id.int != self._stream:
                self._switch_stream(packet)
            if packet.seq != self._seq + 1 and not self._accepts_jump(packet):
                if self._reading:
                    continue
                return
            # The position moves here, as the packet goes out and not before.
            self._seq = packet.seq
            self._last_event_id = event.id_bytes
            if isinstance(packet, _CONTENT):
                self._failures = 0
                yield packet
            elif self._hands_out(packet):
                yield packet
            if not self._reading:
                return
        if self._later_id is not None:
            self._last_event_id = self._later_id
        if too_large is not None:
            raise self._error(CAPProtocolError, str(too_large)) from too_large

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
        last = self._other_streams.get(number)
        if self._stream_id is not None and self._stream is not None:
            if last is None and self._resumed:
                raise CAPStreamReset(self._stream_id, packet.stream_id, position=self.position)
            self._other_streams[self._stream] = self._seq
        self._stream_id, self._stream = packet.stream_id, number
        self._seq = packet.seq - 1 if last is None else last  # a stream may start anywhere

    def _accepts_jump(self, packet: Packet) -> bool:
        """Say whether a packet that is not the next in number is new and to be handed out."""
        if packet.seq <= self._seq:
            # A duplicate is dropped; but an end, though told twice, is the end.
            if isinstance(packet, ClosePacket):
                self._finish()
            elif isinstance(packet, ErrorPacket) and packet.p.severity is ErrorSeverity.FATAL:
                self._take_error(packet.p)
            return False
        if self._gaps_are_legal:
            return True
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
        """Take note of an end or an error; say whether the packet is for the caller."""
        if isinstance(packet, ErrorPacket):
            self._take_error(packet.p)
            return self._reading
        self._failures = 0
        self._finish()
        return True

    def _take_error(self, error: StreamError) -> None:
        words = f"{error.code}: {self._redact(error.message)}"
        wish = seconds((error.details or {}).get("retry_after"))
        match error.severity:
            case ErrorSeverity.FATAL:
                self._settle()
                raise self._error(CAPRuntimeError, words, wish=wish, stream_error=error)
            case ErrorSeverity.TRANSIENT:
                self._lose(words, wish=wish, stream_error=error)
            case ErrorSeverity.WARNING:
                logger.warning("the agent warns after %s: %s", self.position, words)

    # Losses

    def _settle(self) -> None:
        self._settled = True
        self._reading = False

    def _finish(self) -> None:
        self._settle()
        self._finished = True

    def _lose(
        self,
        cause: str,
        *,
        wish: float | None = None,
        failure: TransportFailure | None = None,
        head: ResponseHead | None = None,
        body: bytes | None = None,
        stream_error: StreamError | None = None,
    ) -> None:
        """Count a loss and plan the reconnect, or raise when the budget is spent."""
        self._settle()
        self._failures += 1
        if self._decoder.retry_ms is not None:
            self._retry_seconds = self._decoder.retry_ms / 1000
        wish = max(filter(None, (wish, self._retry_seconds)), default=None)
        delay = self._backoff.delay(self._failures, wish, self._jitter)
        if self._failures <= self._max_retries and delay is not None:
            logger.warning(
                "connection lost after %s (%s); reconnecting in %.2f s, attempt %d of %d",
                self.position or "no packet",
                cause,
                delay,
                self._failures,
                self._max_retries,
            )
            self._wait = Wait(delay)
            return
        if delay is None:
            why = f"the server asks to wait {wish:g} s, more than {self._backoff.longest_wish:g} s"
        elif self._failures == 1:
            why = "the connection brought no new packet"
        else:
            why = f"{self._failures} connections in a row brought no new packet"
        raise self._error(
            CAPConnectionError,
            f"{why}; the last one: {cause}",
            wish=wish,
            head=head,
            body=body,
            stream_error=stream_error,
        ) from (failure.__cause__ or failure if failure is not None else None)

    def _error(
        self,
        kind: type[CAPError],
        message: str,
        *,
        wish: float | None = None,
        head: ResponseHead | None = None,
        body: bytes | None = None,
        stream_error: StreamError | None = None,
    ) -> CAPError:
        position = self.position
        return kind(
            message if position is None else f"{message} (read up to {position})",
            position=position,
            attempts=self._failures,
            status_code=None if head is None else head.status,
            headers=None if head is None else head.headers,
            body=body,
            retry_after=wish,
            stream_error=stream_error,
        )

    # Requests

    def _cursor(self) -> str | None:
        """Return the Last-Event-ID of the next request."""
        cursor = self._last_event_id.decode("utf-8", "replace")
        if cursor and cursor == cursor.strip() and cursor.isprintable():
            return cursor
        # No id, or one that a header cannot carry as it is.
        return None if self._stream_id is None else str(self._stream_id)

    def _redirect(self, head: ResponseHead, body: bytes) -> None:
        assert self._request is not None  # noqa: S101 - a response follows a request
        self._redirects += 1
        try:
            if self._redirects > MOST_REDIRECTS:
                raise ValueError(f"more than {MOST_REDIRECTS} in a row")
            self._redirected = redirected(self._request, head.headers["location"])
        except ValueError as error:
            words = f"{self._describe(head, body)}, a redirect that is not followed: {error}"
            raise self._error(CAPRuntimeError, words, head=head, body=body) from None
        self._settle()

    def _describe(self, head: ResponseHead, body: bytes) -> str:
        assert self._request is not None  # noqa: S101 - a response follows a request
        return self._redact(describe(self._request, head, body))
