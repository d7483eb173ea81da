"""Everything that the command writes. No other part of it writes to stdout or stderr.

An `Output` shows one answer: as JSON lines, as plain text, or drawn in a terminal. The functions
write single lines. All of them remove what could control a terminal from the text that they get,
so that nobody else has to.
"""

from collections.abc import Callable

from ._base import Json, Output, Source
from ._lines import LogHandler, aside, error, flush, note, prompt, say

__all__ = [
    "Json",
    "LogHandler",
    "Output",
    "Source",
    "aside",
    "error",
    "flush",
    "note",
    "open_output",
    "prompt",
    "say",
    "show_table",
]


def open_output(*, as_json: bool, status: Callable[[], str] = str) -> Output:
    """Return JSON if it was asked for, a drawing if stdout can be redrawn, and else plain text.

    `status` gives a line to show below an answer while it is drawn, or nothing.
    """
    if as_json:
        from ._json import JsonOutput

        return JsonOutput()
    from ._live import LiveOutput, live_console

    if (console := live_console()) is not None:
        return LiveOutput(console, status)
    from ._plain import PlainOutput

    return PlainOutput()


def show_table(title: str, about: str, rows: list[tuple[str, str]]) -> None:
    """Show names and values below a title, in columns."""
    from ._table import show_table as show

    show(title, about, rows)
