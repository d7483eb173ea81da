"""Markdown in pieces becomes the same blocks, however it is cut."""

import pytest

from coreason_client.cli._blocks import Blocks

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
