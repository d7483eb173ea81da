"""The decision whether a request starts, joins or resumes a stream, or is refused. Pure.

The checks are made in this order, the cheap ones first. Those of the head and the body are made
where these are read; `decide` makes the others.

| known from | check | refusal |
|---|---|---|
| the head | size of the headers | 431 |
| | key | 401 |
| | syntax of `Last-Event-ID` | 400 |
| | content type and announced length | 415, 413 |
| the limits | readers of this principal | 429 |
| | rate, unless the head names a stream of the principal | 429 |
| | drain, unless the head names such a stream | 503 |
| the log | the stream of a resume exists and belongs to the principal | 404 |
| | its packet at the position is the one that the client has read | 410 |
| the body | size, time, number of values | 413, 408 |
| | validity, number of messages and parts | 422 |
| | a resume has the request that opened the stream | 409 |
| | the id is that of `X-Request-ID`; otherwise rate and drain again | 429, 503 |
| the limits | running streams of this principal, unless the request already has one | 429 |
| the log | a known request has the same body | 409 |

A `GET /streams/{stream_id}` has no body: it reads a stream that the principal has begun, perhaps in
another tab or on another device. Its checks are those of a resume up to the body, which would only
prove what the principal proves too, and `Last-Event-ID` must name the stream of the path (400).

Every request takes a token from the rate limit of its principal. A request that only joins a stream
gives it back, and one that names such a stream is admitted without a token: a client that returns
for its answer is never refused, and one that invents a position gains nothing.

`decide` gets the known facts, and returns a decision or the next fact that it needs. So the log is
queried only for facts that the decision depends on.
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias
from uuid import UUID

from .._options import Options
from ..errors import LogError, PositionGone, UnknownStream
from ..log._rules import check_position
from ..log.base import Opened, StreamMeta
from ._cursor import Cursor
from ._problems import (
    Problem,
    resume_conflict,
    shutting_down,
    too_many_readers,
    too_many_requests,
    too_many_streams,
)


@dataclass(slots=True)
class RequestFacts:
    """The known facts of a request; the caller adds those that `decide` needs.

    `named` is the request_id in the head, `reads` the stream in the path of a GET. `wait` is the
    time in nanoseconds until a token is available: 0 if one was taken, None before the first of
    `tries`. `may_read` and `may_start` are False if the principal is at its limit of readers or
    streams, and None before that was checked. `known` is the stream that the head names, valid
    after `looked_up`. `request_id` and `fingerprint` come from the body. `found` is the stream of
    that request_id; it is looked up only if there is a `refusal` without it.
    """

    principal: str
    cursor: Cursor | None = None
    named: UUID | None = None
    reads: UUID | None = None
    may_read: bool | None = None
    wait: int | None = None
    tries: int = 0
    known: StreamMeta | None = None
    looked_up: bool = False
    request_id: UUID | None = None
    fingerprint: str = ""
    found: StreamMeta | None = None
    refusal: Problem | None = None
    may_start: bool | None = None
    opened: Opened | None = None


class ServerFacts(NamedTuple):
    """The state of this process at the time of the decision."""

    options: Options
    closing: bool


class Need(Enum):
    """The fact that is needed next."""

    __hash__ = object.__hash__  # that of Enum is slower, and every request needs several facts

    READER = "a unit of the limit of readers"
    TOKEN = "a token from the rate limit of the principal"  # noqa: S105
    STREAM = "the stream that Last-Event-ID or the path names"
    NAMED_REQUEST = "the stream of the request that X-Request-ID names"
    BODY = "the body"
    START = "a unit of the limit of streams"
    OPENED = "the stream of the request, created if there is none"


@dataclass(frozen=True, slots=True)
class Find:
    """The stream of the request_id in the body is needed; without it the request is refused."""

    refusal: Problem


@dataclass(frozen=True, slots=True)
class Start:
    """Start an agent for a new stream."""

    meta: StreamMeta


@dataclass(frozen=True, slots=True)
class Join:
    """Read a stream that was started before, from its first packet."""

    meta: StreamMeta
    gives_token_back: bool


@dataclass(frozen=True, slots=True)
class Resume:
    """Read a stream after the position in the request."""

    meta: StreamMeta
    after: Cursor
    gives_token_back: bool


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with an error."""

    error: Problem | LogError


