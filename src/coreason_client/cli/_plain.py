"""Where text goes that comes without packets: what an output can do, and the plain one."""

import os
from types import TracebackType
from typing import Protocol, Self, TextIO

from ._clean import Cleaner, clean

__all__ = ["Output", "PlainOutput"]

_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


class Output(Protocol):
    """Where text goes: a context manager around one answer."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    def write(self, text: str) -> None:
        """Go on with the text."""

    def end_text(self) -> None:
        """Let what follows begin anew."""

    def line(self, text: str) -> None:
        """Show something that is no text of the agent's."""

    def aside(self, text: str) -> None:
        """Show something that is no part of the answer."""


class PlainOutput:
    """The text as it comes, without control characters; asides go to stderr."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = out
        self._err = err
        self._cleaner = Cleaner()
        self._open = False  # whether the last line of the output has not ended

    def __enter__(self) -> Self:
        return self

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
        if self._open:
            self._write("\n")

    def line(self, text: str) -> None:
        """Write a line of its own."""
        self.end_text()
        self._write(clean(text) + "\n")

    def _write(self, text: str) -> None:
        if text:
            self._out.write(text)
            self._out.flush()
            self._open = not text.endswith("\n")

    def aside(self, text: str) -> None:
        """Write a line to stderr, dimmed where that can be seen."""
        if self._out.isatty():
            self.end_text()  # both are likely to be on the same screen
        words = clean(text)
        colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        if self._err.isatty() and colours:
            words = f"{_DIM}{words}{_PLAIN}"
        self._err.write(words + "\n")
        self._err.flush()
