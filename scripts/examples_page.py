"""Writes the pages of the documentation that show the programs of `examples/`.

    python scripts/examples_page.py           write docs/tutorials/examples*.md
    python scripts/examples_page.py --check   fail if a page is out of date

The order and the descriptions are those of the table in `examples/README.md`.
"""

import argparse
import re
import sys
from pathlib import Path

__all__ = ["examples_pages", "main"]

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "tutorials"
ROW = re.compile(r"^\| \[`(\w+\.py)`\]\(\1\) \| (.*) \|$", re.MULTILINE)
# Too long for a page, and of use only beside the conformance kit.
NOT_SHOWN = {"a2a_conformance.py"}
MODELS = {"model_relay.py", "stream_model.py", "structured_output.py", "tools.py"}
FIRST = "examples.md"
HEADS = {
    FIRST: """# Examples

Small complete programs, one idea each. They are in the directory `examples` of the project; to run
a copy, leave `examples/` out of the command in its first lines. The tests run all of them, and they
type-check with `mypy --strict`.

| program | shows |
|---|---|
""",
    "examples-models.md": """# Examples: models

Small complete programs that use a model. [Examples](examples.md) says how to run them, and lists
the others.
""",
    "examples-a2a.md": """# Examples: A2A

Small complete programs for A2A. [Examples](examples.md) says how to run them, and lists the others.
""",
}


def examples_pages() -> dict[str, str]:
    """Return the text of each page, by its name."""
    table = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    rows = [(name, shows) for name, shows in ROW.findall(table) if name not in NOT_SHOWN]
    pages = dict(HEADS)
    for name, shows in rows:
        page = "" if _page_of(name) == FIRST else _page_of(name)
        pages[FIRST] += f"| [`{name}`]({page}#{name.replace('.', '')}) | {shows} |\n"
    for name, _ in rows:
        pages[_page_of(name)] += (
            f"\n## {name}\n\n<!-- not run: it has its own tests -->\n"
            f'```python title="{name}"\n'
            f"{(ROOT / 'examples' / name).read_text(encoding='utf-8')}```\n"
        )
    return pages


def _page_of(program: str) -> str:
    if program.startswith("a2a_"):
        return "examples-a2a.md"
    return "examples-models.md" if program in MODELS else FIRST


def main(arguments: list[str] | None = None) -> int:
    """Write the pages, or check them; return the exit code."""
    parser = argparse.ArgumentParser(description="Write the pages of the examples.")
    parser.add_argument("--check", action="store_true", help="fail if a page is out of date")
    check = parser.parse_args(arguments).check
    for name, text in examples_pages().items():
        page = FOLDER / name
        if not check:
            page.write_text(text, encoding="utf-8")
        elif not page.is_file() or page.read_text(encoding="utf-8") != text:
            print(f"{page} is out of date: run scripts/examples_page.py", file=sys.stderr)  # noqa: T201
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
