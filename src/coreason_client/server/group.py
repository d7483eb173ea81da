"""Several agents at one address."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from types import MappingProxyType
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..errors import ArgumentError
from ._options import FIRST_PARTS, check_root_path
from .app import AgentApp, AppParts, asgi_stack, parts_of
from .cap._routes import ready_response
from .http._hosts import RouteEntry, route_table, with_root_path
from .log.base import StreamLog
from .observe._metrics import MergedMetrics
from .process._lifespan import serve_lifespan

__all__ = ["AgentGroup"]

_SEGMENT = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._~-]+", re.ASCII)
_RESERVED: Final = FIRST_PARTS | {"v1"}
# They are checked before it is known which agent is asked.
_SAME: Final = ("max_body_bytes", "max_json_values", "max_header_bytes", "body_timeout")


class AgentGroup:
    """Several agents as one ASGI application. Serve it like an `AgentApp`, or mount it.

    Everything of an agent is below its id: `/{agent_id}/assist`, the page at `/{agent_id}/`, the
    A2A card at `/{agent_id}/.well-known/agent-card.json`. Agents with `openai` are also the models
    of one OpenAI-compatible API at `/v1`. `/health` and `/ready` are about all agents, and
    `/metrics` has the metrics of all, with the label `agent`, if each of them has `metrics`.

    Each agent keeps its own options. The hosts and CORS origins of the first one apply to the paths
    that all share. A key sees the agents that know it.

    Args:
        apps: the agents, on one log.
        root_path: the prefix of the path below which a proxy serves all of them.

    Raises:
        ArgumentError: two agents have the same id, an id cannot be a part of a path, or the
            applications do not fit together.
    """

    def __init__(self, apps: Iterable[AgentApp], *, root_path: str = "") -> None:
        listed = tuple(apps)
        check_root_path(root_path)
        self._apps = _by_id(listed, root_path)
        self._root_path = root_path
        parts = [parts_of(app) for app in listed]
        _check_fit(parts)
        models = [one for one in parts if one.openai is not None]
        self._first = (models or parts)[0]
        self._parts = parts
        self._metrics = MergedMetrics({one.options.agent_id: one.metrics for one in parts})
        paths = ", ".join(f"{root_path}/{agent_id}" for agent_id in self._apps)
        self._asgi = asgi_stack(
            [*_openai_table(models), *self._table()],
            self._first,
            not_found=f"There is nothing at this path. Each agent has its own: {paths}.",
        )

    def _table(self) -> list[Route]:
        paths: list[RouteEntry] = [
            ({"GET", "HEAD"}, "/health", self._health),
            ({"GET", "HEAD"}, "/ready", self._ready),
        ]
        metrics_paths = {one.options.metrics_path for one in self._parts}
        if len(metrics_paths) == 1 and (path := metrics_paths.pop()) is not None:
            paths.append(({"GET", "HEAD"}, path, self._expose))
        return route_table(paths)

    def __repr__(self) -> str:
        return f"<AgentGroup of {', '.join(self._apps)}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve as ASGI."""
        if scope["type"] == "lifespan":
            await serve_lifespan(self.lifespan(), receive, send)
            return
        scope = with_root_path(scope, self._root_path)
        outer = scope.get("root_path", "")
        name = scope["path"].removeprefix(outer).removeprefix("/").partition("/")[0]
        app = self._apps.get(name)
        if app is None:
            await self._first.serve(self._asgi, scope, receive, send)
        else:
            await app({**scope, "root_path": f"{outer}/{name}"}, receive, send)

    @property
    def agents(self) -> Mapping[str, AgentApp]:
        """The applications by the ids of their agents."""
        return MappingProxyType(self._apps)

    @property
    def log(self) -> StreamLog:
        """The log of the streams."""
        return self._first.log

    @property
    def has_keys(self) -> bool:
        """True if requests need a key or a ticket."""
        return self._first.gate.has_keys

    @property
    def shutdown_timeout(self) -> float:
        """The number of seconds in which a shutdown ends every stream."""
        return max(app.shutdown_timeout for app in self._apps.values())

    @property
    def startup_error(self) -> Exception | None:
        """The error of the last start, None if it did not fail; for a server that reports it."""
        errors = (app.startup_error for app in self._apps.values())
        return next((error for error in errors if error is not None), None)

    def lifespan(self, app: Any = None) -> AbstractAsyncContextManager[None]:
        """Return a context that starts and stops all agents, for a parent that mounts them."""
        return self._lifespan()

    @asynccontextmanager
    async def _lifespan(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for app in self._apps.values():
                await stack.enter_async_context(app.lifespan())
            stack.callback(self.begin_shutdown)  # all drain at the same time
            yield

    def check_workers(self, workers: int) -> None:
        """Refuse more workers than the log can serve.

        Raises:
            ValueError: the log is not shared.
        """
        next(iter(self._apps.values())).check_workers(workers)

    def become_worker(self) -> None:
        """Let gRPC servers share their ports with those of other workers, before the start."""
        for app in self._apps.values():
            app.become_worker()

    def watch_connections(self, used: Callable[[], int], maximum: int | None) -> None:
        """Show the number of open connections in the metrics; the server that has them calls it."""
        for app in self._apps.values():
            app.watch_connections(used, maximum)

    def reload_keys(self) -> None:
        """Read `api_keys_file` of each agent again now; `serve` calls it on SIGHUP."""
        for app in self._apps.values():
            app.reload_keys()

    def begin_shutdown(self) -> None:
        """Tell readers to reconnect later and let producers finish, before the lifespan ends."""
        for app in self._apps.values():
            app.begin_shutdown()

    async def drain(self) -> None:
        """Begin the shutdown, and return when every stream of this process has ended."""
        await asyncio.gather(*(app.drain() for app in self._apps.values()))

    # The paths that all share.

    async def _health(self, _: Request) -> Response:
        found = [await one.routes.current_health() for one in self._parts]
        states = {one.status for one in found}
        worst = next((state for state in ("maintenance", "degraded") if state in states), "ok")
        content = {"status": worst, "agents": [one.dump() for one in found]}
        return JSONResponse(content, headers={"Cache-Control": "no-store"})

    async def _ready(self, _: Request) -> Response:
        states = [await one.routes.readiness() for one in self._parts]
        return ready_response(next((state for state in states if state != "ready"), "ready"))

    async def _expose(self, request: Request) -> Response:
        return self._first.routes.exposed(request, self._metrics)


def _by_id(apps: tuple[AgentApp, ...], root_path: str) -> dict[str, AgentApp]:
    """Return the applications by the ids of their agents.

    Raises:
        ArgumentError: an id is missing, cannot be a part of a path, or is given twice.
    """
    if not apps or not all(isinstance(app, AgentApp) for app in apps):
        raise ArgumentError("apps", "must have at least one AgentApp, and nothing else")
    found: dict[str, AgentApp] = {}
    for app in apps:
        agent_id, metrics = app.agent_id, (parts_of(app).options.metrics_path or "/").split("/")[1]
        if not _SEGMENT.fullmatch(agent_id):
            raise ArgumentError(
                "agent_id",
                "must be letters, digits and any of . _ ~ - if there are several agents, because "
                "it is a part of their paths",
                agent_id,
            )
        if agent_id in _RESERVED | {metrics} or root_path.split("/")[1:2] == [agent_id]:
            raise ArgumentError(
                "agent_id", "must not be a part of a path that the server uses", agent_id
            )
        if agent_id in found:
            rule = "must be another one for each of several agents"
            raise ArgumentError("agent_id", rule, agent_id)
        found[agent_id] = app
    return found


def _check_fit(parts: list[AppParts]) -> None:
    """Refuse applications that cannot be served together.

    Raises:
        ArgumentError: they differ in what they must share.
    """
    first = parts[0]
    for one in parts:
        if one.options.root_path:
            raise ArgumentError("root_path", "must be given to the AgentGroup instead")
        if one.log is not first.log:
            raise ArgumentError("log", "must be the same object for all agents of an AgentGroup")
        if one.gate.has_keys != first.gate.has_keys:
            raise ArgumentError(
                "api_keys", "must be given to all agents of an AgentGroup, or to none"
            )
        for name in _SAME:
            if getattr(one.options, name) != getattr(first.options, name):
                raise ArgumentError(name, "must be the same for all agents of an AgentGroup")


def _openai_table(models: list[AppParts]) -> list[Route]:
    if not models:
        return []
    from .openai._shared import ServedModel, SharedRoutes

    return SharedRoutes(
        [
            ServedModel(one.options.agent_id, one.gate, one.runtime, one.openai)
            for one in models
            if one.openai is not None
        ]
    ).table()