Decision: TypeAlias = Start | Join | Resume | Refuse


def decide(request: RequestFacts, server: ServerFacts) -> Decision | Need | Find:
    """Return the decision about a request, or the next fact that it needs."""
    if request.reads is not None:
        return _read(request, request.reads, server)
    if request.request_id is None:
        return _before_body(request, server)
    if request.cursor is not None:
        return _resume(request, request.cursor)
    return _start_or_join(request, server)


def _read(
    request: RequestFacts, stream_id: UUID, server: ServerFacts
) -> Join | Resume | Refuse | Need:
    cursor = request.cursor or Cursor(stream_id)
    if cursor.stream_id != stream_id:
        detail = "Last-Event-ID must be a position in the stream of the path, not in another one."
        return Refuse(Problem(400, "bad-position", detail))
    if request.wait is None:
        return _first(request, server)
    found = _at_position(request, cursor, server)
    if not isinstance(found, StreamMeta):
        return found
    if request.cursor is None:
        return Join(found, gives_token_back=not request.wait)
    return Resume(found, cursor, gives_token_back=not request.wait)


def _first(request: RequestFacts, server: ServerFacts) -> Refuse | Need:
    if request.may_read is None:
        return Need.READER
    return Need.TOKEN if request.may_read else Refuse(too_many_readers(server.options))


def _before_body(request: RequestFacts, server: ServerFacts) -> Refuse | Need:
    if request.wait is None:
        return _first(request, server)
    if request.cursor is not None:
        found = _at_position(request, request.cursor, server)
        return Need.BODY if isinstance(found, StreamMeta) else found
    if (request.wait or server.closing) and request.known is None:
        # A client that lost its connection before the first packet has no position to resume from:
        # it sends the request again with the same id.
        if request.named is not None and not request.looked_up:
            return Need.NAMED_REQUEST
        return Refuse(shutting_down() if server.closing else _too_fast(request, server))
    return Need.BODY


def _at_position(
    request: RequestFacts, cursor: Cursor, server: ServerFacts
) -> StreamMeta | Refuse | Need:
    """Return the stream if the request may read it after the position."""
    if not request.looked_up:
        return Need.STREAM
    meta = request.known
    if meta is None or meta.principal != request.principal:
        # The same answer for a stream of another principal as for one that does not exist.
        if request.wait:
            return Refuse(_too_fast(request, server))
        return Refuse(UnknownStream(cursor.stream_id))
    try:
        check_position(
            *(cursor.stream_id, cursor.seq, cursor.epoch),
            last_seq=meta.last_seq,
            epochs=meta.epochs,
            ended=meta.outcome is not None,
        )
    except PositionGone as error:
        return Refuse(error)
    return meta


def _resume(request: RequestFacts, cursor: Cursor) -> Resume | Refuse:
    """Resume the stream; a resume never starts a new one."""
    meta = request.known
    assert meta is not None  # noqa: S101 - the body is not read before the stream is known
    if meta.request_id != request.request_id:
        return Refuse(resume_conflict("another request_id"))
    if meta.fingerprint != request.fingerprint:
        return Refuse(resume_conflict("another body"))
    return Resume(meta, cursor, gives_token_back=not request.wait)


def _start_or_join(
    request: RequestFacts, server: ServerFacts
) -> Start | Join | Refuse | Need | Find:
    if request.opened is not None:
        if request.opened.created:
            return Start(request.opened.meta)
        return Join(request.opened.meta, gives_token_back=not request.wait)
    if request.refusal is not None:  # and the stream of the request was looked up
        return Refuse(request.refusal) if request.found is None else Need.OPENED
    if request.known is not None and request.known.request_id == request.request_id:
        return Need.OPENED
    if request.wait:  # admitted without a token for another request_id, that of the head
        return Need.TOKEN if request.tries < 2 else Refuse(_too_fast(request, server))
    if server.closing:
        return Find(shutting_down())
    if request.may_start is None:
        return Need.START
    return Need.OPENED if request.may_start else Find(too_many_streams(server.options))


def _too_fast(request: RequestFacts, server: ServerFacts) -> Problem:
    return too_many_requests(server.options, request.wait or 0)
