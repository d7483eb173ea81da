"""Admission: gathers the facts of a request, in the order in which `decide` asks for them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic, monotonic_ns
from uuid import UUID, uuid4

from starlette.datastructures import Headers
from starlette.requests import Request

from .._off_loop import LARGE_BODY, off_loop
from .._options import Options
from ..engine._runtime import Runtime
from ..errors import UnknownStream
from ..http._auth import ANYBODY, Keys, full_principal
from ..http._body_memory import BodyRoom
from ..http._pace import Pace
from ..http._problems import Problem
from ..http._rate_limit import RequestRate
from ..log.base import NewStream, StreamMeta
from ._cursor import Cursor, parse_cursor
from ._decision import (
    Find,
    Need,
    Refuse,
    RequestFacts,
    Resume,
    ServerFacts,
    Start,
    decide,
)
from ._request import Asked, body_length, parse_body, read_body

__all__ = ["Admission", "Admitted", "owned"]


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request that may read a stream after a position; `resumes` if it named the position."""

    runtime: Runtime
    meta: StreamMeta
    after_seq: int
    resumes: bool


class Admission:
    """The checks of one application; `runtime` gives what runs on this event loop."""

    def __init__(
        self, options: Options, keys: Keys | None, runtime: Callable[[], Awaitable[Runtime]]
    ) -> None:
        self.options = options
        self.bodies = BodyRoom(options.max_body_bytes, options.body_timeout)
        self._keys = keys
        self._runtime = runtime
        self._pace = Pace()
        per_minute = options.max_requests_per_minute
        self._rate = None if per_minute is None else RequestRate(per_minute)

    async def admit(self, request: Request) -> Admitted:
        """Return the stream of a request, which is started or joined.

        Raises:
            Problem: the request is refused.
            LogError: the log refuses it, or does not answer.
        """
        await self._pace.wait()
        principal, headers = self.principal(request), request.headers
        facts = RequestFacts(principal, _cursor(headers), _request_id(headers))
        length = body_length(headers, self.options.max_body_bytes)
        return await _Visit(self, await self._runtime(), request, facts, length).admit()

    def principal(self, request: Request) -> str:
        """Return who is asking.

        Raises:
            Problem: 431 or 401.
        """
        _check_headers(request, self.options.max_header_bytes)
        given = request.headers.get("authorization")
        name = ANYBODY if self._keys is None else self._keys.principal(given)
        principal = full_principal(self.options.agent_id, name)
        request.state.principal = principal  # for the log line of a refusal
        return principal

    def take_token(self, principal: str) -> int:
        """Return 0, or for how many nanoseconds there will be no token."""
        return 0 if self._rate is None else self._rate.take(principal, monotonic_ns())

    def give_token_back(self, principal: str) -> None:
        """Return the token of a request that only joined a stream."""
        if self._rate is not None:
            self._rate.give_back(principal, monotonic_ns())


class _Visit:
    """One request on its way to a stream."""

    __slots__ = ("_admission", "_asked", "_facts", "_length", "_opened_at", "_request", "_runtime")

    def __init__(
        self,
        admission: Admission,
        runtime: Runtime,
        request: Request,
        facts: RequestFacts,
        length: int | None,
    ) -> None:
        self._admission = admission
        self._runtime = runtime
        self._request = request
        self._facts = facts
        self._length = length
        self._asked: Asked | None = None
        self._opened_at = 0.0

    async def admit(self) -> Admitted:
        facts = self._facts
        while True:
            decision = decide(facts, self._server())
            if isinstance(decision, Need):
                await _GATHER[decision](self)
            elif isinstance(decision, Find):
                facts.refusal = decision.refusal
                facts.found = await self._find(facts.request_id)
            elif isinstance(decision, Refuse):
                raise decision.error
            else:
                break
        if isinstance(decision, Start):
            self._start(decision.meta)
        elif decision.gives_token_back:
            self._admission.give_token_back(facts.principal)
        resumes = isinstance(decision, Resume)
        after_seq = decision.after_seq if isinstance(decision, Resume) else 0
        return Admitted(self._runtime, decision.meta, after_seq, resumes)

    def _server(self) -> ServerFacts:
        facts, runtime = self._facts, self._runtime
        producers = runtime.producers
        # Whether there are too many streams is asked for once, as it may take a count of them.
        opens = facts.request_id is not None and facts.refusal is None and facts.opened is None
        return ServerFacts(
            self._admission.options,
            closing=runtime.closing,
            readers_full=not producers.has_room(facts.principal),
            streams_full=opens and producers.is_full(facts.principal),
        )

    def _start(self, meta: StreamMeta) -> None:
        assert self._asked is not None  # noqa: S101 - nothing starts before the body was read
        producers, headers = self._runtime.producers, self._request.headers
        producers.start(self._asked.request, meta, headers, self._opened_at)

    # One method for each fact that can be needed.

    async def _take_token(self) -> None:
        self._facts.wait = self._admission.take_token(self._facts.principal)
        self._facts.tries += 1

    async def _look_up_stream(self) -> None:
        cursor = self._facts.cursor
        assert cursor is not None  # noqa: S101 - it is what names the stream
        self._facts.looked_up = True
        try:
            self._facts.known = await self._runtime.log.meta(cursor.stream_id)
        except UnknownStream:
            self._facts.known = None

    async def _look_up_named(self) -> None:
        self._facts.looked_up = True
        self._facts.known = await self._find(self._facts.named)

    async def _find(self, request_id: UUID | None) -> StreamMeta | None:
        assert request_id is not None  # noqa: S101 - it is what was asked for
        return await self._runtime.log.find(self._facts.principal, request_id)

    async def _read_body(self) -> None:
        place = self._admission.bodies.place(self._facts.principal)
        options = self._admission.options
        try:
            body = await read_body(self._request, self._length, options, place.take)
            asked = await self._parse(body)
        finally:
            place.give_back()
        self._asked = asked
        self._facts.request_id = asked.request.request_id
        self._facts.fingerprint = asked.fingerprint

    async def _parse(self, body: bytes) -> Asked:
        def parse() -> Asked:
            x_request_id = self._request.headers.get("x-request-id")
            resumes = self._facts.cursor is not None
            options, principal = self._admission.options, self._facts.principal
            return parse_body(body, principal, x_request_id, options, resumes=resumes)

        return parse() if len(body) <= LARGE_BODY else await off_loop(parse)

    async def _open(self) -> None:
        asked, runtime = self._asked, self._runtime
        assert asked is not None  # noqa: S101 - nothing is opened before the body was read
        self._opened_at = monotonic()
        new = NewStream(
            uuid4(),
            self._facts.principal,
            asked.request.request_id,
            asked.fingerprint,
            asked.question,
        )
        self._facts.opened = await runtime.log.open(new, runtime.owner)


_GATHER: dict[Need, Callable[[_Visit], Awaitable[None]]] = {
    Need.TOKEN: _Visit._take_token,
    Need.STREAM: _Visit._look_up_stream,
    Need.NAMED_REQUEST: _Visit._look_up_named,
    Need.BODY: _Visit._read_body,
    Need.OPENED: _Visit._open,
}


async def owned(runtime: Runtime, principal: str, stream_id: UUID) -> StreamMeta:
    """Return the description of a stream.

    Raises:
        UnknownStream: there is none, or it belongs to another principal.
    """
    meta = await runtime.log.meta(stream_id)
    if meta.principal != principal:
        raise UnknownStream(stream_id)  # the same answer as for one that never was
    return meta


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
