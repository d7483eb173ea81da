"""The agents of docs/server.md answer as the page says."""

import re
from pathlib import Path
from typing import Any

import pytest

from coreason_client.server import AgentApp

from .conftest import Serve
from .peer import envelope

ROOT = Path(__file__).parents[2]
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_of(page: str) -> list[str]:
    return PYTHON.findall((ROOT / page).read_text())


BLOCKS = blocks_of("docs/server.md")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "You said: hi"),
        (1, "HI"),
        (2, "h i "),
        (3, "You said: hi"),
        (4, "0 turns, 0 of them without a complete answer"),
    ],
)
def test_an_example_answers_as_the_page_says(serve: Serve, number: int, text: str) -> None:
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(BLOCKS[number], f"docs/server.md, example {number + 1}", "exec"), names)
    app = names["app"] if "app" in names else AgentApp(names["assist"])
    assert serve(app).ask(envelope("hi")).text == text
