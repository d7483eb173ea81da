"""The pages that use several terminals work as printed; only ports and pauses differ."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from coreason_client.testing import ModelToolCall, ModelTurn, fake_model
from tests.ports import free_port

from .terminals import Player, uses_terminals

DOCS = Path(__file__).parents[2] / "docs"
PLAYED = {
    "quickstart.md",
    "tutorials/fastapi.md",
    "tutorials/frontend.md",  # by tests/browser/test_frontend_tutorial.py
    "tutorials/react.md",  # by tests/browser/test_react_chat.py
    "tutorials/replicas.md",
    "tutorials/tools-agent.md",
}
QUICK = {"PAUSE = 0.5": "PAUSE = 0.1"}


@contextmanager
def played(
    page: str,
    folder: Path,
    *ports: int,
    replaced: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[Player]:
    """Play a page; its servers run until the block ends."""
    text = (DOCS / page).read_text(encoding="utf-8")
    here = {str(port): str(free_port()) for port in ports}
    with Player(folder, here | dict(replaced or {}), env) as player:
        player.play(text, page)
        yield player


def test_every_page_with_terminals_is_played() -> None:
    found = {path for path in DOCS.rglob("*.md") if uses_terminals(path.read_text("utf-8"))}
    assert {path.relative_to(DOCS).as_posix() for path in found} == PLAYED


@pytest.mark.timeout(240)
def test_the_quickstart(tmp_path: Path) -> None:
    numbers = "".join(f"{number} " for number in range(1, 31))
    with played("quickstart.md", tmp_path, 8000, replaced=QUICK) as player:
        assert player.output("terminal 2") == (
            f"You asked: Can you count now?\n{numbers}\nThat is all.\n"
        )


@pytest.mark.timeout(240)
def test_the_fastapi_tutorial(tmp_path: Path) -> None:
    with played("tutorials/fastapi.md", tmp_path, 8000):
        pass


@pytest.mark.timeout(240)
def test_the_tutorial_of_replicas(tmp_path: Path) -> None:
    squares = "".join(f"{number**2} " for number in range(1, 41))
    ports = (8000, 8001, 8002, 8003, 6379)
    with played("tutorials/replicas.md", tmp_path, *ports, replaced=QUICK) as player:
        assert player.output("terminal 3") == f"Once more.\n{squares}\ncomplete\n"


@pytest.mark.timeout(240)
def test_the_tutorial_of_tools(tmp_path: Path) -> None:
    look_up = ModelTurn(tool_calls=[ModelToolCall("find_order", {"number": 8})])
    with fake_model([look_up, "Your kettle is on its way."], require_all=True) as model:
        with played("tutorials/tools-agent.md", tmp_path, 8000, env=model.environment()):
            pass
        assert model.requests[-1].messages[-1]["role"] == "tool"
