"""The `tools` argument of a run, with MCP servers that are opened."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from coreason_client.llm import LLMConnectionError, MCPServer
from coreason_client.llm.tools._given_tools import given_tools, given_tools_async
from coreason_client.llm.tools.tool import function_tool


def add(a: int) -> int:
    return a


class Server(MCPServer):
    """A server without a connection, which knows whether it is open."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__("command", name="server")
        self.fails = fails
        self.open = 0

    @asynccontextmanager
    async def _tools_async(self) -> AsyncIterator[Any]:
        if self.fails:
            raise LLMConnectionError("no")
        self.open += 1
        try:
            yield "server", [function_tool(add, "tools[0]", allow_async=True)]
        finally:
            self.open -= 1


def test_servers_are_open_as_long_as_the_tools_are_used() -> None:
    async def go() -> None:
        one, two = Server(), Server()
        async with given_tools_async([one, add, two]).open_async() as toolset:
            names = [tool["function"]["name"] for tool in toolset.definitions]
            assert names == ["add", "server_add", "server_add_2"]
            assert (one.open, two.open) == (1, 1)
        assert (one.open, two.open) == (0, 0)

    asyncio.run(go())


def test_a_server_that_cannot_be_opened_closes_the_others() -> None:
    async def go() -> None:
        one = Server()
        with pytest.raises(LLMConnectionError):
            async with given_tools_async([one, Server(fails=True)]).open_async():
                pass
        assert one.open == 0

    asyncio.run(go())


@pytest.mark.parametrize("tools", [None, [], ()])
def test_no_tools(tools: Any) -> None:
    with given_tools(tools).open() as toolset:
        assert toolset.definitions == ()
