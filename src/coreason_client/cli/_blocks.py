"""Markdown that arrives in pieces, taken apart into blocks that are complete. Pure."""

import re

__all__ = ["Blocks"]

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class Blocks:
    """Hands out every block once it is certain where it ends, and keeps the rest.

    A block ends at a blank line that is followed by a line without indentation, outside of code.
    Drawing finished blocks once, and only the last one again and again, keeps the cost of a long
    answer linear and lets it scroll like any other output.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []  # complete lines of the block that is being written
        self._partial = ""
        self._fence = ""

    @property
    def rest(self) -> str:
        """The block that is still being written."""
        return "".join(self._lines) + self._partial

    def feed(self, text: str) -> list[str]:
        """Take text; return the blocks that it completes."""
        done = []
        *lines, self._partial = (self._partial + text).split("\n")
        for line in lines:
            if self._starts_block(line):
                done.append(self._take())
            self._add(line + "\n")
        if self._partial and self._starts_block(self._partial):
            done.append(self._take())
        return done

    def finish(self) -> str:
        """Return what is left, as the last block."""
        rest = self.rest.strip("\n")
        self._lines, self._partial, self._fence = [], "", ""
        return rest

    def _starts_block(self, line: str) -> bool:
        after_blank = len(self._lines) > 1 and not self._lines[-1].strip()
        return after_blank and not self._fence and bool(line) and not line[0].isspace()

    def _take(self) -> str:
        block = "".join(self._lines).strip("\n")
        self._lines = []
        return block

    def _add(self, line: str) -> None:
        if not self._lines and not line.strip():
            return  # blank lines between blocks belong to neither
        self._lines.append(line)
        mark = _FENCE.match(line)
        if mark is None:
            return
        if not self._fence:
            self._fence = mark[1]
        elif mark[1].startswith(self._fence):
            self._fence = ""
