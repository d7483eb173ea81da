"""`Resumable`: makes the event stream of any Starlette or FastAPI route durable and resumable.

The source of a stream, an async iterator, runs as a task of the application and not of a request.
Each item is stored in the log before a reader gets it, and the id of its event is its position in
the log. So `EventSource` and its `Last-Event-ID` are all that a page needs.

It is an `AgentApp` without routes, whose agent copies the source into its stream: an event is a
packet of text. Leases, orphaned streams, the drain and the limits are those of every agent.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from inspect import iscoroutinefunction, isgeneratorfunction
from time import monotonic
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID, uuid4, uuid5

from pydantic_core import from_json, to_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from coreason_manifest.definitions.presentation import StreamOpCode
from coreason_manifest.definitions.request import AgentRequest
from coreason_manifest.definitions.service import ServiceRequest
from coreason_manifest.definitions.session import SessionContext

from ..errors import ArgumentError
from ..sse import ServerSentEvent, encode_event
from ._names import full_principal
from .answer._entries import as_packet, delta_json
from .app import AgentApp, parts_of
from .engine._conversation import RequestWithHistory
from .engine._runtime import Runtime, open_stream
from .errors import LogError, PositionGone, StreamEnded, UnknownStream
from .http._admission import cursor_in, owned
from .http._cursor import Cursor
from .http._decision import check_cursor
from .http._problems import Problem, Refusals, shutting_down, too_many_streams
from .http._stream_response import EventStream, nothing_left, take_reader
from .log.base import NewStream, StreamLog, StreamMeta
from .stream import AgentStream

__all__ = ["Resumable"]

logger = logging.getLogger("coreason_client.server")

Item: TypeAlias = str | bytes | ServerSentEvent
Source: TypeAlias = AsyncIterable[Item] | Callable[[], AsyncIterable[Item]]

_IDS: Final = UUID("8d1f2a34-6f0e-4d55-9c3b-0c4a5e7b9d21")
"""The namespace in which the id of a stream becomes the id of a request, which is a UUID."""


class Resumable:
    """Durable, resumable event streams for the routes of an application; make one of them.

    Start it with ``FastAPI(lifespan=events.lifespan)``, or with the first request.

    Args:
        log: where events are stored; by default a `MemoryStreamLog`.
        name: separates the streams from those of others on the same log.
        heartbeat: the seconds without an event after which readers get a comment.
        retention: the seconds for which events are kept after the end of a stream.
        final_retention: the seconds after the end of a stream for which its id stays in use.
        drain_timeout: the seconds that sources have to finish when the server stops.
        max_streams_per_owner: the number of running sources of an owner.
        max_readers_per_owner: the number of connected readers of an owner.

    Raises:
        ValueError: an argument is not valid.
    """

    def __init__(
        self,
        log: StreamLog | None = None,
        *,
        name: str = "resumable",
        heartbeat: float = 15.0,
        retention: float = 900.0,
        final_retention: float = 86400.0,
        drain_timeout: float = 10.0,
        max_streams_per_owner: int = 1000,
        max_readers_per_owner: int = 4000,
    ) -> None:
        self._sources: dict[UUID, Source] = {}  # of streams that are about to start
        self._app = AgentApp(
            self._run,
            log=log,
            agent_id=name,
            heartbeat=heartbeat,
            retention=retention,
            final_retention=final_retention,
            drain_timeout=drain_timeout,
            max_streams_per_key=max_streams_per_owner,
            max_readers_per_key=max_readers_per_owner,
        )
        self._parts = parts_of(self._app)

    def lifespan(self, app: Any = None) -> AbstractAsyncContextManager[None]:
        """Return a context that starts and stops it, for the lifespan of the application."""
        return self._app.lifespan()

    async def response(
        self,
        request: Request,
        id: str,  # noqa: A002 - the usual name of it
        source: Source,
        *,
        owner: str | None = None,
    ) -> Response:
        """Return the events of a stream; the first request with an id starts its source.

        `source` is an async iterator, or a function that returns one and is called only if the
        stream is new. Its items are the data of events, or `ServerSentEvent` objects, which also
        have a type. Streams of different owners are different streams, also with the same id.

        Raises:
            ArgumentError: an argument has the wrong type, or `owner` is empty.
        """
        asked = _Asked(*self._names(id, owner), request)
        if not _may_be_source(source):  # found later, it would have used up the id
            rule = "must be an async iterator, or a function that returns one"
            raise ArgumentError("source", rule, source)
        try:
            if request.method == "HEAD":
                detail = "A stream has no HEAD, which would start its source: use GET."
                raise Problem(405, "method-not-allowed", detail, headers={"Allow": "GET"})
            return await self._respond(asked, source)
        except (Problem, LogError) as error:
            return self._parts.refusals.respond(error, request.scope)

    async def cancel(self, id: str, *, owner: str | None = None) -> None:  # noqa: A002
        """Cancel the source of a stream, whose readers get an `error` event.

        It has no effect if there is no such stream, or if it has ended.

        Raises:
            ArgumentError: an argument has the wrong type, or `owner` is empty.
            LogError: the log does not answer.
        """
        names, runtime = self._names(id, owner), await self._parts.runtime()
        meta = await runtime.log.find(*names)
        if meta is not None:
            await runtime.producers.cancel(meta)

    def _names(self, id: object, owner: object) -> tuple[str, UUID]:  # noqa: A002
        """Return the names of a stream in the log, its principal and the id of its request."""
        if not isinstance(id, str):
            raise ArgumentError("id", "must be a str", id)
        if not isinstance(owner, str | None) or owner == "":
            rule = "must be a name, or None for streams without an owner"
            raise ArgumentError("owner", rule, owner)
        return full_principal(self._app.agent_id, owner or ""), uuid5(_IDS, id)

    async def _respond(self, asked: "_Asked", source: Source) -> Response:
        runtime, after = await self._parts.runtime(), cursor_in(asked.http.headers)
        with await take_reader(runtime, asked.principal):  # a refused reader starts nothing
            if after is None:
                meta = await self._join_or_start(runtime, asked, source)
            else:
                meta = await _resume(runtime, asked, after)
        after = after or Cursor(meta.stream_id)
        ended = nothing_left(runtime, meta, after)
        return ended or _Events(runtime, meta, after, self._parts.refusals)

    async def _join_or_start(self, runtime: Runtime, asked: "_Asked", source: Source) -> StreamMeta:
        meta = await runtime.log.find(asked.principal, asked.request_id)
        if meta is not None:
            return meta
        if runtime.closing:
            raise shutting_down()
        unit = await runtime.producers.take_stream(asked.principal)
        if unit is None:
            raise too_many_streams(runtime.options)
        with unit:
            began_at = monotonic()
            new = NewStream(uuid4(), asked.principal, asked.request_id, "")

            def start(meta: StreamMeta) -> None:
                self._sources[new.stream_id] = source
                known = _request(new), meta, asked.http.headers, began_at, unit
                producer = runtime.producers.start(*known)
                # One that is stopped at once never takes its source.
                producer.task.add_done_callback(lambda _: self._sources.pop(new.stream_id, None))

            opened = await open_stream(runtime, new, start)
            if opened.created:
                start(opened.meta)
            return opened.meta

    async def _run(self, request: ServiceRequest, stream: AgentStream) -> None:
        """Copy a source into its stream; the agent of the application."""
        source = self._sources.pop(stream.stream_id)
        try:
            async with aclosing(_blocks(source)) as blocks:
                async for block in blocks:
                    await stream.write(block)
        except (LogError, StreamEnded):
            raise
        except Exception:
            logger.exception("the source of stream %s failed", stream.stream_id)
            await stream.fail("source_failed", "The source of this stream has failed.")


def _may_be_source(source: object) -> bool:
    """Return False if something cannot be a source; what a function returns is not known yet."""
    is_other = iscoroutinefunction(source) or isgeneratorfunction(source)
    return isinstance(source, AsyncIterable) or (callable(source) and not is_other)


class _Asked(NamedTuple):
    """A request for the events of a stream."""

    principal: str
    request_id: UUID
    http: Request


def _request(new: NewStream) -> ServiceRequest:
    """Return a request as agents get it, of which no turn is stored."""
    context = SessionContext(session_id=str(new.request_id), user_id="anybody")
    payload = AgentRequest(messages=[])
    return RequestWithHistory(
        request_id=new.request_id, context=context, payload=payload, earlier=[]
    )


async def _resume(runtime: Runtime, asked: _Asked, after: Cursor) -> StreamMeta:
    """Return the stream of a position; a resume never starts a source."""
    try:
        meta = await owned(runtime, asked.principal, after.stream_id)
    except UnknownStream:  # expired as a whole, or of somebody else, who must not be noticed
        raise PositionGone(after.stream_id, after.seq) from None
    if meta.request_id != asked.request_id:
        raise Problem(400, "bad-last-event-id", "Last-Event-ID belongs to another stream.")
    check_cursor(after, meta)
    return meta


class _Events(EventStream):
    """The events of a stream; each is one packet in the log, whose id it has.

    It counts as a reader only while it is sent: the route may raise an exception instead.
    """

    def __init__(self, runtime: Runtime, meta: StreamMeta, at: Cursor, refusals: Refusals) -> None:
        super().__init__(runtime, meta, at)
        del self.headers["X-Request-ID"]  # in the application of somebody else it has a meaning
        self._refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events, or the refusal of another reader."""
        try:
            reader = await take_reader(self._runtime, self._meta.principal)
        except (Problem, LogError) as error:
            refusal = self._refusals.respond(error, scope)
            refusal.background = self.background
            await refusal(scope, receive, send)
        else:
            self._runtime.producers.add_reader(self._meta, reader)
            await super().__call__(scope, receive, send)

    def _encode(self, entries: Sequence[bytes]) -> bytes:
        return b"".join(map(_event, entries))

    def _direct(self) -> None:
        """Return None: entries have another form in the log."""


