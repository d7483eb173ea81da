"""What a command asks: its argument, stdin, or one after the other.

An argument is followed by what is piped in, as in `git diff | coreason llm "Explain."`. A command
that was started with a pipe which nobody writes to or closes (by a supervisor, by ssh without a
terminal) must not wait for ever: with an argument, the first byte has `FIRST_BYTE_WITHIN` seconds.
A `-` after the argument waits as long as it takes.
"""

import os
import select
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer

from .exits import ExitCode, Failure
from .output import note

__all__ = ["FIRST_BYTE_WITHIN", "Words", "question"]

FIRST_BYTE_WITHIN = 10.0

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TEXT] [-]",
        help="What to ask; text that is piped in follows it. - is all of stdin.",
        show_default=False,
    ),
]


def question(words: Sequence[str] | None) -> str:
    """Return the question.

    Raises:
        Failure: there is none, or there are several.
    """
    texts = [word for word in words or () if word != "-"]
    from_stdin = len(words or ()) > len(texts)
    if len(texts) > 1 or len(words or ()) > 2:
        raise Failure(
            f"expected one TEXT, got {len(words or ())} arguments: put quotes around the text",
            ExitCode.USAGE,
        )
    if not texts:
        return _all_of_stdin()
    [text] = texts
    if not text.strip():
        raise Failure("there is nothing to ask: TEXT is empty", ExitCode.USAGE)
    piped = _read() if from_stdin or _is_piped() else ""
    return f"{text}\n\n{piped}" if piped else text


def _all_of_stdin() -> str:
    text = _read()
    if not text:
        raise Failure(
            "there is nothing to ask: give TEXT as an argument or on stdin", ExitCode.USAGE
        )
    return text


def _read() -> str:
    if sys.stdin is None or sys.stdin.closed:
        return ""
    if sys.stdin.isatty():
        note("Type what to ask; Ctrl-D on an empty line ends it.")
    return sys.stdin.read().strip()


def _is_piped() -> bool:
    """Return True if stdin is a file, or a pipe in which something has arrived or which has ended.

    Nothing else is read beside an argument: a terminal and other devices may never end.
    """
    try:
        fd = sys.stdin.fileno()
        mode = os.fstat(fd).st_mode
    except (OSError, ValueError, AttributeError):  # closed, or none at all
        return False
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return stat.S_ISREG(mode)
    with suppress(OSError):  # a system that cannot wait for a pipe
        if not select.select([fd], [], [], FIRST_BYTE_WITHIN)[0]:
            note(
                f"warning: stdin is open, but nothing arrived within {FIRST_BYTE_WITHIN:g} seconds;"
                " asking without it. Add - to wait for it, or </dev/null to ask at once."
            )
            return False
    return True
