"""Functions that write single lines to stdout and stderr."""

import logging
import os
import sys

from ._clean import clean, escaped_json

__all__ = [
    "LogHandler",
    "flush",
    "print_dimmed",
    "print_error",
    "print_json",
    "print_stderr",
    "print_stdout",
    "prompt",
]

_DIM, _RESET = "\x1b[2m", "\x1b[0m"


def print_stdout(text: str) -> None:
    """Write lines to stdout."""
    sys.stdout.write(clean(text) + "\n")
    sys.stdout.flush()


def print_json(line: str) -> None:
    """Write a line of JSON to stdout."""
    sys.stdout.write(escaped_json(line) + "\n")
    sys.stdout.flush()


def print_stderr(text: str, end: str = "\n") -> None:
    """Write lines to stderr."""
    sys.stderr.write(clean(text) + end)
    sys.stderr.flush()


def print_dimmed(text: str) -> None:
    """Write a line to stderr, dimmed if it is a terminal with colours."""
    line = clean(text)
    colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    if sys.stderr.isatty() and colours:
        line = f"{_DIM}{line}{_RESET}"
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def print_error(message: str) -> None:
    """Write an error to stderr as one line."""
    line = " ".join(clean(message).split())
    printable = "".join(
        char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line
    )
    sys.stderr.write(f"error: {printable}\n")
    sys.stderr.flush()


def prompt(text: str) -> str:
    """Show a prompt and return the line that the user types.

    Raises:
        EOFError: there are no more lines.
    """
    if sys.stdout.isatty():
        return input(text)
    # stdout is redirected, and the prompt must not get into it.
    print_stderr(text, end="")
    if not (line := sys.stdin.readline()):
        raise EOFError
    return line


def flush() -> None:
    """Flush stdout, which raises BrokenPipeError now if the reader has gone."""
    sys.stdout.flush()


class LogHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to the present `sys.stderr`, which the display replaces while an answer is drawn."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        self.stream = sys.stderr
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, sanitised because it may quote a server."""
        return clean(super().format(record))