def _event(entry: bytes) -> bytes:
    """Return the event of an entry, which begins with the line of its id."""
    text = delta_json(entry)
    block = from_json(text).encode() if text is not None else _end(as_packet(entry))
    return b"%b\n%b\n\n" % (entry[: entry.index(b"\n")], block)


def _end(packet: dict[str, Any]) -> bytes:
    """Return the last event of a stream, without its id and the empty line."""
    if packet["op"] == StreamOpCode.CLOSE:
        return b"event: end\ndata: complete"
    error = {name: packet["p"][name] for name in ("code", "message")}
    return b"event: error\ndata: " + to_json(error)


async def _blocks(source: Source) -> AsyncGenerator[str, None]:
    """Return the lines of each event of a source, as they are stored; it is closed at the end."""
    items = source if isinstance(source, AsyncIterable) else source()
    try:
        async for item in items:
            if isinstance(item, ServerSentEvent):
                event = encode_event(item.data_bytes, event=item.event_bytes.decode() or None)
            elif isinstance(item, str | bytes):
                event = encode_event(item)
            else:
                kind = type(item).__name__
                raise TypeError(f"a source must yield str, bytes or ServerSentEvent, got {kind}")
            yield event[:-2].decode()
    finally:
        if isinstance(items, AsyncGenerator):
            await items.aclose()
