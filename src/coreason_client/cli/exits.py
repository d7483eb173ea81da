"""How the command ends: its exit codes, and errors as one sentence each."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum

import typer

from coreason_client import (
    ArgumentError,
    CAPConnectionError,
    CAPProtocolError,
    CAPRuntimeError,
    CoreasonError,
)

from .output import error as show_error
from .output import flush

__all__ = ["EXIT_CODES_HELP", "ExitCode", "Failure", "ending_well", "exit_code_of", "say_error"]


class ExitCode(IntEnum):
    """What a script can tell from the end of the command."""

    OK = 0
    FAILED = 1
    USAGE = 2
    CONNECTION = 3
    PROTOCOL = 4
    INTERRUPTED = 130
    CLOSED_PIPE = 141


# The \b keeps the lines of a paragraph as they are.
EXIT_CODES_HELP = """\
\b
Exit codes:
    0  done
    1  the agent, the model or a service answered with an error, or the command failed
    2  wrong usage
    3  no connection, or none that lasted
    4  the service broke the protocol
  130  interrupted
  141  the reader of the output went away
"""


class Failure(Exception):
    """An end that has been put into words for the person at the terminal."""

    def __init__(self, sentence: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(sentence)
        self.code = code


_WRITE_ERRORS = {errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG}

# By the exit code of each, the most special first.
_CODES: tuple[tuple[type[Exception], ExitCode], ...] = (
    (ArgumentError, ExitCode.USAGE),
    (CAPConnectionError, ExitCode.CONNECTION),
    (CAPProtocolError, ExitCode.PROTOCOL),
    (CAPRuntimeError, ExitCode.FAILED),
)


def exit_code_of(error: Exception) -> ExitCode:
    """Return the code for an error that this package raises on purpose."""
    if isinstance(error, Failure):
        return error.code
    codes = (code for kind, code in _CODES if isinstance(error, kind))
    return next(codes, None) or _llm_code_of(error) or _a2a_code_of(error)


def _llm_code_of(error: Exception) -> ExitCode | None:
    """Return the code for an error of the AI client, None for another one."""
    # Not at the head of the file: the other commands need nothing of this.
    from coreason_client import llm

    if not isinstance(error, llm.LLMError):
        return None
    if isinstance(error, llm.LLMConnectionError | llm.LLMTimeoutError):
        return ExitCode.CONNECTION
    if isinstance(error, llm.LLMResponseError):
        return ExitCode.PROTOCOL
    if isinstance(error, llm.LLMRequestError) and not error.attempts:
        return ExitCode.USAGE  # found before anything was sent
    return ExitCode.FAILED


def _a2a_code_of(error: Exception) -> ExitCode:
    from coreason_client import a2a  # as above

    if isinstance(error, a2a.A2AConnectionError | a2a.A2AStreamClosedError):
        return ExitCode.CONNECTION
    broken = (
        a2a.A2AEmptyResultError,
        a2a.A2AJSONError,
        a2a.A2AResponseTooLargeError,
        a2a.A2ASSEParseError,
    )
    if isinstance(error, broken):
        return ExitCode.PROTOCOL
    if isinstance(error, a2a.A2AHTTPError) and (error.status or 0) < 400:
        return ExitCode.PROTOCOL  # it called that a success
    return ExitCode.FAILED


@contextmanager
def ending_well() -> Iterator[None]:
    """Run a command: its errors become a sentence on stderr and an exit code, never a traceback."""
    try:
        yield
        flush()  # a reader that is gone is noticed here, not by the interpreter's end
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except BrokenPipeError:
        _let_go_of_stdout()
        raise typer.Exit(ExitCode.CLOSED_PIPE) from None
    except (Failure, CoreasonError) as error:  # some of them are an OSError too
        say_error(error)
        raise typer.Exit(exit_code_of(error)) from None
    except OSError as error:
        if error.filename is None and error.errno in _WRITE_ERRORS:
            _let_go_of_stdout()
            say_error(Failure(f"the output cannot be written: {error.strerror}"))
            raise typer.Exit(ExitCode.FAILED) from None
        raise


def say_error(error: Exception) -> None:
    """Put an error on stderr, in one line."""
    with suppress(BrokenPipeError):
        show_error(str(error))


def _let_go_of_stdout() -> None:
    """Point stdout at /dev/null so that the final flush does not fail."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
