"""The question of a command: its argument, stdin, or both.

Piped text follows the argument, as in `git diff | coreason llm "Explain."`. A supervisor, or ssh
without a terminal, may start a command with a pipe that is never written to or closed. The command
must not wait for it forever: beside an argument, the first byte must arrive within
`FIRST_BYTE_TIMEOUT` seconds. With `-` after the argument there is no limit.
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
from .output import print_stderr

FIRST_BYTE_TIMEOUT = 10.0

TextArguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TEXT] [-]", help="The question; piped text is appended. - reads all of stdin."
    ),
]


def joined_words(words: Sequence[str] | None) -> list[str]:
    """Return the arguments of `question` for a text whose words need no quotes.

    Only a `-` at the beginning or the end means stdin.
    """
    words = list(words or ())
    from_stdin = "-" in (words[:1] + words[-1:])
    if from_stdin:
        words.pop(0 if words[0] == "-" else -1)
    return [*([" ".join(words)] if words else []), *(["-"] if from_stdin else [])]


def question(
    arguments: Sequence[str] | None, *, optional: bool = False, stdin_is_used: bool = False
) -> str:
    """Return the question; an empty string if there is none and it is `optional`.

    With `stdin_is_used`, stdin is something else, so it is not read.

    Raises:
        Failure: there is no question, or more than one, or it should be read from a used stdin.
    """
    texts = [argument for argument in arguments or () if argument != "-"]
    from_stdin = len(arguments or ()) > len(texts)
    if len(texts) > 1 or len(arguments or ()) > 2:
        raise Failure(
            f"expected one TEXT, got {len(arguments or ())} arguments: put quotes around the text",
            ExitCode.USAGE,
        )
    if from_stdin and stdin_is_used:
        raise Failure("- can be given once: stdin is already the attachment", ExitCode.USAGE)
    if not texts and not from_stdin and optional:
        return _read() if not stdin_is_used and _is_piped() else ""
    if not texts:
        if not (text := _read()):
            raise Failure("nothing to ask: give TEXT as an argument or on stdin", ExitCode.USAGE)
        return text
    [text] = texts
    if not text.strip():
        raise Failure("nothing to ask: TEXT is empty", ExitCode.USAGE)
    piped = _read() if from_stdin or (not stdin_is_used and _is_piped()) else ""
    return f"{text}\n\n{piped}" if piped else text


def _read() -> str:
    if sys.stdin is None or sys.stdin.closed:
        return ""
    if sys.stdin.isatty():
        print_stderr("Type your question; end it with Ctrl-D on an empty line.")
    return sys.stdin.read().strip()


def _is_piped() -> bool:
    """Return True if stdin is a file, or a pipe that has data or has been closed.

    Nothing else is read beside an argument: terminals and other devices may never end.
    """
    try:
        fd = sys.stdin.fileno()
        mode = os.fstat(fd).st_mode
    except (OSError, ValueError, AttributeError):  # closed or missing
        return False
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return stat.S_ISREG(mode)
    with suppress(OSError):  # select cannot wait for pipes on every system
        if not select.select([fd], [], [], FIRST_BYTE_TIMEOUT)[0]:
            print_stderr(
                f"warning: nothing arrived on stdin within {FIRST_BYTE_TIMEOUT:g} seconds;"
                " asking without it. Add - to wait for it, or </dev/null to ask at once."
            )
            return False
    return True
