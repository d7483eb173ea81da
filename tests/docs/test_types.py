"""The Python examples of the documents type-check as printed, in one run of mypy."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from .blocks import Block, parse

ROOT = Path(__file__).parents[2]
# They show how other libraries are used, with whatever types those have.
OTHERS = ("a2a", "django", "instructor", "litellm", "openai", "pydantic_ai")
WRONG = "from coreason_client.server import AgentStream\n\nstream: AgentStream = 7\n"


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def is_checked(block: Block) -> bool:
    if block.language != "python" or block.not_run is not None or block.is_notebook:
        return False
    return not re.search(rf"^(from|import) ({'|'.join(OTHERS)})\b", block.code, re.MULTILINE)


def write_blocks(folder: Path, package: str, blocks: list[Block]) -> list[Path]:
    """Write the blocks of a page into a package; they import each other from it."""
    place = folder / package
    place.mkdir()
    (place / "__init__.py").touch()
    modules = {block.title.removesuffix(".py") for block in blocks if block.title is not None}
    found: dict[Path, None] = {}
    for block in blocks:
        code = block.code
        for name in modules:
            code = re.sub(
                rf"(?m)^(\s*)from {name} import", rf"\1from {package}.{name} import", code
            )
            code = re.sub(rf"(?m)^(\s*)import {name}$", rf"\1from {package} import {name}", code)
        # A file that a page changes is checked in each of its versions.
        file = place / (block.title or "")
        if block.title is None or file in found:
            file = place / f"line_{block.line}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code)
        found[file] = None
    return [*found]


@pytest.mark.timeout(300)  # without a cache mypy reads all dependencies
def test_the_examples_of_the_documents_type_check(tmp_path: Path) -> None:
    files: list[Path] = []
    for page in pages():
        name = re.sub(r"\W", "_", page.relative_to(ROOT).with_suffix("").as_posix())
        relative = page.relative_to(ROOT).as_posix()
        text = page.read_text(encoding="utf-8")
        # The README has its own tests, and no words for these.
        blocks = parse(text, relative) if page.parent != ROOT else readme_blocks(text)
        files += write_blocks(tmp_path, name, [block for block in blocks if is_checked(block)])
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    checked = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")),
            *("--strict", *map(str, files), str(wrong)),
        ],
        cwd=ROOT,
        env={"MYPYPATH": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert len(files) > 40
    assert "Found 1 error in 1 file" in checked.stdout, checked.stdout + checked.stderr
    assert "wrong.py:3: error: Incompatible types" in checked.stdout


def readme_blocks(text: str) -> list[Block]:
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(text.count("\n", 0, one.start()) + 2, "python", one[1]) for one in found]
