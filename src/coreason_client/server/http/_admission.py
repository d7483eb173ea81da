"""Admission: collects the facts of a request, in the order in which `decide` needs them.

All protocols that open a stream for a request use it. A protocol gives the facts that the head of
its requests has, and a function that parses their bodies.
"""

from collections.abc import Awaitable, Callable
from time import monotonic
from typing import ClassVar, NamedTuple
from uuid import UUID, uuid4

from starlette.datastructures import Headers
from starlette.requests import Request

from coreason_manifest.definitions.service import ServiceRequest

from .._off_loop import LARGE_BODY, off_loop
from ..engine._conversation import dump_question, dump_request
from ..engine._limits import Unit
from ..engine._runtime import Runtime, open_stream
from ..engine._writer import was_answered
from ..errors import LogError, UnknownStream
from ..log.base import AgentVersion, NewStream, Opened, StreamMeta
from ..observe._spans import trace_headers
from ._body import drain_body
from ._cursor import Cursor, parse_cursor
from ._decision import Find, Need, Refuse, RequestFacts, Resume, ServerFacts, Start, decide
from ._gate import Gate
from ._problems import Problem, conversation_busy, question_not_open


class ParsedBody(NamedTuple):
    """A validated body."""

    request: ServiceRequest
    fingerprint: str


class StreamRequest:
    """A request of one protocol that starts, joins or resumes a stream.

    `reads` is the stream that is read by a request without a body.
    """

    is_plain_text_allowed: ClassVar[bool] = False
    """True if some clients send the JSON of their bodies as text/plain."""

    def __init__(self, request: Request, reads: UUID | None = None) -> None:
        self.http = request
        self._reads = reads
        self.stream_id = uuid4()
        """The id of the stream, if the request opens one."""

    def facts(self, principal: str) -> RequestFacts:
        """Return what the head of the request tells.

        Raises:
            Problem: the head is not valid.
        """
        return RequestFacts(principal, reads=self._reads)

    def parse(self, body: bytes) -> ParsedBody:
        """Validate the body.

        Raises:
            Problem: the body is not valid.
        """
        raise NotImplementedError  # a request that only reads a stream has no body

    async def complete(self, parsed: ParsedBody, runtime: Runtime, principal: str) -> ParsedBody:
        """Add what is not in the body, before the stream is opened.

        Raises:
            Problem: something that the request names does not exist.
        """
        return parsed

    def other_id(self, found: StreamMeta) -> UUID | None:
        """Return another request_id, because a stream has this one; None to join that stream."""
        return None


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

    async def admit(self, asked: StreamRequest) -> Admitted:
        """Start, join or resume the stream of a request.

        Raises:
            Problem: the request is refused.
            LogError: the log refuses the request, or does not answer.
        """
        try:
            return await self._admit(asked)
        except (Problem, LogError) as error:
            if getattr(error, "status", None) != 408:  # 408: the body did not arrive
                await drain_body(asked.http)
            raise

    async def _admit(self, asked: StreamRequest) -> Admitted:
        principal = await self.gate.principal_in_turn(asked.http)
        facts = asked.facts(principal)
        length = None
        if facts.reads is None:
            length = self.gate.announced_length(asked.http, asked.is_plain_text_allowed)
        return await _PendingRequest(self, await self._runtime(), asked, facts, length).admit()


