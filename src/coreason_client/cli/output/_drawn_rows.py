"""Where the finished parts of an answer are on the screen, as far as that is certain. Pure.

A part can be removed if all rows from its first one on are still on the screen and their number is
certain. It is not certain after a line that some terminals wrap, because they disagree about the
width of its characters, nor after a resize.
"""

import re
import unicodedata

from rich.cells import cell_len

__all__ = ["DrawnRows", "row_count"]

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
# Symbols, marks, and characters that are invisible or unknown.
_DISPUTED = frozenset({"So", "Sk", "Mn", "Mc", "Me", "Cf", "Co", "Cn"})
_BOXES = range(0x2500, 0x25A0)  # lines and blocks, which have one column everywhere


class DrawnRows:
    """The rows of finished parts, counted from a row that scrolls with them."""

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
