"""The ASGI application: an agent, its log and its options."""

import asyncio
import contextvars
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from uuid import uuid4

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from ..adapters import FrameworkAgent, adapted
from ..errors import ArgumentError
from ._agent_ids import agent_name, default_agent_id, warn_if_shared
from ._internals import SEND, HeldHead, response_cycle
from ._keys_file import KeysFile
from ._options import OnBusy, Options, option_names, protocol_settings
from .cap._routes import Routes
from .engine._agent import Agent, as_runner, is_generator_without_stream
from .engine._runtime import Runtime, Service
from .errors import LogError
from .http._auth import Keys, Tickets
from .http._body import drain_body
from .http._cuts import Cuts, serve_cuttable
from .http._gate import Gate
from .http._hosts import AllowedHosts, checked_origins, encoded_slash_problem, with_root_path
from .http._problems import Problem, Refusals
from .log.base import DurableLog, StreamLog
from .log.memory import MemoryStreamLog
from .log.quotas import quotas_of
from .log.tasks import TaskLog
from .observe._metrics import NO_METRICS, Metrics, PrometheusMetrics
from .observe._spans import tracing
from .page import BEARER_OPTION, CutRequest, PageConfig, page_routes
from .process._lifespan import serve_lifespan
from .process._single_process import (
    SeveralProcesses,
    SingleProcessGuard,
    check_workers,
    configured_workers,
)

if TYPE_CHECKING:
    from coreason_client.a2a.types import AgentCard

    from .a2a import A2A, GrpcServing, Operations
    from .ag_ui import AGUI
    from .ai_sdk import AISDK
    from .openai import OpenAIAPI
    from .openai._routes import OpenAIRoutes

__all__ = ["AgentApp", "AppParts", "asgi_stack", "parts_of"]

_REFUSED = (Problem, LogError, HTTPException)
_CORS_HEADERS = (
    "Accept",
    "Authorization",
    "Cache-Control",
    "Content-Type",
    "Last-Event-ID",
    "X-Request-ID",
    "traceparent",
    "tracestate",
)
_EXPOSED_HEADERS = (
    "X-Request-ID",
    "X-Stream-ID",
    "X-Stream-Outcome",
    "Retry-After",
    "WWW-Authenticate",
)
# In addition, if the agent is served over A2A; the names with X- are those of version 0.3.
_A2A_CORS_HEADERS = (
    "A2A-Version",
    "A2A-Extensions",
    "X-A2A-Extensions",
    "If-None-Match",
    "If-Modified-Since",
)
_A2A_EXPOSED_HEADERS = ("A2A-Extensions", "ETag")
# In addition, if the agent is served over the OpenAI-compatible API.
_OPENAI_CORS_HEADERS = (
    "Idempotency-Key",
    "OpenAI-Beta",
    "OpenAI-Organization",
    "OpenAI-Project",
    *(
        f"X-Stainless-{name}"
        for name in (
            *("Arch", "Async", "Helper-Method", "Lang", "OS", "Package-Version", "Read-Timeout"),
            *("Retry-Count", "Runtime", "Runtime-Version", "Timeout"),
        )
    ),
)
_OPENAI_EXPOSED_HEADERS = ("X-Should-Retry", "Retry-After-Ms")
# In addition, if the agent is served to pages that use the AI SDK.
_AI_SDK_EXPOSED_HEADERS = (
    "X-Workflow-Run-Id",
    "X-Workflow-Stream-Tail-Index",
    "X-Vercel-AI-UI-Message-Stream",
)