class _PendingRequest:
    """One request that is being checked."""

    def __init__(
        self,
        admission: Admission,
        runtime: Runtime,
        asked: StreamRequest,
        facts: RequestFacts,
        length: int | None,
    ) -> None:
        self._admission = admission
        self._runtime = runtime
        self._asked = asked
        self._facts = facts
        self._length = length
        self._parsed: ParsedBody | None = None
        self._is_large = False  # the body
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
        if (order := self._runtime.producers.order) and self._parsed and not resumes:
            await order.enter(facts.principal, self._parsed.request, decision.meta.stream_id)
        after = decision.after if isinstance(decision, Resume) else Cursor(decision.meta.stream_id)
        assert self._reader is not None  # noqa: S101 - needed before anything else
        return Admitted(self._runtime, decision.meta, after, resumes, self._reader)

    def _start(self, meta: StreamMeta) -> None:
        assert self._parsed is not None  # noqa: S101 - the body is read before a stream starts
        producers, headers = self._runtime.producers, self._asked.http.headers
        if self._admission.agent is None and producers.order is not None:
            producers.order.add_unstarted(meta.stream_id)
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
        gate, facts, asked = self._admission.gate, self._facts, self._asked
        parsed = await gate.read(asked.http, facts.principal, self._length, self._parse)
        self._parsed = parsed = await asked.complete(parsed, self._runtime, facts.principal)
        facts.request_id = parsed.request.request_id
        facts.fingerprint = parsed.fingerprint

    def _parse(self, body: bytes) -> ParsedBody:
        self._is_large = len(body) > LARGE_BODY
        return self._asked.parse(body)

    def _question(self, request: ServiceRequest) -> bytes:
        """Return what the log stores of a request while its stream runs."""
        if not self._runtime.log.outlives_process:
            return b""  # nobody reads the question of a stream that ends with its process
        order, durable = self._runtime.producers.order, self._admission.agent is not None
        waits = not durable and order is not None and order.keeps_requests
        if not (durable or waits):
            return dump_question(self._facts.principal, request)
        trace = trace_headers(self._asked.http.headers)
        return dump_request(self._facts.principal, request, trace, waits=waits)

    async def _open(self) -> None:
        self._opened_at = monotonic()
        await self._check_order()
        await self._check_answer()
        while True:
            self._facts.opened = opened = await self._open_with_id()
            other = None if opened.created else self._asked.other_id(opened.meta)
            if other is None:
                return
            self._change_id(other)

    async def _check_order(self) -> None:
        """Refuse a new message that must not, or can never, wait for an earlier one."""
        order, parsed = self._runtime.producers.order, self._parsed
        caller = self._asked.http.headers.get("x-caller-stream-id")
        rejects = self._admission.options.on_busy == "reject"
        if order is None or parsed is None or not (rejects or caller):
            return
        busy = await order.busy(self._facts.principal, parsed.request)
        is_own = caller in [str(stream_id) for stream_id in busy]
        if busy and (rejects or is_own) and await self._find(parsed.request.request_id) is None:
            raise conversation_busy(is_own=is_own)

    async def _check_answer(self) -> None:
        """Refuse an answer to a question that the request names and another one has answered."""
        assert self._parsed is not None  # noqa: S101 - the body is read before a stream is opened
        log, principal = self._runtime.log, self._facts.principal
        if await was_answered(log, principal, self._parsed.request):
            raise question_not_open()

    async def _open_with_id(self) -> Opened:
        parsed, runtime = self._parsed, self._runtime
        assert parsed is not None  # noqa: S101 - the body is read before a stream is opened
        request = parsed.request
        if self._is_large and runtime.log.outlives_process:
            question = await off_loop(lambda: self._question(request))
        else:
            question = self._question(request)
        new = NewStream(
            self._asked.stream_id,
            self._facts.principal,
            request.request_id,
            parsed.fingerprint,
            question,
            self._admission.agent,
        )
        return await open_stream(runtime, new, self._start)

    def _change_id(self, request_id: UUID) -> None:
        assert self._parsed is not None  # noqa: S101 - it was opened with another id
        request = self._parsed.request.model_copy(update={"request_id": request_id})
        self._parsed = self._parsed._replace(request=request)
        self._facts.request_id = request_id


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


def cursor_in(headers: Headers) -> Cursor | None:
    """Return the position in the headers of a request, None if there is none.

    Raises:
        Problem: 400, it is not a position.
    """
    values = headers.getlist("last-event-id")
    if not values:
        return None
    try:
        return parse_cursor(",".join(values))
    except ValueError as error:
        raise Problem(400, "bad-last-event-id", f"{error}.") from None
