"""Objects of frameworks are recognised by the names of their classes; no framework is imported."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from coreason_client.adapters import adapted, recognised
from coreason_client.cli.exits import ExitCode, Failure
from coreason_client.cli.serve._application import ServeConfig
from coreason_client.cli.serve._options import ServeOptions
from coreason_client.server import AgentApp, AgentGroup, AgentStream, SQLiteStreamLog, running

from ..server.peer import Peer, envelope


def new(module: str, kind: str, /, **attributes: Any) -> Any:
    """Return an instance of a user's subclass of a class of this name and module."""
    base = type(kind, (), {"__module__": module})
    return type("Own", (base,), {"__module__": "my_module", **attributes})()


def pydantic_agent(**attributes: Any) -> Any:
    return new("pydantic_ai.agent.abstract", "AbstractAgent", **attributes)


def as_agent(obj: Any) -> Callable[..., Any]:
    async def agent(request: Any, stream: AgentStream) -> None:
        """Answer."""
        await stream.step("think", len, "abc")
        await stream.write(f"{obj.name} at {stream.question}, durable={stream.durable}")

    return agent


@pytest.fixture(autouse=True)
def adapters(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pydantic_ai", "langgraph", "openai_agents"):
        module: Any = ModuleType(name)
        module.as_agent = as_agent
        monkeypatch.setitem(sys.modules, f"coreason_client.adapters.{name}", module)


@pytest.fixture
def sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("agents")
    module.Runner = object
    monkeypatch.setitem(sys.modules, "agents", module)


@pytest.mark.usefixtures("sdk")
@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        ("pydantic_ai.agent.abstract", "AbstractAgent", "an agent of pydantic-ai"),
        ("langgraph.pregel.main", "Pregel", "a graph of LangGraph"),
        ("agents.agent", "Agent", "an agent of the OpenAI Agents SDK"),
    ],
)
def test_an_object_is_recognised_by_its_base_class(module: str, name: str, words: str) -> None:
    found = recognised(new(module, name))
    assert found is not None
    assert found.words == words


@pytest.mark.parametrize(
    "other",
    [
        new("my.pydantic_ai", "AbstractAgent"),
        new("pydantic_ai_extra", "AbstractAgent"),
        new("pydantic_ai.models", "Model"),
        new("agents.agent", "Agent"),  # a package of the user's own with that name
        type(pydantic_agent()),
        len,
        None,
    ],
)
def test_other_objects_are_not(other: object) -> None:
    assert recognised(other) is None
    assert adapted(other) is other


def test_a_graph_must_be_compiled() -> None:
    with pytest.raises(TypeError, match=r"compile the StateGraph: pass graph\.compile\(\)"):
        AgentApp(new("langgraph.graph.state", "StateGraph"))


@pytest.mark.parametrize("durable", [False, True])
def test_an_application_takes_such_an_object(tmp_path: Path, durable: bool) -> None:
    obj = pydantic_agent(name="helper", description="It helps.")
    app = AgentApp(obj, log=SQLiteStreamLog(tmp_path / "log"), durable=durable, a2a=True)
    assert app.agent_id == "helper"
    with running(app) as server:
        peer = Peer(server.url)
        assert peer.ask(envelope("noon")).text == f"helper at noon, durable={durable}"
        card = peer.http.get("/.well-known/agent-card.json").json()
        peer.close()
    assert (card["name"], card["description"]) == ("helper", "It helps.")


def test_an_object_without_a_name_has_that_of_its_class() -> None:
    assert AgentApp(pydantic_agent(name=None)).agent_id == "my_module.Own"


def test_one_object_in_two_applications_is_one_agent(caplog: pytest.LogCaptureFixture) -> None:
    obj = pydantic_agent(name="helper")
    log = AgentApp(obj).log
    with caplog.at_level(logging.WARNING):
        first, second = AgentApp(obj, log=log), AgentApp(obj, log=log)
    assert first.agent_id == second.agent_id
    assert not caplog.records


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    made: Any = ModuleType("my_agents")
    made.one, made.two = pydantic_agent(name="same"), pydantic_agent(name="same")
    made.graph = new("langgraph.graph.state", "StateGraph")
    monkeypatch.setitem(sys.modules, "my_agents", made)
    return made


@pytest.mark.usefixtures("module")
def test_the_command_says_what_it_recognised(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    store = f"sqlite:{tmp_path / 'streams.db'}"
    options = ServeOptions(agents=["my_agents:one", "my_agents:two"], durable=True, store=store)
    with caplog.at_level(logging.INFO, "coreason_client.server"):
        app = ServeConfig(options).app()
    assert isinstance(app, AgentGroup)
    assert list(app.agents) == ["my_agents.one", "my_agents.two"]
    assert caplog.messages[:2] == [
        "my_agents:one is an agent of pydantic-ai",
        "my_agents:two is an agent of pydantic-ai",
    ]


@pytest.mark.usefixtures("module")
def test_the_command_gives_the_advice_too() -> None:
    with pytest.raises(Failure, match="compile the StateGraph") as caught:
        ServeConfig(ServeOptions(agents=["my_agents:graph"])).app()
    assert caught.value.code is ExitCode.USAGE
