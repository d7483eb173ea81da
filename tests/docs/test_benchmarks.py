"""The figures of the documents are those that the benchmarks have written."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (?!compared|---).+\|$", re.MULTILINE)


def test_every_row_is_in_the_tables_of_the_benchmarks() -> None:
    measured = set(ROW.findall((ROOT / "bench" / "README.md").read_text()))
    shown = ROW.findall((ROOT / "docs" / "benchmarks.md").read_text())
    assert len(shown) > 40
    assert [row for row in shown if row not in measured] == []


FIGURE = re.compile(r"\d[\d.,]* (?:[µm]?s)\b")


def unknown_figures(first_page: str, benchmarks: str) -> list[str]:
    """Return the figures of the first page that are not in the section that their row links to."""
    sections = dict(
        re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", benchmarks, re.MULTILINE | re.DOTALL)
    )
    found = []
    for row, section in re.findall(
        r"^(\| .*\(benchmarks\.md#(\w+)\).*)$", first_page, re.MULTILINE
    ):
        figures = FIGURE.findall(row.replace("&nbsp;", " "))
        assert len(figures) > 1, row
        known = set(FIGURE.findall(sections[section].replace(" us", " µs")))
        found += [f"{section}: {figure}" for figure in figures if figure not in known]
    return found


def test_every_figure_of_the_first_page_is_in_the_section_of_its_row() -> None:
    first_page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    benchmarks = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert first_page.count("](benchmarks.md#") > 5
    assert unknown_figures(first_page, benchmarks) == []
    row = "| [x](benchmarks.md#a2a) | 1 µs | b 2&nbsp;µs |"
    assert unknown_figures(row, "## a2a\n| 1 us |\n\n## b\n| 2 us |\n") == ["a2a: 2 µs"]


COMPARED = re.compile(r"^\| \[.*\(benchmarks\.md#\w+\) \| (.+) \| (.+) \|$", re.MULTILINE)
TIMES_AS_MUCH = re.compile(r"(\d[\d.]* [µm]s)\W+(\d[\d.]*)\)")


def microseconds(figure: str) -> float:
    number, unit = figure.split()
    return float(number) * {"µs": 1, "ms": 1000}[unit]


def wrong_ratios(first_page: str) -> list[str]:
    """Return the ratios that are not those of the two figures, with two digits."""
    found = []
    for own, others in COMPARED.findall(first_page.replace("&nbsp;", " ").replace("**", "")):
        ratios = TIMES_AS_MUCH.findall(others)
        assert len(ratios) == len(FIGURE.findall(others)), others
        for other, ratio in ratios:
            if ratio != f"{float(f'{microseconds(other) / microseconds(own):.2g}'):g}":
                found.append(f"{other} ({ratio})")
    return found


def test_every_ratio_of_the_first_page_is_that_of_its_figures() -> None:
    first_page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert len(COMPARED.findall(first_page)) == first_page.count("](benchmarks.md#")
    assert wrong_ratios(first_page) == []
    row = "| [x](benchmarks.md#a) | **50 µs** | b 1&nbsp;ms (20), c, slow, **60&nbsp;µs** (1.3) |"
    assert wrong_ratios(row) == ["60 µs (1.3)"]


BREAKS = re.compile(
    r"^\| \[.*\((migrate/[\w-]+\.md)#.*\) \| .*(`.+`).* \| ([\w-]+) (`.+`) \|$", re.MULTILINE
)


def test_what_programs_print_after_a_cut_is_what_their_pages_say() -> None:
    """Those pages are run."""
    rows = BREAKS.findall((ROOT / "docs" / "index.md").read_text(encoding="utf-8"))
    assert len(rows) == 2
    for page, own, other, others in rows:
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        assert f"| {other} | {others} |\n| coreason-client | {own} |\n" in text, page
