"""Admission: a request for a stream passes these checks in this order, the cheap ones first.

| known from | check | refusal |
|---|---|---|
| the head | size of the headers | 431 |
| | key | 401 |
| | syntax of `Last-Event-ID` | 400 |
| | content type and announced length | 415, 413 |
| this process | readers of this principal | 429 |
| | rate, unless the head names a stream that the principal has | 429 |
| | drain, unless the head names such a stream | 503 |
| the log | the stream of a resume: it is there, the principal's, and has come so far | 404, 400 |
| the body | size, time, number of values | 413, 408 |
| | validity, number of messages and parts | 422 |
| | a resume is of the request that opened the stream | 409 |
| | what `X-Request-ID` promised, or else rate and drain again | 429, 503 |
| this process | running streams of this principal, unless the request has one | 429 |
| the log | a known request has the same body | 409 |

Every request takes a token of its principal's rate. One that only joins a stream gives it back, and
one that names such a stream is let in without a token: a client that comes back for its answer is
never locked out, and one that invents a position has no advantage.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic, monotonic_ns
from uuid import UUID, uuid4

from starlette.datastructures import Headers
from starlette.requests import Request

from ._auth import ANYBODY, Keys, full_principal
from ._body import Asked, body_length, parse_body, read_body
from ._body_room import LARGE_BODY, BodyRoom
from ._cursor import Cursor, parse_cursor
from ._limits import RequestRate, retry_after
from ._off_loop import off_loop
from ._options import Options
from ._pace import Pace
from ._problems import Problem, resume_conflict
from ._runtime import Runtime
from .errors import UnknownStream
from .log.base import NewStream, StreamMeta

__all__ = ["Admission", "Admitted", "owned"]


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request that may read a stream after a position; `resumes` if it named the position."""

    runtime: Runtime
    meta: StreamMeta
    after_seq: int
    resumes: bool


@dataclass(frozen=True, slots=True)
class _Head:
    """What the head of a request says."""

    principal: str
    cursor: Cursor | None
    request_id: UUID | None
    length: int | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class _Entry:
    """A request that was let in by its head: the stream that it names, and if it was counted."""

    known: StreamMeta | None
    counted: bool


