"""The state of one stream that is read: its position and numbers, and its errors. Pure.

The numbers are kept per stream, since a server may send several streams in turn. A number that is
not the next one is a duplicate, a late packet that was skipped before, or the end of a gap; which
of them is decided here, and `_resume` acts on it.

An epoch is one process's turn at writing a stream. Our server names it in the ids of later epochs,
with the number of its first packet: `<stream>:<seq>:<epoch>:<first>`. A store that lost packets
gives their numbers to another run of the agent, in a new epoch that begins before the position of a
reader; so the ids show whether a packet follows the one before it.

An error of a stream has its position, its request and its last response as fields.
"""

import json
import logging
import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar
from uuid import UUID

from coreason_manifest.definitions.presentation import ErrorSeverity, StreamError

from .._connections import Connections, header_cursor
from .._http._checks import problem_message, shown
from .._http._types import Request, ResponseHead, TransportFailure
from .._retry import parse_seconds
from .errors import CAPConnectionError, CAPError, CAPRuntimeError, CAPStreamReset, CAPTimeoutError
from .position import Position

# The sequence numbers that have arrived in one stream. Pure.
#
# A server may leave numbers out, so a number that is not above the last one need not be a
# duplicate. Only a number that has arrived before may be dropped; a number that was skipped and
# comes late belongs to a packet that was never delivered.


class SequenceNumbers:
    """The numbers that arrived: all from `first` to the last one, except the skipped ranges."""

    __slots__ = ("_first", "_gap_ends", "_gap_starts")

    def __init__(self, first: int) -> None:
        self._first = first
        # Two sorted lists of the same length. They stay empty unless a server leaves numbers out.
        self._gap_starts: list[int] = []
        self._gap_ends: list[int] = []

    def skip(self, last: int, following: int) -> None:
        """Record that the numbers between `last` and `following` did not arrive."""
        self._gap_starts.append(last + 1)
        self._gap_ends.append(following - 1)

    def arrived(self, seq: int) -> bool:
        """Return True if `seq`, which is not above the last number, has arrived before."""
        if seq < self._first:
            return False
        gap = bisect_right(self._gap_starts, seq) - 1
        return gap < 0 or seq > self._gap_ends[gap]


logger = logging.getLogger("coreason_client.cap")

_MAX_REREADS = 3
_NUMBER = rb"([1-9][0-9]{0,15})"
_ID = re.compile(rb"(.*?:[0-9]+)(?::%b(?::%b)?)?" % (_NUMBER, _NUMBER))
_MAX_EPOCH = 2**53 - 1  # as in JavaScript
_SHORTEST_WITH_EPOCH = len(f"{UUID(int=0)}:1:1")


