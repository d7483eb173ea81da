"""The interface of all outputs, and the two that draw nothing: JSON and plain text."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self, TypeAlias

from ._lines import Cleaner, clean, print_dimmed, print_json, print_stderr

if TYPE_CHECKING:  # `coreason --help` must not load the definitions
    from coreason_manifest.definitions.presentation import ProgressUpdate

Json: TypeAlias = Callable[[], str]
"""Returns the JSON of an object as one line."""


class Source(NamedTuple):
    """A source of an answer, with its number in the list."""

    number: int
    title: str
    uri: str


class Output:
    """Shows one answer; a context manager. Each subclass leaves out what it cannot show."""

    can_rewind: ClassVar[bool] = False
    """True if a part of the answer may become void after it was shown."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        pass

    def record(self, json: Json) -> None:
        """Write the JSON of a packet, an event or a response."""

    def begin_packet(self, seq: int) -> None:
        """Begin the packet with this number; what is shown next belongs to it."""

    def rewind(self, to_seq: int) -> None:
        """Remove what was shown for the packets after `to_seq`, which are void."""

    def write(self, text: str) -> None:
        """Continue the text of the answer, which is Markdown."""

    def end_text(self, *, as_written: bool = False) -> None:
        """End the text; the next text starts a new block, which is not Markdown if `as_written`."""

    def block(self, text: str) -> None:
        """Show Markdown that does not continue the text."""

    def line(self, text: str) -> None:
        """Show a line that is not Markdown."""

    def lines(self, texts: Sequence[str]) -> None:
        """Show lines that are not Markdown, if possible as a separate paragraph."""
        for text in texts:
            self.line(text)

    def thought(self, text: str) -> None:
        """Show a thought of the agent."""

    def progress(self, update: "ProgressUpdate") -> None:
        """Show the progress of a step."""

    def detail(self, text: str) -> None:
        """Show a minor detail in one line."""

    def info(self, text: str) -> None:
        """Show a line that is not part of the answer."""

    def warning(self, text: str) -> None:
        """Show a warning."""

    def sources(self, sources: Sequence[Source]) -> None:
        """List the sources below the answer."""

    def report(self, text: str) -> None:
        """Show a sentence about the answer, below it."""

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal to a prompt while the block runs."""
        self.end_text()
        yield


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

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        if exc_type is not BrokenPipeError:
            self.end_text()

    def write(self, text: str) -> None:
        """Write the text at once."""
        self._write(self._cleaner.feed(text))

    def end_text(self, *, as_written: bool = False) -> None:
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
        self.lines(["Sources:", *(f"[{number}] {title}: {uri}" for number, title, uri in sources)])

    def report(self, text: str) -> None:
        """Write a paragraph."""
        self.lines([text])

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
