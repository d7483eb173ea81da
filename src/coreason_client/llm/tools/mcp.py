"""`MCPServer`: an MCP server whose tools a model may call."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

from ..._http._checks import check_headers, check_url
from ...errors import ArgumentError
from ._mcp_connection import LoopThread, MCPAddress, MCPConnection, OnElicitation
from .tool import RunnableTool

__all__ = ["MCPServer"]


class MCPServer:
    """An MCP server, as a tool of `run`; needs the extra `mcp`.

    A run opens the server and closes it at its end. To share one connection between runs, use
    `async with` with the async client, `with` with the sync client.

    Args:
        command: the program to start; the server uses its standard input and output.
        args: the arguments of the program.
        env: variables for the program, besides the few that it gets by default, such as PATH.
        cwd: the directory in which the program is started.
        url: the URL of a server that uses streamable HTTP, instead of `command`.
        headers: headers of each request to `url`.
        name: the name that is put before the name of a tool if two tools have the same name; by
            default the server's own name.
        include: the tools to use; by default all.
        exclude: tools that are not used.
        timeout: seconds for one call of a tool, without the time for an answer of the user.
        connect_timeout: seconds for starting or reaching the server and listing its tools.
        on_elicitation: a plain or async function that asks the user when the server wants to know
            something during a call. It gets the message and the JSON schema of the content, and
            returns the content as a mapping, or None to decline. An error in it is logged, and
            cancels the question. Without it the server is told that nobody can be asked.

    Raises:
        ArgumentError: an argument is invalid.
    """

    def __init__(
        self,
        command: str | None = None,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        name: str | None = None,
        include: Collection[str] | None = None,
        exclude: Collection[str] = (),
        timeout: float = 60.0,
        connect_timeout: float = 30.0,
        on_elicitation: OnElicitation | None = None,
    ) -> None:
        if (command is None) == (url is None):
            raise ArgumentError("command", "must be given, or url, but not both", command)
        if url is not None:
            check_url(url, credentials_go_into="headers")
        check_headers(headers or {})
        for argument, names in (("args", args), ("include", include), ("exclude", exclude)):
            if isinstance(names, str):
                raise ArgumentError(argument, "must be a list of strings", names)
        for argument, seconds in (("timeout", timeout), ("connect_timeout", connect_timeout)):
            if isinstance(seconds, bool) or not 0 < seconds < 1e9:
                raise ArgumentError(argument, "must be a number greater than 0", seconds)
        if on_elicitation is not None and not callable(on_elicitation):
            raise ArgumentError("on_elicitation", "must be a function", on_elicitation)
        self.name = name
        self._address = MCPAddress(
            command, tuple(args), env, cwd, url, dict(headers or {}), on_elicitation
        )
        self._include = None if include is None else frozenset(include)
        self._exclude = frozenset(exclude)
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._connection: MCPConnection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # of `async with`
        self._thread: LoopThread | None = None  # of `with`

    def __repr__(self) -> str:
        return f"MCPServer({str(self._address)!r})"

    async def __aenter__(self) -> Self:
        self._check_closed()
        self._loop = asyncio.get_running_loop()
        self._connection = await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        connection, self._connection, self._loop = self._connection, None, None
        if connection is not None:
            await connection.aclose()

    def __enter__(self) -> Self:
        self._check_closed()
        thread = LoopThread("coreason-mcp")
        try:
            self._connection = thread.wait(self._open())
        except BaseException:
            thread.close()
            raise
        self._thread = thread
        return self

    def __exit__(self, *_: object) -> None:
        connection, thread = self._connection, self._thread
        self._connection = self._thread = None
        if connection is not None and thread is not None:
            try:
                thread.wait(connection.aclose())
            finally:
                thread.close()

    @asynccontextmanager
    async def _tools_async(self) -> AsyncIterator[tuple[str, list[RunnableTool]]]:
        """Return the name and the tools of the server, which is open in this context.

        Raises:
            LLMConnectionError: the server cannot be opened.
        """
        if self._connection is not None:
            if self._loop is not asyncio.get_running_loop():
                raise RuntimeError(
                    f"{self!r} was opened with `with`, or in another event loop; in this one, open "
                    "it with `async with`"
                )
            yield self._listed(self._connection)
            return
        connection = await self._open()
        try:
            yield self._listed(connection)
        finally:
            await connection.aclose()

    @contextmanager
    def _tools_sync(self) -> Iterator[tuple[str, list[RunnableTool]]]:
        """Return the name and the tools, like `_tools_async`, for the sync client."""
        if self._connection is None:
            with MCPServer.__copy__(self) as opened, opened._tools_sync() as tools:
                yield tools
            return
        if self._thread is None:
            raise RuntimeError(
                f"{self!r} was opened with `async with`; for the sync client, open it with `with`"
            )
        yield self._listed(self._connection, self._thread)

    def __copy__(self) -> "MCPServer":
        """Return the same server, not opened."""
        copy = MCPServer.__new__(MCPServer)
        copy.__dict__ |= {**self.__dict__, "_connection": None, "_loop": None, "_thread": None}
        return copy

    def _check_closed(self) -> None:
        if self._connection is not None:
            raise RuntimeError(f"{self!r} is already open")

    async def _open(self) -> MCPConnection:
        return await MCPConnection.open(self._address, self._timeout, self._connect_timeout)

    def _listed(
        self, connection: MCPConnection, thread: LoopThread | None = None
    ) -> tuple[str, list[RunnableTool]]:
        """Return the name and the selected tools of a connection; calls run in its thread."""
        selected = [
            RunnableTool(
                tool.name,
                tool.description or "",
                tool.input_schema,
                partial(_bound, connection, thread, tool.name),
                is_async=thread is None,
                kind="extension",
            )
            for tool in connection.tools
            if tool.name not in self._exclude
            and (self._include is None or tool.name in self._include)
        ]
        return self.name or connection.server_name or "mcp", selected


def _bound(
    connection: MCPConnection, thread: LoopThread | None, name: str, arguments: Mapping[str, Any]
) -> Callable[[], Any]:
    call = partial(connection.call, name, arguments)
    return call if thread is None else lambda: thread.wait(call())
