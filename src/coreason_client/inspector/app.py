"""The ASGI application of `coreason inspect`: the page, and the one agent behind it."""

from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from ..server._internals import SEND
from ..server.errors import LogError
from ..server.http._auth import Keys
from ..server.http._body import drain_body
from ..server.http._cuts import Cuts, serve_cuttable
from ..server.http._hosts import AllowedHosts
from ..server.http._problems import Problem, Refusals
from ..server.observe._metrics import NO_METRICS
from ..server.page import CONFIG_PATH, CutRequest, PageConfig, page_routes
from ..server.process._lifespan import serve_lifespan
from ._a2a_backend import A2ABackend
from ._cap_proxy import CAPProxy
from .target import A2ATarget, CAPTarget

__all__ = ["Access", "Inspector"]


class _Backend(Protocol):
    """The agent behind the page, as an ASGI application that speaks CAP."""

    shutdown_timeout: float

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...
    def config(self) -> PageConfig: ...
    def running(self) -> AbstractAsyncContextManager[None]: ...
    async def drain(self) -> None: ...


class Inspector:
    """Serves the page and one agent behind it, as an ASGI application.

    Args:
        target: the agent.
        token: the token that requests must have; make a new one for each launch.

    Raises:
        ArgumentError: the token is not visible ASCII.
    """

    def __init__(self, target: CAPTarget | A2ATarget, token: str) -> None:
        self._target = target
        self._access = Access(token)
        self._cuts = Cuts()
        self._refusals = Refusals(NO_METRICS)
        self._backend = _backend(target)
        self._asgi = Starlette(
            routes=page_routes(self._config, self._cut),
            exception_handlers=dict.fromkeys(
                (Problem, LogError, HTTPException), self._refusals.handle
            ),
        )
        self._asgi.router.redirect_slashes = False
        self._asgi.router.default = self._backend  # whatever is not a part of the page

    def __repr__(self) -> str:
        return f"<Inspector of {self._target.shown_url}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve as ASGI."""
        if scope["type"] == "lifespan":
            await serve_lifespan(self._backend.running(), receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close"})
        elif refusal := self._access.refusal(scope):
            await drain_body(Request(scope, receive))
            await self._refusals.respond(refusal, scope)(scope, receive, send)
        else:
            await serve_cuttable(self._asgi, self._cuts, {**scope, SEND: send}, receive, send)

    @property
    def shutdown_timeout(self) -> float:
        """The number of seconds in which `drain` ends every response."""
        return self._backend.shutdown_timeout

    async def drain(self) -> None:
        """End every response, because the server stops."""
        await self._backend.drain()

    def _config(self, _: Request) -> PageConfig:
        return self._backend.config()

    async def _cut(self, _: Request, request: CutRequest) -> None:
        self._cuts.cut(request.stream_id, request.seed)


def _backend(target: CAPTarget | A2ATarget) -> _Backend:
    return CAPProxy(target) if isinstance(target, CAPTarget) else A2ABackend(target)


_PAGE: Final = "/page/"


class Access:
    """The rules of one launch for who may use it.

    * Host and Origin are checked for every request, the static files included: a page of another
      site must not even learn that an inspector runs here.
    * Everything but the static files of the page needs the token of this launch. The page has it
      from the fragment of its URL, which browsers send to no server.
    """

    def __init__(self, token: str) -> None:
        self._hosts = AllowedHosts()
        self._token = Keys([token], argument="token")

    def refusal(self, scope: Scope) -> Problem | None:
        """Return the refusal of a request, None if it is allowed."""
        foreign = self._hosts.refusal(scope["headers"], scope.get("server"))
        if foreign is not None:
            return foreign
        if _is_static(scope["method"], scope["path"]):
            return None
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        authorization = given[0].decode("latin-1") if len(given) == 1 else None
        try:
            self._token.principal(authorization)
        except Problem as problem:
            return Problem(
                problem.status,
                problem.slug,
                "Open the URL that `coreason inspect` has printed: it has the token of this "
                "launch, which every request needs as `Authorization: Bearer <token>`.",
                headers=problem.headers,
            )
        return None


def _is_static(method: str, path: str) -> bool:
    if method not in ("GET", "HEAD"):
        return False
    return path == "/" or (path.startswith(_PAGE) and path != CONFIG_PATH)
