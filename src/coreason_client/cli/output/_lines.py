"""Writes lines and tables to stdout and stderr, without control sequences of terminals."""

import logging
import os
import re
import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

# Well-formed escape sequences are removed as a whole. Of anything else only the control characters
# are removed, so words are never taken for a sequence. A string sequence (OSC, DCS, ...) without an
# end in its line and within `_MAX_STRING` characters counts as text.

_MAX_STRING = 1024
_CSI = "(?:\x1b\\[|\x9b)[0-?]{0,64}[ -/]{0,8}"
_STRING = f"(?:\x1b[\\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x00-\x1f\x7f-\x9f]{{0,{_MAX_STRING}}}"
_CHARSET = "\x1b[()*+]"
_SEQUENCE = re.compile(f"{_CSI}[@-~]|{_STRING}(?:\x07|\x9c|\x1b\\\\)|{_CHARSET}[0-9A-Z]")
# The end of a piece that may continue as a sequence in the next piece.
_UNFINISHED = re.compile(f"(?:{_CSI}|{_STRING}\x1b?|{_CHARSET}|\x1b)\\Z")

# Control characters other than newline and tab, characters that override the text direction, and
# surrogates, which cannot be encoded.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str) -> str:
    """Return a complete text without escape sequences and control characters."""
    return text if text.isprintable() else _CONTROL.sub("", _SEQUENCE.sub("", text))


def escaped_json(line: str) -> str:
    """Return the same JSON with all control characters escaped; JSON allows some unescaped."""
    return line if line.isprintable() else _CONTROL.sub(_escape, line)


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


class Cleaner:
    """Cleans a text that arrives in pieces; a sequence may be split between pieces."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """Add text; return what can be shown. An unfinished sequence is held back."""
        text, self._held = self._held + text, ""
        if unfinished := _UNFINISHED.search(text):
            text, self._held = text[: unfinished.start()], unfinished[0]
        return clean(text)

    def finish(self) -> str:
        """Return what was held back, cleaned, and start again with the next piece."""
        text, self._held = self._held, ""
        return clean(text)


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


# Tables. rich is loaded only in a terminal.


def show_table(title: str, description: str, rows: Iterable[tuple[str, str]]) -> None:
    """Show a title, a description if there is one, and the rows."""
    title, description = clean(title).strip(), clean(description).strip()
    if not sys.stdout.isatty():
        # rich would wrap the lines.
        lines = [
            title,
            *([description] if description else []),
            *(f"{name:<13}{text}" for name, text in rows),
        ]
        print_stdout("\n".join(lines))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, emoji=False)
    console.print(Text(title, style="bold"))
    if description:
        console.print(Text(description))
    table = Table.grid(padding=(0, 2))
    for name, text in rows:
        table.add_row(Text(clean(name), style="dim"), Text(clean(text), overflow="fold"))
    if table.row_count:  # rich prints a blank line for an empty table
        console.print(table)


def show_list(
    items: Iterable[T],
    json: Callable[[T], str],
    row: Callable[[T], tuple[str, ...]],
    *,
    as_json: bool,
) -> None:
    """Show items as they arrive, as lines of JSON or as rows."""
    if as_json:
        for item in items:
            print_json(json(item))
    else:
        show_rows(map(row, items))


def show_rows(rows: Iterable[tuple[str, ...]]) -> None:
    """Show rows as they arrive; the last text of a row may be long.

    In a pipe a row is one line with tabs between its texts. In a terminal the last text has its own
    line, which is truncated at the width of the terminal.
    """
    if sys.stdout.isatty():
        _draw_rows(rows)
    else:
        for row in rows:
            print_stdout("\t".join(_one_line(text) for text in row).rstrip("\t"))


def _draw_rows(rows: Iterable[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, emoji=False)
    for first, *others, last in rows:
        line = Text.assemble((_one_line(first), "bold"))
        for other in filter(None, others):
            line.append(f"  {_one_line(other)}")
        console.print(line, soft_wrap=True)
        if last:
            text = Text(f"  {_one_line(last)}", "dim")
            console.print(text, no_wrap=True, overflow="ellipsis")


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())
