"""The pages that use several terminals work as printed; only ports and pauses differ."""

from pathlib import Path

import pytest

from tests.ports import free_port

from .terminals import Player

DOCS = Path(__file__).parents[2] / "docs"


def play(page: str, folder: Path, **replaced: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    with Player(folder, {"--store": "--log", **replaced}) as player:
        player.play(text)


@pytest.mark.timeout(240)
def test_the_quickstart(tmp_path: Path) -> None:
    play("quickstart.md", tmp_path, **{"8000": str(free_port()), "PAUSE = 0.5": "PAUSE = 0.1"})


@pytest.mark.timeout(240)
def test_the_fastapi_tutorial(tmp_path: Path) -> None:
    play("tutorials/fastapi.md", tmp_path, **{"8000": str(free_port())})
