"""The requests of CAP, the routes of the server and their handlers."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import Final, Literal, TypeAlias
from uuid import UUID

from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from coreason_manifest.definitions.service import HealthCheckResponse, ServiceRequest

from .._options import Options
from ..engine._inbox import FULL, MAX_TEXT, InboxMessage, InboxStore
from ..engine._order import place_of
from ..engine._runtime import Runtime
from ..errors import LogError, PositionGone, UnknownStream
from ..http._admission import Admission, Admitted, ParsedBody, StreamRequest, cursor_in, owned
from ..http._auth import Keys
from ..http._body import count_messages, fingerprint
from ..http._chat_body import json_object
from ..http._cursor import stream_in_path
from ..http._decision import RequestFacts
from ..http._gate import Gate
from ..http._hosts import RouteEntry, route_table
from ..http._problems import Problem, validation_problem
from ..http._stream_response import EventStream, NextStream, nothing_left, take_reader
from ..log.base import StreamMeta
from ..observe import _log_lines
from ..observe._log_lines import LineLimit
from ..observe._metrics import Metrics
from ._openapi import openapi

Readiness: TypeAlias = Literal["ready", "starting", "degraded", "draining"]

_MAX_ID = 255  # characters of the id of a message
_START_WAIT = 1.0  # seconds that /ready waits for the start
_NO_STORE = {"Cache-Control": "no-store"}
_BEFORE_ALL: Final = UUID(int=0)  # the position before the first answer of a conversation
_LAST: Final = 10**18 - 1  # not before the last packet of any answer
_NOT_ORDERED = (
    "The answers of a conversation of this agent have no order: start it with on_busy, such as "
    'on_busy="wait".'
)


class Routes:
    """The handlers; `runtime` returns the runtime of this event loop."""

    def __init__(
        self,
        gate: Gate,
        metrics: Metrics,
        metrics_keys: Keys | None,
        runtime: Callable[[], Awaitable[Runtime]],
    ) -> None:
        self._options = gate.options
        self._gate = gate
        self._metrics = metrics
        self._metrics_keys = metrics_keys
        self._runtime = runtime
        self._admission = Admission(gate, runtime)
        self._not_ready_lines = LineLimit(1)

    def table(self) -> list[Route]:
        """Return the routes."""
        paths: list[RouteEntry] = [
            ({"POST"}, "/assist", self.assist),
            ({"POST"}, "/v1/assist", self.assist),
            ({"GET", "HEAD"}, "/health", self.health),
            ({"GET", "HEAD"}, "/ready", self.ready),
            ({"GET", "HEAD"}, "/openapi.json", self.openapi),
            # One route, so that a refusal of another method names both. Without HEAD: it would
            # count as a reader and never end.
            ({"GET", "DELETE"}, "/streams/{stream_id}", self.stream),
            ({"POST"}, "/streams/{stream_id}/messages", self.send),
            ({"GET"}, "/conversations/{conversation_id:path}/events", self.follow),
        ]
        if self._options.metrics_path is not None:
            paths.append(({"GET", "HEAD"}, self._options.metrics_path, self.metrics))
        return route_table(paths)

    async def assist(self, request: Request) -> Response:
        """Start, join or resume the stream of a request."""
        return await self._read(_AssistRequest(request, self._options))

    async def stream(self, request: Request) -> Response:
        """Read the stream of the path, or cancel it."""
        if request.method == "DELETE":
            return await self._cancel(request)
        return await self._read(_ReadRequest(request))

    async def _read(self, asked: StreamRequest, message: str = "") -> Response:
        admitted = await self._admission.admit(asked)
        with admitted.reader:
            response = self._reader(admitted, message)
        if admitted.resumes:
            self._metrics.resumed()
            _log_lines.resumed(admitted.meta, admitted.after.seq)
        return response

    async def health(self, _: Request) -> Response:
        """Report the agent's health."""
        health = await self.current_health()
        return JSONResponse(health.dump(), headers=_NO_STORE)

    async def current_health(self) -> HealthCheckResponse:
        """Return the agent's health."""
        runtime = await self._runtime()
        return HealthCheckResponse(
            status=_health(runtime),
            agent_id=self._options.agent_id,
            version=self._options.version,
            uptime_seconds=runtime.uptime,
        )

    async def ready(self, _: Request) -> Response:
        """Report whether requests can be served; start the server if it has not started."""
        return ready_response(await self.readiness())

    async def readiness(self) -> Readiness:
        """Return whether requests can be served; start the server if it has not started."""
        try:
            async with asyncio.timeout(_START_WAIT):
                runtime = await self._runtime()
        except TimeoutError:
            return "starting"
        except LogError as error:
            if self._not_ready_lines.allow(monotonic()) is not None:
                _log_lines.logger.warning(
                    "the server is not ready: the log could not be started: %s", error
                )
            return "starting"
        if runtime.closing:
            return "draining"
        return "ready" if runtime.log_works else "degraded"

    async def openapi(self, request: Request) -> Response:
        """Return the OpenAPI description."""
        options = self._options
        described = openapi(
            options.agent_id,
            options.version,
            with_keys=self._gate.has_keys,
            metrics_path=options.metrics_path,
            serves_a2a=options.serves_a2a,
            has_inbox=options.inbox,
            has_order=options.on_busy != "parallel",
            metrics_with_key=self._metrics_keys is not None,
            root_path=request.scope.get("root_path", ""),
        )
        return JSONResponse(described)

    async def metrics(self, request: Request) -> Response:
        """Return the Prometheus metrics of this process."""
        return self.exposed(request, self._metrics)

    def exposed(self, request: Request, metrics: Metrics) -> Response:
        """Return metrics to a request with the right key.

        Raises:
            Problem: 401.
        """
        if self._metrics_keys is not None:
            self._metrics_keys.principal(request.headers.get("authorization"))
        body, media_type = metrics.exposition()
        return Response(body, headers={**_NO_STORE, "Content-Type": media_type})

    async def _cancel(self, request: Request) -> Response:
        """Cancel a stream; repeated calls change nothing."""
        principal = self._gate.principal(request)
        runtime = await self._runtime()
        stream_id = stream_in_path(request.path_params["stream_id"])
        await runtime.producers.cancel(await owned(runtime, principal, stream_id))
        return Response(status_code=204)

    async def send(self, request: Request) -> Response:
        """Put a message into the inbox of a running stream; the same id again changes nothing."""
        principal = await self._gate.principal_in_turn(request)
        runtime = await self._runtime()
        stream_id = stream_in_path(request.path_params["stream_id"])
        meta = await owned(runtime, principal, stream_id)
        if not self._options.inbox:
            raise Problem(404, "inbox-missing", "The agent takes no messages while it answers.")
        length = self._gate.announced_length(request)
        message = await self._gate.read(request, principal, length, _inbox_message)
        result = await InboxStore(runtime.log, meta).put(message)
        if result == "full":
            raise Problem(429, "inbox-full", FULL)
        if result == "conflict":
            raise Problem(409, "message-conflict", "Another message has this id: use a new one.")
        if result == "ended":
            raise Problem(409, "stream-ended", "The stream has ended: send a new request.")
        runtime.producers.wake_inbox(stream_id)
        return JSONResponse({"id": message.id, "status": result}, status_code=202)

    async def follow(self, request: Request) -> Response:
        """Read the stream that follows a position in a conversation; wait until there is one."""
        principal = await self._gate.principal_in_turn(request)
        runtime, cursor = await self._runtime(), cursor_in(request.headers)
        order, log = runtime.producers.order, runtime.log
        if order is None:
            raise Problem(404, "conversation-not-ordered", _NOT_ORDERED)
        place = place_of(principal, request.path_params["conversation_id"])
        if cursor is None:
            found, after = await order.ends(place)
        elif cursor.stream_id == _BEFORE_ALL:
            found, after = await order.next(place, None), None
        else:
            after = cursor.stream_id
            found = await order.next(place, after)
            try:
                meta = await owned(runtime, principal, after)
            except UnknownStream:
                raise PositionGone(after, cursor.seq) from None
            if meta.outcome is None or cursor.seq < meta.last_seq:
                return await self._read(_ReadRequest(request, after))
        if found is not None:
            message = await order.message(place, found)
            return await self._read(StreamRequest(request, found), message)
        reader = await take_reader(runtime, principal)

        async def find() -> tuple[StreamMeta, str] | None:
            begun = await order.next(place, after)
            if begun is None:
                return None
            return await log.meta(begun), await order.message(place, begun)

        # A client that connects again after a restart misses no answer that has begun meanwhile.
        position = f"{after or _BEFORE_ALL}:{_LAST}" if cursor is None else ""
        return NextStream(runtime, reader, find, order.entered, position)

    async def check_reader(self, request: Request, stream_id: UUID) -> None:
        """Check that the principal of a request may read a stream.

        Raises:
            Problem: 401.
            UnknownStream: the stream does not exist, or belongs to another principal.
        """
        principal = self._gate.principal(request)
        await owned(await self._runtime(), principal, stream_id)

    def _reader(self, admitted: Admitted, message: str) -> Response:
        runtime, meta, after = admitted.runtime, admitted.meta, admitted.after
        if (ended := nothing_left(runtime, meta, after)) is not None:
            return ended
        runtime.producers.add_reader(meta, admitted.reader)
        return EventStream(runtime, meta, after, message=message)


