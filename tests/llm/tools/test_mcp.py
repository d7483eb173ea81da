"""MCP servers as tools, with servers of the official package over stdio and over HTTP."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from coreason_client import ArgumentError
from coreason_client.llm import LLMConnectionError, LLMTimeoutError, MCPServer, RunResult
from tests.llm.server import ServerInThread

from .answers import MESSAGES, async_client, calls, said, sync_client

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
LIMIT = 50.0


def official(**options: Any) -> MCPServer:
    return MCPServer(sys.executable, ["-m", "tests.llm.tools.mcp_server"], cwd=ROOT, **options)


def small(mode: str, **options: Any) -> MCPServer:
    return MCPServer(sys.executable, [str(HERE / "small_mcp_server.py"), mode], **options)


@pytest.fixture(scope="module")
def shared() -> Iterator[MCPServer]:
    """A server over stdio that all tests share."""
    with official() as server:
        yield server


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The URL of a server over HTTP."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with serving(port):
        yield f"http://127.0.0.1:{port}/mcp"


@contextmanager
def serving(port: int) -> Iterator[None]:
    """Start a server over HTTP, and end it."""
    command = [sys.executable, "-m", "tests.llm.tools.mcp_server", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            assert process.poll() is None
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.02)
        yield
    finally:
        process.terminate()
        process.wait(10)


def run_sync(tools: list[Any], *wanted: tuple[str, dict[str, Any]]) -> RunResult[Any]:
    with ServerInThread(calls(*wanted), said("Done.")) as model, sync_client(model) as ours:
        return ours.run(MESSAGES, tools=tools)


def run_async(tools: list[Any], *wanted: tuple[str, dict[str, Any]]) -> RunResult[Any]:
    async def go() -> RunResult[Any]:
        async with async_client(model) as ours:
            return await ours.run(MESSAGES, tools=tools)

    with ServerInThread(calls(*wanted), said("Done.")) as model:
        return asyncio.run(asyncio.wait_for(go(), LIMIT))


def test_results_over_stdio_in_the_sync_client(shared: MCPServer) -> None:
    result = run_sync(
        [shared],
        ("add", {"a": 1, "b": 2}),
        ("sky", {"city": "Rome"}),
        ("words", {}),
        ("documents", {}),
        ("broken", {"reason": "no wind"}),
        ("add", {"a": 1}),
    )
    texts = [call.result for call in result.tool_calls]
    assert texts[0] == "3"
    assert '"colour": "blue"' in texts[1]
    assert texts[1].count("colour") == 1  # not once more as structured content
    assert texts[2] == "one\ntwo"
    assert texts[3] == (
        "two documents\n[link to the resource report, https://x.example/report]\n"
        "[resource memo://1]\nremember"
    )
    assert texts[4] == "Error: no wind"
    assert texts[5].startswith("Error: ")
    assert [call.is_error for call in result.tool_calls] == [False] * 4 + [True] * 2


def test_an_image_is_shown_to_the_model(shared: MCPServer) -> None:
    result = run_sync([shared], ("photo", {}))
    assert result.tool_calls[0].result == "[an image, image/png]"
    [image] = [m for m in result.messages if m["role"] == "user" and m is not result.messages[0]]
    assert image["content"][1]["image_url"]["url"] == "data:image/png;base64,iVBORw0KGgo="


def test_a_shared_server_stays_open(shared: MCPServer) -> None:
    first = run_sync([shared], ("count", {})).tool_calls[0].result
    second = run_sync([shared], ("count", {})).tool_calls[0].result
    assert int(second) == int(first) + 1


def test_tools_can_be_selected(shared: MCPServer) -> None:
    selected = shared.__copy__()
    selected._connection, selected._thread = shared._connection, shared._thread
    selected._include, selected._exclude = frozenset({"add", "sky"}), frozenset({"sky"})
    with ServerInThread(said("Hi.")) as model, sync_client(model) as ours:
        ours.run(MESSAGES, tools=[selected])
    [tool] = model.received[0].json["tools"]
    assert tool["function"]["name"] == "add"
    assert tool["function"]["description"] == "Add two numbers."
    assert tool["function"]["parameters"]["required"] == ["a", "b"]


def test_a_name_that_a_function_has_gets_the_name_of_the_server(shared: MCPServer) -> None:
    def add(a: int, b: int) -> str:
        return "mine"

    result = run_sync(
        [add, shared], ("add", {"a": 1, "b": 2}), ("weather_station_add", {"a": 1, "b": 2})
    )
    assert [call.result for call in result.tool_calls] == ["mine", "3"]


@pytest.mark.proves("LLM2-mcp")
def test_results_over_http_in_the_async_client(url: str) -> None:
    server = MCPServer(url=url, headers={"x-key": "1"})
    result = run_async([server], ("add", {"a": 1, "b": 2}), ("broken", {"reason": "no wind"}))
    assert [call.result for call in result.tool_calls] == ["3", "Error: no wind"]


def test_a_server_can_be_shared_by_async_runs(url: str) -> None:
    async def go() -> list[str]:
        async with async_client(model) as ours, MCPServer(url=url) as server:
            runs = (ours.run(MESSAGES, tools=[server], max_turns=1) for _ in range(2))
            found = await asyncio.gather(*runs, return_exceptions=True)
            return [error.conversation[-1]["content"] for error in found]  # type: ignore[union-attr]

    with ServerInThread(calls(("add", {"a": 4, "b": 2}))) as model:
        assert asyncio.run(asyncio.wait_for(go(), LIMIT)) == ["6", "6"]


def test_a_server_that_is_not_open_is_opened_by_the_run() -> None:
    assert run_async([small("plain")], ("fine", {})).tool_calls[0].result == "fine"
    assert run_sync([small("plain")], ("fine", {})).tool_calls[0].result == "fine"


@pytest.mark.proves("LLM2-mcp-dies")
def test_a_server_that_dies_is_an_error_of_the_tool() -> None:
    async def go() -> RunResult[Any]:
        async with async_client(model) as ours:
            return await ours.run(MESSAGES, tools=[small("plain")])

    replies = [calls(("die", {})), calls(("fine", {})), said("Done.")]
    with ServerInThread(*replies) as model:
        result = asyncio.run(asyncio.wait_for(go(), LIMIT))
    assert [call.is_error for call in result.tool_calls] == [True, False]
    ended = "Error: the MCP server ended during the call; the next call opens it again"
    assert [call.result for call in result.tool_calls] == [ended, "fine"]


def test_a_server_over_http_that_was_lost_is_opened_again() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = MCPServer(url=f"http://127.0.0.1:{port}/mcp")

    def add() -> str:
        return run_sync([server], ("add", {"a": 1, "b": 2})).tool_calls[0].result

    with ExitStack() as running:
        running.enter_context(serving(port))
        with server:
            assert add() == "3"
            running.close()
            assert add().startswith("Error: ")
            with serving(port):
                assert add() == "3"


async def asked(message: str, schema: dict[str, Any]) -> dict[str, Any]:
    [name] = schema["properties"]
    return {name: 3 if name == "nights" else message}


def failing(message: str, schema: dict[str, Any]) -> None:
    raise ValueError(message)


@pytest.mark.parametrize(
    ("on_elicitation", "answers"),
    [
        (asked, ["accept 3", '{"action": "accept", "content": {"city": "Which city?"}}']),
        (lambda *_: {"nights": 2, "city": "Rome"}, ["accept 2", '"city": "Rome"}}']),
        (lambda *_: None, ["decline", '{"action": "decline"}']),
        (failing, ["cancel", '{"action": "cancel"}']),
        (lambda *_: {"nights": object()}, ["cancel", '{"action": "cancel"}']),
        (None, ["did not declare the form elicitation capability", "nobody can be asked"]),
    ],
)
def test_a_server_asks_the_user_during_a_call(
    on_elicitation: Any, answers: list[str], url: str, caplog: pytest.LogCaptureFixture
) -> None:
    new = MCPServer(url=url, on_elicitation=on_elicitation)
    old = small("plain", on_elicitation=on_elicitation)
    for run in (run_sync, run_async):
        texts = [run([new], ("book", {})), run([old], ("ask", {}))]
        for result, answer in zip(texts, answers, strict=True):
            assert answer in result.tool_calls[0].result
    assert ("on_elicitation of" in caplog.text) == (answers[0] == "cancel")


def test_a_url_to_open_is_declined() -> None:
    result = run_async([small("plain", on_elicitation=failing)], ("ask_url", {}))
    assert result.tool_calls[0].result == '{"action": "decline"}'


def test_the_timeout_of_a_call_does_not_run_while_the_user_is_asked() -> None:
    async def slow(message: str, schema: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(5.5)  # longer than the timeout
        return {"city": "Rome"}

    result = run_async([small("plain", timeout=5.0, on_elicitation=slow)], ("ask", {}))
    assert '"city": "Rome"' in result.tool_calls[0].result


def test_a_server_that_hangs_is_an_error_of_the_tool() -> None:
    result = run_async([small("plain", timeout=0.2)], ("hang", {}))
    assert result.tool_calls[0].result == "Error: the MCP server did not answer within 0.2 s"


def test_a_server_that_does_not_answer_is_a_timeout() -> None:
    with pytest.raises(LLMTimeoutError, match=r"did not answer within 0\.3 s") as caught:
        run_async([small("silent", connect_timeout=0.3)])
    assert caught.value.conversation == MESSAGES


def test_a_command_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(LLMConnectionError, match="cannot open the MCP server no-such-command"):
        run_async([MCPServer("no-such-command")])


def test_a_server_that_cannot_be_reached_is_an_error() -> None:
    with pytest.raises(LLMConnectionError, match="cannot open the MCP server http"):
        run_sync([MCPServer(url="http://127.0.0.1:9/mcp?key=secret")])


def test_how_a_server_was_opened_must_fit_the_client(shared: MCPServer) -> None:
    with pytest.raises(RuntimeError, match="opened with `with`"):
        run_async([shared])

    async def go() -> None:
        async with small("plain") as server:
            with pytest.raises(RuntimeError, match="already open"):
                async with server:
                    pass
            with pytest.raises(RuntimeError, match="opened with `async with`"):
                await asyncio.to_thread(run_sync, [server], ("fine", {}))

    asyncio.run(asyncio.wait_for(go(), LIMIT))
    with pytest.raises(RuntimeError, match="already open"), shared:
        pass


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "command must be given"),
        ({"command": "a", "url": "http://x"}, "not both"),
        ({"url": "ftp://x"}, "http"),
        ({"url": "http://u:secret@x"}, "headers"),
        ({"command": "a", "args": "b c"}, "args must be a list"),
        ({"command": "a", "include": "b"}, "include must be a list"),
        ({"command": "a", "timeout": 0}, "timeout must be"),
        ({"command": "a", "on_elicitation": "ask"}, "on_elicitation must be a function"),
        ({"command": "a", "connect_timeout": True}, "connect_timeout must be"),
        ({"url": "http://x", "headers": {"a b": "c"}}, "header"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as caught:
        MCPServer(**arguments)
    assert "secret" not in str(caught.value)


def test_secrets_are_not_shown() -> None:
    server = MCPServer(url="http://x/mcp?key=secret", headers={"authorization": "secret"})
    assert repr(server) == "MCPServer('http://x/mcp')"
    assert "secret" not in repr(server._address)
    assert "secret" not in repr(MCPServer("a", env={"KEY": "secret"})._address)
