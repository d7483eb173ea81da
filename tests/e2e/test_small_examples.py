"""The small programs under `examples/` do what their docstrings say, in this process."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import ModuleType

import httpx2
import pytest

from coreason_client import CAPClient, CAPRuntimeError
from coreason_client.server import AgentApp, AgentStream, ServiceRequest, running
from examples import (
    a2a_agent,
    a2a_client,
    ask_agent,
    bookmark,
    browser_tickets,
    fastapi_mount,
    model_relay,
    stream_model,
    structured_output,
    testing_kit,
)
from scripts import examples_page
from tests.llm.server import Provider, Replied, ServerInThread
from tests.llm.tools.answers import said, streamed_text

EXAMPLES = Path(__file__).parents[2] / "examples"
Run = Callable[..., str]
Model = Callable[..., AbstractContextManager[Provider]]


async def count(request: ServiceRequest, stream: AgentStream) -> None:
    """Counts, and says how many turns there were before."""
    history = await stream.history()
    await stream.progress("counting", 50)
    for number in range(1, 6):
        await stream.write(f"{len(history.turns)}.{number} ")


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with running(AgentApp(count)) as server:
        yield server.url


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a program with these arguments, and returns what it prints."""

    def start(program: ModuleType, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [program.__name__, *map(str, arguments)])
        program.main()
        return capsys.readouterr().out

    return start


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    """Return a function that serves a model; programs find it by the environment."""

    @contextmanager
    def serve(*replies: Replied) -> Iterator[Provider]:
        with ServerInThread(*replies) as provider, monkeypatch.context() as environment:
            environment.setenv("LLM_API_KEY", "sk-of-a-test")
            environment.setenv("LLM_API_BASE_URL", provider.url)
            yield provider

    return serve


def test_ask_agent(agent: str, run: Run) -> None:
    shown = run(ask_agent, agent, "Count.", "Again.")
    assert shown == "".join(
        f"{turn}.1 {turn}.2 {turn}.3 {turn}.4 {turn}.5 \n(events: 1, reconnections: 0)\n"
        for turn in (0, 1)
    )


def test_ask_agent_ends_with_the_error(run: Run) -> None:
    with (
        running(AgentApp(count, api_keys=["another-key"])) as server,
        pytest.raises(SystemExit, match="CAPRuntimeError: "),
    ):
        run(ask_agent, server.url, "Count.")


def test_bookmark(agent: str, run: Run, tmp_path: Path) -> None:
    file = ("--file", tmp_path / "bookmark.json")
    assert run(bookmark, agent, "Count.", "--pieces", 3, *file) == "0.1 0.2 0.3 "
    assert run(bookmark, agent, *file) == "0.4 0.5 "
    assert run(bookmark, agent, *file) == ""


def test_fastapi_mount() -> None:
    with running(fastapi_mount.app) as server:
        with CAPClient(f"{server.url}/agent", "any-key") as client:
            assert client.ask("Hello.") == "You said: Hello."
        assert httpx2.get(f"{server.url}/answers").json() == {"count": 1}


def test_stream_model(model: Model, run: Run) -> None:
    refused = Replied(404, body=b'{"error": {"message": "no such model"}}')
    with model(refused, streamed_text("It ", "scatters.")) as provider:
        shown = run(stream_model, "Why?", "no-such-model", "gpt-4o")
    assert re.fullmatch(
        r"It scatters\.\n\(gpt-4o, \d+ tokens, cost (\$0\.\d{6}|unknown)\)\n", shown
    )
    assert [one.json["model"] for one in provider.received] == ["no-such-model", "gpt-4o"]


def test_stream_model_ends_with_the_error(model: Model, run: Run) -> None:
    with model(Replied(401)), pytest.raises(SystemExit, match="LLMAuthenticationError: "):
        run(stream_model, "Why?", "gpt-4o")


def test_structured_output(model: Model, run: Run) -> None:
    wanted = {"city": "Riga", "arrival": "2027-05-03", "nights": 2, "guests": 3}
    with model(said(json.dumps(wanted | {"nights": 0})), said(json.dumps(wanted))) as provider:
        shown = run(structured_output, "Two nights in Riga for three, from 3 May 2027")
    assert shown == "Riga, 03.05.2027: 2 nights, 3 guests\n"
    assert len(provider.received) == 2


def test_a2a_client(run: Run) -> None:
    with running(AgentApp(a2a_agent.plan_trip, a2a=a2a_agent.CARD)) as server:
        shown = run(a2a_client, server.url, "Plan a trip to Kyoto.", "2")
    asked, _, planned = shown.partition("> 2\n")
    assert asked.startswith("> Plan a trip to Kyoto.\n")
    assert "How many days?" in asked
    assert planned.count("walk and look at everything.") == 2
    assert "[calendar]" in planned


def test_browser_tickets() -> None:
    with running(browser_tickets.app) as server, httpx2.Client(base_url=server.url) as visitor:
        assert visitor.post("/ticket").status_code == 401
        page = visitor.get("/")
        assert 'import { CAPClient } from "/agent/page/coreason.js"' in page.text
        script = visitor.get("/agent/page/coreason.js")
        assert "export class CAPClient" in script.text
        ticket = visitor.post("/ticket").json()["ticket"]
        with CAPClient(f"{server.url}/agent", ticket) as client:
            assert client.ask("Hello.") == "You said: Hello."
        with CAPClient(f"{server.url}/agent", "no-ticket") as client:
            with pytest.raises(CAPRuntimeError) as refused:
                client.ask("Hello.")
            assert refused.value.status_code == 401


def test_model_relay(model: Model) -> None:
    answers = (streamed_text("A ", "book."), streamed_text("Another."), Replied(400))
    with (
        model(*answers) as provider,
        running(AgentApp(model_relay.agent)) as server,
        CAPClient(server.url, "any-key") as client,
    ):
        first = client.ask("What do you have?")
        assert first == "A book."
        assert client.ask("What else?", first.conversation_id) == "Another."
        with pytest.raises(CAPRuntimeError, match="model_failed"):
            client.ask("And?")
    sent = [message["content"] for message in provider.received[1].json["messages"]]
    assert sent[1:] == ["What do you have?", "A book.", "What else?"]


def test_testing_kit() -> None:
    testing_kit.test_a_lost_connection_loses_no_word()
    testing_kit.test_an_agent_that_fails_is_an_error()


def test_the_pages_of_the_examples_are_up_to_date() -> None:
    assert examples_page.main(["--check"]) == 0, "run scripts/examples_page.py"


def test_the_table_has_every_program() -> None:
    table = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\[`(\w+\.py)`\]\(\1\)", table))
    assert named == {file.name for file in EXAMPLES.glob("*.py")} - {"__init__.py"}
