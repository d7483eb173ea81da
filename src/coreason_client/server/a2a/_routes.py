"""The routes of A2A over HTTP: the card, JSON-RPC and HTTP+JSON.

`POST /a2a` is JSON-RPC; the paths below `/a2a` are HTTP+JSON, those of 0.3 below `/a2a/v1`.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Send

from coreason_client.a2a._dialects import OPERATIONS
from coreason_client.a2a.errors import (
    A2AJSONRPCError,
    ContentTypeNotSupportedError,
    InvalidParamsError,
    MethodNotFoundError,
)

from ..._host_port import host_port
from ...sse import encode_event
from .._options import A2A_PATH, CARD_PATH
from ..engine._runtime import Runtime
from ..errors import LogError
from ..http._body import drain_body
from ..http._gate import Gate
from ..http._problems import Problem, too_many_requests
from ..http._stream_response import SSEResponse, while_connected
from . import _jsonrpc, _rest
from ._cards import Cards
from ._fold import Event
from ._operations import Operations
from ._protocol import V03, V10, VERSION_HEADER, Caller, requested_version
from ._reading import Streamed, TaskStream

__all__ = ["CARD_PATH", "A2ARoutes", "TaskEvents", "single_event"]

_A2A_JSON: Final = "application/a2a+json"
_JSON: Final = "application/json"
_EXTENSIONS: Final = ("a2a-extensions", "x-a2a-extensions")  # the second one is that of 0.3


class _HttpCall(NamedTuple):
    """A call of an operation; `encode` writes a kind of result, in the shape of 1.0."""

    operation: str
    params: dict[str, Any]
    encode: Callable[[str, Any], bytes]
    media_type: str
    version: str


class A2ARoutes:
    """The handlers; `runtime` returns the runtime of this event loop."""

    def __init__(
        self,
        operations: Operations,
        cards: Cards,
        gate: Gate,
        runtime: Callable[[], Awaitable[Runtime]],
        public_url: str | None,
    ) -> None:
        self._operations = operations
        self._cards = cards
        self._gate = gate
        self._runtime = runtime
        self._public_url = public_url

    def table(self) -> list[Route]:
        """Return the routes; a path below the base may end with a slash.

        The root of the application is JSON-RPC too, for clients that do not read the card.
        """
        return [
            Route(CARD_PATH, self.card, methods=["GET"]),
            Route("/", self.rpc, methods=["POST"]),
            Route(A2A_PATH, self.rpc, methods=["POST"]),
            Route(f"{A2A_PATH}/", self.rpc, methods=["POST"]),
            Route(f"{A2A_PATH}/{{path:path}}", self.rest, methods=["GET", "POST", "DELETE"]),
        ]

    async def card(self, request: Request) -> Response:
        """Return the card; clients and proxies may keep it for a while."""
        cached, headers = self._cards.public(self._url(request)), request.headers
        known = headers.get("if-none-match"), headers.get("if-modified-since")
        if cached.is_current(*known):
            return Response(status_code=304, headers=cached.headers)
        return Response(cached.body, headers=cached.headers, media_type=_JSON)

    def _url(self, request: Request) -> str:
        """Return the URL of the application; never from a header, which a client can choose."""
        if self._public_url is not None:
            return self._public_url.rstrip("/")
        scope = request.scope
        host, port = scope.get("server") or ("", None)
        # A unix socket has a path, which has no host and no port.
        address = "localhost" if port is None else host_port(host, port)
        return f"{scope['scheme']}://{address}{scope.get('root_path', '')}".rstrip("/")

    # The bindings.

    async def rpc(self, request: Request) -> Response:
        """Answer a request of JSON-RPC."""
        return await _with_drained_body(request, self._rpc)

    async def _rpc(self, request: Request) -> Response:
        id_: _jsonrpc.RpcId = None
        try:
            principal = await self._admitted(request)
            length = self._gate.announced_length(request)
            body = await self._gate.read(request, principal, length, _jsonrpc.parse_json)
            id_ = _jsonrpc.rpc_id(body)
            rpc = _jsonrpc.parse_call(body, self._version(request))
            encode = partial(_jsonrpc.result, rpc)
            call = _HttpCall(rpc.operation, rpc.params, encode, _JSON, rpc.version)
            try:
                return await self._answer(request, principal, call)
            except A2AJSONRPCError as error:
                if not _is_read_as_stream(call, error):
                    raise
                return single_event(_jsonrpc.failure(id_, error))
        except A2AJSONRPCError as error:
            return Response(_jsonrpc.failure(id_, error), media_type=_JSON)
        except Problem as problem:
            if problem.status != 415:
                raise
            await drain_body(request)
            refusal = ContentTypeNotSupportedError(problem.detail)
            return Response(_jsonrpc.failure(id_, refusal), problem.status, media_type=_JSON)

    async def rest(self, request: Request) -> Response:
        """Answer a request of HTTP+JSON."""
        return await _with_drained_body(request, self._rest)

    async def _rest(self, request: Request) -> Response:
        version = V10
        try:
            principal = await self._admitted(request)
            version = self._version(request)
            found = _rest.match(request.method, f"/{request.path_params['path']}", version)
            if found is None:
                raise MethodNotFoundError("There is no such operation.")
            body = await self._rest_body(request, principal)
            params = _rest.parse_params(found, _query(request), body)
            encode, media_type = partial(_rest.result, version), _media_type(request, version)
            call = _HttpCall(found.operation, params, encode, media_type, version)
            return await self._answer(request, principal, call)
        except A2AJSONRPCError as error:
            status, document = _rest.failure(version, error)
            return Response(document, status, media_type=_media_type(request, version))

    async def _rest_body(self, request: Request, principal: str) -> Any:
        """Return the JSON of a body, None if there is none."""
        headers = request.headers
        empty = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
        if request.method != "POST" or empty:
            return None
        length = self._gate.announced_length(request)
        return await self._gate.read(request, principal, length, _jsonrpc.parse_json)

    # What the bindings have in common.

    def _version(self, request: Request) -> str:
        named = request.headers.get(VERSION_HEADER) or request.query_params.get(VERSION_HEADER)
        return requested_version(named, self._operations.versions)

    async def _admitted(self, request: Request) -> str:
        """Return the principal of a request.

        Raises:
            Problem: it has no valid key, or sends too many requests.
        """
        principal = await self._gate.principal_in_turn(request)
        await self._runtime()  # the limit may be counted in the log
        if wait := await self._gate.take_token(principal):
            raise too_many_requests(self._gate.options, wait)
        return principal

    async def _answer(self, request: Request, principal: str, call: _HttpCall) -> Response:
        named = ",".join(request.headers.get(name, "") for name in _EXTENSIONS)
        used = self._operations.used_extensions(uri.strip() for uri in named.split(","))
        headers = {"A2A-Extensions": ", ".join(used)} if used else {}
        tenant = call.params.pop("tenant", None)
        caller = Caller.of(principal, tenant, request.headers, call.version)
        operation = OPERATIONS[call.operation]
        if operation.streams:
            position = request.headers.get("last-event-id")
            stream = await self._operations.open(operation.name, caller, call.params, position)

            def encode(event: Event) -> bytes:
                return call.encode("event", event)

            return TaskEvents(await self._runtime(), stream, encode, headers)
        if operation.name == "get_extended_card":
            result: Any = self._cards.extended(self._url(request), call.version)
        else:
            # It may wait for an agent for hours; the agent itself goes on without the client.
            work = self._operations.call(operation.name, caller, call.params)
            result = await while_connected(request.scope, request.receive, work)
        body = call.encode(operation.result, result)
        return Response(body, media_type=call.media_type, headers=headers)


def _is_read_as_stream(call: _HttpCall, error: A2AJSONRPCError) -> bool:
    """Return whether clients expect this error of JSON-RPC as the only event of a stream.

    Clients of 0.3 read every answer to a streaming method so, but for wrong parameters.
    """
    streams = call.version == V03 and OPERATIONS[call.operation].streams
    return streams and not isinstance(error, InvalidParamsError)


async def _with_drained_body(
    request: Request, answer: Callable[[Request], Awaitable[Response]]
) -> Response:
    try:
        return await answer(request)
    except (Problem, LogError) as error:
        if getattr(error, "status", None) != 408:  # 408: the body did not arrive
            await drain_body(request)
        raise


def _query(request: Request) -> dict[str, str]:
    """Return the parameters in the query; the version is not one of them."""
    return {name: text for name, text in request.query_params.items() if name != VERSION_HEADER}


def _media_type(request: Request, version: str) -> str:
    """Return the media type of a response; that of A2A only for clients that know it."""
    accepts = request.headers.get("accept", "")
    return _A2A_JSON if version == V10 and _A2A_JSON in accepts else _JSON


# Server-sent events

# A comment without the empty line after it: httpx-sse takes an empty line after an event with an id
# for one more event, and a subscription of a2a-sdk 0.3 fails at its empty data.
_HEARTBEAT: Final = b":\n"


def single_event(body: bytes) -> Response:
    """Return a stream that has one event."""
    headers = {"Cache-Control": "no-cache"}
    return Response(encode_event(body), headers=headers, media_type=SSEResponse.media_type)


class TaskEvents(SSEResponse):
    """The events of a task; `encode` writes one of them as a binding wants it."""

    def __init__(
        self,
        runtime: Runtime,
        stream: TaskStream,
        encode: Callable[[Event], bytes],
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(runtime, headers)
        self._stream = stream
        self._encode = encode
        self._subject = f"task {stream.task_id}"

    def _left(self) -> None:
        self._runtime.producers.remove_reader(self._stream)

    def _close(self) -> None:
        self._stream.close()

    @property
    def _position(self) -> int:
        return self._stream.position

    async def _send_all(self, send: Send) -> None:
        runtime, stream, heartbeat = self._runtime, self._stream, self._runtime.options.heartbeat
        while not stream.ended:
            # Most clients do not reconnect by themselves, so they stay as long as possible.
            leaves = runtime.readers_must_leave(joined_during_drain=True)
            events = await stream.next(0 if leaves else heartbeat)
            if events:
                body = b"".join(map(self._frame, events))
                await self._send(send, body, more=not stream.ended)
                if stream.ended:
                    return
            elif leaves:
                break
            elif not stream.ended:
                stream.check_producer(runtime)
                await self._send(send, _HEARTBEAT)
        await self._send(send, b"", more=False)

    def _frame(self, streamed: Streamed) -> bytes:
        position = None if streamed.position is None else str(streamed.position)
        return encode_event(self._encode(streamed.event), id=position)
