"""What each path does, once the application runs."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic, monotonic_ns
from typing import Literal, TypeAlias
from uuid import UUID, uuid4

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from coreason_manifest.definitions.service import HealthCheckResponse, ServiceRequest

from . import _lines
from ._auth import ANYBODY, Keys, full_principal
from ._body import drain_body, fingerprint, parse_body, read_body
from ._cursor import Cursor, parse_cursor
from ._limits import RequestRate, retry_after
from ._log_limit import LineLimit
from ._metrics import Metrics
from ._openapi import openapi
from ._options import Options
from ._problems import Problem, resume_conflict
from ._producers import CANCELLED
from ._reader import EventStream
from ._runtime import Runtime
from ._turns import dump_question
from .errors import LogError, PositionGone, UnknownStream
from .log.base import NewStream, StreamMeta

__all__ = ["Routes"]

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

_START_WAIT = 1.0  # seconds that a probe of /ready waits for the start
_CANCEL_WAIT = 1.0  # seconds that the response to a cancel waits for the end of the stream


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request for a stream, as far as it is known before the log is asked."""

    principal: str
    request: ServiceRequest
    fingerprint: str
    cursor: Cursor | None
    headers: Headers
    at: float
    counted: bool


class Routes:
    """The handlers; `runtime` gives what runs on this event loop."""

    def __init__(
        self,
        options: Options,
        keys: Keys | None,
        metrics: Metrics,
        metrics_keys: Keys | None,
        runtime: Callable[[], Awaitable[Runtime]],
    ) -> None:
        self._options = options
        self._keys = keys
        self._metrics = metrics
        self._metrics_keys = metrics_keys
        self._runtime = runtime
        per_minute = options.max_requests_per_minute
        self._not_ready_lines = LineLimit(1)
        self._rate = None if per_minute is None else RequestRate(per_minute)

    def table(self) -> list[Route]:
        """The paths, each with and without a slash at its end.

        Both are served, since a redirect from one to the other would name the Host header, which
        a client or a proxy may have chosen freely.
        """
        paths: list[tuple[str, str, Handler]] = [
            ("POST", "/assist", self.assist),
            ("POST", "/v1/assist", self.assist),
            ("GET", "/health", self.health),
            ("GET", "/ready", self.ready),
            ("GET", "/openapi.json", self.openapi),
            ("DELETE", "/streams/{stream_id}", self.cancel),
        ]
        if self._options.metrics_path is not None:
            paths.append(("GET", self._options.metrics_path, self.metrics))
        return [
            Route(spelling, handler, methods=[method])
            for method, path, handler in paths
            for spelling in (path, f"{path}/")
        ]

    async def assist(self, request: Request) -> Response:
        """Start a stream, or join the one that this request has started before."""
        try:
            runtime, asked = await self._take(request)
        except (Problem, LogError) as error:
            if getattr(error, "status", None) != 408:  # there the body is what did not come
                await drain_body(request)
            raise
        if asked.cursor is None:
            meta = await self._open(runtime, asked)
            return self._reader(runtime, meta, 0)
        meta = await self._resume(runtime, asked, asked.cursor)
        self._metrics.resumed()
        _lines.resumed(meta, asked.cursor.seq)
        return self._reader(runtime, meta, asked.cursor.seq)

    async def health(self, _: Request) -> Response:
        """Report the agent's health."""
        runtime = await self._runtime()
        health = HealthCheckResponse(
            status=_health(runtime),
            agent_id=self._options.agent_id,
            version=self._options.version,
            uptime_seconds=runtime.uptime,
        )
        return JSONResponse(health.dump(), headers={"Cache-Control": "no-store"})

    async def ready(self, _: Request) -> Response:
        """Report whether requests can be served; a server that has not started is started."""
        state = await self._readiness()
        headers = {"Cache-Control": "no-store"}
        if state == "ready":
            return JSONResponse({"status": state}, headers=headers)
        headers["Retry-After"] = "1"
        return JSONResponse({"status": state}, status_code=503, headers=headers)

    async def _readiness(self) -> Literal["ready", "starting", "degraded", "draining"]:
        try:
            async with asyncio.timeout(_START_WAIT):
                runtime = await self._runtime()
        except TimeoutError:
            return "starting"
        except LogError as error:
            if self._not_ready_lines.allow(monotonic()) is not None:
                _lines.logger.warning("not ready, the log could not be started: %s", error)
            return "starting"
        if runtime.closing:
            return "draining"
        return "ready" if runtime.log_works else "degraded"

    async def openapi(self, _: Request) -> Response:
        """Describe the server."""
        options = self._options
        described = openapi(
            options.agent_id,
            options.version,
            with_keys=self._keys is not None,
            metrics_path=options.metrics_path,
            metrics_with_key=self._metrics_keys is not None,
        )
        return JSONResponse(described)

    async def metrics(self, request: Request) -> Response:
        """Tell an operator the numbers of this process."""
        if self._metrics_keys is not None:
            self._metrics_keys.principal(request.headers.get("authorization"))
        body, media_type = self._metrics.exposition()
        headers = {"Cache-Control": "no-store", "Content-Type": media_type}
        return Response(body, headers=headers)

    async def cancel(self, request: Request) -> Response:
        """Cancel a stream; a second time changes nothing."""
        principal = self._principal(request)
        runtime = await self._runtime()
        meta = await _owned(runtime, principal, _stream_id(request.path_params["stream_id"]))
        if meta.outcome is None:
            # The flag is for the producer in another process; one in this process need not wait.
            await runtime.log.request_cancel(meta.stream_id)
            producer = runtime.producers.get(meta.stream_id)
            if producer is not None:
                producer.stop(CANCELLED)
                # Most agents stop at once; the next question then finds the turn in the history.
                await asyncio.wait({producer.task}, timeout=_CANCEL_WAIT)
        return Response(status_code=204)

    def _principal(self, request: Request) -> str:
        _check_headers(request, self._options.max_header_bytes)
        given = request.headers.get("authorization")
        name = ANYBODY if self._keys is None else self._keys.principal(given)
        principal = full_principal(self._options.agent_id, name)
        request.state.principal = principal  # for the log line of a refusal
        return principal

    async def _take(self, request: Request) -> tuple[Runtime, _Asked]:
        """Read a request; what can be refused by its head alone is, before its body is read."""
        options, headers = self._options, request.headers
        principal = self._principal(request)
        cursor = _cursor(request)
        runtime = await self._runtime()
        _check_serving(runtime)
        if not runtime.producers.has_room(principal):
            raise self._too_many_readers()
        joins = None
        if cursor is None:
            joins = await self._count_or_join(runtime, principal, headers)
        body = await read_body(request, options.max_body_bytes, options.body_timeout)
        asked = parse_body(body, headers.get("x-request-id"))
        if joins not in (None, asked.request_id):  # it is another than its head has promised
            self._count(principal)
            joins = None
        counted = cursor is None and joins is None
        _check_serving(runtime)  # again: a body may take its time
        at = runtime.loop.time()
        return runtime, _Asked(principal, asked, fingerprint(body), cursor, headers, at, counted)

    async def _count_or_join(
        self, runtime: Runtime, principal: str, headers: Headers
    ) -> UUID | None:
        """Count a request, or return the known one that it repeats and that need not count."""
        try:
            self._count(principal)
        except Problem:
            if (known := await _known_by_header(runtime, principal, headers)) is None:
                raise
            return known
        return None

    def _count(self, principal: str) -> None:
        if self._rate is None:
            return
        if wait := self._rate.take(principal, monotonic_ns()):
            raise Problem(
                429,
                "too-many-requests",
                f"This key may ask {self._options.max_requests_per_minute} times a minute.",
                headers={"Retry-After": retry_after(wait)},
            )

    def _uncount(self, asked: _Asked) -> None:
        """Give back what was counted for a request that has only joined its stream."""
        if self._rate is not None and asked.counted:
            self._rate.give_back(asked.principal, monotonic_ns())

    async def _open(self, runtime: Runtime, asked: _Asked) -> StreamMeta:
        principal, request_id = asked.principal, asked.request.request_id
        # Not before the body was read: only the body says for certain which request it is.
        if (
            runtime.producers.is_full(principal)
            and await runtime.log.find(principal, request_id) is None
        ):
            raise Problem(
                429,
                "too-many-streams",
                f"This key has {self._options.max_streams_per_key} streams running.",
                headers={"Retry-After": "1"},
            )
        question = dump_question(principal, asked.request)
        new = NewStream(uuid4(), principal, request_id, asked.fingerprint, question)
        opened = await runtime.log.open(new, runtime.owner)
        if opened.created:
            runtime.producers.start(asked.request, opened.meta, asked.headers, asked.at)
        else:
            self._uncount(asked)
        return opened.meta

    async def _resume(self, runtime: Runtime, asked: _Asked, cursor: Cursor) -> StreamMeta:
        """Find the stream that the cursor names: a resume never starts a second generation."""
        meta = await _owned(runtime, asked.principal, cursor.stream_id)
        if meta.request_id != asked.request.request_id:
            raise resume_conflict("another request_id")
        if meta.fingerprint != asked.fingerprint:
            raise resume_conflict("another body")
        if cursor.seq > meta.last_seq:
            raise Problem(
                400, "bad-position", f"The stream has not come to packet {cursor.seq} yet."
            )
        return meta

    def _reader(self, runtime: Runtime, meta: StreamMeta, after_seq: int) -> Response:
        if meta.outcome is not None and after_seq == meta.last_seq:
            return Response(status_code=204)  # to EventSource: do not come back
        if meta.body_gone:
            raise PositionGone(meta.stream_id, after_seq)
        if meta.outcome is None and after_seq == meta.last_seq:
            runtime.check_producer(meta.stream_id)
        if not runtime.producers.admit(meta):
            raise self._too_many_readers()
        return EventStream(runtime, meta, after_seq)

    def _too_many_readers(self) -> Problem:
        return Problem(
            429,
            "too-many-readers",
            f"This key has {self._options.max_readers_per_key} responses open.",
            headers={"Retry-After": "1"},
        )


