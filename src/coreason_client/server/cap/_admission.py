"""Admission: collects the facts of a request, in the order in which `decide` needs them."""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from time import monotonic
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from pydantic import ValidationError
from pydantic_core import from_json
from starlette.datastructures import Headers
from starlette.requests import Request

from coreason_manifest.definitions.service import ServiceRequest

from .._off_loop import LARGE_BODY
from .._options import Options
from ..engine._conversation import dump_question, dump_request
from ..engine._quotas import Unit
from ..engine._runtime import Runtime
from ..errors import UnknownStream
from ..http._body import count_messages
from ..http._gate import Gate
from ..http._problems import Problem, validation_problem
from ..log.base import AgentVersion, NewStream, StreamMeta
from ..observe._spans import trace_headers
from ._cursor import Cursor, parse_cursor, stream_in_path
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

__all__ = ["Admission", "Admitted", "ParsedBody", "fingerprint", "owned", "parse_body"]

# The body of a request of CAP: validated and fingerprinted. Pure.

_NO_TRACE: Final[Mapping[str, str]] = {}
# A parsed body has no circular references; looking for them would be a sixth of the time.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False)


class ParsedBody(NamedTuple):
    """A validated body; the log stores `question` while the stream runs."""

    request: ServiceRequest
    fingerprint: str
    question: bytes


def parse_body(
    body: bytes,
    principal: str,
    named: UUID | None,
    options: Options,
    *,
    with_question: bool,
    trace: Mapping[str, str] = _NO_TRACE,
) -> ParsedBody:
    """Validate a body and prepare it for a new stream.

    A body without a request_id gets the one that `X-Request-ID` has named. An id in the body takes
    precedence, because some proxies write the header.

    Raises:
        Problem: 422, naming the fields.
    """
    _check_messages(body, options)
    try:
        request = ServiceRequest.model_validate_json(body)
    except ValidationError as error:
        raise validation_problem(error) from None
    if named is not None and "request_id" not in request.model_fields_set:
        request = request.model_copy(update={"request_id": named})
    question = _dump(principal, request, trace, options) if with_question else b""
    return ParsedBody(request, fingerprint(body), question)


def _dump(
    principal: str, request: ServiceRequest, trace: Mapping[str, str], options: Options
) -> bytes:
    if options.durable:
        return dump_request(principal, request, trace)
    return dump_question(principal, request)


def _check_messages(body: bytes, options: Options) -> None:
    if len(body) <= options.max_messages and len(body) <= options.max_parts:
        return  # each one has more than a byte
    messages, parts = count_messages(body)
    if messages > options.max_messages:
        raise _too_many("messages", f"{options.max_messages} messages, got {messages}")
    if parts > options.max_parts:
        raise _too_many("parts", f"{options.max_parts} parts of messages, got {parts}")


def _too_many(what: str, limit: str) -> Problem:
    detail = f"A request may have at most {limit}."
    errors = [{"loc": ["payload", "messages"], "msg": detail}]
    return Problem(422, f"too-many-{what}", detail, errors=errors)


def fingerprint(body: bytes) -> str:
    """Return a digest that is equal for two bodies if and only if they mean the same.

    White space and the order of keys are ignored: the request of a resume may have been encoded by
    another version of a client.
    """
    with suppress(ValueError, RecursionError):  # for example, numbers with thousands of digits
        return _canonical_digest(body)
    return sha256(body).hexdigest()


def _canonical_digest(body: bytes) -> str:
    if len(body) <= LARGE_BODY:
        return sha256(_CANONICAL.encode(from_json(body)).encode()).hexdigest()
    # The same in small steps: encoding everything or parsing many long numbers in one call would
    # keep all other threads from running.
    digest = sha256()
    for piece in _CANONICAL.iterencode(json.loads(body, parse_int=_int)):
        digest.update(piece.encode())
    return digest.hexdigest()


def _int(digits: str) -> int:
    return int(digits)


class Admitted(NamedTuple):
    """A request that may read a stream after a position.

    `resumes` is True if the request gave the position. `reader` is the unit of its reader, which
    the caller must hand on or release.
    """

    runtime: Runtime
    meta: StreamMeta
    after: Cursor
    resumes: bool
    reader: Unit


class Admission:
    """The checks of one application; `runtime` returns the runtime of this event loop."""

    def __init__(self, gate: Gate, runtime: Callable[[], Awaitable[Runtime]]) -> None:
        self.gate = gate
        self.options = options = gate.options
        self.agent = AgentVersion(options.agent_id, options.version) if options.durable else None
        self.server_facts = {
            closing: ServerFacts(options, closing=closing) for closing in (False, True)
        }
        self._runtime = runtime

    async def admit(self, request: Request) -> Admitted:
        """Start, join or resume the stream of a request.

        Raises:
            Problem: the request is refused.
            LogError: the log refuses the request, or does not answer.
        """
        principal = await self.gate.principal_in_turn(request)
        headers = request.headers
        facts = RequestFacts(principal, _cursor(headers), named=_request_id(headers))
        length = self.gate.announced_length(request)
        return await _PendingRequest(self, await self._runtime(), request, facts, length).admit()

    async def admit_reader(self, request: Request) -> Admitted:
        """Join or resume the stream of a path; raises like `admit`."""
        principal = await self.gate.principal_in_turn(request)
        stream_id = stream_in_path(request.path_params["stream_id"])
        facts = RequestFacts(principal, _cursor(request.headers), reads=stream_id)
        return await _PendingRequest(self, await self._runtime(), request, facts, None).admit()


