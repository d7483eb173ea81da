"""The examples of docs/tools.md that need more than tests/docs has, and what the first sends."""

from typing import Any

import pytest

from coreason_client import CAPClient
from coreason_client.llm import _from_env
from coreason_client.server import running
from tests.llm.server import Replied, ServerInThread
from tests.server.test_docs import blocks_of

from .answers import KEY, calls, said, streamed_calls, streamed_text, sync_client
from .test_mcp import small

FIRST, _, SERVERS, AGENT, _ = blocks_of("docs/tools.md")
ROME = ("weather", {"city": "Rome"})


def names_of(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(code, "docs/tools.md", "exec"), names)
    return names


def environment(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setattr(_from_env, "_shared", _from_env.SharedClients())
    monkeypatch.setenv("LLM_API_KEY", KEY)
    monkeypatch.setenv("LLM_API_BASE_URL", url)


def test_the_first_example(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ServerInThread(calls(ROME), said("Blue.")) as server:
        environment(monkeypatch, server.url)
        names_of(FIRST)
    assert capsys.readouterr().out == "Blue.\n"
    [tool] = server.received[0].json["tools"]
    properties = tool["function"]["parameters"]["properties"]
    assert properties["days"]["description"] == "how many days from now."


def test_the_servers(capsys: pytest.CaptureFixture[str]) -> None:
    opened: list[Any] = []

    def server_of(*arguments: Any, **options: Any) -> Any:
        opened.append((arguments, options))
        return small("plain", name="files" if arguments else "search")

    names = names_of(SERVERS)
    names["MCPServer"] = server_of
    replies: list[Replied] = [calls(("files_fine", {})), said("A."), said("B.")]
    with ServerInThread(*replies) as model, sync_client(model) as client:
        names["main"](client)
    assert capsys.readouterr().out == "A.\nB.\n"
    assert opened[1][1].keys() == {"url", "headers"}
    assert model.received[1].json["messages"][-1]["content"] == "fine"


def test_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    with ServerInThread(streamed_calls(ROME), streamed_text("Blue.")) as model:
        environment(monkeypatch, model.url)
        with running(names_of(AGENT)["app"]) as server, CAPClient(server.url, "key") as client:
            assert client.ask("What is the weather?") == "Blue."
