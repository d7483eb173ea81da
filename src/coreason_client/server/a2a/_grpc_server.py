"""The gRPC server of an application, on the event loop of the application.

gRPC tells clients to connect anew (GOAWAY) only when a server stops. So a drain stops the server,
whose calls go on, and starts another one at the same address for tasks that are still read. Clients
behind a balancer then connect to another replica, and do not keep one that refuses their messages.
gRPC cancels a call that was sent before its client knew.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import grpc  # type: ignore[import-untyped]
import grpc.aio  # type: ignore[import-untyped]
from starlette.datastructures import Headers

from coreason_client.a2a._dialects import OPERATIONS
from coreason_client.a2a._grpc._connection import FORK_SUPPORT
from coreason_client.a2a._grpc._messages import SERVICES, GrpcMethod, extensions_in, methods_of
from coreason_client.a2a._grpc._status import DETAILS_KEY, GrpcStatus
from coreason_client.a2a.errors import A2AJSONRPCError, InternalError, InvalidRequestError

from .._options import Options
from ..engine._runtime import Runtime
from ..errors import LogError
from ..http._body import too_slow
from ..http._gate import Gate
from ..http._problems import Problem, Refusals, shutting_down, too_many_requests
from ._cards import Cards
from ._grpc_codec import check_version, encode_result, error_status, parse_params, problem_status
from ._operations import Operations
from ._protocol import VERSION_HEADER, Caller
from ._reading import TaskStream
from ._settings import GrpcAddress, check_free

logger = logging.getLogger("coreason_client.server")

# The calls of gRPC: checked like requests over HTTP, and answered by the same operations.


# Bytes; more are parsed in a thread. A message of this size has at most 2,048 values.
_LARGE_MESSAGE: Final = 4096
_EXTENSIONS: Final = "a2a-extensions"


@dataclass(slots=True)
class _GrpcCall:
    """A call of a method of one of the services; `principal` is known after the first checks."""

    method: GrpcMethod
    version: str
    context: Any
    principal: str | None = None


class _ClientGone(Exception):
    """The client has disconnected, so nobody reads the response."""


class GrpcCalls:
    """Answers the calls of both services on one event loop."""

    def __init__(
        self,
        operations: Operations,
        cards: Cards,
        gate: Gate,
        refusals: Refusals,
        runtime: Runtime,
        public_url: str | None,
    ) -> None:
        self._operations = operations
        self._cards = cards
        self._gate = gate
        self._refusals = refusals
        self._runtime = runtime
        self._public_url = public_url
        self._limits: set[asyncio.Timeout] = set()  # of the calls that run

    def handlers(self) -> list[Any]:
        """Return the generic handlers of the services."""
        return [
            grpc.method_handlers_generic_handler(
                service,
                {
                    method.path.rpartition("/")[2]: self._handler(method, version)
                    for method in methods_of(version).values()
                },
            )
            for version, service in SERVICES.items()
            if version in self._operations.versions
        ]

    def end_within(self, seconds: float) -> None:
        """End the calls that still run after so many seconds, with the status UNAVAILABLE."""
        until = self._runtime.loop.time() + seconds
        for limit in self._limits:
            limit.reschedule(until)

    def _handler(self, method: GrpcMethod, version: str) -> Any:
        """Return the handler of a method.

        On the wire, a single request and a stream of requests are the same. Only the handler of a
        stream gets the call before its message has been received, so it can refuse it earlier.
        """

        async def handle(_: object, context: Any) -> bytes | None:
            return await self._handle(_GrpcCall(method, version, context))

        make: Callable[..., Any] = (
            grpc.stream_stream_rpc_method_handler
            if method.streams
            else grpc.stream_unary_rpc_method_handler
        )
        return make(handle)

    async def _handle(self, call: _GrpcCall) -> bytes | None:
        try:
            async with asyncio.timeout(None) as limit:
                self._limits.add(limit)
                try:
                    return await self._answer(call)
                finally:
                    self._limits.discard(limit)
        except _ClientGone:
            return b""
        except A2AJSONRPCError as error:
            status = error_status(call.version, error)
        except (Problem, LogError) as error:
            status = problem_status(self._refusals.record(error, call.principal))
        except TimeoutError:  # see `end_within`
            status = problem_status(self._refusals.record(shutting_down(), call.principal))
        except Exception:
            logger.exception("the call of %s failed", call.method.path)
            failure = InternalError("The server failed; its log has the reason.")
            status = error_status(call.version, failure)
        await _abort(call.context, status)
        return None

    async def _answer(self, call: _GrpcCall) -> bytes | None:
        metadata = call.context.invocation_metadata() or ()
        headers = _headers(metadata)
        call.principal = principal = await self._admitted(headers)
        check_version(call.version, headers.get(VERSION_HEADER))
        used = self._operations.used_extensions(extensions_in(metadata))
        params = await self._params(call, principal)
        caller = Caller.of(principal, params.pop("tenant", None), headers, call.version)
        operation = OPERATIONS[call.method.operation]
        if operation.streams:
            stream = await self._operations.open(operation.name, caller, params)
            await self._send_events(call, stream, used)
            return None
        if operation.name == "get_extended_card":
            result: Any = self._cards.extended(self._public_url, call.version)
        else:
            result = await self._operations.call(operation.name, caller, params)
        await _send_extensions(call.context, used)
        return encode_result(call.method, call.version, operation.result, result)

    async def _admitted(self, headers: Headers) -> str:
        """Return the principal of a call; raises a `Problem` if it must not begin."""
        await self._gate.turn()
        if problem := self._gate.header_problem(headers.raw):
            raise problem
        principal = self._gate.principal_in(headers)
        if wait := await self._gate.take_token(principal):
            raise too_many_requests(self._gate.options, wait)
        return principal

    async def _params(self, call: _GrpcCall, principal: str) -> dict[str, Any]:
        options = self._gate.options
        try:
            async with asyncio.timeout(options.body_timeout):
                message = await _while_connected(call.context.read())
        except TimeoutError:
            raise too_slow(options.body_timeout) from None
        if message is grpc.aio.EOF:
            raise InvalidRequestError("The call has no message.")

        def parse(body: bytes) -> dict[str, Any]:
            return parse_params(call.method, call.version, body, options.max_json_values)

        if len(message) <= _LARGE_MESSAGE:
            return parse(message)
        return await self._gate.parse_large(principal, message, parse)

    async def _send_events(self, call: _GrpcCall, stream: TaskStream, used: list[str]) -> None:
        runtime = self._runtime
        try:
            await _send_extensions(call.context, used)
            while not stream.ended:
                # Most clients do not reconnect by themselves, so they stay as long as possible.
                leaves = runtime.readers_must_leave(joined_during_drain=True)
                events = await stream.next(0 if leaves else runtime.options.heartbeat)
                for streamed in events:
                    await self._write(call, stream, streamed.event)
                if events or stream.ended:
                    continue
                if leaves:
                    raise shutting_down()
                stream.check_producer(runtime)
        finally:
            stream.close()
            runtime.producers.remove_reader(stream)

    async def _write(self, call: _GrpcCall, stream: TaskStream, event: dict[str, Any]) -> None:
        """Send one event; the next one is sent when the client has taken it."""
        timeout = self._runtime.options.send_timeout
        message = encode_result(call.method, call.version, "event", event)
        try:
            async with asyncio.timeout(timeout):
                await _while_connected(call.context.write(message))
        except TimeoutError:
            logger.info(
                "a reader of task %s read nothing for %g s and was disconnected at packet %d",
                *(stream.task_id, timeout, stream.position),
            )
            raise Problem(503, "slow-reader", f"Nothing was read for {timeout:g} s.") from None


async def _while_connected(work: Any) -> Any:
    try:
        return await work
    except grpc.aio.InternalError:
        raise _ClientGone from None


async def _send_extensions(context: Any, used: list[str]) -> None:
    if used:
        await _while_connected(context.send_initial_metadata(((_EXTENSIONS, ", ".join(used)),)))


async def _abort(context: Any, status: GrpcStatus) -> None:
    metadata = ((DETAILS_KEY, status.details),) if status.details else ()
    await context.abort(grpc.StatusCode[status.code], status.message, metadata)


def _headers(metadata: Iterable[tuple[str, str | bytes]]) -> Headers:
    """Return metadata as headers, for the checks that all protocols have in common."""
    raw = [
        (key.encode("latin-1"), value.encode("latin-1") if isinstance(value, str) else value)
        for key, value in metadata
    ]
    return Headers(raw=raw)


# The server

# Seconds, once the streams have ended: for the calls to end by themselves, and for gRPC to send it.
_END_CALLS: Final = 4.0
_GRACE: Final = 5.0
_CLIENT_PING_INTERVAL: Final = 5_000  # ms; gRPC itself disconnects clients that ping every minute
_IDENTITY_ONLY: Final = 1
_DRAINING_CONNECTION_AGE: Final = 1_000  # ms
# Seconds until the address of a stopped server must be free again; that takes a few milliseconds.
_FREE_WITHIN: Final = 2.0
_POLL_INTERVAL: Final = 0.001


def channel_options(options: Options, *, shares_port: bool) -> list[tuple[str, int]]:
    """Return the options of a server for the options of an application."""
    return [
        ("grpc.so_reuseport", int(shares_port)),
        ("grpc.max_receive_message_length", options.max_body_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", options.max_header_bytes),
        ("grpc.absolute_max_metadata_size", options.max_header_bytes),
        # A compressed message could be small on the wire and huge in memory.
        ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_ONLY),
        # These pings detect readers whose connection is dead.
        ("grpc.keepalive_time_ms", round(options.heartbeat * 1000)),
        ("grpc.keepalive_timeout_ms", round(options.send_timeout * 1000)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", _CLIENT_PING_INTERVAL),
    ]


class GrpcServer:
    """Listens for calls from `start` to `stop`; `port` is the port, also if a free one was chosen.

    `credentials` are `grpc.ServerCredentials`, None for a server without TLS.
    """

    def __init__(
        self,
        calls: GrpcCalls,
        options: Options,
        address: GrpcAddress,
        credentials: Any = None,
        *,
        shares_port: bool = False,
    ) -> None:
        check_free(address, shared=shares_port)
        FORK_SUPPORT.check(is_async=True)
        self._calls = calls
        self._options = channel_options(options, shares_port=shares_port)
        self._credentials = credentials
        self._shares_port = shares_port
        self._drain_time = options.drain_timeout + options.cancel_grace + _GRACE
        self._servers: list[Any] = []
        self._draining: asyncio.Task[None] | None = None
        self._stopping: asyncio.Future[None] | None = None
        self.port: int = self._listen(address)
        self._address = GrpcAddress(address.host, self.port)

    def _listen(self, address: GrpcAddress, *options: tuple[str, int]) -> int:
        server = grpc.aio.server(
            handlers=self._calls.handlers(), options=[*self._options, *options]
        )
        try:
            if self._credentials is None:
                port = server.add_insecure_port(str(address))
            else:
                port = server.add_secure_port(str(address), self._credentials)
        except RuntimeError as error:
            # It does not say why, and what was known before has changed since.
            raise OSError(f"the gRPC server cannot listen at {address}") from error
        self._servers.append(server)
        return int(port)

    async def start(self) -> None:
        """Begin to accept calls."""
        await self._servers[-1].start()

    def begin_drain(self) -> None:
        """Tell clients to connect anew; running calls go on, and new connections are short."""
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._listen_anew())

    async def _listen_anew(self) -> None:
        self._stopping = asyncio.ensure_future(self._servers[-1].stop(self._drain_time))
        try:
            await self._until_free()
            self._listen(self._address, ("grpc.max_connection_age_ms", _DRAINING_CONNECTION_AGE))
        except OSError as error:
            logger.warning("tasks cannot be read over gRPC during the drain: %s", error)
        else:
            await self.start()

    async def _until_free(self) -> None:
        deadline = time.monotonic() + _FREE_WITHIN
        while True:
            await asyncio.sleep(_POLL_INTERVAL)
            try:
                check_free(self._address, shared=self._shares_port)
            except OSError:
                if time.monotonic() > deadline:
                    raise
            else:
                return

    async def stop(self) -> None:
        """Stop listening, and end the calls that have not ended with their streams."""
        if self._draining is not None:
            self._draining.cancel()
            await asyncio.wait({self._draining})
        self._calls.end_within(_END_CALLS)
        await asyncio.gather(*(server.stop(_GRACE) for server in self._servers))
        if self._stopping is not None:
            await self._stopping
