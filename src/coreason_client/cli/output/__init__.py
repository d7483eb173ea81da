"""Everything that the command writes. Only this package writes to stdout and stderr.

An `Output` shows one answer: as JSON lines, as plain text, or drawn in a terminal. The functions
write single lines. All of them sanitise their text, so callers need not remove control characters.
"""

from collections.abc import Callable

from ._base import Json, JsonOutput, Output, PlainOutput, Source
from ._keyboard import echo_off, typed_ahead
from ._lines import (
    LogHandler,
    clean,
    escaped_json,
    flush,
    print_dimmed,
    print_error,
    print_json,
    print_stderr,
    print_stdout,
    prompt,
    show_list,
    show_rows,
    show_table,
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
    "print_json",
    "print_stderr",
    "print_stdout",
    "prompt",
    "show_list",
    "show_rows",
    "show_table",
    "typed_ahead",
]


def open_output(*, as_json: bool, status: Callable[[], str] = str) -> Output:
    """Return the output for JSON, or for a terminal that can be redrawn, or for plain text.

    `status` returns a line to show below an answer while it is drawn, or an empty string.
    """
    if as_json:
        return JsonOutput()
    from ._live import LiveOutput, live_console

    if (console := live_console()) is not None:
        return LiveOutput(console, status)
    return PlainOutput()
