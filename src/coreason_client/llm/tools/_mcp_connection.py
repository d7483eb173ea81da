"""The connection to an MCP server, in its own task, and the results of its tools.

The client of the `mcp` package must be opened and closed in one task. A run may be closed in
another one, so a separate task holds the client open; calls may come from any task. A server that
has ended is opened again by the next call; the call during which it ended is not repeated, because
the tool may have been executed.

A server may ask the user during a call (elicitation). While a question is open, the timeout of a
call does not run; it begins again with the answer.
"""

import asyncio
import inspect
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO, TypeAlias, TypeVar

from ..._http._types import hide_query_async
from ...errors import MissingExtraError
from ..errors import LLMConnectionError, LLMError, LLMTimeoutError
from ._output import ToolOutput, error_output, failure_output
from ._perform import logger, run_in_thread

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import ElicitResult
    from mcp.types import Tool as MCPTool


T = TypeVar("T")

OnElicitation: TypeAlias = Callable[[str, dict[str, Any]], Any]
"""Gets a message and a JSON schema; returns the content, None to decline, or a coroutine."""

_MAX_PAGES = 100
_CLOSED = "the MCP server is closed; its tools cannot be called any more"
_LOST = "the MCP server ended during the call; the next call opens it again"
_CLOSE_SECONDS = 15.0  # the `mcp` package bounds its own waits, by less than this


@dataclass(frozen=True, slots=True)
class MCPAddress:
    """The address of a server: a command to start, or a URL; and who answers its questions."""

    command: str | None
    args: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] | None = field(repr=False)
    cwd: str | Path | None
    url: str | None = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    on_elicitation: OnElicitation | None = field(repr=False)

    def __str__(self) -> str:
        return self.command or (self.url or "").partition("?")[0]


