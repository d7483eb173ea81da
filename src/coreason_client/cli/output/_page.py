"""The content of an answer in a terminal: finished parts, and the rest, which still changes.

The parts keep the order of their packets. A part that is not text is placed after the text before
it; if it arrives within a word, after that word. The text after it starts a new block.
"""

import re
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from coreason_manifest.definitions.presentation import ProgressUpdate

from ._lines import Cleaner, clean
from ._markdown import MarkdownBlock

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


_BAR_WIDTH = 24
_MARKS = {"running": " ", "complete": "✓", "failed": "✗"}


class AnswerPage:
    """The parts of one answer. Text is sanitised here; renderables must already be sanitised."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin the answer again, without any part."""
        self._taken = 0
        self._blocks = Blocks()
        self._as_written = False  # True: the text is not Markdown
        self._cleaner = Cleaner()
        self._unfinished_block = MarkdownBlock("")
        self._held: list[RenderableType] = []  # parts that wait for the end of a word
        self._finished: list[RenderableType] = []
        self._running_steps: dict[str, ProgressUpdate] = {}
        self._spinner = Spinner("dots", style="dim")
        self._nothing_shown = True  # True until something is shown; a spinner is shown meanwhile
        self._blank_line_due = False  # True: the next paragraph needs a blank line before it

    def write(self, text: str) -> None:
        """Continue the text."""
        text = self._cleaner.feed(text)
        if self._held and (end := WORD_END.search(text)):
            self._feed(text[: end.start()])
            self._end_block()
            text = text[end.start() :]
        self._feed(text)

    def end_text(self, *, as_written: bool = False) -> None:
        """End the text; the next text starts a new block, which is not Markdown if `as_written`."""
        self._feed(self._cleaner.finish())
        self._paragraph(self._blocks.finish())
        self._finish_held()
        self._as_written, self._unfinished_block = as_written, MarkdownBlock("")

    def add(self, part: RenderableType) -> None:
        """Add a part that is not text, after the text so far."""
        self._held.append(part)
        if not self._blocks.ends_within_word:
            self._end_block()

    def add_block(self, text: str) -> None:
        """Add Markdown that does not continue the text."""
        self.end_text()
        self._paragraph(clean(text))

    def progress(self, update: ProgressUpdate) -> None:
        """Show the progress of a step; the bar stays visible when the step has ended."""
        self._running_steps[update.label] = update
        if update.status != "running":
            del self._running_steps[update.label]
            self.add(_bar(update))

    def finish(self) -> None:
        """End the answer; all its parts are finished now."""
        self.end_text()
        self._running_steps, self._nothing_shown = {}, False

    def take(self) -> list[RenderableType]:
        """Return the parts that have been finished since the last call."""
        parts, self._finished = self._finished, []
        self._taken += len(parts)
        return parts

    @property
    def taken(self) -> int:
        """The number of parts that `take` has returned."""
        return self._taken

    @property
    def finished(self) -> int:
        """The number of finished parts, whether they were taken or not."""
        return self._taken + len(self._finished)

    def skip(self, parts: int) -> None:
        """Regard the first parts as taken; they are on the screen already."""
        self._taken += len(self._finished[:parts])
        del self._finished[:parts]

    def live(self, status: str) -> list[RenderableType]:
        """Return the unfinished parts, which are shown below the finished ones."""
        parts: list[RenderableType] = []
        if rest := self._blocks.rest.strip("\n"):
            if rest != self._unfinished_block.text:
                self._unfinished_block = MarkdownBlock(rest, as_written=self._as_written)
            parts += self._below(self._unfinished_block)
        parts += self._held
        parts += [_bar(update) for update in self._running_steps.values()]
        if status:
            parts.append(Text(status, style="dim"))
        if self._nothing_shown and not parts:
            parts.append(self._spinner)
        return parts

    def _feed(self, text: str) -> None:
        for block in self._blocks.feed(text):
            self._paragraph(block)
        self._nothing_shown = self._nothing_shown and not self._blocks.rest

    def _end_block(self) -> None:
        self._paragraph(self._blocks.split())
        self._finish_held()

    def _finish_held(self) -> None:
        if self._held:
            self._finished += self._held
            self._held, self._blank_line_due, self._nothing_shown = [], True, False

    def _paragraph(self, text: str) -> None:
        if text:
            self._finished += self._below(MarkdownBlock(text, as_written=self._as_written))
            self._blank_line_due, self._nothing_shown = True, False

    def _below(self, block: MarkdownBlock) -> list[RenderableType]:
        """Return a block, with a blank line before it if one is due."""
        return [Text(), block] if self._blank_line_due else [block]


def _bar(update: ProgressUpdate) -> RenderableType:
    percent = update.progress_percent
    style = "red" if update.status == "failed" else "dim"
    bar = ProgressBar(
        total=100,
        completed=percent or 0,
        width=_BAR_WIDTH,
        pulse=percent is None and update.status == "running",
        finished_style="dim green",
    )
    table = Table.grid(padding=(0, 1))
    table.add_column(overflow="fold")
    amount = "" if percent is None else f"{percent:3.0f} %"
    mark = _MARKS[update.status]
    table.add_row(
        Text(clean(update.label), style=style), bar, Text(f"{amount} {mark}", style=style)
    )
    return table


PageAction: TypeAlias = Callable[[AnswerPage], None]

_STARTS_AGAIN = "The agent was restarted. The text above is void; the answer starts again:"


class DrawnParts(Protocol):
    """The finished parts that were drawn, as a `Screen` has them."""

    def remove_from(self, part: int) -> bool:
        """Remove the parts from a number on; return False if that is not possible."""

    def restart(self) -> None:
        """Leave all parts where they are, and count them from 0 again."""


class _Done(NamedTuple):
    """An action, the packet that it belongs to, and the number of finished parts after it."""

    seq: int | None
    action: PageAction
    finished: int

    def is_void(self, to_seq: int) -> bool:
        return self.seq is not None and self.seq > to_seq


class PageHistory:
    """Changes a page, and undoes the changes of packets that become void."""

    def __init__(self, page: AnswerPage, drawn: DrawnParts) -> None:
        self._page = page
        self._drawn = drawn
        self._done: list[_Done] = []

    def do(self, seq: int | None, action: PageAction) -> None:
        """Perform an action for a packet; None if it does not belong to the answer."""
        action(self._page)
        self._done.append(_Done(seq, action, self._page.finished))

    def rewind(self, to_seq: int) -> None:
        """Make the page again without the packets after `to_seq`.

        If a part of them has scrolled away, all valid parts are drawn again, below a line that says
        so.
        """
        done = self._done
        first_void = next((n for n, each in enumerate(done) if each.is_void(to_seq)), None)
        if first_void is None:
            return
        valid = min(done[first_void - 1].finished if first_void else 0, self._page.taken)
        removed = self._drawn.remove_from(valid)
        self._done = []
        self._page.reset()
        if not removed:
            self._drawn.restart()
            self.do(None, _add_notice)
        for each in done:
            # What does not belong to the answer, such as a log line, is shown once.
            if not each.is_void(to_seq) and (removed or each.seq is not None):
                self.do(each.seq, each.action)
        if removed:
            self._page.skip(valid)


def _add_notice(page: AnswerPage) -> None:
    page.add(Text())
    page.add(Text(_STARTS_AGAIN, style="yellow"))
