"""The figures of docs/benchmarks.md are those that the benchmarks have written."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (?!compared|---).+\|$", re.MULTILINE)


def test_every_row_is_in_the_tables_of_the_benchmarks() -> None:
    measured = set(ROW.findall((ROOT / "bench" / "README.md").read_text()))
    shown = ROW.findall((ROOT / "docs" / "benchmarks.md").read_text())
    assert len(shown) > 40
    assert [row for row in shown if row not in measured] == []
