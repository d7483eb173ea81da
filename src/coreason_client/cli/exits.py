"""Exit codes and error messages of the command."""

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

from .output import flush, print_error

__all__ = [
    "EXIT_CODES_HELP",
    "EXIT_CODES_HINT",
    "ExitCode",
    "Failure",
    "epilog",
    "exit_code_of",
    "exit_codes",
    "reason_of",
    "report_error",
]


class ExitCode(IntEnum):
    """The exit codes that scripts can rely on."""

    OK = 0
    FAILED = 1
    USAGE = 2
    CONNECTION = 3
    PROTOCOL = 4
    INTERRUPTED = 130
    CLOSED_PIPE = 141


# The \b keeps the line breaks of a paragraph.
EXIT_CODES_HELP = """\
\b
Exit codes:
    0  success
    1  the agent, model or service returned an error, or the command failed
    2  wrong usage
    3  no connection, or the connection was lost
    4  the service violated the protocol
  130  interrupted
  141  the reader closed the output pipe
"""
EXIT_CODES_HINT = "coreason --help lists the exit codes."


def epilog(*examples: str, about: str = "") -> str:
    """Return the text below the help of a command: examples, a paragraph, the exit codes."""
    lines = "\n  ".join(["\b\nExamples:", *examples])
    return "\n\n".join(filter(None, [lines, about, EXIT_CODES_HINT]))


class Failure(Exception):
    """An error whose message is shown to the user, with the exit code."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


def reason_of(error: Exception) -> str:
    """Return why a file or an address cannot be used, in the words of the system."""
    return str(getattr(error, "strerror", None) or error).lower()


_WRITE_ERRORS = {errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG}

# Subclasses come before their base classes.
_CODES: tuple[tuple[type[Exception], ExitCode], ...] = (
    (ArgumentError, ExitCode.USAGE),
    (CAPConnectionError, ExitCode.CONNECTION),
    (CAPProtocolError, ExitCode.PROTOCOL),
    (CAPRuntimeError, ExitCode.FAILED),
)


def exit_code_of(error: Exception) -> ExitCode:
    """Return the exit code for an error of this package."""
    if isinstance(error, Failure):
        return error.code
    codes = (code for kind, code in _CODES if isinstance(error, kind))
    return next(codes, None) or _llm_code_of(error) or _a2a_code_of(error)


def _llm_code_of(error: Exception) -> ExitCode | None:
    """Return the exit code for an error of the AI client, None for any other error."""
    # Imported here because the other commands do not need it.
    from coreason_client import llm

    if not isinstance(error, llm.LLMError):
        return None
    if isinstance(error, llm.LLMConnectionError | llm.LLMTimeoutError):
        return ExitCode.CONNECTION
    if isinstance(error, llm.LLMResponseError):
        return ExitCode.PROTOCOL
    if isinstance(error, llm.LLMRequestError) and not error.attempts:
        return ExitCode.USAGE  # rejected before anything was sent
    return ExitCode.FAILED


def _a2a_code_of(error: Exception) -> ExitCode:
    from coreason_client import a2a  # as above

    if isinstance(error, a2a.A2AConnectionError | a2a.A2AStreamClosedError):
        return ExitCode.CONNECTION
    protocol_errors = (
        a2a.A2AEmptyResultError,
        a2a.A2AJSONError,
        a2a.A2AResponseTooLargeError,
        a2a.A2ASSEParseError,
    )
    if isinstance(error, protocol_errors):
        return ExitCode.PROTOCOL
    if isinstance(error, a2a.A2AHTTPError) and (error.status or 0) < 400:
        return ExitCode.PROTOCOL  # the status says success, but the response is invalid
    return ExitCode.FAILED


@contextmanager
def exit_codes() -> Iterator[None]:
    """Run a command; turn its errors into one line on stderr and an exit code."""
    try:
        yield
        flush()  # a closed pipe is noticed here, not when the interpreter exits
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except BrokenPipeError:
        _discard_stdout()
        raise typer.Exit(ExitCode.CLOSED_PIPE) from None
    except (Failure, CoreasonError) as error:  # before OSError, because some of them are one
        report_error(error)
        raise typer.Exit(exit_code_of(error)) from None
    except OSError as error:
        if error.filename is None and error.errno in _WRITE_ERRORS:
            _discard_stdout()
            report_error(Failure(f"the output cannot be written: {error.strerror}"))
            raise typer.Exit(ExitCode.FAILED) from None
        raise


def report_error(error: Exception) -> None:
    """Write an error to stderr as one line."""
    with suppress(BrokenPipeError):
        print_error(str(error))


def _discard_stdout() -> None:
    """Point stdout at /dev/null so that the final flush does not fail."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
