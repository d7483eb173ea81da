"""Passes the requests of the page on to one CAP agent, and its bytes back to the page.

The bytes of a response are passed on as they arrive. If the agent's connection is lost, so is the
browser's: an end that looks regular would hide the loss. If the browser leaves, the connection to
the agent is closed. Redirects follow the rules of the clients: 307 and 308, and no credentials to
another origin.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from .._http import _types as http
from .._http._async import AsyncResponse, AsyncSender
from .._http._checks import merged_headers
from .._http._redirect import Redirects
from .._version import __version__
from ..server.http._body import read_within
from ..server.http._cursor import stream_in_path
from ..server.http._cuts import abort
from ..server.http._problems import Problem
from ..server.http._stream_response import disconnected
from ..server.page import BEARER_OPTION, PageConfig
from .target import CAPTarget

logger = logging.getLogger("coreason_client.inspector")

_MAX_BODY_BYTES: Final = 4 * 1024 * 1024
_BODY_SECONDS: Final = 30.0
_MESSAGES: Final = "/messages"
_LOST: Final = frozenset({http.FailureKind.BROKEN, http.FailureKind.TIMEOUT})


class CAPProxy:
    """The routes of the protocol, each sent to the same path below the target."""

    shutdown_timeout = 1.0

    def __init__(self, target: CAPTarget) -> None:
        self._target = target
        self._sender = AsyncSender()
        self._relays: set[asyncio.Task[None]] = set()
        table = [
            ("POST", "/assist", self._assist),
            ("GET", "/streams/{stream_id}", self._stream),
            ("DELETE", "/streams/{stream_id}", self._stream),
            ("POST", f"/streams/{{stream_id}}{_MESSAGES}", self._message),
            ("GET", "/health", self._probe),
            ("GET", "/ready", self._probe),
        ]
        self._router = Router(
            [Route(path, handler, methods=[method]) for method, path, handler in table],
            redirect_slashes=False,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve as ASGI."""
        await self._router(scope, receive, send)

    def config(self) -> PageConfig:
        """Return what the page has to know."""
        target = self._target
        return {
            "agent_id": target.name,
            "version": target.version or "",
            "protocol": "cap",
            "target": target.shown_url,
            "needs_key": False,
            "adds_key": target.api_key is not None,
            "curl_option": BEARER_OPTION,
            "cut": True,
            "inbox": True,
            "documents": False,
            "card": None,
        }

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while the block runs."""
        try:
            yield
        finally:
            await self._sender.aclose()

    async def drain(self) -> None:
        """End every response."""
        relays = list(self._relays)
        for relay in relays:
            relay.cancel()
        await asyncio.gather(*relays, return_exceptions=True)

    async def _assist(self, request: Request) -> Response:
        return await self._relay_body(request, "/assist")

    async def _message(self, request: Request) -> Response:
        return await self._relay_body(request, _stream_path(request) + _MESSAGES)

    async def _stream(self, request: Request) -> Response:
        return self._relay(request, _stream_path(request))

    async def _probe(self, request: Request) -> Response:
        return self._relay(request, request.url.path)

    async def _relay_body(self, request: Request, path: str) -> Response:
        body = await read_within(request, _MAX_BODY_BYTES, _BODY_SECONDS)
        return self._relay(request, path, body)

    def _relay(self, request: Request, path: str, body: bytes = b"") -> Response:
        target = self._target
        headers = request_headers(request.headers.items(), target.headers, target.api_key)
        url = target.base_url + path
        sent = http.Request(request.method, url, headers, body, target.timeouts)
        return _Relay(self._sender, target, sent, self._relays)


class _Relay(Response):
    """The response of the agent, passed on."""

    def __init__(
        self,
        sender: AsyncSender,
        target: CAPTarget,
        request: http.Request,
        running: set[asyncio.Task[None]],
    ) -> None:
        super().__init__()
        self._sender = sender
        self._target = target
        self._request = request
        self._running = running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the agent's response ends, or the browser leaves."""
        gone = asyncio.ensure_future(disconnected(receive))
        relay = asyncio.ensure_future(self._pass_on(scope, receive, send))
        self._running.add(relay)
        try:
            await asyncio.wait({gone, relay}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._running.discard(relay)
            left = gone.done()
            gone.cancel()
            relay.cancel()
            await asyncio.wait({relay})  # until the agent's connection is closed
        failure = None if relay.cancelled() else relay.exception()
        if relay.cancelled() or isinstance(failure, http.TransportFailure):
            if not left:
                await abort(scope)
        elif failure is not None:
            raise failure

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            upstream = await self._open()
        except Problem as problem:
            await problem.response()(scope, receive, send)
            return
        try:
            headers = response_headers(upstream.head.headers)
            head = Response(status_code=upstream.head.status, headers=headers)
            del head.headers["content-length"]
            await send(_start(head))
            await self._pass_on_body(upstream, send)
        finally:
            await upstream.aclose()

    async def _pass_on_body(self, upstream: AsyncResponse, send: Send) -> None:
        try:
            async with aclosing(upstream.chunks()) as chunks:
                async for chunk in chunks:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except http.TransportFailure as failure:
            self._log_loss(failure)
            raise
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _open(self) -> AsyncResponse:
        """Return the response of the agent after redirects.

        Raises:
            Problem: 502 or 504: there was no connection, or no way to follow a redirect; 401: the
                agent needs another key.
            TransportFailure: the connection was lost.
        """
        request, redirects = self._request, Redirects()
        while True:
            try:
                response = await self._sender.open(request)
            except http.TransportFailure as failure:
                if failure.kind in _LOST:
                    self._log_loss(failure)
                    raise
                raise self._problem(failure) from None
            if not redirects.includes(response.head):
                break
            await response.aclose()
            try:
                request = redirects.follow(request, response.head)
            except ValueError as error:
                detail = f"The agent redirects, and that cannot be followed: {error}."
                raise Problem(502, "target-redirects", detail) from None
        if response.head.status == 401:
            await response.aclose()
            raise self._wrong_key(response.head)
        if response.head.status == 404 and self._request.url.endswith(_MESSAGES):
            await response.aclose()
            raise Problem(
                404, "target-without-inbox", "The agent takes no messages while it answers."
            )
        return response

    def _wrong_key(self, head: http.ResponseHead) -> Problem:
        # What the agent itself says is about a key that the page does not have.
        what = "needs a key" if self._target.api_key is None else "did not accept the key"
        headers = {"WWW-Authenticate": head.headers.get("www-authenticate", "Bearer")}
        detail = f"The agent {what}: start `coreason inspect` again with the right --api-key."
        return Problem(401, "target-unauthorized", detail, headers=headers)

    def _log_loss(self, failure: http.TransportFailure) -> None:
        logger.info("the agent's connection was lost: %s", self._target.redact(str(failure)))

    def _problem(self, failure: http.TransportFailure) -> Problem:
        reason = self._target.redact(str(failure))
        if failure.kind in http.TIMEOUT_FAILURES:
            return Problem(504, "target-timeout", f"The agent did not answer in time: {reason}.")
        return Problem(502, "target-unreachable", f"The agent cannot be reached: {reason}.")


def _stream_path(request: Request) -> str:
    return f"/streams/{stream_in_path(request.path_params['stream_id'])}"


def _start(head: Response) -> dict[str, object]:
    return {
        "type": "http.response.start",
        "status": head.status_code,
        "headers": head.raw_headers,
    }


# Headers. Only what the protocol needs passes. So neither the token, a cookie nor the address of
# the page reaches the agent, and an agent can neither set a cookie, redirect the browser nor open a
# login window.

_REQUEST: Final = frozenset(
    {
        "accept",
        "cache-control",
        "content-type",
        "last-event-id",
        "traceparent",
        "tracestate",
        "x-request-id",
    }
)
_RESPONSE: Final = frozenset(
    {"cache-control", "content-type", "retry-after", "x-request-id", "x-stream-id"}
)
# A response of the agent is data for the page, whatever type it claims to be.
_ADDED: Final = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}


def request_headers(
    given: Iterable[tuple[str, str]], own: Mapping[str, str], key: str | None
) -> dict[str, str]:
    """Return the headers of a request to the agent; those of the user replace the browser's."""
    passed = {name: value for name, value in given if name.lower() in _REQUEST}
    # Bytes are passed on as they come, so they must not be compressed.
    agent = {"User-Agent": f"coreason-client/{__version__}", "Accept-Encoding": "identity"}
    authorization = {} if key is None else {"Authorization": f"Bearer {key}"}
    return merged_headers(agent, passed, own, authorization)


def response_headers(given: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of the response to the browser; values must be ASCII."""
    passed = {
        name: value
        for name, value in given.items()
        if name.lower() in _RESPONSE and value.isascii()
    }
    return merged_headers(passed, _ADDED)
