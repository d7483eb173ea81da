"""The Python examples of docs/talking.md run as printed."""

import builtins
from typing import Any

import pytest

from coreason_client.llm import Tool
from tests.agents.test_approvals import called
from tests.cli.models import KEY, MODEL, model, spoken, streamed
from tests.llm.server import ServerInThread
from tests.llm.tools.answers import calls, said, sync_client

from .conftest import Serve
from .peer import envelope
from .test_docs import blocks_of

BLOCKS = blocks_of("docs/talking.md")


@pytest.fixture
def names() -> dict[str, Any]:
    """The names of all examples, which build on each other."""
    names: dict[str, Any] = {"__name__": "example"}
    for number, code in enumerate(BLOCKS):
        exec(compile(code, f"docs/talking.md, block {number}", "exec"), names)
    return names


def test_the_agent_of_the_page_asks_and_goes_on(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    with model(called("x"), streamed(spoken("Done."))) as served:
        for name, value in {**served.env, "LLM_MODEL": MODEL}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        code = BLOCKS[0].replace("openai/gpt-5", MODEL)
        first: dict[str, Any] = {"__name__": "example"}
        exec(compile(code, "docs/talking.md", "exec"), first)
        peer = serve(first["app"])
        texts = [peer.ask(envelope(word)).text for word in ("go", "yes")]
    assert texts == ['May I call delete with {"path":"x"}?', "Done."]


def test_a_run_without_a_server_asks_too(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtins, "input", lambda _: "yes")
    replies = calls(("delete", {"path": "x"})), said("Done.")
    with ServerInThread(*replies) as server, sync_client(server) as client:
        tool = Tool(names["delete"], requires_approval=True)
        assert names["careful"](client, "Delete x", tool) == "Done."


@pytest.mark.parametrize(
    ("answer", "text"), [("yes", "Ordered: A chair."), ("No, too much", "Not ordered. too much")]
)
def test_an_agent_asks_on_its_own(
    names: dict[str, Any], serve: Serve, answer: str, text: str
) -> None:
    peer = serve(names["order"])
    assert peer.ask(envelope("A chair")).text == "For 40 euros?"
    assert peer.ask(envelope(answer)).text == text


def test_an_agent_listens(names: dict[str, Any], serve: Serve) -> None:
    assert serve(names["listening"]).ask().text.endswith("Looking at news. ")
