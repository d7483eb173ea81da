"""The part of a terminal that is drawn anew, below what stays. One write for each change.

Rules, which together keep every line on the screen or in the scrollback exactly once:

* Only one thread draws, so the number of rows that are drawn anew is always known.
* Those rows are drawn with automatic wrapping off: a line is one row, however wide the terminal
  thinks its characters are.
* There are never more of them than the screen has rows, so none of them scrolls away.
* What stays is written once, above them.
"""

import io
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

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

__all__ = ["Screen"]

_NO_WRAP, _WRAP, _ERASE_BELOW = "\x1b[?7l", "\x1b[?7h", "\x1b[J"
_MARGIN = 2  # rows of what stays that remain in view


class Screen:
    """Writes to a terminal; what is no terminal gets only what stays."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._pen = Console(  # makes text of what is to be written, without writing it
            file=io.StringIO(),
            force_terminal=console.is_terminal,
            color_system=cast("Any", console.color_system),
            no_color=console.no_color,
            highlight=False,
            emoji=False,
        )
        self._rows = 0  # how many rows will be drawn anew; the cursor is on the last of them
        self._drawn = ""

    def draw(self, finished: Sequence[RenderableType], live: Sequence[RenderableType]) -> None:
        """Write what stays, and below it what will be drawn anew."""
        self._pen.size = ConsoleDimensions(*_size(self._console))
        lines = self._live_lines(live) if live and self._console.is_terminal else []
        drawn = self._text([_Lines(lines)]) if lines else ""
        if not finished and drawn == self._drawn and len(lines) == self._rows:
            return
        out = self._erasing() + self._text(finished)
        if lines:
            out += _NO_WRAP + drawn + _WRAP
        self._rows, self._drawn = len(lines), drawn
        self._console.file.write(out)
        self._console.file.flush()

    def _live_lines(self, live: Sequence[RenderableType]) -> Lines:
        most = max(self._pen.size.height - _MARGIN, 1)
        lines = stripped_lines(self._pen, Group(*live), self._pen.options)
        return lines[-most:]

    def _erasing(self) -> str:
        if not self._rows:
            return ""
        up = f"\x1b[{self._rows - 1}A" if self._rows > 1 else ""
        return f"\r{up}{_ERASE_BELOW}"

    def _text(self, parts: Sequence[RenderableType]) -> str:
        self._pen.file = io.StringIO()
        for part in parts:
            self._pen.print(part, crop=False)
        return self._pen.file.getvalue()


def _size(console: Console) -> tuple[int, int]:
    """Return columns and rows. The rows must be those of the terminal, whatever LINES says."""
    columns, rows = console.size
    with suppress(OSError, ValueError):
        terminal = os.get_terminal_size(console.file.fileno())
        columns = min(columns, terminal.columns or columns)
        rows = terminal.lines or rows
    return columns, rows


class _Lines:
    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for number, line in enumerate(self._lines):
            if number:
                yield Segment.line()
            yield from line