class _PendingRequest:
    """One request that is being checked."""

    __slots__ = (
        "_admission",
        "_facts",
        "_length",
        "_opened_at",
        "_parsed",
        "_reader",
        "_request",
        "_runtime",
        "_stream",
    )

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
        self._parsed: ParsedBody | None = None
        self._opened_at = 0.0
        self._reader: Unit | None = None
        self._stream: Unit | None = None

    async def admit(self) -> Admitted:
        """Decide, and release what was taken from the limits and is not needed."""
        try:
            return await self._decide()
        except BaseException:
            if self._reader is not None:
                self._reader.release()
            raise
        finally:
            if self._stream is not None:
                self._stream.release()

    async def _decide(self) -> Admitted:
        facts = self._facts
        while True:
            decision = decide(facts, self._admission.server_facts[self._runtime.closing])
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
            await self._admission.gate.give_token_back(facts.principal)
        resumes = isinstance(decision, Resume)
        after = decision.after if isinstance(decision, Resume) else Cursor(decision.meta.stream_id)
        assert self._reader is not None  # noqa: S101 - needed before anything else
        return Admitted(self._runtime, decision.meta, after, resumes, self._reader)

    def _start(self, meta: StreamMeta) -> None:
        assert self._parsed is not None  # noqa: S101 - the body is read before a stream starts
        producers, headers = self._runtime.producers, self._request.headers
        # There is no unit if the request was to join a stream that is gone by now.
        producers.start(self._parsed.request, meta, headers, self._opened_at, self._stream)

    # One method for each fact that `decide` can need.

    async def _take_reader(self) -> None:
        self._reader = await self._runtime.producers.take_reader(self._facts.principal)
        self._facts.may_read = self._reader is not None

    async def _take_stream(self) -> None:
        self._stream = await self._runtime.producers.take_stream(self._facts.principal)
        self._facts.may_start = self._stream is not None

    async def _take_token(self) -> None:
        self._facts.wait = await self._admission.gate.take_token(self._facts.principal)
        self._facts.tries += 1

    async def _look_up_stream(self) -> None:
        cursor, stream_id = self._facts.cursor, self._facts.reads
        if cursor is not None:
            stream_id = cursor.stream_id
        assert stream_id is not None  # noqa: S101 - needed only with a cursor or a path
        self._facts.looked_up = True
        try:
            self._facts.known = await self._runtime.log.meta(stream_id)
        except UnknownStream:
            self._facts.known = None

    async def _look_up_named(self) -> None:
        self._facts.looked_up = True
        self._facts.known = await self._find(self._facts.named)

    async def _find(self, request_id: UUID | None) -> StreamMeta | None:
        assert request_id is not None  # noqa: S101 - needed only with an id
        return await self._runtime.log.find(self._facts.principal, request_id)

    async def _read_body(self) -> None:
        gate, facts = self._admission.gate, self._facts
        parsed = await gate.read(self._request, facts.principal, self._length, self._parse)
        self._parsed = parsed
        facts.request_id = parsed.request.request_id
        facts.fingerprint = parsed.fingerprint

    def _parse(self, body: bytes) -> ParsedBody:
        headers, facts, options = self._request.headers, self._facts, self._admission.options
        return parse_body(
            body,
            facts.principal,
            facts.named,
            options,
            # Nobody reads the question of a resume, or of a stream that ends with its process.
            with_question=facts.cursor is None and self._runtime.log.outlives_process,
            trace=trace_headers(headers) if options.durable else {},
        )

    async def _open(self) -> None:
        parsed, runtime = self._parsed, self._runtime
        assert parsed is not None  # noqa: S101 - the body is read before a stream is opened
        self._opened_at = monotonic()
        new = NewStream(
            uuid4(),
            self._facts.principal,
            parsed.request.request_id,
            parsed.fingerprint,
            parsed.question,
            self._admission.agent,
        )
        self._facts.opened = await runtime.log.open(new, runtime.owner)


_GATHER: dict[Need, Callable[[_PendingRequest], Awaitable[None]]] = {
    Need.READER: _PendingRequest._take_reader,
    Need.TOKEN: _PendingRequest._take_token,
    Need.STREAM: _PendingRequest._look_up_stream,
    Need.NAMED_REQUEST: _PendingRequest._look_up_named,
    Need.BODY: _PendingRequest._read_body,
    Need.START: _PendingRequest._take_stream,
    Need.OPENED: _PendingRequest._open,
}


async def owned(runtime: Runtime, principal: str, stream_id: UUID) -> StreamMeta:
    """Return the metadata of a stream of a principal.

    Raises:
        UnknownStream: the stream does not exist, or belongs to another principal.
    """
    meta = await runtime.log.meta(stream_id)
    if meta.principal != principal:
        raise UnknownStream(stream_id)  # the same answer as for a stream that does not exist
    return meta


def _request_id(headers: Headers) -> UUID | None:
    given = headers.get("x-request-id")
    if given is not None:
        with suppress(ValueError):
            return UUID(given)
    return None


def _cursor(headers: Headers) -> Cursor | None:
    values = headers.getlist("last-event-id")
    if not values:
        return None
    try:
        return parse_cursor(",".join(values))
    except ValueError as error:
        raise Problem(400, "bad-last-event-id", f"{error}.") from None