class Numbering:
    """The position in the current stream, and the last numbers of all others.

    `start` is the position in a stream that was begun elsewhere; with `rewinds` the stream may be
    read again. The resume machine sets `seq` and
    `last_event_id` itself, because a method call for every packet would cost too much; it asks
    `follows` only if the id of a packet has not `id_length`, or does not end with `epoch_part`.

    Attributes:
        stream_id: the current stream, None before the first packet.
        stream: its id as an integer, which is faster to compare.
        seq: the number of the last packet that was handed out.
        last_event_id: the SSE id that belongs to it.
        id_length: the length of that id; -1 if one of this length may be of any epoch.
        epoch_part: the part of that id that names the epoch.
    """

    __slots__ = (
        "_furthest",
        "_kept",
        "_numbers",
        "_other_streams",
        "_rereads",
        "_resumed",
        "_retried_gap",
        "_rewinds",
        "_start",
        "epoch_part",
        "id_length",
        "last_event_id",
        "seq",
        "stream",
        "stream_id",
    )

    def __init__(self, start: Position | None = None, *, rewinds: bool = False) -> None:
        self._start = start
        self._rewinds = rewinds
        self._numbers = SequenceNumbers(0)
        # By stream id; the int is the last number.
        self._other_streams: dict[int, tuple[int, SequenceNumbers]] = {}
        self._resumed = False  # packets arrived before this connection
        self._retried_gap: tuple[int | None, int] | None = None  # stream and number before it
        self._kept: Position | None = None  # the position before a reread that has not begun
        self._rereads = 0  # without a number above _furthest
        self._furthest = 0
        self.stream_id: UUID | None = None
        self.stream: int | None = None
        self.seq = -1
        self.set_id(b"")
        if start is not None:
            self.stream_id, self.stream = start.stream_id, start.stream_id.int
            self.seq = start.seq
            self.set_id((start.cursor or "").encode())

    @property
    def position(self) -> Position | None:
        """The position after the last packet that was handed out; None before the first one."""
        if self.stream_id is None or self._kept is not None:
            return self._kept
        cursor = self.last_event_id.decode("utf-8", "replace") or None
        return Position(stream_id=self.stream_id, seq=self.seq, cursor=cursor)

    @property
    def cursor(self) -> str | None:
        """The Last-Event-ID of the next request: the last SSE id, else the stream id."""
        cursor = header_cursor(self.last_event_id)
        if cursor is None and self.stream_id is not None:
            return str(self.stream_id)
        return cursor

    def set_id(self, event_id: bytes) -> None:
        """Change the SSE id without a packet."""
        self.last_event_id = event_id
        self.id_length, self.epoch_part = -1, b""

    @property
    def is_at_start(self) -> bool:
        """True if a stream that was begun elsewhere is still at its start position."""
        return self._start is not None and self.seq == self._start.seq

    def connect(self) -> None:
        """Record a new connection; if packets have arrived before, it may bring no new stream."""
        self._resumed = self.stream_id is not None

    def switch_stream(self, stream_id: UUID, seq: int) -> None:
        """Switch to another stream; `seq` is the number of its first packet here.

        Raises:
            CAPStreamReset: a reconnect brings a stream that was not seen before.
        """
        known = self._other_streams.get(stream_id.int)
        if self.stream_id is not None and self.stream is not None:
            if known is None and self._resumed:
                raise CAPStreamReset(self.stream_id, stream_id, position=self.position)
            self._other_streams[self.stream] = self.seq, self._numbers
        self.stream_id, self.stream = stream_id, stream_id.int
        if known is None:  # a stream may start anywhere
            known = seq - 1, SequenceNumbers(seq)
        self.seq, self._numbers = known

    def follows(self, seq: int, event_id: bytes) -> bool:
        """Return False if a packet of this stream is of another run than the last packet."""
        packet = f"{self.stream_id}:{seq}"
        last = _epoch_of(self.last_event_id, f"{self.stream_id}:{self.seq}")
        new = _epoch_of(event_id, packet)
        # A longer number, or an epoch, makes an id longer; the next number is never shorter.
        is_known = new is not None or len(event_id) < _SHORTEST_WITH_EPOCH
        self.id_length = len(event_id) if is_known else -1
        self.epoch_part = b"" if new is None else event_id[len(packet) :]
        if last is None or new is None or last[0] == new[0] or new[1] is None:
            return True
        return self.seq < seq == new[1]

    def has_arrived(self, seq: int) -> bool:
        """Return True if `seq`, which is not above the last number, has arrived before."""
        return self._numbers.arrived(seq)

    def skip_to(self, seq: int) -> None:
        """Record that the numbers between the last one and `seq` did not arrive."""
        self._numbers.skip(self.seq, seq)

    # Rereads

    def start_over(self) -> bool:
        """Go back to the start of the stream; return False if the caller has no use for that.

        The position stays until the first packet arrives: a reread may fail, and what was handed
        out is still all that the caller has.
        """
        if self.seq > self._furthest:
            self._furthest, self._rereads = self.seq, 0
        if not self._rewinds or self.seq < 1 or self._rereads == _MAX_REREADS:
            return False
        logger.warning(
            "the server has lost packets up to %s; reading the stream again from its start",
            self.position,
        )
        self._rereads += 1
        self._kept, self._start = self.position, None
        self._other_streams = {}
        self.seq = -2  # no packet is the next one
        self.set_id(b"")
        return True

    @property
    def starting_over(self) -> bool:
        """True if a reread has not brought a packet yet."""
        return self._kept is not None

    def begin_again(self, seq: int) -> None:
        """Record the number of the first packet of a reread."""
        self._kept = None
        self.seq, self._numbers = seq - 1, SequenceNumbers(seq)

    # Gaps

    @property
    def gap_was_retried(self) -> bool:
        """True if a gap after the last number has already caused a reconnect."""
        return self._retried_gap == (self.stream, self.seq)

    def record_gap_retry(self) -> None:
        """Record that a gap after the last number has caused a reconnect."""
        self._retried_gap = (self.stream, self.seq)


def _epoch_of(event_id: bytes, packet: str) -> tuple[int, int | None] | None:
    """Return the epoch of a packet `<stream>:<seq>` and its first number, as far as its id says so.

    Other servers have other ids, which say nothing.
    """
    match = _ID.fullmatch(event_id)
    if match is None or match[1] != packet.encode():
        return None
    epoch = int(match[2] or 1)
    if match[3] is None:
        first = 1 if epoch == 1 else None  # earlier releases did not send it
    else:
        first = int(match[3])
        if epoch == 1 or first > int(packet.rpartition(":")[2]):
            return None
    return None if epoch > _MAX_EPOCH else (epoch, first)


# Descriptions of requests and of unexpected responses for error messages, without secrets.

_POSITION_GONE = "urn:coreason:problem:position-gone"


def describe_request(request: Request, proxy: str | None) -> str:
    """Return the method and the URL of a request, and its proxy if there is one."""
    via = "" if proxy is None else f" through the proxy {proxy}"
    return f"{request.method} {shown(request.url)}{via}"


def describe_response(request: Request, head: ResponseHead, body: bytes) -> str:
    """Return the request and its response in one sentence, with the text of a problem document."""
    response = f"HTTP {head.status}"
    if head.status == 200:
        response = f"a response of type {head.content_type or 'unknown'}, not text/event-stream"
    sentence = f"{request.method} {shown(request.url)} was answered with {response}"
    try:
        message = problem_message(json.loads(body))
    except ValueError:
        return sentence
    return f"{sentence}: {message}" if message else sentence


