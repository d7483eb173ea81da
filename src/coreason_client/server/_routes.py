"""What each path does, once the application runs."""

from collections.abc import Awaitable, Callable
from uuid import UUID, uuid4

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from coreason_manifest.definitions.service import HealthCheckResponse, ServiceRequest

from ._auth import ANYBODY, Keys
from ._body import fingerprint, let_go, parse_body, read_body
from ._cursor import Cursor, parse_cursor
from ._openapi import openapi
from ._options import Options
from ._problems import Problem
from ._producers import CANCELLED
from ._reader import EventStream
from ._runtime import Runtime
from .errors import PositionGone, RequestConflict, UnknownStream
from .log.base import NewStream, StreamMeta

__all__ = ["Routes"]


class Routes:
    """The handlers; `runtime` gives what runs on this event loop."""

    def __init__(
        self, options: Options, keys: Keys | None, runtime: Callable[[], Awaitable[Runtime]]
    ) -> None:
        self._options = options
        self._keys = keys
        self._runtime = runtime

    def table(self) -> list[Route]:
        """The paths."""
        return [
            Route("/assist", self.assist, methods=["POST"]),
            Route("/v1/assist", self.assist, methods=["POST"]),
            Route("/health", self.health, methods=["GET"]),
            Route("/openapi.json", self.openapi, methods=["GET"]),
            Route("/streams/{stream_id}", self.cancel, methods=["DELETE"]),
        ]

    async def assist(self, request: Request) -> Response:
        """Start a stream, or join the one that this request has started before."""
        options = self._options
        try:
            principal = self._principal(request)
            cursor = _cursor(request)
            body = await read_body(request, options.max_body_bytes, options.body_timeout)
        except Problem as problem:
            if problem.status != 408:  # there the body is what did not come
                await let_go(request)
            raise
        asked = parse_body(body, request.headers.get("x-request-id"))
        runtime = await self._serving()
        if cursor is None:
            meta = await self._open(runtime, principal, asked, fingerprint(body))
            return self._reader(runtime, meta, 0)
        meta = await self._resume(runtime, principal, asked, fingerprint(body), cursor)
        return self._reader(runtime, meta, cursor.seq)

    async def health(self, _: Request) -> Response:
        """Say how the agent feels."""
        runtime = await self._runtime()
        feels = HealthCheckResponse(
            status="maintenance" if runtime.closing else "ok",
            agent_id=self._options.agent_id,
            version=self._options.version,
            uptime_seconds=runtime.uptime,
        )
        return JSONResponse(feels.dump(), headers={"Cache-Control": "no-store"})

    async def openapi(self, _: Request) -> Response:
        """Describe the server."""
        options = self._options
        return JSONResponse(
            openapi(options.agent_id, options.version, with_keys=self._keys is not None)
        )

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
        return Response(status_code=204)

    def _principal(self, request: Request) -> str:
        _check_headers(request, self._options.max_header_bytes)
        given = request.headers.get("authorization")
        name = ANYBODY if self._keys is None else self._keys.principal(given)
        # Agents that share a log do not share streams or conversations.
        return f"{self._options.agent_id}/{name}"

    async def _serving(self) -> Runtime:
        runtime = await self._runtime()
        if runtime.closing:
            raise Problem(
                503, "shutting-down", "The server is shutting down.", headers={"Retry-After": "1"}
            )
        return runtime

    async def _open(
        self, runtime: Runtime, principal: str, asked: ServiceRequest, print_: str
    ) -> StreamMeta:
        if runtime.producers.is_full(principal):
            known = await runtime.log.find(principal, asked.request_id)
            if known is None:
                raise Problem(
                    429,
                    "too-many-streams",
                    f"This key has {self._options.max_streams_per_key} streams running.",
                    headers={"Retry-After": "1"},
                )
        new = NewStream(uuid4(), principal, asked.request_id, print_)
        opened = await runtime.log.open(new, runtime.owner)
        if opened.created:
            runtime.producers.start(asked, opened.meta)
        return opened.meta

    async def _resume(
        self,
        runtime: Runtime,
        principal: str,
        asked: ServiceRequest,
        print_: str,
        cursor: Cursor,
    ) -> StreamMeta:
        """Find the stream that the cursor names: a resume never starts a second generation."""
        meta = await _owned(runtime, principal, cursor.stream_id)
        if meta.request_id != asked.request_id:
            raise Problem(
                409, "request-conflict", "The stream answers another request than this one."
            )
        if meta.fingerprint != print_:
            raise RequestConflict(asked.request_id)
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
        if not runtime.producers.admit(meta):
            raise Problem(
                429,
                "too-many-readers",
                f"This key has {self._options.max_readers_per_key} responses open.",
                headers={"Retry-After": "1"},
            )
        return EventStream(runtime, meta, after_seq)


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
