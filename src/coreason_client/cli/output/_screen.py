"""Draws finished output once, and redraws live rows below it. Each change is one write.

These rules keep every line on the screen or in the scrollback exactly once:

* Only one thread draws, so the number of live rows is always known.
* Live rows are drawn with automatic wrapping off: a line is one row, whatever width the terminal
  assumes for its characters.
* There are never more live rows than the screen has rows, so none of them scrolls away.
* Finished output is written once, above the live rows. It is removed only while all of it is
  certainly on the screen, see `DrawnRows`.
"""

import io
import os
import re
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

from rich.cells import cell_len
from rich.console import (
    Console,
    ConsoleDimensions,
    ConsoleOptions,
    Group,
    RenderableType,
    RenderResult,
)
from rich.segment import Segment

from ._markdown import Lines, stripped_lines

_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
# tmux keeps a copy of the screen in its scrollback if all of it is erased at once, from the first
# column of the first row. So the first row is erased, and then what follows its second column.
_ERASE_BELOW = "\x1b[K\x1b[C\x1b[J\r"
_MARGIN = 2  # rows of finished output that stay visible


class Screen:
    """Writes to a terminal; any other file gets only the finished output."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._renderer = Console(  # renders text without writing it to the terminal
            file=io.StringIO(),
            force_terminal=console.is_terminal,
            color_system=cast("Any", console.color_system),
            no_color=console.no_color,
            highlight=False,
            emoji=False,
        )
        # Until its size is set, the renderer would follow the terminal, and hide a resize.
        self._renderer.size = ConsoleDimensions(*_size(console))
        self._rows = 0  # number of live rows; the cursor is on the last one
        self._widths: list[int] = []  # columns of each live row
        self._drawn = ""
        self._finished = DrawnRows()
        self._removed = 0  # rows of finished output that the next drawing erases

    def draw(self, finished: Sequence[RenderableType], live: Sequence[RenderableType]) -> None:
        """Write the finished output, and draw the live rows below it."""
        self._measure()
        lines = self._live_lines(live) if live and self._console.is_terminal else []
        drawn = self._text([_Lines(lines)]) if lines else ""
        unchanged = drawn == self._drawn and len(lines) == self._rows
        if unchanged and not finished and not self._removed:
            return
        out = self._erase_sequence()
        for part in finished:
            text = self._text([part])
            self._finished.add(row_count(text, self._renderer.size.width))
            out += text
        self._finished.reach(len(lines))
        if lines:
            out += _NO_WRAP + drawn + _WRAP
        self._rows, self._drawn, self._removed = len(lines), drawn, 0
        self._widths = [Segment.get_line_length(line) for line in lines]
        self._console.file.write(out)
        self._console.file.flush()

    def remove_from(self, part: int) -> bool:
        """Remove finished parts from this number on; return False if they are not all on screen.

        The numbers count the parts of all drawings, from 0.
        """
        self._measure()
        rows = self._finished.remove(part, self._renderer.size.height)
        self._removed += rows or 0
        return rows is not None

    def forget(self) -> None:
        """Leave all finished parts where they are: they cannot be removed any more."""
        self._finished.forget()

    def restart(self) -> None:
        """Leave all finished parts where they are, and count the parts from 0 again."""
        self._finished = DrawnRows()

    def _measure(self) -> None:
        """Update the size of the terminal; a terminal may move its rows when it is resized."""
        size = ConsoleDimensions(*_size(self._console))
        if size != self._renderer.size:
            self.forget()
            self._renderer.size = size
            if _reflows():
                self._rows = sum(max(1, -(-width // size.width)) for width in self._widths)

    def _live_lines(self, live: Sequence[RenderableType]) -> Lines:
        max_rows = max(self._renderer.size.height - _MARGIN, 1)
        lines = stripped_lines(self._renderer, Group(*live), self._renderer.options)
        return lines[-max_rows:]

    def _erase_sequence(self) -> str:
        if not (self._rows or self._removed):
            return ""
        rows_up = max(self._rows - 1, 0) + self._removed
        up = f"\x1b[{rows_up}A" if rows_up else ""
        return f"\r{up}{_ERASE_BELOW}"

    def _text(self, parts: Sequence[RenderableType]) -> str:
        self._renderer.file = io.StringIO()
        for part in parts:
            self._renderer.print(part, crop=False)
        return self._renderer.file.getvalue()


def _size(console: Console) -> tuple[int, int]:
    """Return columns and rows; the rows are those of the terminal even if LINES differs."""
    columns, rows = console.size
    with suppress(OSError, ValueError):
        terminal = os.get_terminal_size(console.file.fileno())
        columns = min(columns, terminal.columns or columns)
        rows = terminal.lines or rows
    return columns, rows


def _reflows() -> bool:
    """Return True if the terminal certainly wraps long rows again when it is resized, as tmux."""
    return "TMUX" in os.environ and os.environ.get("TERM", "").startswith(("tmux", "screen"))


class _Lines:
    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for number, line in enumerate(self._lines):
            if number:
                yield Segment.line()
            yield from line


_STYLE = re.compile(r"\x1b\[[0-9;]*m")
# Symbols, marks, and characters that are invisible or unknown.
_DISPUTED = frozenset({"So", "Sk", "Mn", "Mc", "Me", "Cf", "Co", "Cn"})
_BOXES = range(0x2500, 0x25A0)  # lines and blocks, which have one column everywhere


class DrawnRows:
    """The rows of finished parts, counted from a row that scrolls with them.

    A part can be removed if all rows from its first one on are still on the screen and their number
    is certain. It is not certain after a line that some terminals wrap, because they disagree about
    the width of its characters, nor after a resize.
    """

    def __init__(self) -> None:
        self._starts: list[int | None] = []  # the first row of each part, None if not certain
        self._rows = 0
        self._lowest = 0  # rows that have been on the screen, with the row of the cursor

    def add(self, rows: int | None) -> None:
        """Add a part below the others; None if its number of rows is not certain."""
        self._starts.append(self._rows)
        if rows is None:
            self.forget()
        else:
            self._rows += rows

    def reach(self, live_rows: int) -> None:
        """Record how many rows are drawn below the finished parts."""
        self._lowest = max(self._lowest, self._rows + max(live_rows, 1))

    def remove(self, part: int, height: int) -> int | None:
        """Remove the parts from a number on; return how many rows they have on the screen.

        Return None, and remove nothing, if they may not all be on a screen of this height.
        """
        if part >= len(self._starts):
            return 0
        start = self._starts[part]
        # Rows above the highest row that fits on the screen together with the lowest one are gone.
        if start is None or start < self._lowest - height:
            return None
        rows = self._rows - start
        del self._starts[part:]
        self._rows = start
        return rows

    def forget(self) -> None:
        """Forget where the parts are."""
        self._starts = [None] * len(self._starts)
        self._rows = self._lowest = 0


def row_count(text: str, columns: int) -> int | None:
    """Return how many rows a terminal needs for a text, None if terminals disagree about that."""
    lines = _STYLE.sub("", text).split("\n")[:-1]
    if any(_greatest_width(line) > columns for line in lines):
        return None
    return len(lines)


def _greatest_width(line: str) -> int:
    if line.isascii():
        return len(line)
    return sum(2 if _is_disputed(char) else cell_len(char) for char in line)


def _is_disputed(char: str) -> bool:
    return unicodedata.category(char) in _DISPUTED and ord(char) not in _BOXES
