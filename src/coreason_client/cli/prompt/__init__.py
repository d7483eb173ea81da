"""The prompt of a conversation: how lines are typed, kept and understood."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from .._user_folders import user_file
from ..output import echo_off
from ._history_file import HistoryFile
from ._line_rules import Command, Mistake, command_help, leaves_after_ctrl_c, parse_line
from ._reader import PROMPT, LineCleared, LineReader, PlainReader, ReadInterrupted, typed_row

__all__ = [
    "NO_HISTORY_VARIABLE",
    "Command",
    "LineCleared",
    "LineReader",
    "Mistake",
    "ReadInterrupted",
    "command_help",
    "leaves_after_ctrl_c",
    "open_reader",
    "parse_line",
    "typed_row",
]

NO_HISTORY_VARIABLE = "COREASON_NO_HISTORY"


@contextmanager
def open_reader(*, as_json: bool) -> Iterator[LineReader]:
    """Yield the reader for this stdin, stdout and terminal."""
    if as_json or not _can_edit():
        yield PlainReader()
        return
    from ._editor import Editor  # prompt_toolkit is loaded only here

    with echo_off(sys.stdin.fileno()):
        yield Editor(PROMPT, _history())


def _can_edit() -> bool:
    return (
        sys.stdin.isatty()
        and sys.stdout.isatty()
        and os.environ.get("TERM", "").lower() not in {"dumb", "unknown"}
        and find_spec("prompt_toolkit") is not None
    )


def _history() -> HistoryFile:
    if os.environ.get(NO_HISTORY_VARIABLE):
        return HistoryFile(None)
    try:
        return HistoryFile(user_file("state", "chat_history"))
    except RuntimeError:  # the home directory is unknown
        return HistoryFile(None)
