"""`fake_agent`: a CAP agent that plays a script, on a real server with a real log."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, Self

import httpx2

from coreason_manifest.definitions.service import ServiceRequest

from ._block import BlockInThread
from ._script import Script, as_player

# After the module that reports a missing extra.
from ..server import AgentApp, AgentStream, RunningServer, running  # isort: skip
from ._received import ABORT, ReceivedRequest, RecordingApp  # isort: skip

# A test must not wait for an agent that its client has left.
_QUICK_END = {"drain_timeout": 0.1, "cancel_grace": 1.0}


class FakeAgent(BlockInThread):
    """An agent that plays scripts; a context manager that serves it on a free port of loopback.

    Use `with` or `async with`; the server has its own thread and event loop. `app` is the
    same as an ASGI application.
    """

    def __init__(self, *scripts: Script, **options: Any) -> None:
        if not scripts:
            raise TypeError("fake_agent needs a script: fake_agent(['Hello ', 'world'])")
        self._players = [as_player(script, number) for number, script in enumerate(scripts, 1)]
        self._questions: list[str] = []
        self._agent = AgentApp(self._answer, **({"agent_id": "fake"} | _QUICK_END | options))
        self._app = RecordingApp(self._agent)
        self._running: AbstractContextManager[RunningServer] | None = None
        self._url: str | None = None

    def __repr__(self) -> str:
        return f"<FakeAgent at {self._url or 'no port'}: {len(self.requests)} requests>"

    @property
    def app(self) -> Callable[..., Awaitable[None]]:
        """The agent as an ASGI application, for another server."""
        return self._app

    @property
    def url(self) -> str:
        """The URL for a client.

        Raises:
            RuntimeError: the agent is not being served.
        """
        if self._url is None:
            raise RuntimeError("the fake agent has no URL yet: use `with fake_agent(…) as agent:`")
        return self._url

    @property
    def requests(self) -> list[ReceivedRequest]:
        """The requests so far; a client that reconnects sends another one."""
        return self._app.requests

    @property
    def last_event_ids(self) -> list[str | None]:
        """The Last-Event-ID of each request so far; None for one that starts a stream."""
        return [request.last_event_id for request in self.requests]

    @property
    def questions(self) -> list[str]:
        """The questions that were answered so far; a reconnect is not a new question."""
        return list(self._questions)

    @property
    def disconnects(self) -> int:
        """The connections that were ended by `disconnect()` so far."""
        return self._app.disconnects

    async def _answer(self, request: ServiceRequest, stream: AgentStream) -> None:
        number = len(self._questions)
        self._questions.append(stream.question)
        await self._players[min(number, len(self._players) - 1)](request, stream, self._cut)

    def _cut(self, stream: AgentStream) -> None:
        self._app.cut_after(stream.stream_id, stream._writer.last_seq)

    @asynccontextmanager
    async def in_process(self) -> AsyncIterator[Any]:
        """Return an `httpx2.AsyncClient` that calls the agent in this event loop, without a port.

        Pass it as `http_client` to an async client; any URL on `localhost` reaches the agent.
        """
        import httpx2

        async with (
            self._agent.lifespan(),
            httpx2.AsyncClient(transport=InProcessTransport(self._app)) as client,
        ):
            yield client

    def __enter__(self) -> Self:
        """Serve the agent on a free port."""
        if self._running is not None:
            raise RuntimeError("the fake agent is already being served")
        context = running(self._app)
        self._url = context.__enter__().url
        self._running = context
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Stop serving."""
        context, self._running, self._url = self._running, None, None
        if context is not None:
            context.__exit__(None, None, None)


def fake_agent(*scripts: Script, **options: Any) -> FakeAgent:
    """Return an agent that answers each question with the next script, as a context manager.

    It is the real server with a log in memory: a client can lose its connection and continue.

        with fake_agent(["Hello ", disconnect(), "world"]) as agent:
            assert CAPClient(agent.url, "key").ask("Hi") == "Hello world"

    Args:
        scripts: a script for each question; the last one answers all further questions. A script
            is an item or several: text, an event, a packet, `delay(…)`, `disconnect()`, `fail(…)`,
            or an agent such as `async def agent(request, stream)`.
        options: options of `AgentApp`, such as `api_keys` or `a2a`.

    Raises:
        TypeError: an item cannot be in a script.
        MissingExtraError: the extra `server` is not installed.
    """
    return FakeAgent(*scripts, **options)


class InProcessTransport(httpx2.AsyncBaseTransport):
    """Sends requests to an ASGI application; for `httpx2.AsyncClient(transport=…)` on asyncio.

    The transport of the HTTP library itself returns a response only when it is complete; this one
    returns each piece as it is written, and a connection can be lost in the middle.
    """

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return the response as soon as it begins."""
        call = _InProcessCall(self._app, request, await request.aread())
        status, headers = await call.begin()
        return httpx2.Response(status, headers=headers, stream=call)


class _InProcessCall(httpx2.AsyncByteStream):
    """One request, and the body of its response."""

    def __init__(
        self, app: Callable[..., Awaitable[None]], request: httpx2.Request, body: bytes
    ) -> None:
        self._body: bytes | None = body
        self._left = asyncio.Event()
        self._messages: asyncio.Queue[dict[str, Any] | BaseException | None] = asyncio.Queue()
        self._task = asyncio.ensure_future(
            app(self._scope(request), self._receive, self._messages.put)
        )
        self._task.add_done_callback(self._finished)

    def _scope(self, request: httpx2.Request) -> dict[str, Any]:
        url = request.url
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "scheme": url.scheme,
            "path": url.path,
            "raw_path": url.raw_path.split(b"?")[0],
            "query_string": url.query,
            "server": (url.host, url.port),
            "client": ("127.0.0.1", 1),
            "root_path": "",
            ABORT: self._abort,
        }

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    def _abort(self) -> None:
        self._messages.put_nowait(ConnectionResetError("the server has ended the connection"))
        self._left.set()

    def _finished(self, task: "asyncio.Future[None]") -> None:
        error = None if task.cancelled() else task.exception()
        self._messages.put_nowait(error)

    async def begin(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Return the status and the headers."""
        message = await self._next()
        if message is None:
            raise ConnectionResetError("the application has returned without a response")
        return message["status"], list(message.get("headers", ()))

    async def _next(self) -> dict[str, Any] | None:
        try:
            message = await self._messages.get()
        except asyncio.CancelledError:
            self._left.set()
            raise
        if isinstance(message, BaseException):
            raise message
        return message

    async def __aiter__(self) -> AsyncIterator[bytes]:
        more = True
        while more and (message := await self._next()) is not None:
            more = message.get("more_body", False)
            if body := message.get("body", b""):
                yield body

    async def aclose(self) -> None:
        """Leave the response, as a client that closes its connection."""
        self._left.set()
        if not self._task.done():
            await asyncio.wait([self._task], timeout=5.0)
