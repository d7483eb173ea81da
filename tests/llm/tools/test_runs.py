"""The methods and functions that run a model, and their types."""

import asyncio
import inspect
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, assert_type

import pytest
from pydantic import BaseModel

from coreason_client.llm import (
    AsyncLLMClient,
    AsyncRunStream,
    LLMClient,
    RunEvent,
    RunResult,
    RunStream,
    _from_env,
    run,
    run_stream,
    run_stream_sync,
    run_sync,
)
from tests.llm.server import Provider, ServerInThread

from .answers import KEY, MESSAGES, calls, said, streamed_calls, streamed_text


class Sky(BaseModel):
    colour: str


def weather(city: str) -> str:
    """Return the weather."""
    return f"blue in {city}"


async def typed(client: AsyncLLMClient, sync: LLMClient) -> None:
    """Checked by mypy; never called."""
    assert_type(await client.run(MESSAGES, response_format=Sky), RunResult[Sky])
    assert_type((await client.run(MESSAGES, response_format=Sky)).parsed, Sky)
    assert_type(await client.run(MESSAGES, tools=[weather], max_turns=3), RunResult[Any])
    assert_type(client.run_stream(MESSAGES, response_format=Sky), AsyncRunStream[Sky])
    assert_type(await client.run_stream(MESSAGES, response_format=Sky).result(), RunResult[Sky])
    assert_type(sync.run(MESSAGES, response_format=Sky), RunResult[Sky])
    assert_type(sync.run_stream(MESSAGES, response_format=Sky), RunStream[Sky])
    assert_type(next(sync.run_stream(MESSAGES)), RunEvent)
    assert_type(await run(MESSAGES, response_format=Sky), RunResult[Sky])
    assert_type(run_stream(MESSAGES, response_format=Sky), AsyncRunStream[Sky])
    assert_type(run_sync(MESSAGES, response_format=Sky), RunResult[Sky])
    assert_type(run_stream_sync(MESSAGES, response_format=Sky), RunStream[Sky])
    await client.run(MESSAGES, max_turn=3)  # type: ignore[call-arg]
    await client.run(MESSAGES, tools=[5])  # type: ignore[list-item]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    monkeypatch.setattr(_from_env, "_shared", _from_env.SharedClients())
    with ServerInThread() as provider:
        monkeypatch.setenv("LLM_API_KEY", KEY)
        monkeypatch.setenv("LLM_API_BASE_URL", provider.url)
        yield provider
    if (known := _from_env._shared._clients.get(LLMClient)) is not None:
        known[1].close()


ROME = ("weather", {"city": "Rome"})


def test_the_functions_use_the_configuration_of_the_environment(server: Provider) -> None:
    server.replies = [calls(ROME), said("Blue."), streamed_calls(ROME), streamed_text("Blue.")]
    assert run_sync(MESSAGES, "m", [weather], 0.1, 50).text == "Blue."
    assert run_stream_sync(MESSAGES, "m", [weather]).result().text == "Blue."
    server.replies = [calls(ROME), said("Blue."), streamed_calls(ROME), streamed_text("Blue.")]

    async def go() -> None:
        assert (await run(MESSAGES, "m", [weather])).text == "Blue."
        assert (await run_stream(MESSAGES, "m", [weather]).result()).text == "Blue."

    asyncio.run(go())
    assert len(server.received) == 8
    assert server.received[0].json["max_tokens"] == 50


def test_an_unknown_option_is_an_error(server: Provider) -> None:
    with pytest.raises(TypeError, match="max_turn"):
        run_sync(MESSAGES, "m", max_turn=3)  # type: ignore[call-arg]
    assert server.received == []


def test_the_methods_of_both_clients_are_the_same() -> None:
    for name in ("run", "run_stream"):
        parameters = [
            [(p.name, p.kind, p.default) for p in inspect.signature(method).parameters.values()]
            for method in (getattr(LLMClient, name), getattr(AsyncLLMClient, name))
        ]
        assert parameters[0] == parameters[1]


def test_the_tool_loop_is_imported_on_first_use() -> None:
    code = (
        "import sys; from coreason_client.llm import AsyncLLMClient, LLMClient;"
        "AsyncLLMClient('k', 'http://x', 'm'); LLMClient('k', 'http://x', 'm');"
        "tools = 'coreason_client.llm.tools';"
        "names = [n for n in sys.modules if n == 'mcp' or n.startswith(tools)];"
        "assert not names, names"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


def test_a_run_with_functions_does_not_import_mcp() -> None:
    code = (
        "import sys; from coreason_client.llm import run_sync;"
        "import coreason_client.llm.tools._run_sync; assert 'mcp' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
