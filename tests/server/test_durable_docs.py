"""The Python examples of docs/durable.md run as printed."""

from pathlib import Path
from typing import Any

import pytest

from coreason_client.server import AgentApp, AgentStream, ServiceRequest, running

from .conftest import Serve
from .peer import envelope
from .test_docs import blocks_of

*AGENTS, READER = blocks_of("docs/durable.md")


def run_block(code: str, name: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(code, f"docs/durable.md, {name}", "exec"), names)
    return names


ANSWERS = {
    "I found": ("hi", "I found a page about hi. "),
    "def pay": ("hi", "receipt for 2"),
    "step_key()": ("hi", "1 payment"),
    "asyncio.gather": ("ab cd", "First AB. AB CD AB CD AB"),
    "checkpoint=number": ("a\nb", "A\nB\n"),
    "StepFailed": ("hi", "The model cannot be reached (ConnectionError)."),
}


def test_every_example_is_known() -> None:
    assert len(AGENTS) == len(ANSWERS)


@pytest.mark.parametrize("line", ANSWERS)
def test_an_agent_answers_as_the_page_says(
    line: str, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [code] = [block for block in AGENTS if line in block]
    monkeypatch.chdir(tmp_path)  # it has the file of the log
    question, text = ANSWERS[line]
    answer = serve(run_block(code, line)["app"]).ask(envelope(question))
    assert answer.text == text
    assert answer.last.op == "CLOSE"


def test_the_reader_shows_only_the_valid_text() -> None:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("Once ")
        await stream.write("apon a tame.")
        data = {"to_seq": 1, "step": "model", "attempt": 2}
        await stream.write_packet("EVENT", {"type": "REWIND", "data": data})
        await stream.write("upon a time.")

    with running(AgentApp(agent)) as server:
        names = run_block(READER.replace("https://agent.example", server.url), "the reader")
    assert names["shown"] == "Once upon a time."
