"""Exit codes: each error has one, and its message is one line on stderr."""

import errno
import os

import pytest
import typer

from coreason_client import (
    A2AConnectionError,
    A2AEmptyResultError,
    A2AHTTPError,
    A2AJSONError,
    A2AStreamClosedError,
    ArgumentError,
    CAPConnectionError,
    CAPProtocolError,
    CAPRuntimeError,
    MissingExtraError,
)
from coreason_client.cli import exits
from coreason_client.cli.exits import ExitCode, Failure, exit_code_of, exit_codes
from coreason_client.llm import (
    LLMAuthenticationError,
    LLMConnectionError,
    LLMContextLengthError,
    LLMError,
    LLMQuotaError,
    LLMRequestError,
    LLMResponseError,
    LLMTimeoutError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Failure("x"), ExitCode.FAILED),
        (Failure("x", ExitCode.USAGE), ExitCode.USAGE),
        (ArgumentError("url", "must be text"), ExitCode.USAGE),
        (MissingExtraError("x", "llm"), ExitCode.FAILED),
        (CAPConnectionError("x"), ExitCode.CONNECTION),
        (CAPProtocolError("x"), ExitCode.PROTOCOL),
        (CAPRuntimeError("x"), ExitCode.FAILED),
        (A2AConnectionError("x"), ExitCode.CONNECTION),
        (A2AStreamClosedError("x"), ExitCode.CONNECTION),
        (A2AJSONError("x"), ExitCode.PROTOCOL),
        (A2AEmptyResultError("x"), ExitCode.PROTOCOL),
        (A2AHTTPError("x", status=200), ExitCode.PROTOCOL),
        (A2AHTTPError("x", status=399), ExitCode.PROTOCOL),
        (A2AHTTPError("x", status=400), ExitCode.FAILED),
        (A2AHTTPError("x", status=503), ExitCode.FAILED),
        (LLMConnectionError("x"), ExitCode.CONNECTION),
        (LLMTimeoutError("x", attempts=2), ExitCode.CONNECTION),
        (LLMResponseError("x", attempts=1), ExitCode.PROTOCOL),
        (LLMRequestError("x"), ExitCode.USAGE),
        (LLMRequestError("x", attempts=1), ExitCode.FAILED),
        (LLMContextLengthError("x", attempts=1), ExitCode.FAILED),
        (LLMAuthenticationError("x"), ExitCode.FAILED),
        (LLMQuotaError("x", attempts=1), ExitCode.FAILED),
        (LLMError("x"), ExitCode.FAILED),
    ],
)
def test_every_kind_of_error_has_its_code(error: Exception, code: ExitCode) -> None:
    assert exit_code_of(error) is code


def ended(error: BaseException) -> int:
    """Return the exit code of a command that raises an error."""
    with pytest.raises(typer.Exit) as caught, exit_codes():
        raise error
    return caught.value.exit_code


def test_an_error_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(Failure("two\nlines\x1b[2J", ExitCode.USAGE)) == 2
    assert capsys.readouterr() == ("", "error: two lines\n")


def test_an_interrupt_and_a_closed_pipe_have_no_message(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    discarded: list[None] = []
    monkeypatch.setattr(exits, "_discard_stdout", lambda: discarded.append(None))
    assert ended(KeyboardInterrupt()) == 130
    assert discarded == []
    assert ended(BrokenPipeError()) == 141
    assert discarded == [None]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG])
def test_output_that_cannot_be_written_is_an_error(
    number: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exits, "_discard_stdout", lambda: None)
    assert ended(OSError(number, os.strerror(number))) == 1
    message = f"error: the output cannot be written: {os.strerror(number)}\n"
    assert capsys.readouterr().err == message


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOENT, "no such file"),
        OSError(errno.ENOSPC, "no space left", "some-file"),
        ValueError("a defect"),
    ],
)
def test_an_unexpected_error_keeps_its_traceback(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, exit_codes():
        raise error
    assert caught.value is error


def test_a_command_without_an_error_just_ends() -> None:
    with exit_codes():
        pass


def test_the_help_lists_every_exit_code() -> None:
    listed = [line.split()[0] for line in exits.EXIT_CODES_HELP.splitlines()[2:]]
    assert listed == [str(code.value) for code in ExitCode]