class MCPConnection:
    """An open connection; `tools` are the tools of the server, `server_name` is its own name."""

    def __init__(self, address: MCPAddress, timeout: float, connect_timeout: float) -> None:
        self.tools: list[MCPTool] = []
        self.server_name = ""
        self._address = address
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._open_questions = self._answered_questions = 0
        self._client: Client | None = None
        self._closed = False
        self._opening = asyncio.Lock()
        self._start()

    @classmethod
    async def open(cls, address: MCPAddress, timeout: float, connect_timeout: float) -> Self:
        """Connect to a server and list its tools.

        Raises:
            MissingExtraError: the package `mcp` is not installed.
            LLMConnectionError: the server cannot be reached, or does not answer as it should.
            LLMTimeoutError: it does not answer in time.
        """
        connection = cls(address, timeout, connect_timeout)
        try:
            await connection._connected()
        except BaseException:
            await connection.aclose()
            raise
        return connection

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutput:
        """Call a tool; every failure is an output, so a broken server does not end the run."""
        try:
            client = await self._open_client()
        except LLMError as error:
            return error_output(str(error))
        if client is None:
            return error_output(_CLOSED)
        call = asyncio.ensure_future(client.call_tool(name, dict(arguments)))
        try:
            done = await self._finished(call)
        finally:
            if not call.done():
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
        if call not in done:
            late = f"the MCP server did not answer within {self._timeout:g} s"
            return error_output(_LOST if done else late)
        failure = call.exception()
        if failure is None:
            return mcp_output(call.result())
        if not _is_closed(failure):
            return failure_output(failure)
        if self._client is client:
            self._client = None
        return error_output(_LOST)

    async def _finished(self, call: "asyncio.Future[Any]") -> set["asyncio.Future[Any]"]:
        """Return the call, or the task of a server that has ended; nothing after the timeout."""
        while True:
            answered = self._answered_questions
            done, _ = await asyncio.wait(
                {call, self._task}, timeout=self._timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if done or not (self._open_questions or answered != self._answered_questions):
                return done

    async def _elicit(self, _: Any, request: Any) -> "ElicitResult":
        """Answer a question of the server, for the callback of the `mcp` package."""
        from mcp.types import ElicitResult

        self._open_questions += 1
        try:
            content = await _asked(self._address.on_elicitation, request)
            return ElicitResult(action="decline" if content is None else "accept", content=content)
        except Exception as error:  # noqa: BLE001 - a callback may raise anything
            logger.warning("on_elicitation of %s failed", self._address, exc_info=error)
            return ElicitResult(action="cancel")
        finally:
            self._open_questions -= 1
            self._answered_questions += 1

    async def aclose(self) -> None:
        """Close the connection and end a process that was started; may be called twice."""
        self._closed = True
        await self._end()

    def _start(self) -> None:
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold())

    async def _connected(self) -> None:
        try:
            async with asyncio.timeout(self._connect_timeout):
                await asyncio.shield(self._ready)
        except TimeoutError:
            raise LLMTimeoutError(
                f"the MCP server {self._address} did not answer within {self._connect_timeout:g} s"
            ) from None

    async def _open_client(self) -> "Client | None":
        """Return the client, opened again if its server has ended; None after a close."""
        async with self._opening:
            if not self._closed and (self._client is None or self._task.done()):
                await self._end()
                self._start()
                await self._connected()
            return None if self._closed else self._client

    async def _end(self) -> None:
        self._stop.set()
        if not self._ready.done():  # still connecting
            self._task.cancel()
        await asyncio.wait({self._task}, timeout=_CLOSE_SECONDS)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})
        if self._ready.done() and not self._ready.cancelled():
            self._ready.exception()  # retrieved, so that asyncio does not log it
        self._ready.cancel()

    async def _hold(self) -> None:
        """Hold the client open until the connection is closed."""
        try:
            callback = None if self._address.on_elicitation is None else self._elicit
            async with _client(self._address, self._timeout, callback) as client:
                await self._list_tools(client)
                info = client.server_info
                self.server_name = "" if info is None else info.name
                self._client = client
                self._ready.set_result(None)
                await self._stop.wait()
        except asyncio.CancelledError:
            raise
        except MissingExtraError as error:
            self._ready.set_exception(error)
        except Exception as error:  # noqa: BLE001 - a group of errors of any kind
            if not self._ready.done():
                self._ready.set_exception(self._connection_error(error))
        finally:
            self._client = None

    def _connection_error(self, error: BaseException) -> LLMConnectionError:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        text = failure_output(error).text.removeprefix("Error: ")
        return LLMConnectionError(f"cannot open the MCP server {self._address}: {text}")

    async def _list_tools(self, client: "Client") -> None:
        self.tools, cursor = [], None
        for _ in range(_MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            self.tools += page.tools
            cursor = page.next_cursor
            if cursor is None:
                return
        raise LLMConnectionError(f"it lists more than {_MAX_PAGES} pages of tools")


async def _asked(on_elicitation: Any, request: Any) -> Any:
    if request.mode != "form":
        return None  # the `mcp` package announces also the mode in which a URL is opened
    ask = partial(on_elicitation, request.message, request.requested_schema)
    content = await run_in_thread(ask, "coreason-elicitation")
    return await content if inspect.isawaitable(content) else content


def _is_closed(error: BaseException) -> bool:
    """Return True if a call failed because the server is gone: it has no other error."""
    from mcp.types import CONNECTION_CLOSED

    return getattr(error, "code", None) == CONNECTION_CLOSED


@asynccontextmanager
async def _client(address: MCPAddress, timeout: float, callback: Any) -> "AsyncIterator[Client]":
    await asyncio.to_thread(_import_mcp)  # it takes more than a second
    import httpx2
    from mcp import Client, StdioServerParameters, stdio_client
    from mcp.client.streamable_http import streamable_http_client

    if address.url is None:
        parameters = StdioServerParameters(
            command=address.command or "",
            args=list(address.args),
            env=None if address.env is None else dict(address.env),
            cwd=address.cwd,
        )
        with _error_output() as errors:
            transport = stdio_client(parameters, errlog=errors)
            async with Client(transport, elicitation_callback=callback, cache=None) as client:
                yield client
        return
    timeouts = httpx2.Timeout(timeout, read=None)  # `MCPConnection.call` limits the wait
    hooks = {"request": [hide_query_async]}  # servers exist whose key is in their URL
    async with (
        httpx2.AsyncClient(
            headers=dict(address.headers), timeout=timeouts, event_hooks=hooks
        ) as http,
        Client(
            streamable_http_client(address.url, http_client=http),
            elicitation_callback=callback,
            cache=None,
        ) as client,
    ):
        yield client


def _import_mcp() -> None:
    try:
        import mcp  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtraError("an MCPServer", "mcp") from error


def _error_output() -> TextIO:
    """Return the file for the error output of a server: ours, or none if it is not a real file."""
    try:
        return os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8")
    except (AttributeError, OSError, ValueError):
        return Path(os.devnull).open("w", encoding="utf-8")


# Results as tool outputs.
#
# Text is sent as it is. Images are shown to the model after the results. Of what a model cannot
# read, it gets a short description: audio, binary resources, links.


def mcp_output(result: Any) -> ToolOutput:
    """Return the output for a `CallToolResult`."""
    texts = [block.text for block in result.content if block.type == "text"]
    lines = list(_lines(result.content))
    structured = result.structured_content
    if structured is not None and not _repeats(texts, structured):
        lines.append(json.dumps(structured, ensure_ascii=False))
    text = "\n".join(lines)
    if result.is_error:
        text = f"Error: {text or 'the tool failed without a message'}"
    return ToolOutput(text, is_error=bool(result.is_error), images=tuple(_images(result.content)))


def _lines(content: Iterable[Any]) -> Iterator[str]:
    for block in content:
        if block.type == "text":
            yield block.text
        elif block.type == "resource_link":
            description = f": {block.description}" if block.description else ""
            yield f"[link to the resource {block.name}, {block.uri}{description}]"
        elif block.type == "resource":
            yield _resource(block.resource)
        elif block.type == "image":
            yield f"[an image, {block.mime_type}]"
        else:
            mime_type = getattr(block, "mime_type", None)
            yield f"[{block.type}{f', {mime_type}' if mime_type else ''}, not shown]"


def _resource(resource: Any) -> str:
    text = getattr(resource, "text", None)
    if text is not None:
        return f"[resource {resource.uri}]\n{text}"
    return f"[resource {resource.uri}, {resource.mime_type or 'binary data'}, not shown]"


def _images(content: Iterable[Any]) -> Iterator[str]:
    for block in content:
        if block.type == "image":
            yield f"data:{block.mime_type};base64,{block.data}"


def _repeats(texts: list[str], structured: Any) -> bool:
    """Return True if the text is the structured content: servers send both, for older clients.

    A value that is not an object is wrapped in an object as its "result".
    """
    if not texts:
        return False
    values = [structured]
    if isinstance(structured, dict) and structured.keys() == {"result"}:
        values.append(structured["result"])
    whole = "\n".join(texts)
    parsed = [_parsed(text) for text in texts]
    candidates = [whole, _parsed(whole), texts, parsed]
    return any(value == candidate for value in values for candidate in candidates)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


class LoopThread:
    """An event loop in its own thread, for the sync client; `wait` runs a coroutine on it."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result; if the wait is interrupted, it is cancelled."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the loop, and wait for the thread; may be called twice."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()
