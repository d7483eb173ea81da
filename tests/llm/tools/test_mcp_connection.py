"""The connection to an MCP server: its tools, its end, and the missing package."""

import asyncio
import sys
from typing import Any

import pytest

from coreason_client import MissingExtraError
from coreason_client.llm import LLMConnectionError
from coreason_client.llm.tools import _mcp_connection
from coreason_client.llm.tools._mcp_connection import MCPConnection

from .test_mcp import small

LIMIT = 30.0


async def opened(mode: str) -> MCPConnection:
    return await MCPConnection.open(small(mode)._address, 5.0, 20.0)


def go(work: Any) -> None:
    asyncio.run(asyncio.wait_for(work, LIMIT))


def test_all_pages_are_listed_and_closing_ends_the_process() -> None:
    async def work() -> None:
        before = asyncio.all_tasks()
        connection = await opened("pages")
        assert [tool.name for tool in connection.tools] == ["t0", "t1", "t2"]
        assert connection.server_name == "small"
        await connection.aclose()
        await connection.aclose()
        output = await connection.call("t0", {})
        assert output.text == (
            "Error: the MCP server is closed; its tools cannot be called any more"
        )
        assert asyncio.all_tasks() == before

    go(work())


def test_an_endless_list_is_an_error() -> None:
    async def work() -> None:
        with pytest.raises(LLMConnectionError, match="more than 100 pages"):
            await opened("endless")

    go(work())


def test_a_cancelled_call_leaves_the_connection_usable() -> None:
    async def work() -> None:
        connection = await opened("plain")
        call = asyncio.create_task(connection.call("fine", {}))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait({call})
        assert call.cancelled()
        assert (await connection.call("fine", {})).text == "fine"
        await connection.aclose()

    go(work())


def test_opening_can_be_cancelled() -> None:
    async def work() -> None:
        opening = asyncio.create_task(opened("silent"))
        await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait({opening})
        assert opening.cancelled()

    go(work())


def test_the_package_is_named_if_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)

    async def work() -> None:
        with pytest.raises(MissingExtraError, match=r"coreason-client\[mcp\]"):
            await opened("plain")

    go(work())


def test_the_error_output_of_a_server_needs_no_real_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with _mcp_connection._error_output() as file:
        assert file.writable()
