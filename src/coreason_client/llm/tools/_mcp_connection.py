"""The connection to an MCP server, in a task of its own.

The client of the `mcp` package must be opened and closed in one task. A run may be closed in
another one, so a separate task holds the client open; calls may come from any task.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

from ..._http._types import hide_query_async
from ...errors import MissingExtraError
from ..errors import LLMConnectionError, LLMTimeoutError
from ._mcp_content import mcp_output
from ._output import ToolOutput, error_output, failure_output

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import Tool as MCPTool

__all__ = ["MCPAddress", "MCPConnection"]

_MAX_PAGES = 100
_ENDED = "the MCP server has ended; its tools cannot be called any more"
_CLOSE_SECONDS = 15.0  # the `mcp` package bounds its own waits, by less than this


@dataclass(frozen=True, slots=True)
class MCPAddress:
    """How to reach a server: a command to start, or a URL."""

    command: str | None
    args: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] | None = field(repr=False)
    cwd: str | Path | None
    url: str | None = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)

    def __str__(self) -> str:
        return self.command or (self.url or "").partition("?")[0]


class MCPConnection:
    """An open connection; `tools` are the tools of the server, `server_name` is its own name."""

    def __init__(self, address: MCPAddress, timeout: float) -> None:
        self.tools: list[MCPTool] = []
        self.server_name = ""
        self._address = address
        self._timeout = timeout
        self._client: Client | None = None
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold())

    @classmethod
    async def open(cls, address: MCPAddress, timeout: float, connect_timeout: float) -> Self:
        """Connect to a server and list its tools.

        Raises:
            MissingExtraError: the package `mcp` is not installed.
            LLMConnectionError: the server cannot be reached, or does not answer as it should.
            LLMTimeoutError: it does not answer in time.
        """
        connection = cls(address, timeout)
        try:
            async with asyncio.timeout(connect_timeout):
                await asyncio.shield(connection._ready)
        except TimeoutError:
            await connection.aclose()
            raise LLMTimeoutError(
                f"the MCP server {address} did not answer within {connect_timeout:g} s"
            ) from None
        except BaseException:
            await connection.aclose()
            raise
        return connection

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutput:
        """Call a tool; every failure is an output, so a broken server does not end the run."""
        client = self._client
        if client is None or self._task.done():
            return error_output(_ENDED)
        call = asyncio.ensure_future(client.call_tool(name, dict(arguments)))
        try:
            done, _ = await asyncio.wait(
                {call, self._task}, timeout=self._timeout, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            if not call.done():
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
        if call not in done:
            late = f"the MCP server did not answer within {self._timeout:g} s"
            return error_output(_ENDED if done else late)
        error = call.exception()
        if error is None:
            return mcp_output(call.result())
        return error_output(_ENDED) if _is_closed(error) else failure_output(error)

    async def aclose(self) -> None:
        """Close the connection and end a process that was started; may be called twice."""
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
            async with _client(self._address, self._timeout) as client:
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
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            self.tools += page.tools
            cursor = page.next_cursor
            if cursor is None:
                return
        raise LLMConnectionError(f"it lists more than {_MAX_PAGES} pages of tools")


def _is_closed(error: BaseException) -> bool:
    """Return True if a call failed because the server is gone: it has no other error of its own."""
    from mcp.types import CONNECTION_CLOSED

    return getattr(error, "code", None) == CONNECTION_CLOSED


@asynccontextmanager
async def _client(address: MCPAddress, timeout: float) -> "AsyncIterator[Client]":
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
            async with Client(transport, read_timeout_seconds=timeout, cache=None) as client:
                yield client
        return
    timeouts = httpx2.Timeout(timeout, read=None)  # `read_timeout_seconds` limits each request
    hooks = {"request": [hide_query_async]}  # servers exist whose key is in their URL
    async with (
        httpx2.AsyncClient(
            headers=dict(address.headers), timeout=timeouts, event_hooks=hooks
        ) as http,
        Client(
            streamable_http_client(address.url, http_client=http),
            read_timeout_seconds=timeout,
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
        return os.fdopen(os.dup(sys.stderr.fileno()), "w")
    except (AttributeError, OSError, ValueError):
        return Path(os.devnull).open("w")
