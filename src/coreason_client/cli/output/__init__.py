"""Everything that the command writes. Only this package writes to stdout and stderr.

An `Output` shows one answer: as JSON lines, as plain text, or drawn in a terminal. The functions
write single lines. All of them sanitise their text, so callers need not remove control characters.
"""

from collections.abc import Callable, Iterable

from ._base import Json, Output, Source
from ._keyboard import echo_off
from ._lines import (
    LogHandler,
    clean,
    escaped_json,
    flush,
    print_dimmed,
    print_error,
    print_stderr,
    print_stdout,
    prompt,
)

__all__ = [
    "Json",
    "LogHandler",
    "Output",
    "Source",
    "clean",
    "echo_off",
    "escaped_json",
    "flush",
    "open_output",
    "print_dimmed",
    "print_error",
    "print_stderr",
    "print_stdout",
    "prompt",
    "show_rows",
    "show_table",
]


def open_output(*, as_json: bool, status: Callable[[], str] = str) -> Output:
    """Return the output for JSON, or for a terminal that can be redrawn, or for plain text.

    `status` returns a line to show below an answer while it is drawn, or an empty string.
    """
    if as_json:
        from ._plain import JsonOutput

        return JsonOutput()
    from ._live import LiveOutput, live_console

    if (console := live_console()) is not None:
        return LiveOutput(console, status)
    from ._plain import PlainOutput

    return PlainOutput()


def show_table(title: str, description: str, rows: list[tuple[str, str]]) -> None:
    """Show a title, a description and a table of names and values."""
    from ._table import show_table as show

    show(title, description, rows)


def show_rows(rows: Iterable[tuple[str, ...]]) -> None:
    """Show rows as they arrive; the last text of a row may be long.

    In a pipe a row is one line with tabs between its texts. In a terminal the last text has a line
    of its own, which is truncated at the width of the terminal.
    """
    from ._table import show_rows as show

    show(rows)