async def _known_by_header(runtime: Runtime, principal: str, headers: Headers) -> UUID | None:
    """Return the request that the head names, if it has a stream already.

    A client that lost its connection before the first packet has no position to resume from, and
    asks again under the same id.
    """
    try:
        request_id = UUID(headers.get("x-request-id", ""))
    except ValueError:
        return None
    known = await runtime.log.find(principal, request_id)
    return None if known is None else request_id


def _check_serving(runtime: Runtime) -> None:
    if runtime.closing:
        raise Problem(
            503, "shutting-down", "The server is shutting down.", headers={"Retry-After": "1"}
        )


def _health(runtime: Runtime) -> Literal["ok", "degraded", "maintenance"]:
    if runtime.closing:
        return "maintenance"
    return "ok" if runtime.log_works else "degraded"


async def _owned(runtime: Runtime, principal: str, stream_id: UUID) -> StreamMeta:
    meta = await runtime.log.meta(stream_id)
    if meta.principal != principal:
        raise UnknownStream(stream_id)  # the same answer as for one that never was
    return meta


def _cursor(request: Request) -> Cursor | None:
    values = request.headers.getlist("last-event-id")
    if not values:
        return None
    try:
        return parse_cursor(",".join(values))
    except ValueError as error:
        raise Problem(400, "bad-last-event-id", f"{error}.") from None


def _stream_id(text: str) -> UUID:
    try:
        cursor = parse_cursor(text)
    except ValueError:
        cursor = None
    if cursor is None or ":" in text:
        raise Problem(404, "stream-not-found", "A stream is named by its UUID.")
    return cursor.stream_id


def _check_headers(request: Request, most_bytes: int) -> None:
    if sum(len(name) + len(value) for name, value in request.headers.raw) > most_bytes:
        raise Problem(431, "headers-too-large", f"The headers may have {most_bytes} bytes.")
