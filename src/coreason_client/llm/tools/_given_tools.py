"""The `tools` of a run: functions, tools of the provider, and MCP servers that it opens."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from functools import lru_cache
from types import FunctionType
from typing import Any

from .._argument_errors import invalid
from .._check_call import is_provider_tool
from ..errors import LLMRequestError
from .mcp import MCPServer
from .tool import RunnableTool, Toolset, function_tool


class GivenTools:
    """The checked tools of a run; `toolset` is None if servers must be opened for it.

    Raises:
        LLMRequestError: a tool is wrong.
    """

    def __init__(self, tools: Any, *, allow_async: bool) -> None:
        if not isinstance(tools, list | tuple | None):
            raise invalid("tools", "must be a list of functions, Tools and MCPServers", tools)
        given: tuple[Any, ...] = tuple(tools or ())
        if all(map(_is_global_function, given)):
            self._servers: Sequence[MCPServer] = ()
            self._provided: Sequence[Mapping[str, Any]] = ()
            self._functions, functions = _kept_functions(given, allow_async)
        else:
            self._servers = [tool for tool in given if isinstance(tool, MCPServer)]
            self._provided = [tool for tool in given if is_provider_tool(tool)]
            self._functions, functions = _functions(given, allow_async)
        self.toolset = None if self._servers else functions

    @asynccontextmanager
    async def open_async(self) -> AsyncIterator[Toolset]:
        """Open the servers and return all tools; leaving the context closes the servers.

        Raises:
            LLMConnectionError: a server cannot be opened.
        """
        async with AsyncExitStack() as stack:
            served = [
                await stack.enter_async_context(server._tools_async()) for server in self._servers
            ]
            yield Toolset(self._functions, served, self._provided)

    @contextmanager
    def open(self) -> Iterator[Toolset]:
        """Open the servers and return all tools, like `open_async`."""
        with ExitStack() as stack:
            served = [stack.enter_context(server._tools_sync()) for server in self._servers]
            yield Toolset(self._functions, served, self._provided)


def _functions(given: tuple[Any, ...], allow_async: bool) -> tuple[Sequence[RunnableTool], Toolset]:
    """Return the functions among tools, and the tools of a run that has no others."""
    for index, tool in enumerate(given):
        if is_provider_tool(tool) and tool.get("type") == "custom":
            raise LLMRequestError(
                f"tools[{index}] must not be a custom tool, which a run cannot call: use generate"
            )
    found = [
        function_tool(tool, f"tools[{index}]", allow_async=allow_async)
        for index, tool in enumerate(given)
        if not isinstance(tool, MCPServer) and not is_provider_tool(tool)
    ]
    return found, Toolset(found, provided=[tool for tool in given if is_provider_tool(tool)])


# Most programs have the same tools in every run, and checking them takes a tenth of a run.
_kept_functions = lru_cache(maxsize=32)(_functions)


def _is_global_function(tool: Any) -> bool:
    """Return True if keeping a function keeps nothing else alive, as its closure would be."""
    return tool.__class__ is FunctionType and tool.__closure__ is None


def given_tools_async(tools: Any) -> GivenTools:
    """Return the checked tools for the async client."""
    return GivenTools(tools, allow_async=True)


def given_tools(tools: Any) -> GivenTools:
    """Return the checked tools for the sync client."""
    return GivenTools(tools, allow_async=False)
