"""Single lines, written to stdout and stderr."""

import logging
import os
import sys

from ._clean import clean, escaped_json

__all__ = ["LogHandler", "aside", "error", "flush", "note", "prompt", "say", "say_json"]

_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


def say(text: str) -> None:
    """Write lines to stdout."""
    sys.stdout.write(clean(text) + "\n")
    sys.stdout.flush()


def say_json(line: str) -> None:
    """Write an object in JSON to stdout."""
    sys.stdout.write(escaped_json(line) + "\n")
    sys.stdout.flush()


def note(text: str, end: str = "\n") -> None:
    """Write lines to stderr: something that is no part of an answer."""
    sys.stderr.write(clean(text) + end)
    sys.stderr.flush()


def aside(text: str) -> None:
    """Write a line to stderr, dimmed where that can be seen."""
    words = clean(text)
    colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    if sys.stderr.isatty() and colours:
        words = f"{_DIM}{words}{_PLAIN}"
    sys.stderr.write(words + "\n")
    sys.stderr.flush()


def error(sentence: str) -> None:
    """Write an error to stderr, in one line."""
    words = " ".join(clean(sentence).split())
    printable = "".join(
        char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in words
    )
    sys.stderr.write(f"error: {printable}\n")
    sys.stderr.flush()


def prompt(text: str) -> str:
    """Show a prompt and return the line that follows it.

    Raises:
        EOFError: there are no more lines.
    """
    if sys.stdout.isatty():
        return input(text)
    # The prompt is no part of the output, which goes somewhere else.
    note(text, end="")
    if not (line := sys.stdin.readline()):
        raise EOFError
    return line


def flush() -> None:
    """Write what is left to stdout, so that a reader that is gone is noticed now."""
    sys.stdout.flush()


class LogHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to whatever stderr is now: while an answer is being drawn, that is the display."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        self.stream = sys.stderr
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, which may quote a server."""
        return clean(super().format(record))