@dataclass(frozen=True, slots=True)
class AppParts:
    """The parts of an application that an `AgentGroup` needs too.

    `runtime` returns the runtime of this event loop, and `is_started` whether there is one.
    """

    options: Options
    log: StreamLog
    gate: Gate
    refusals: Refusals
    hosts: AllowedHosts
    origins: tuple[str, ...]
    guard: SingleProcessGuard
    metrics: Metrics
    routes: Routes
    openai: "OpenAIRoutes | None"
    runtime: Callable[[], Awaitable[Runtime]]
    is_started: Callable[[], bool]

    async def serve(self, asgi: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request with `asgi`, unless its headers, path or address are refused."""
        problem = self._head_problem(scope) or await self._address_problem(scope)
        if problem is None:
            await asgi({**scope, SEND: send}, receive, send)
        else:
            await drain_body(Request(scope, receive))
            await self.refusals.respond(problem, scope)(scope, receive, send)

    def _head_problem(self, scope: Scope) -> Problem | None:
        """Return a refusal by the headers and the path, the same for every route."""
        if scope["type"] != "http":
            return None
        hosts = None if self.gate.has_keys else self.hosts
        return (
            (hosts and hosts.refusal(scope["headers"], scope.get("server")))
            or self.gate.header_problem(scope["headers"])
            or encoded_slash_problem(scope)
        )

    async def _address_problem(self, scope: Scope) -> Problem | None:
        """Return a refusal if another process serves at the same address."""
        if self.log.shared or scope["type"] != "http":
            return None
        try:
            if not self.is_started():
                self.guard.check_start()
            await self.guard.check_address(scope.get("server"))
        except SeveralProcesses as error:
            return Problem(503, "several-processes", f"{error}.", headers={"Retry-After": "1"})
        return None


class AgentApp:
    """An agent as an ASGI application. Serve it, or mount it in another application.

    An agent is ``async def assist(request, stream)``, which must not block, or a plain
    ``def assist(request, stream)``, which runs in a thread and may block. It writes to the stream,
    returns text or yields text and events, and may leave out ``stream``. An agent of pydantic-ai
    or of the OpenAI Agents SDK and a compiled graph of LangGraph are agents too.

    It starts with the lifespan or, without one as in a mount, with the first request. With
    `lifespan` a parent application can start it early and drain it at the end.

    Args:
        agent: the function, or the object of a framework.
        log: where streams are stored; by default a `MemoryStreamLog`.
        api_keys: the accepted keys, or a mapping from keys to principals (the owners of streams).
            Without keys and tickets everybody may use the agent.
        api_keys_file: a file with further keys, one in each line, with the name of its principal
            after a space; it is read again when it changes.
        ticket_secrets: the secrets of tickets for browsers, see `create_ticket`.
        cors_origins: origins of web pages that may send requests; `*` is every page.
        allowed_hosts: further host names that a server without keys accepts.
        public_url: the URL of the server for clients, if a proxy is in front of it.
        root_path: the prefix of the path below which a proxy serves the application.
        agent_id: the id of the agent, which owns its streams, conversations and tasks on the log;
            by default the module and the qualified name of the function. Keep it when the code is
            renamed.
        version: its version; by default that of this package.
        max_body_bytes: the largest body of a request.
        max_json_values: the largest number of JSON values in a body.
        max_messages: the largest number of messages in a request.
        max_parts: the largest number of parts of all messages.
        max_header_bytes: the largest size of the headers of a request.
        max_streams_per_key: the number of running streams of a principal. This and the next two
            limits are counted together by all processes that share a store.
        max_readers_per_key: the number of connected readers of a principal.
        max_requests_per_minute: the number of requests of a principal; None for no limit.
        on_abandoned: "cancel" cancels an agent whose last reader has left; it counts the readers of
            this process, so it cannot be used with a shared log.
        abandon_grace: the seconds before that.
        on_busy: what happens to a message while an earlier one of its conversation is being
            answered, in any process that shares the log: "parallel" answers both at once, "wait"
            answers it next, "reject" refuses it with 409, and "interrupt" cancels the earlier
            answer first.
        inbox: True if clients may send messages to a running stream, which the agent reads with
            `stream.inbox`.
        heartbeat: the seconds without a packet after which readers get a comment.
        send_timeout: the seconds for which a reader may block its connection.
        body_timeout: the seconds within which a body must arrive.
        retention: the seconds for which packets are kept after the end of a stream.
        final_retention: the seconds for which its status, and conversations, are kept.
        drain_timeout: the seconds that agents have to finish when the server stops.
        cancel_grace: the seconds that a cancelled agent has to clean up.
        durable: True restarts the agent elsewhere if its process dies; needs a log that outlives
            the process.
        max_restarts: the number of restarts in a row without progress.
        metrics: True to serve Prometheus metrics at `/metrics`, or another path.
        metrics_key: the key for the metrics; by default one of `api_keys`.
        metrics_public: True to serve the metrics to everybody.
        a2a: True to serve the agent over A2A too; a card describes it better, and an `A2A` object
            has all settings.
        openai: True to serve the agent over the OpenAI-compatible API too, as a model whose name is
            `agent_id`; an `OpenAIAPI` object has all settings.
        ai_sdk: True to serve the agent to pages that use the AI SDK, at `/api/chat`; an `AISDK`
            object has all settings.
        ag_ui: True to serve the agent to pages that use AG-UI, such as those of CopilotKit, at
            `/ag-ui`; an `AGUI` object has all settings.
        page: True to serve a page at `/`, with which a browser talks to the agent.

    Raises:
        ValueError, TypeError: an argument is not valid.
        MissingExtraError: an option needs an extra that is not installed.
    """

    def __init__(
        self,
        agent: Agent | FrameworkAgent,
        *,
        log: StreamLog | None = None,
        api_keys: Iterable[str] | Mapping[str, str] | None = None,
        api_keys_file: str | os.PathLike[str] | None = None,
        ticket_secrets: Iterable[str | bytes] | None = None,
        cors_origins: Iterable[str] = (),
        allowed_hosts: Iterable[str] = (),
        public_url: str | None = None,
        root_path: str = "",
        agent_id: str | None = None,
        version: str | None = None,
        max_body_bytes: int = 4 * 1024 * 1024,
        max_json_values: int = 50_000,
        max_messages: int = 2000,
        max_parts: int = 10_000,
        max_header_bytes: int = 32 * 1024,
        max_streams_per_key: int = 1000,
        max_readers_per_key: int = 4000,
        max_requests_per_minute: int | None = None,
        on_abandoned: Literal["continue", "cancel"] = "continue",
        abandon_grace: float = 30.0,
        on_busy: OnBusy = "parallel",
        inbox: bool = False,
        heartbeat: float = 15.0,
        send_timeout: float = 30.0,
        body_timeout: float = 30.0,
        retention: float = 900.0,
        final_retention: float = 86400.0,
        drain_timeout: float = 10.0,
        cancel_grace: float = 5.0,
        durable: bool = False,
        max_restarts: int = 3,
        metrics: bool | str = False,
        metrics_key: str | None = None,
        metrics_public: bool = False,
        a2a: "bool | AgentCard | A2A" = False,
        openai: "bool | OpenAIAPI" = False,
        ai_sdk: "bool | AISDK" = False,
        ag_ui: "bool | AGUI" = False,
        page: bool = False,
        _cuts: bool = False,
        _documents: Mapping[str, str] | None = None,
        _keys_before: str | None = None,
    ) -> None:
        arguments = locals()  # before other local variables exist
        given, agent = agent, adapted(agent)
        protocols = _page_protocols(ai_sdk, ag_ui)
        options = {name: arguments[name] for name in option_names() & arguments.keys()} | {
            "agent_id": default_agent_id(agent) if agent_id is None else agent_id,
            "version": version or _package_version(),
            "metrics_path": "/metrics" if metrics is True else metrics or None,
            "serves_a2a": bool(a2a),
            "api_paths": tuple(protocol.path for protocol in protocols),
        }
        runner = as_runner(agent)
        self._log = MemoryStreamLog() if log is None else log
        self._options = Options(**options)
        self.agent_id: Final = self._options.agent_id
        """The id of the agent."""
        warn_if_shared(self._log, self, given, self._options.agent_id, self._options.version)
        keys = None if api_keys is None else Keys(api_keys)
        self._keys_file = (
            None if api_keys_file is None else KeysFile(api_keys_file, keys, _keys_before)
        )
        keys = keys if self._keys_file is None else self._keys_file.keys
        tickets = None if ticket_secrets is None else Tickets(ticket_secrets)
        gate = Gate(self._options, keys, tickets, quotas_of(self._log))
        if on_abandoned == "cancel" and self._log.shared:
            raise ArgumentError(
                "on_abandoned",
                'must be "continue" with a log that processes share: "cancel" counts the readers '
                "of one process",
                on_abandoned,
            )
        if durable:
            _check_durable(agent, self._log)
        origins = checked_origins(cors_origins)
        hosts = AllowedHosts(allowed_hosts, public_url, origins)
        if metrics and tickets and not (keys or metrics_key or metrics_public):
            raise ArgumentError(
                "metrics",
                "needs metrics_key, metrics_public=True or api_keys in addition to ticket_secrets: "
                "users with a ticket must not read them",
            )
        metrics_keys = _metrics_keys(keys, metrics_key, public=metrics_public)
        self._metrics = PrometheusMetrics() if metrics else NO_METRICS
        self._log.on_store_changed(self._metrics.store_changed)
        refusals = Refusals(self._metrics)
        # One owner for the application, not for each start: a log that is started again by the
        # same owner does not change.
        owner = f"{self._options.agent_id}-{uuid4()}"
        self._process_guard = SingleProcessGuard(self._log)
        # Any request may start the server, and restarted agents must not see its context.
        self._context = contextvars.copy_context()
        self._runtime: Runtime | None = None
        self._startup_error: Exception | None = None
        self._grpc: GrpcServing | None = None
        self._services: list[Service] = []
        if self._keys_file is not None:
            self._services.append(self._keys_file.watch)
        self._create_runtime = partial(
            Runtime, runner, options=self._options, owner=owner, metrics=self._metrics
        )
        cuts = Cuts() if page and _cuts else None
        routes = Routes(gate, self._metrics, metrics_keys, self._ready)
        openai_routes = _openai_routes(openai, gate, refusals, self._ready) if openai else None
        self._parts = AppParts(
            *(self._options, self._log, gate, refusals, hosts, origins, self._process_guard),
            *(self._metrics, routes, openai_routes, self._ready),
            lambda: self._runtime is not None,
        )
        table = routes.table()
        self._operations: Operations | None = None
        if a2a:
            name = agent_name(agent) if agent_id is None else agent_id
            table += self._a2a_routes(agent, name, a2a, public_url)
        if openai_routes is not None:
            table += openai_routes.table()
        for protocol in protocols:
            table += protocol.table(gate, self._ready)
        if page:
            table += _page_routes(self._options, routes, self.has_keys, _documents, cuts)
        asgi = asgi_stack(table, self._parts)
        self._asgi: ASGIApp = asgi if cuts is None else partial(serve_cuttable, asgi, cuts)

    def _a2a_routes(
        self, agent: object, name: str, a2a: "bool | AgentCard | A2A", public_url: str | None
    ) -> list[Route]:
        from .a2a import A2ARoutes, AgentDescription, Cards, GrpcServing, Operations, settings_of

        if not isinstance(self._log, TaskLog):
            raise ArgumentError("a2a", f"needs a log with tasks, and {self._log!r} has none")
        settings, options, gate = settings_of(a2a), self._options, self._parts.gate
        described = AgentDescription(name, inspect.getdoc(agent), options.version)
        cards = Cards(settings, described, with_keys=gate.has_keys)
        self._operations = Operations(settings, self._log.tasks, self._ready, self._metrics)
        self._services.append(self._operations.run_push)
        self._grpc = GrpcServing(
            settings, self._operations, cards, gate, self._parts.refusals, public_url
        )
        return A2ARoutes(self._operations, cards, gate, self._ready, public_url).table()

    def __repr__(self) -> str:
        return f"<AgentApp {self._options.agent_id!r} on {type(self._log).__name__}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve as ASGI."""
        if scope["type"] == "lifespan":
            await serve_lifespan(self.lifespan(), receive, send)
            return
        scope = with_root_path(scope, self._options.root_path)
        await self._parts.serve(self._asgi, scope, receive, send)

    @property
    def log(self) -> StreamLog:
        """The log of the streams."""
        return self._log

    @property
    def has_keys(self) -> bool:
        """True if requests need a key or a ticket."""
        return self._parts.gate.has_keys

    @property
    def shutdown_timeout(self) -> float:
        """The number of seconds in which a shutdown ends every stream."""
        return self._options.drain_timeout + self._options.cancel_grace

    @property
    def startup_error(self) -> Exception | None:
        """The error of the last start, None if it did not fail; for a server that reports it."""
        return self._startup_error

    def lifespan(self, app: Any = None) -> AbstractAsyncContextManager[None]:
        """Return a context that starts and stops the application, for a parent that mounts it.

        ``Starlette(lifespan=agent.lifespan, routes=[Mount("/agent", agent)])``
        """
        return self._lifespan()

    def check_workers(self, workers: int) -> None:
        """Refuse more workers than the log can serve.

        Raises:
            ValueError: the log is not shared.
        """
        check_workers(self._log, workers)

    @property
    def grpc_port(self) -> int | None:
        """The port of the gRPC server, None while it does not listen."""
        return None if self._grpc is None else self._grpc.port

    async def start_grpc(self, address: str, *, allow_public: bool = False) -> int:
        """Serve A2A over gRPC too, until the lifespan ends, and return the port.

        This is for a mounted application; otherwise `A2A(grpc_address=...)` does it. Call it in the
        lifespan of the parent, inside of this one::

            async with agent.lifespan():
                await agent.start_grpc("127.0.0.1:50051")
                yield

        `address` is `host:port`; port 0 is any free port. `allow_public` serves an agent without
        keys at a public address.

        Raises:
            ArgumentError: the application does not serve A2A, or the address cannot be used.
            MissingExtraError: the extra `grpc` is not installed.
            OSError: it cannot listen at the address.
            RuntimeError: it serves gRPC already.
        """
        if self._grpc is None:
            raise ArgumentError(
                "a2a", "must be set to serve A2A over gRPC: AgentApp(agent, a2a=True)"
            )
        return await self._grpc.start(await self._ready(), address, allow_public=allow_public)

    def become_worker(self) -> None:
        """Let the gRPC server share its port with those of other workers, before the start."""
        if self._grpc is not None:
            self._grpc.shares_port = True

    def watch_connections(self, used: Callable[[], int], maximum: int | None) -> None:
        """Show the number of open connections in the metrics; the server that has them calls it."""
        self._metrics.watch_limit("connections", used, maximum)

    def reload_keys(self) -> None:
        """Read `api_keys_file` again now; without this, a change counts after two seconds.

        `serve` calls it on SIGHUP. If the file is invalid, the keys from before still apply, and
        the reason is logged.
        """
        if self._keys_file is not None:
            self._keys_file.reload()

    def begin_shutdown(self) -> None:
        """Tell readers to reconnect later and let producers finish, before the lifespan ends.

        A server waits for open responses before it ends the lifespan, and the responses here wait
        for their producers. So the code that runs the server must call this first, on its event
        loop.
        """
        if self._runtime is not None:
            self._runtime.begin_shutdown()

    async def drain(self) -> None:
        """Begin the shutdown, and return when every stream of this process has ended.

        Resumes are served meanwhile, so the server must listen until this returns.
        """
        if self._runtime is not None:
            await self._runtime.drain()

    @asynccontextmanager
    async def _lifespan(self) -> AsyncIterator[None]:
        runtime = await self._ready()
        try:
            if self._grpc is not None:
                if configured_workers() > 1:
                    self.become_worker()
                with self._reporting_startup():
                    await self._grpc.start_by_settings(runtime)
            yield
        finally:
            await runtime.stop()
            self._process_guard.release()
            self._runtime = None

    async def _ready(self) -> Runtime:
        """Return the runtime of this event loop, after starting it if necessary."""
        loop = asyncio.get_running_loop()
        runtime = self._runtime
        if runtime is not None and runtime.background.started and runtime.loop is loop:
            return runtime
        if runtime is None or runtime.loop is not loop:
            if runtime is not None and runtime.loop.is_running():
                raise RuntimeError("this AgentApp already serves on another event loop")
            with self._reporting_startup():
                self._process_guard.check_start()
            log = self._log if self._operations is None else self._operations.turns_on(self._log)
            runtime = self._runtime = self._create_runtime(
                log, tracing=tracing(_package_version()), services=self._services
            )
            if self._operations is not None:
                self._operations.attach(runtime)
        try:
            with self._reporting_startup():
                await runtime.ready(self._context.copy())
        except Exception:
            if self._runtime is runtime:
                self._runtime = None  # the next request starts again
            raise
        return runtime

    @contextmanager
    def _reporting_startup(self) -> Iterator[None]:
        """Keep the error of a start, for a server that reports it."""
        try:
            yield
        except Exception as error:
            self._startup_error = error
            raise


def parts_of(app: AgentApp) -> AppParts:
    """Return the parts of an application."""
    return app._parts


def asgi_stack(table: list[Route], parts: AppParts, *, not_found: str = "") -> ASGIApp:
    """Return the routes of a table as an application, with the answers to other origins.

    `not_found` tells clients what to do if there is no route.
    """
    starlette = Starlette(
        routes=table,
        middleware=_middleware(
            parts.origins,
            serves_a2a=parts.options.serves_a2a,
            serves_openai=parts.openai is not None,
            serves_pages=bool(parts.options.api_paths),
        ),
        exception_handlers=dict.fromkeys(_REFUSED, parts.refusals.handle),
    )
    starlette.router.redirect_slashes = False  # the table has both forms
    if not_found:
        starlette.router.default = partial(_not_found, not_found)
    # Answers to other origins get their headers from a layer of Starlette.
    return starlette if parts.origins else _Shortcut(starlette, table, parts.refusals)


async def _not_found(detail: str, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        raise Problem(404, "not-found", detail)
    await WebSocketClose()(scope, receive, send)


def _openai_routes(
    openai: "bool | OpenAIAPI",
    gate: Gate,
    refusals: Refusals,
    runtime: Callable[[], Awaitable[Runtime]],
) -> "OpenAIRoutes":
    from .openai import OpenAIAPI
    from .openai._routes import OpenAIRoutes
    from .openai._wire import error_response

    refusals.openai = error_response
    return OpenAIRoutes(protocol_settings("openai", openai, OpenAIAPI), gate, runtime)


class _PageProtocol(NamedTuple):
    """A protocol of web pages: its path, and the function that returns its routes."""

    path: str
    table: Callable[[Gate, Callable[[], Awaitable[Runtime]]], list[Route]]


def _page_protocols(ai_sdk: "bool | AISDK", ag_ui: "bool | AGUI") -> list[_PageProtocol]:
    protocols = []
    if ag_ui:
        protocols.append(_ag_ui(ag_ui))
    if ai_sdk:
        protocols.append(_ai_sdk(ai_sdk))
    return protocols


def _ag_ui(ag_ui: "bool | AGUI") -> _PageProtocol:
    from .ag_ui import AGUI
    from .ag_ui._routes import AGUIRoutes

    settings = protocol_settings("ag_ui", ag_ui, AGUI)
    return _PageProtocol(settings.path, lambda *args: AGUIRoutes(settings, *args).table())


def _ai_sdk(ai_sdk: "bool | AISDK") -> _PageProtocol:
    from .ai_sdk import AISDK
    from .ai_sdk._routes import AISDKRoutes

    settings = protocol_settings("ai_sdk", ai_sdk, AISDK)
    return _PageProtocol(settings.path, lambda *args: AISDKRoutes(settings, *args).table())


def _page_routes(
    options: Options,
    routes: Routes,
    needs_key: bool,
    documents: Mapping[str, str] | None,
    cuts: Cuts | None,
) -> list[Route]:
    config: PageConfig = {
        "agent_id": options.agent_id,
        "version": options.version,
        "protocol": "cap",
        "target": None,
        "needs_key": needs_key,
        "adds_key": False,
        "curl_option": BEARER_OPTION,
        "cut": cuts is not None,
        "inbox": options.inbox,
        "documents": bool(documents),
        "card": None,
    }

    if cuts is None:
        return page_routes(lambda _: config, None, documents)

    async def cut(request: Request, wanted: CutRequest) -> None:
        await routes.check_reader(request, wanted.stream_id)
        cuts.cut(wanted.stream_id, wanted.seed)

    return page_routes(lambda _: config, cut, documents)


def _package_version() -> str:
    try:
        return metadata.version("coreason-client")
    except metadata.PackageNotFoundError:  # run from a copy of the source
        return "0"


def _metrics_keys(keys: Keys | None, own: str | None, *, public: bool) -> Keys | None:
    """Return the keys for the metrics, None if they are public."""
    if own is not None:
        if public:
            raise ArgumentError("metrics_key", "must not be given together with metrics_public")
        return Keys([own], argument="metrics_key")
    return None if public else keys


def _check_durable(agent: object, log: StreamLog) -> None:
    """Check that an agent can be restarted by another process.

    Raises:
        ArgumentError: the log ends with the process, the agent has no steps, or its adapter
            refuses it.
    """
    if not (log.outlives_process and isinstance(log, DurableLog)):
        raise ArgumentError(
            "durable",
            "needs a log that outlives the process, such as SQLiteStreamLog, PostgresStreamLog or "
            f"ValkeyStreamLog, but the log is a {type(log).__name__}",
        )
    if is_generator_without_stream(agent):
        raise ArgumentError(
            "durable",
            "needs an agent that takes `stream`, because a generator without it has no steps",
        )
    check = getattr(agent, "durable_problem", None)  # of an adapter
    if check is not None and (problem := check()):
        raise ArgumentError("durable", f"cannot be used with this agent: {problem}")


class _Shortcut:
    """Calls the handler of a POST to a path without parameters; `app` serves everything else.

    Most requests ask the agent. The layers of Starlette are a twentieth of the cost of an opening.
    """

    def __init__(self, app: ASGIApp, table: Iterable[Route], refusals: Refusals) -> None:
        self._app = app
        self._refusals = refusals
        self._handlers: dict[str, Callable[[Request], Awaitable[Response]]] = {
            route.path: route.endpoint
            for route in table
            if route.methods == {"POST"} and not route.param_convertors
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        handler = self._handlers.get(scope["path"]) if is_post else None
        if handler is None or scope.get("root_path"):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive, send)
        try:
            response = await handler(request)
        except _REFUSED as error:
            response = await self._refusals.handle(request, error)
        if (cycle := response_cycle(scope.get(SEND))) is not None:
            HeldHead(cycle)  # head and body, or the first packet, are one segment
        await response(scope, receive, send)


def _middleware(
    origins: tuple[str, ...], *, serves_a2a: bool, serves_openai: bool, serves_pages: bool
) -> list[Middleware]:
    if not origins:
        return []
    allowed, exposed = [*_CORS_HEADERS], [*_EXPOSED_HEADERS]
    if serves_a2a:
        allowed += _A2A_CORS_HEADERS
        exposed += _A2A_EXPOSED_HEADERS
    if serves_openai:
        allowed += _OPENAI_CORS_HEADERS
        exposed += _OPENAI_EXPOSED_HEADERS
    if serves_pages:
        exposed += _AI_SDK_EXPOSED_HEADERS
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=("GET", "POST", "DELETE"),
            allow_headers=allowed,
            expose_headers=exposed,
            max_age=600,
        )
    ]
