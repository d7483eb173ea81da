"""The programs of `docs/other-frameworks.md`, with the frameworks themselves and a fake model."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import parse
from tests.installed import python_environment, run

from .framework_judge import ANSWERS

PAGE = Path(__file__).parents[2] / "docs" / "other-frameworks.md"
JUDGE = Path(__file__).with_name("framework_judge.py")
# CrewAI is not here: its installation takes minutes, and 914 MB.
PROGRAMS = {
    "google_adk_agent": ["google-adk==2.13.0"],
    "strands_agent": ["strands-agents[openai]==1.62.0"],
    "agno_agent": ["agno==3.1.10", "openai==3.51.0"],
    "smolagents_agent": ["smolagents[openai]==1.26.0"],
    "ag2_agent": ["ag2[openai]==1.2.1"],
}


def program(name: str) -> str:
    blocks = parse(PAGE.read_text(encoding="utf-8"), PAGE.name)
    [code] = [block.code for block in blocks if block.title == f"{name}.py"]
    return code


# The first run in an environment installs the framework; a busy machine imports it for long.
@pytest.mark.skipif("FRAMEWORKS" not in os.environ, reason="`make frameworks` installs them")
@pytest.mark.timeout(420)
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_an_agent_of_a_framework_is_served(name: str, tmp_path: Path) -> None:
    folder = python_environment(*PROGRAMS[name])
    (tmp_path / f"{name}.py").write_text(program(name), encoding="utf-8")
    in_pieces = name != "smolagents_agent"
    command = [sys.executable, str(JUDGE), name, *([] if in_pieces else ["final_answer"])]
    path = os.pathsep.join([str(folder), str(tmp_path)])
    printed = run(command, {"PYTHONPATH": path}, tmp_path, timeout=100)
    first, second = printed["answers"]
    assert [text_of(first), text_of(second)] == list(ANSWERS)
    pieces = [op for op, _ in first].count("DELTA")
    assert pieces > 1 if in_pieces else pieces == 1
    called, result = [payload for op, payload in first if op == "EVENT"]
    assert (called["type"], called["data"]["name"]) == ("TOOL_CALL", "population")
    assert called["data"]["arguments"] == {"city": "Paris"}
    assert (result["type"], result["data"]["is_error"]) == ("TOOL_RESULT", False)
    assert result["data"]["call_id"] == called["data"]["call_id"]
    assert "2100000" in str(result["data"]["result"])
    assert [op for op, _ in first][-1] == [op for op, _ in second][-1] == "CLOSE"
    history = str(printed["asked"][-1])
    assert history.index("How many?") < history.index(ANSWERS[0]) < history.index("Again?")


def text_of(packets: list[Any]) -> str:
    return "".join(payload for op, payload in packets if op == "DELTA")


def test_the_page_names_the_versions_that_were_tested() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for packages in PROGRAMS.values():
        for package in packages:
            name, _, version = package.partition("==")
            assert f"{name.partition('[')[0]} {version}" in page
