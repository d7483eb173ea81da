"""A block of Markdown in a terminal: rendered if that hides nothing, else shown as its source."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from coreason_client.cli.output._markdown import MarkdownBlock, stripped_lines


def lines(text: str, width: int = 40) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(MarkdownBlock(text), end="")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("**bold** and `code`", ["bold and code"]),
        ("~~gone~~", ["gone"]),
        ("* one\n* two", [" • one", " • two"]),
        ("\n\na\n\nb\n\n", ["a", "", "b"]),
        ("```python\nx = 1\n```", [" x = 1"]),
        ("", []),
        # Hidden by rich, but part of the answer.
        ("**a** vector<int> and <b>bold</b>", ["a vector<int> and <b>bold</b>"]),
        ("[1]: https://a.example/x\n**b**", ["[1]: https://a.example/x b"]),
    ],
)
def test_a_block_is_rendered(text: str, shown: list[str]) -> None:
    assert lines(text) == shown


@pytest.mark.parametrize(
    "source",
    [
        "![a cat](https://a.example/cat.png)",
        "```python title=one.py\nx = 1\n```",
        '[a](https://a.example "The title")',
    ],
)
def test_the_source_is_shown_if_rendering_would_hide_a_part_of_it(source: str) -> None:
    assert lines(source) == source.split("\n")


def test_a_table_is_rendered_only_where_it_fits() -> None:
    table = "| first | second |\n|---|---|\n| apple | banana |"
    assert not any("|" in line for line in lines(table))
    narrow = "".join(lines(table, width=9))
    assert narrow.count("|") == table.count("|")
    assert "apple" in narrow.replace(" ", "")


def test_lines_have_no_trailing_spaces() -> None:
    console = Console(file=io.StringIO(), width=20)
    found = stripped_lines(console, "a  \n\n  b", console.options)
    assert ["".join(segment.text for segment in line) for line in found] == ["a", "", "  b"]


def test_the_lines_follow_the_width_of_the_terminal() -> None:
    block = MarkdownBlock("one two three")
    for width in (40, 7, 40):
        console = Console(file=io.StringIO(), width=width)
        console.print(block, end="")
        assert isinstance(console.file, io.StringIO)
        rows = console.file.getvalue().splitlines()
        assert len(rows) == (1 if width == 40 else 2)


@given(st.text("éñ漢 *_`~#|[]()<>!&-\n", max_size=60), st.sampled_from([8, 40]))
def test_no_letter_is_hidden(text: str, width: int) -> None:
    shown = "".join(lines(text, width))
    assert all(shown.count(char) >= text.count(char) for char in "éñ漢")
