"""Splits Markdown that arrives in pieces into complete blocks. Pure."""

import re

__all__ = ["WORD_END", "Blocks"]

# White space, or a character of a script that does not put spaces between words.
WORD_END = re.compile("[\\s\u2e80-\U0010ffff]")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class Blocks:
    """Returns each block when its end is certain, and keeps the rest.

    A block ends at a blank line, outside of code, that is followed by a line without indentation.
    Finished blocks are drawn once and only the last one is redrawn. This keeps the cost of a long
    answer linear and lets it scroll like any other output.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []  # complete lines of the unfinished block
        self._partial = ""
        self._opening = ""  # the line that opened the current code block
        self._mid_line = False  # the last block was split within a line

    @property
    def rest(self) -> str:
        """The unfinished block."""
        return "".join(self._lines) + self._partial

    @property
    def ends_within_word(self) -> bool:
        """True if the text so far ends with a word that may continue."""
        return bool(self._partial) and not WORD_END.match(self._partial[-1])

    def feed(self, text: str) -> list[str]:
        """Add text; return the blocks that it completes."""
        if self._mid_line and text:
            # `split` has ended the line: spaces between words would now be indentation.
            text = text.removeprefix("\n") if self._opening else text.lstrip(" \t")
            self._mid_line = not text and not self._opening
        done = []
        *lines, self._partial = (self._partial + text).split("\n")
        for line in lines:
            if self._starts_block(line):
                done.append(self._take())
            self._add(line + "\n")
        if self._partial and self._starts_block(self._partial):
            done.append(self._take())
        return done

    def split(self) -> str:
        """Return the unfinished block; an open code block continues in the next one."""
        mid_line = bool(self._partial)
        if mid_line:
            self._add(self._partial + "\n")
            self._partial = ""
        opening = self._opening
        block = "" if self._lines == [opening] else self.finish()
        self._lines = [opening] if opening else []
        self._opening, self._mid_line = opening, mid_line
        return block

    def finish(self) -> str:
        """Return the rest as the last block."""
        rest = self.rest.strip("\n")
        self._lines, self._partial, self._opening, self._mid_line = [], "", "", False
        return rest

    def _starts_block(self, line: str) -> bool:
        after_blank = len(self._lines) > 1 and not self._lines[-1].strip()
        return after_blank and not self._opening and bool(line) and not line[0].isspace()

    def _take(self) -> str:
        block = "".join(self._lines).strip("\n")
        self._lines = []
        return block

    def _add(self, line: str) -> None:
        if not self._lines and not line.strip():
            return  # blank lines between blocks are dropped
        self._lines.append(line)
        if _FENCE.match(line) is None:
            return
        if not self._opening:
            self._opening = line
        elif self._closes(line):
            self._opening = ""

    def _closes(self, line: str) -> bool:
        opened = _FENCE.match(self._opening)
        return opened is not None and (
            line.strip().startswith(opened[1]) and not line.strip().strip(opened[1][0])
        )
