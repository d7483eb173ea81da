"""The programs of the pages on other frameworks, with the frameworks and a fake model."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import parse
from tests.installed import python_environment, run

from .framework_judge import ANSWERS

DOCS = Path(__file__).parents[2] / "docs"
JUDGE = Path(__file__).with_name("framework_judge.py")
# By the name of the page: the name of the program, and what is installed for it.
PROGRAMS = {
    "google-adk": ("google_adk_agent", ["google-adk==2.13.0"]),
    "strands": ("strands_agent", ["strands-agents[openai]==1.62.0"]),
    "agno": ("agno_agent", ["agno==3.1.10", "openai==3.51.0"]),
    "crewai": ("crewai_agent", ["crewai==1.15.30"]),
    "smolagents": ("smolagents_agent", ["smolagents[openai]==1.26.0"]),
    "ag2": ("ag2_agent", ["ag2[openai]==1.2.1"]),
}


def page_of(name: str) -> str:
    return (DOCS / "howto" / f"{name}.md").read_text(encoding="utf-8")


def code_in(page: str, title: str) -> str:
    [code] = [block.code for block in parse(page, title) if block.title == title]
    return code


# The first run in an environment installs the framework; a busy machine imports it for long.
@pytest.mark.skipif("FRAMEWORKS" not in os.environ, reason="`make frameworks` installs them")
@pytest.mark.timeout(420)
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_an_agent_of_a_framework_is_served(name: str, tmp_path: Path) -> None:
    program, packages = PROGRAMS[name]
    folder = python_environment(*packages)
    code = code_in(page_of(name), f"{program}.py")
    (tmp_path / f"{program}.py").write_text(code, encoding="utf-8")
    in_pieces = name != "smolagents"
    command = [sys.executable, str(JUDGE), program, *([] if in_pieces else ["final_answer"])]
    # What CrewAI stores is in a folder of the user, and it reports to its makers.
    env = {"HOME": str(tmp_path), "CREWAI_DISABLE_TELEMETRY": "true"}
    env["PYTHONPATH"] = os.pathsep.join([str(folder), str(tmp_path)])
    printed = run(command, env, tmp_path, timeout=100)
    first, second = printed["answers"]
    assert [text_of(first), text_of(second)] == list(ANSWERS)
    pieces = [op for op, _ in first].count("DELTA")
    assert pieces > 1 if in_pieces else pieces == 1
    assert [op for op, _ in first][-1] == [op for op, _ in second][-1] == "CLOSE"
    history = str(printed["asked"][-1])
    assert history.index("How many?") < history.index(ANSWERS[0]) < history.index("Again?")
    assert "2100000" in str(printed["asked"][1])  # the tool was called
    events = [payload for op, payload in first if op == "EVENT"]
    if name == "crewai":
        assert events == []  # as its page says
        return
    called, result = events
    assert (called["type"], called["data"]["name"]) == ("TOOL_CALL", "population")
    assert called["data"]["arguments"] == {"city": "Paris"}
    assert (result["type"], result["data"]["is_error"]) == ("TOOL_RESULT", False)
    assert result["data"]["call_id"] == called["data"]["call_id"]
    assert "2100000" in str(result["data"]["result"])


def text_of(packets: list[Any]) -> str:
    return "".join(payload for op, payload in packets if op == "DELTA")


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_the_pages_name_the_versions_that_were_tested(name: str) -> None:
    overview = (DOCS / "other-frameworks.md").read_text(encoding="utf-8")
    assert f"(howto/{name}.md)" in overview
    for package in PROGRAMS[name][1]:
        title, _, version = package.partition("==")
        tested = f"{title.partition('[')[0]} {version}"
        assert tested in page_of(name)
        assert tested in overview
