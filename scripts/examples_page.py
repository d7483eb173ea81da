"""Writes the page of the documentation that shows the programs of `examples/`.

    python scripts/examples_page.py           write docs/tutorials/examples.md
    python scripts/examples_page.py --check   fail if the page is out of date

The order and the descriptions are those of the table in `examples/README.md`.
"""

import argparse
import re
import sys
from pathlib import Path

__all__ = ["PAGE", "examples_page", "main"]

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "tutorials" / "examples.md"
ROW = re.compile(r"^\| \[`(\w+\.py)`\]\(\1\) \| (.*) \|$", re.MULTILINE)
# Too long for a page, and of use only beside the conformance kit.
NOT_SHOWN = {"a2a_conformance.py"}
HEAD = """# Examples

Small complete programs, one idea each. They are in the directory `examples` of the project; to run
a copy, leave `examples/` out of the command in its first lines. The tests run all of them, and they
type-check with `mypy --strict`.

| program | shows |
|---|---|
"""


def examples_page() -> str:
    """Return the text of the page."""
    table = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    rows = [(name, shows) for name, shows in ROW.findall(table) if name not in NOT_SHOWN]
    lines = [f"| [`{name}`](#{name.replace('.', '')}) | {shows} |\n" for name, shows in rows]
    programs = [
        f"\n## {name}\n\n<!-- not run: tests of its own run it -->\n"
        f'```python title="{name}"\n{(ROOT / "examples" / name).read_text(encoding="utf-8")}```\n'
        for name, _ in rows
    ]
    return HEAD + "".join([*lines, *programs])


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or check it; return the exit code."""
    parser = argparse.ArgumentParser(description="Write the page of the examples.")
    parser.add_argument("--check", action="store_true", help="fail if the page is out of date")
    text = examples_page()
    if not parser.parse_args(arguments).check:
        PAGE.write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        print(f"{PAGE} is out of date: run scripts/examples_page.py", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
