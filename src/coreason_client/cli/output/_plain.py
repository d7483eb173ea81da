"""The outputs that draw nothing: JSON for programs, and plain text for pipes and files."""

import sys
from collections.abc import Sequence
from types import TracebackType

from ._base import Json, Output, Source
from ._lines import Cleaner, clean, print_dimmed, print_json, print_stderr

__all__ = ["JsonOutput", "PlainOutput"]


class JsonOutput(Output):
    """Writes only the recorded objects; a report goes to stderr."""

    can_rewind = True  # the packet that makes others void is written like any other

    def record(self, json: Json) -> None:
        """Write the object."""
        print_json(json())

    def report(self, text: str) -> None:
        """Write to stderr, to keep stdout free of anything but JSON."""
        print_stderr(text)


class PlainOutput(Output):
    """Writes the text as it arrives, then the sources; other information goes to stderr.

    Thoughts and progress are left out: they are useful only to someone who watches the answer.
    """

    def __init__(self) -> None:
        self._out = sys.stdout
        self._cleaner = Cleaner()
        self._last = ""  # the last two characters of the output
        self._follows_block = False  # True: the next paragraph needs no blank line before it

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_type is not BrokenPipeError:
            self.end_text()

    def write(self, text: str) -> None:
        """Write the text at once."""
        self._write(self._cleaner.feed(text))

    def end_text(self) -> None:
        """End the line."""
        self._write(self._cleaner.finish())
        if self._last and not self._last.endswith("\n"):
            self._write("\n")

    def block(self, text: str) -> None:
        """Write a paragraph; the next text starts on the next line."""
        self._new_paragraph()
        self._write(clean(text) + "\n")
        self._follows_block = True

    def line(self, text: str) -> None:
        """Write a separate line."""
        self.end_text()
        self._write(clean(text) + "\n")

    def lines(self, texts: Sequence[str]) -> None:
        """Write a paragraph of lines."""
        self._new_paragraph()
        for text in texts:
            self._write(clean(text) + "\n")

    def info(self, text: str) -> None:
        """Write a line to stderr, dimmed in a terminal."""
        if self._out.isatty():
            self.end_text()  # both are probably on the same screen
        print_dimmed(text)

    def warning(self, text: str) -> None:
        """Write a line to stderr."""
        print_stderr(text)

    def sources(self, sources: Sequence[Source]) -> None:
        """Write a paragraph with a line for each source."""
        self._follows_block = False
        self._new_paragraph()
        self._write("Sources:\n")
        for number, title, uri in sources:
            self._write(clean(f"[{number}] {title}: {uri}") + "\n")

    def report(self, text: str) -> None:
        """Write a paragraph."""
        self._new_paragraph()
        self._write(clean(text) + "\n")

    def _new_paragraph(self) -> None:
        self.end_text()
        if self._last and not self._last.endswith("\n\n") and not self._follows_block:
            self._write("\n")

    def _write(self, text: str) -> None:
        if text:
            self._out.write(text)
            self._out.flush()
            self._last = (self._last + text)[-2:]
            self._follows_block = False
