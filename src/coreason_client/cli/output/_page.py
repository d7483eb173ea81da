"""The content of an answer in a terminal: finished parts, and the rest, which still changes.

The parts keep the order of their packets. A part that is not text is placed after the text before
it; if it arrives within a word, after that word. The text after it starts a new block.
"""

from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from coreason_manifest.definitions.presentation import ProgressUpdate

from ._blocks import WORD_END, Blocks
from ._clean import Cleaner, clean
from ._markdown import Block

__all__ = ["Page"]

_BAR_WIDTH = 24
_MARKS = {"running": " ", "complete": "✓", "failed": "✗"}


class Page:
    """The parts of one answer. Text is sanitised here; renderables must already be sanitised."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin the answer again, without any part."""
        self._taken = 0
        self._blocks = Blocks()
        self._cleaner = Cleaner()
        self._unfinished_block = Block("")
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

    def end_text(self) -> None:
        """End the text; the next text starts a new block."""
        self._feed(self._cleaner.finish())
        self._paragraph(self._blocks.finish())
        self._finish_held()

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
                self._unfinished_block = Block(rest)
            parts += (
                [Text(), self._unfinished_block]
                if self._blank_line_due
                else [self._unfinished_block]
            )
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
            self._finished += [Text(), Block(text)] if self._blank_line_due else [Block(text)]
            self._blank_line_due, self._nothing_shown = True, False


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
