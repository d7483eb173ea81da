"""Markdown in pieces becomes the same blocks, however it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.cli.output._page import Blocks

TEXT = """\
# Title

A paragraph
of two lines.

```python
code


# no heading, and the blank lines are code
```

* one

  still one
* two


| a | b |
|---|---|
| 1 | 2 |
"""
BLOCKS = [
    "# Title",
    "A paragraph\nof two lines.",
    "```python\ncode\n\n\n# no heading, and the blank lines are code\n```",
    "* one\n\n  still one\n* two",
    "| a | b |\n|---|---|\n| 1 | 2 |",
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_blocks_do_not_depend_on_the_pieces(size: int) -> None:
    blocks = Blocks()
    done = []
    for at in range(0, len(TEXT), size):
        done += blocks.feed(TEXT[at : at + size])
    assert [*done, blocks.finish()] == BLOCKS
    assert blocks.rest == blocks.finish() == ""


def test_the_rest_is_what_is_not_certain_yet() -> None:
    blocks = Blocks()
    assert blocks.feed("one\n\n") == []
    assert blocks.rest == "one\n\n"
    assert blocks.feed("t") == ["one"]
    assert blocks.rest == "t"


def test_a_fence_of_tildes_holds_one_of_backticks() -> None:
    blocks = Blocks()
    assert blocks.feed("~~~\n```\n\nx\n\n~~~\n\nafter") == ["~~~\n```\n\nx\n\n~~~"]


@given(st.lists(st.tuples(st.text("ab \t\n#*|", max_size=20), st.booleans()), max_size=10))
def test_wherever_it_is_split_no_letter_is_lost_or_doubled(pieces: list[tuple[str, bool]]) -> None:
    blocks = Blocks()
    done = []
    for piece, split in pieces:
        done += blocks.feed(piece)
        done += [blocks.split()] if split else []
    shown = "".join([*done, blocks.finish()])
    assert "".join(shown.split()) == "".join("".join(piece for piece, _ in pieces).split())


def test_code_that_is_split_is_closed_and_opened_again() -> None:
    blocks = Blocks()
    assert blocks.feed("```py\nx = 1\ny =") == []
    assert blocks.split() == "```py\nx = 1\ny ="
    assert blocks.feed(" 2\n```\n\nafter") == ["```py\n 2\n```"]
    assert blocks.finish() == "after"


@pytest.mark.parametrize("line", ["```", "```py"])
def test_a_fence_is_not_split_off_from_its_code(line: str) -> None:
    blocks = Blocks()
    blocks.feed(line)
    assert blocks.split() == ""
    assert blocks.feed("\ncode\n```\n\nafter") == [f"{line}\ncode\n```"]


def test_a_fence_that_closes_is_not_opened_again() -> None:
    blocks = Blocks()
    blocks.feed("```\ncode\n```")
    assert blocks.split() == "```\ncode\n```"
    assert blocks.feed("\n\nafter") == []
    assert blocks.finish() == "after"


def test_a_fence_with_a_name_does_not_close_code() -> None:
    blocks = Blocks()
    assert blocks.feed("```\n```py\n\nx\n```\n\nafter") == ["```\n```py\n\nx\n```"]
