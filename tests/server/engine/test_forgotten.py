"""A call of the stream without `await` is an error of the agent, which names the line."""

import inspect
import logging
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from coreason_client.server import AgentStream, ServiceRequest
from coreason_client.server.engine import _agent as _forgotten
from coreason_client.server.engine._agent import watch_forgotten

from ..conftest import Serve

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")


async def write(request: ServiceRequest, stream: AgentStream) -> None:
    stream.write("lost")  # type: ignore[unused-coroutine]


async def write_between(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("a")
    stream.write("lost")  # type: ignore[unused-coroutine]
    await stream.write("b")


async def step(request: ServiceRequest, stream: AgentStream) -> None:
    stream.step("look", len, "abc")  # type: ignore[unused-coroutine]


async def fail(request: ServiceRequest, stream: AgentStream) -> None:
    stream.fail("no_luck", "It failed.")  # type: ignore[unused-coroutine]


async def progress(request: ServiceRequest, stream: AgentStream) -> None:
    stream.progress("search", 50)  # type: ignore[unused-coroutine]


async def yields(request: ServiceRequest, stream: AgentStream) -> AsyncIterator[str]:
    yield "a"
    stream.thought("lost")  # type: ignore[unused-coroutine]


async def helper(stream: AgentStream) -> None:
    stream.cite("https://example.org")  # type: ignore[unused-coroutine]


async def nested(request: ServiceRequest, stream: AgentStream) -> None:
    await helper(stream)


@pytest.mark.parametrize(
    ("agent", "method", "function", "line"),
    [
        (write, "write", write, 1),
        (write_between, "write", write_between, 2),
        (step, "step", step, 1),
        (fail, "fail", fail, 1),
        (progress, "progress", progress, 1),
        (yields, "thought", yields, 2),
        (nested, "cite", helper, 1),
    ],
)
def test_a_forgotten_await_is_an_error_of_the_agent(
    serve: Serve,
    caplog: pytest.LogCaptureFixture,
    agent: Any,
    method: str,
    function: Any,
    line: int,
) -> None:
    caplog.set_level(logging.ERROR)
    assert serve(agent).ask().last.p.code == "agent_error"
    where = inspect.getsourcelines(function)[1] + line
    expected = f"`await` is missing before stream.{method}() in {Path(__file__)}, line {where}"
    assert expected in caplog.text


def test_a_call_that_is_kept_and_never_awaited_is_noticed_too(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        kept = stream.write("lost")  # noqa: F841

    assert serve(agent).ask().last.p.code == "agent_error"
    assert "`await` is missing before stream.write()" in caplog.text


def test_other_coroutines_are_none_of_our_business(serve: Serve) -> None:
    async def other() -> None: ...

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        other()  # type: ignore[unused-coroutine]
        await stream.write("a")

    assert [packet.op for packet in serve(agent).ask().packets] == ["DELTA", "CLOSE"]


def test_the_hook_is_installed_once_and_not_without_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch_forgotten()
    installed = getattr(warnings, _forgotten._HOOK)
    watch_forgotten()
    assert getattr(warnings, _forgotten._HOOK) is installed
    monkeypatch.delattr(warnings, _forgotten._HOOK)
    watch_forgotten()
    assert not hasattr(warnings, _forgotten._HOOK)