def ready_response(state: Readiness) -> Response:
    """Return the response that tells whether requests can be served."""
    if state == "ready":
        return JSONResponse({"status": state}, headers=_NO_STORE)
    headers = {**_NO_STORE, "Retry-After": "1"}
    return JSONResponse({"status": state}, status_code=503, headers=headers)


def _health(runtime: Runtime) -> Literal["ok", "degraded", "maintenance"]:
    if runtime.closing:
        return "maintenance"
    return "ok" if runtime.log_works else "degraded"


# Requests: their heads and bodies.


class _AssistRequest(StreamRequest):
    """A `POST /assist`."""

    def __init__(self, request: Request, options: Options) -> None:
        super().__init__(request)
        self._options = options
        self._named: UUID | None = None

    def facts(self, principal: str) -> RequestFacts:
        """Return the position and the id in the head."""
        headers = self.http.headers
        cursor = cursor_in(headers)
        self._named = _request_id(headers)
        return RequestFacts(principal, cursor, named=self._named)

    def parse(self, body: bytes) -> ParsedBody:
        """Validate a body.

        A body without a request_id gets the one that `X-Request-ID` has named. An id in the body
        takes precedence, because some proxies write the header.

        Raises:
            Problem: 422, naming the fields.
        """
        _check_messages(body, self._options)
        try:
            request = ServiceRequest.model_validate_json(body)
        except ValidationError as error:
            raise validation_problem(error) from None
        if self._named is not None and "request_id" not in request.model_fields_set:
            request = request.model_copy(update={"request_id": self._named})
        return ParsedBody(request, fingerprint(body))


class _ReadRequest(StreamRequest):
    """A request without a body, which reads a stream: a given one, or that of the path."""

    def facts(self, principal: str) -> RequestFacts:
        """Return the stream, and the position in the head."""
        stream_id = self._reads or stream_in_path(self.http.path_params["stream_id"])
        return RequestFacts(principal, cursor_in(self.http.headers), reads=stream_id)


def _inbox_message(body: bytes) -> InboxMessage:
    """Return the message in a body.

    Raises:
        Problem: 400 or 413.
    """
    values = json_object(body)
    message_id, text = values.get("id"), values.get("text")
    if not isinstance(text, str) or not text:
        raise Problem(400, "invalid-request", "text must be text that is not empty.")
    if len(text) > MAX_TEXT:
        raise Problem(413, "message-too-large", f"text may have at most {MAX_TEXT} characters.")
    if not isinstance(message_id, str) or not 0 < len(message_id) <= _MAX_ID:
        raise Problem(400, "invalid-request", f"id must be text of 1 to {_MAX_ID} characters.")
    return InboxMessage(message_id, text)


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


def _request_id(headers: Headers) -> UUID | None:
    given = headers.get("x-request-id")
    if given is not None:
        with suppress(ValueError):
            return UUID(given)
    return None
