"""What an answer looks like in a terminal: its finished parts, and the rest that still changes.

The parts keep the order of their packets. Something that is not text comes after the text before
it, at the end of the word that it arrived in, and what follows it begins a new block.
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
    """The parts of one answer. Text of agents is cleaned here; renderables must be clean."""

    def __init__(self) -> None:
        self._blocks = Blocks()
        self._cleaner = Cleaner()
        self._growing = Block("")
        self._held: list[RenderableType] = []  # what waits for the end of a word
        self._finished: list[RenderableType] = []
        self._running: dict[str, ProgressUpdate] = {}
        self._spinner = Spinner("dots", style="dim")
        self._silent = True  # until the first thing that stays on the screen
        self._loose = False  # whether a blank line is due before the next paragraph

    def write(self, text: str) -> None:
        """Continue the text."""
        text = self._cleaner.feed(text)
        if self._held and (end := WORD_END.search(text)):
            self._feed(text[: end.start()])
            self._settle()
            text = text[end.start() :]
        self._feed(text)

    def end_text(self) -> None:
        """End the text; what follows begins a new block."""
        self._feed(self._cleaner.finish())
        self._paragraph(self._blocks.finish())
        self._release()

    def add(self, part: RenderableType) -> None:
        """Add something that is not text, after the text so far."""
        self._held.append(part)
        if not self._blocks.ends_within_word:
            self._settle()

    def add_block(self, text: str) -> None:
        """Add Markdown that does not continue the text."""
        self.end_text()
        self._paragraph(clean(text))

    def progress(self, update: ProgressUpdate) -> None:
        """Show how far a step is; it stays when the step has ended."""
        self._running[update.label] = update
        if update.status != "running":
            del self._running[update.label]
            self.add(_bar(update))

    def finish(self) -> None:
        """End the answer: nothing changes any more."""
        self.end_text()
        self._running, self._silent = {}, False

    def take(self) -> list[RenderableType]:
        """Return the parts that have been finished since the last call."""
        parts, self._finished = self._finished, []
        return parts

    def live(self, status: str) -> list[RenderableType]:
        """Return what is to be shown below the finished parts for now."""
        parts: list[RenderableType] = []
        if rest := self._blocks.rest.strip("\n"):
            if rest != self._growing.text:
                self._growing = Block(rest)
            parts += [Text(), self._growing] if self._loose else [self._growing]
        parts += self._held
        parts += [_bar(update) for update in self._running.values()]
        if status:
            parts.append(Text(status, style="dim"))
        if self._silent and not parts:
            parts.append(self._spinner)
        return parts

    def _feed(self, text: str) -> None:
        for block in self._blocks.feed(text):
            self._paragraph(block)
        self._silent = self._silent and not self._blocks.rest

    def _settle(self) -> None:
        self._paragraph(self._blocks.split())
        self._release()

    def _release(self) -> None:
        if self._held:
            self._finished += self._held
            self._held, self._loose, self._silent = [], True, False

    def _paragraph(self, text: str) -> None:
        if text:
            self._finished += [Text(), Block(text)] if self._loose else [Block(text)]
            self._loose, self._silent = True, False


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
