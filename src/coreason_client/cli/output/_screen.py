"""Draws finished output once, and redraws live rows below it. Each change is one write.

These rules keep every line on the screen or in the scrollback exactly once:

* Only one thread draws, so the number of live rows is always known.
* Live rows are drawn with automatic wrapping off: a line is one row, whatever width the terminal
  assumes for its characters.
* There are never more live rows than the screen has rows, so none of them scrolls away.
* Finished output is written once, above the live rows.
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
        self._rows = 0  # number of live rows; the cursor is on the last one
        self._drawn = ""

    def draw(self, finished: Sequence[RenderableType], live: Sequence[RenderableType]) -> None:
        """Write the finished output, and draw the live rows below it."""
        self._renderer.size = ConsoleDimensions(*_size(self._console))
        lines = self._live_lines(live) if live and self._console.is_terminal else []
        drawn = self._text([_Lines(lines)]) if lines else ""
        if not finished and drawn == self._drawn and len(lines) == self._rows:
            return
        out = self._erase_sequence() + self._text(finished)
        if lines:
            out += _NO_WRAP + drawn + _WRAP
        self._rows, self._drawn = len(lines), drawn
        self._console.file.write(out)
        self._console.file.flush()

    def _live_lines(self, live: Sequence[RenderableType]) -> Lines:
        max_rows = max(self._renderer.size.height - _MARGIN, 1)
        lines = stripped_lines(self._renderer, Group(*live), self._renderer.options)
        return lines[-max_rows:]

    def _erase_sequence(self) -> str:
        if not self._rows:
            return ""
        up = f"\x1b[{self._rows - 1}A" if self._rows > 1 else ""
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


class _Lines:
    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for number, line in enumerate(self._lines):
            if number:
                yield Segment.line()
            yield from line
