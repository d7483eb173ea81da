"""The Python examples of the documents type-check as printed; those of docs/server.md run."""

import re
import subprocess
import sys
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


def check(folder: Path, blocks: list[str]) -> subprocess.CompletedProcess[str]:
    """Run `mypy --strict` on the blocks, with the cache and the plugin of the project."""
    files = [folder / f"example_{number}.py" for number, _ in enumerate(blocks, 1)]
    for file, block in zip(files, blocks, strict=True):
        file.write_text(block)
    options = ["--config-file", str(ROOT / "pyproject.toml"), "--strict"]
    return subprocess.run(
        [sys.executable, "-m", "mypy", *options, *map(str, files)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(300)  # without a cache mypy reads all dependencies
def test_the_examples_of_the_documents_type_check(tmp_path: Path) -> None:
    names = (
        *("README.md", "docs/cap.md", "docs/server.md", "docs/a2a-server.md", "docs/durable.md"),
        "docs/tools.md",
    )
    pages = [blocks_of(page) for page in names]
    assert all(pages)
    blocks = [block for page in pages for block in page]
    wrong = "from coreason_client.server import AgentStream\n\nstream: AgentStream = 7\n"
    checked = check(tmp_path, [*blocks, wrong])
    assert "Found 1 error in 1 file" in checked.stdout, checked.stdout + checked.stderr
    assert f"example_{len(blocks) + 1}.py:3: error: Incompatible types" in checked.stdout


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