def is_position_gone(body: bytes) -> bool:
    """Return True if a problem document says that the server has no packets after a position."""
    try:
        problem = json.loads(body)
    except ValueError:
        return False
    return isinstance(problem, dict) and problem.get("type") == _POSITION_GONE


_Error = TypeVar("_Error", bound=CAPError)
_MAX_OUTCOME = 100  # characters of the header; codes are far shorter


@dataclass(frozen=True, slots=True)
class FailureDetails:
    """The response, failure or error packet behind a loss; its fields become those of the error."""

    server_delay: float | None = None
    failure: TransportFailure | None = None
    head: ResponseHead | None = None
    body: bytes | None = None
    stream_error: StreamError | None = None

    @property
    def cause(self) -> BaseException | None:
        """The exception that the error is raised from."""
        return self.failure and (self.failure.__cause__ or self.failure)


NO_DETAILS = FailureDetails()


def details_of(error: StreamError) -> FailureDetails:
    """Return the details of an error packet."""
    delay = parse_seconds((error.details or {}).get("retry_after"))
    return FailureDetails(delay, stream_error=error)


def ended_with(outcome: str) -> StreamError:
    """Return the error of a stream that has ended with this outcome, as far as a 204 tells it."""
    message = "the stream has ended with this error"
    return StreamError(code=outcome[:_MAX_OUTCOME], message=message, severity=ErrorSeverity.FATAL)


class StreamErrors:
    """Builds errors that contain the read position and the request.

    `redact` removes the credentials from a text, and `proxy_for` returns the proxy for a URL.
    """

    __slots__ = ("_connections", "_numbering", "_proxy_for", "redact")

    def __init__(
        self,
        connections: Connections,
        numbering: Numbering,
        redact: Callable[[str], str],
        proxy_for: Callable[[str], str | None],
    ) -> None:
        self._connections = connections
        self._numbering = numbering
        self._proxy_for = proxy_for
        self.redact = redact

    def make(
        self, kind: type[_Error], message: str, details: FailureDetails = NO_DETAILS
    ) -> _Error:
        """Return an error with all known fields."""
        position, request = self._numbering.position, self._connections.request
        head = details.head
        message = self.redact(message)
        return kind(
            message if position is None else f"{message} (read up to {position})",
            position=position,
            attempts=self._connections.budget.failures,
            method=None if request is None else request.method,
            url=None if request is None else shown(request.url),
            proxy=None if request is None else self._proxy_for(request.url),
            status_code=None if head is None else head.status,
            headers=None if head is None else head.headers,
            body=details.body,
            retry_after=details.server_delay,
            stream_error=details.stream_error,
        )

    def fatal(self, error: StreamError, details: FailureDetails = NO_DETAILS) -> CAPRuntimeError:
        """Return the error for a fatal error in the stream; `details` are those of a response."""
        known = details_of(error)
        known = replace(known, head=details.head, body=details.body)
        return self.make(CAPRuntimeError, self.describe(error), known)

    def describe(self, error: StreamError) -> str:
        """Return an error packet as text, without secrets."""
        return self.redact(f"{error.code}: {error.message}")

    def exhausted(self, why: str, details: FailureDetails) -> CAPConnectionError:
        """Return the error for an exhausted retry budget."""
        budget = self._connections.budget
        asked, longest = details.server_delay, budget.max_server_delay
        if asked is not None and asked > longest:
            reason = f"the server asks to wait {asked:g} s, more than max_retry_delay={longest:g}"
        elif budget.failures == 1:
            reason = "the connection brought no new packet"
        else:
            reason = f"{budget.failures} connections in a row brought no new packet"
        message = f"{self.describe_request()} failed: {reason}; the last one: {why}"
        return self.make(CAPConnectionError, message, details)

    def expired(self, why: str, details: FailureDetails = NO_DETAILS) -> CAPTimeoutError:
        """Return the error for a deadline that has passed."""
        deadline = self._connections.deadline
        message = f"{self.describe_request()} passed its deadline of {deadline:g} s: {why}"
        return self.make(CAPTimeoutError, message, details)

    def unusable_redirect(
        self, head: ResponseHead, body: bytes, why: ValueError
    ) -> CAPRuntimeError:
        """Return the error for a redirect that cannot be followed."""
        message = f"{self.describe_response(head, body)}, a redirect that is not followed: {why}"
        return self.make(CAPRuntimeError, message, FailureDetails(head=head, body=body))

    def describe_request(self) -> str:
        """Return method, URL and proxy of the last request as text."""
        request = self._connections.request
        if request is None:
            return "the request"
        return describe_request(request, self._proxy_for(request.url))

    def describe_response(self, head: ResponseHead, body: bytes) -> str:
        """Describe a response that does not carry the stream, without secrets."""
        request = self._connections.request
        assert request is not None  # noqa: S101 - a response follows a request
        return self.redact(describe_response(request, head, body))