class Admission:
    """The checks of one application; `runtime` gives what runs on this event loop."""

    def __init__(
        self, options: Options, keys: Keys | None, runtime: Callable[[], Awaitable[Runtime]]
    ) -> None:
        self._options = options
        self._keys = keys
        self._runtime = runtime
        self._pace = Pace()
        self._room = BodyRoom(options.max_body_bytes, options.body_timeout)
        per_minute = options.max_requests_per_minute
        self._rate = None if per_minute is None else RequestRate(per_minute)

    async def admit(self, request: Request) -> Admitted:
        """Return the stream of a request, which is started or joined.

        Raises:
            Problem: the request is refused.
            LogError: the log refuses it, or does not answer.
        """
        await self._pace.wait()
        head = self._read_head(request)
        runtime = await self._runtime()
        self._check_readers(runtime, head.principal)
        entry = await self._enter(runtime, head)
        asked = await self._read_body(request, head)
        if head.cursor is None:
            meta = await self._start_or_join(runtime, head, entry, asked)
            return Admitted(runtime, meta, 0, resumes=False)
        meta = self._join(head, entry, asked)
        return Admitted(runtime, meta, head.cursor.seq, resumes=True)

    def principal(self, request: Request) -> str:
        """Return who is asking.

        Raises:
            Problem: 431 or 401.
        """
        _check_headers(request, self._options.max_header_bytes)
        given = request.headers.get("authorization")
        name = ANYBODY if self._keys is None else self._keys.principal(given)
        principal = full_principal(self._options.agent_id, name)
        request.state.principal = principal  # for the log line of a refusal
        return principal

    def too_many_readers(self) -> Problem:
        """Return the refusal of one more reader."""
        return Problem(
            429,
            "too-many-readers",
            f"This key has {self._options.max_readers_per_key} responses open.",
            headers={"Retry-After": "1"},
        )

    # The head.

    def _read_head(self, request: Request) -> _Head:
        principal, headers = self.principal(request), request.headers
        return _Head(
            principal=principal,
            cursor=_cursor(headers),
            request_id=_request_id(headers),
            length=body_length(headers, self._options.max_body_bytes),
            headers=headers,
        )

    def _check_readers(self, runtime: Runtime, principal: str) -> None:
        if not runtime.producers.has_room(principal):
            raise self.too_many_readers()

    async def _enter(self, runtime: Runtime, head: _Head) -> _Entry:
        """Take a token, or find the stream that lets a request in without one."""
        wait = self._take_token(head.principal)
        known = None
        if head.cursor is not None:
            known = await self._resumed(runtime, head.principal, head.cursor, wait)
        elif wait or runtime.closing:
            known = await _find(runtime, head.principal, head.request_id)
            if known is None:
                raise _shutting_down() if runtime.closing else self._too_many_requests(wait)
        return _Entry(known, counted=not wait)

    async def _resumed(
        self, runtime: Runtime, principal: str, cursor: Cursor, wait: int
    ) -> StreamMeta:
        try:
            meta = await owned(runtime, principal, cursor.stream_id)
        except UnknownStream:
            if wait:
                raise self._too_many_requests(wait) from None
            raise
        if cursor.seq > meta.last_seq:
            raise Problem(
                400, "bad-position", f"The stream has not come to packet {cursor.seq} yet."
            )
        return meta

    # The body.

    async def _read_body(self, request: Request, head: _Head) -> Asked:
        place = self._room.place(head.principal)
        try:
            body = await read_body(request, head.length, self._options, place.take)
            return await self._parse(body, head)
        finally:
            place.give_back()

    async def _parse(self, body: bytes, head: _Head) -> Asked:
        def parse() -> Asked:
            x_request_id = head.headers.get("x-request-id")
            resumes = head.cursor is not None
            return parse_body(body, head.principal, x_request_id, self._options, resumes=resumes)

        return parse() if len(body) <= LARGE_BODY else await off_loop(parse)

    def _join(self, head: _Head, entry: _Entry, asked: Asked) -> StreamMeta:
        """Return the stream that is resumed: a resume never starts a second generation."""
        meta = entry.known
        assert meta is not None  # noqa: S101 - the head of a resume names it
        if meta.request_id != asked.request.request_id:
            raise resume_conflict("another request_id")
        if meta.fingerprint != asked.fingerprint:
            raise resume_conflict("another body")
        if entry.counted:
            self._give_token_back(head.principal)
        return meta

    async def _start_or_join(
        self, runtime: Runtime, head: _Head, entry: _Entry, asked: Asked
    ) -> StreamMeta:
        principal, request_id = head.principal, asked.request.request_id
        counted = entry.counted
        if entry.known is None or entry.known.request_id != request_id:
            if not counted and (wait := self._take_token(principal)):
                raise self._too_many_requests(wait)
            counted = True
            await self._check_new(runtime, principal, request_id)
        at = monotonic()
        new = NewStream(uuid4(), principal, request_id, asked.fingerprint, asked.question)
        opened = await runtime.log.open(new, runtime.owner)
        if opened.created:
            runtime.producers.start(asked.request, opened.meta, head.headers, at)
        elif counted:
            self._give_token_back(principal)
        return opened.meta

    async def _check_new(self, runtime: Runtime, principal: str, request_id: UUID) -> None:
        """Refuse a request that there is no room for, unless it turns out to be a known one."""
        refusal = None
        if runtime.closing:
            refusal = _shutting_down()
        elif runtime.producers.is_full(principal):
            refusal = self._too_many_streams()
        if refusal is not None and await runtime.log.find(principal, request_id) is None:
            raise refusal

    # The rate.

    def _take_token(self, principal: str) -> int:
        """Return 0, or for how many nanoseconds there will be no token."""
        return 0 if self._rate is None else self._rate.take(principal, monotonic_ns())

    def _give_token_back(self, principal: str) -> None:
        if self._rate is not None:
            self._rate.give_back(principal, monotonic_ns())

    def _too_many_requests(self, wait: int) -> Problem:
        return Problem(
            429,
            "too-many-requests",
            f"This key may ask {self._options.max_requests_per_minute} times a minute.",
            headers={"Retry-After": retry_after(wait)},
        )

    def _too_many_streams(self) -> Problem:
        return Problem(
            429,
            "too-many-streams",
            f"This key has {self._options.max_streams_per_key} streams running.",
            headers={"Retry-After": "1"},
        )


async def owned(runtime: Runtime, principal: str, stream_id: UUID) -> StreamMeta:
    """Return the description of a stream.

    Raises:
        UnknownStream: there is none, or it belongs to another principal.
    """
    meta = await runtime.log.meta(stream_id)
    if meta.principal != principal:
        raise UnknownStream(stream_id)  # the same answer as for one that never was
    return meta


async def _find(runtime: Runtime, principal: str, request_id: UUID | None) -> StreamMeta | None:
    """Return the stream of the request that the head names.

    A client that lost its connection before the first packet has no position to resume from, and
    asks again under the same id.
    """
    return None if request_id is None else await runtime.log.find(principal, request_id)


def _request_id(headers: Headers) -> UUID | None:
    try:
        return UUID(headers.get("x-request-id", ""))
    except ValueError:
        return None


def _cursor(headers: Headers) -> Cursor | None:
    values = headers.getlist("last-event-id")
    if not values:
        return None
    try:
        return parse_cursor(",".join(values))
    except ValueError as error:
        raise Problem(400, "bad-last-event-id", f"{error}.") from None


def _check_headers(request: Request, most_bytes: int) -> None:
    if sum(len(name) + len(value) for name, value in request.headers.raw) > most_bytes:
        raise Problem(431, "headers-too-large", f"The headers may have {most_bytes} bytes.")


def _shutting_down() -> Problem:
    return Problem(
        503, "shutting-down", "The server is shutting down.", headers={"Retry-After": "1"}
    )
