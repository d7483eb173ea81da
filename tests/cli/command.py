"""Runs the command, in another process or in this one; every wait is bounded."""

import atexit
import codecs
import ctypes
import fcntl
import io
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self
from unittest.mock import patch

import pytest
import typer
from typer.testing import CliRunner

from coreason_client.cli._app import app
from tests.preloaded import PROJECT, PreloadedProcess

PATIENCE = 30.0
COMMAND = [sys.executable, "-m", "coreason_client"]
MODEL_VARIABLES = ("LLM_", "DEFAULT_MODEL", "AI_TIMEOUT", "MAX_RETRIES")
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r")


# Built once, which takes longer than most commands; what a line says is in a context.
command_of = cache(typer.main.get_command)


@cache
def user_folder() -> str:
    """A folder for the files of the user, which are not among those of the developer."""
    folder = tempfile.mkdtemp(prefix="coreason-data-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a developer's shell, without any that change the command."""
    changing = ("COREASON_", "NO_COLOR", "FORCE_COLOR", "TTY_", "PYTHON", *MODEL_VARIABLES)
    kept = {
        name: value
        for name, value in os.environ.items()
        if (name == "PYTHONPATH" or not name.startswith(changing))  # it has a changed copy of us
        and not name.endswith("_API_KEY")
    }
    folders = {f"XDG_{kind}_HOME": user_folder() for kind in ("CONFIG", "DATA", "STATE")}
    set_here = {"TERM": "xterm-256color", "PYTHONWARNINGS": "error", **folders}
    return {**kept, **set_here, **(extra or {})}


def coreason(
    *arguments: str,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, its output into pipes."""
    return subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        env=environment(env),
        cwd=cwd,
        timeout=PATIENCE,
        check=False,
    )


def coreason_here(
    *arguments: str,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the command in this process, which saves the start of an interpreter.

    stdin is a real pipe, or /dev/null; stdout and stderr are not terminals.
    """
    out, err = io.StringIO(), io.StringIO()
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, environment(env), clear=True))
        stack.enter_context(patch("sys.stdin", stack.enter_context(os.fdopen(_input(stdin)))))
        stack.enter_context(redirect_stdout(out))
        stack.enter_context(redirect_stderr(err))
        if cwd is not None:
            stack.enter_context(chdir(cwd))
        command = command_of(app)
        with pytest.raises(SystemExit) as ended:
            command.main(list(arguments), prog_name="coreason")
    code = ended.value.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(arguments, int(code), out.getvalue(), err.getvalue())


def run_a2a(*arguments: str, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Run `coreason a2a` in this process with an empty stdin; return its exit code and output."""
    result = CliRunner().invoke(app, ["a2a", *arguments], env=env)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def _input(text: str | None) -> int:
    """Return a descriptor to read a text from, which must be shorter than a pipe can hold."""
    if text is None:
        return os.open(os.devnull, os.O_RDONLY)
    ours, theirs = os.pipe()
    os.write(theirs, text.encode())
    os.close(theirs)
    return ours


class Process:
    """The command while it runs; its output is read up to a text that must come."""

    def __init__(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        terminal: bool = False,
        size: tuple[int, int] | None = None,
        script: str | None = None,
        fresh: bool = False,
    ) -> None:
        """Start it; `script` is for a shell, which has the command in its parameters.

        With `fresh`, or in a shell, in a new interpreter from the start.
        """
        self._output, theirs = pty.openpty() if terminal else os.pipe()
        if size is not None:
            columns, rows = size
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.text = ""
        # A file and not a pipe: a server that logs would stop at a pipe that nobody reads.
        self._errors = None if terminal else tempfile.TemporaryFile()  # noqa: SIM115
        errors = theirs if self._errors is None else self._errors.fileno()
        start = _start_preloaded if script is None and not fresh else _start_fresh
        line = [*COMMAND, *arguments]
        if script is not None:
            line = ["/bin/sh", "-c", script, "sh", *line]
        self._process = start(line, theirs, errors, environment(env), cwd, terminal)
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(PATIENCE)
        if self._errors is not None:
            self._errors.close()
        os.close(self._output)

    def expect(self, text: str) -> str:
        """Read until the text has come; return what came up to its end, and forget that."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.text:
            assert self._read(deadline), f"{text!r} did not come; there was {self.text!r}"
        before, _, self.text = self.text.partition(text)
        return before + text

    def send(self, text: str) -> None:
        """Type something."""
        os.write(self._output, text.encode())

    def signal_another_thread(self, number: int) -> None:
        """Send a signal on Linux to a thread that is not the main one, which does not wake that."""
        pid = self._process.pid
        threads = {int(one.name) for one in Path(f"/proc/{pid}/task").iterdir()}
        assert ctypes.CDLL(None).tgkill(pid, max(threads - {pid}), number) == 0

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    @property
    def fd(self) -> int:
        """Our end of the terminal or the pipe."""
        return self._output

    def received(self, text: str) -> None:
        """Handle output as it arrives; for subclasses."""

    def hang_up(self) -> None:
        """Stop reading the output for good."""
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, self._output)
        os.close(null)

    def press(self, key: str, text: str) -> str:
        """Press a key until the text comes; see `expect`.

        More than once, as a person would: a signal that comes in the instant between printing the
        prompt and waiting for a key is seen by Python's readline only with the next signal.
        """
        deadline = time.monotonic() + PATIENCE
        self.send(key)
        while not select.select([self._output], [], [], PATIENCE / 4)[0]:
            assert time.monotonic() < deadline, f"{text!r} did not come; there was {self.text!r}"
            self.send(key)
        return self.expect(text)

    def expect_error(self, text: str, times: int = 1) -> None:
        """Wait until stderr has a text so many times."""
        deadline = time.monotonic() + PATIENCE
        while self.errors.count(text) < times:
            assert time.monotonic() < deadline, f"{text!r} did not come in {self.errors!r}"
            time.sleep(0.02)

    def wait(self) -> int:
        """Wait for the end without reading the output."""
        return self._process.wait(PATIENCE)

    def end(self, press: str = "") -> int:
        """Wait for the end, pressing a key until it comes (see `press`).

        The rest of the output is in `text`.
        """
        deadline = time.monotonic() + PATIENCE
        while press and not self._ends_within(2.0):
            assert time.monotonic() < deadline, f"it did not end; there was {self.text!r}"
            self.send(press)
        while self._read(deadline):
            pass
        return self._process.wait(PATIENCE)

    def _ends_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while select.select([self._output], [], [], max(deadline - time.monotonic(), 0))[0]:
            if not self._read(deadline):
                return True
        return False

    @property
    def errors(self) -> str:
        """The stderr so far, not in a terminal."""
        assert self._errors is not None
        # The process shares the position of the file, so it must not be moved.
        size = os.fstat(self._errors.fileno()).st_size
        return os.pread(self._errors.fileno(), size, 0).decode(errors="replace")

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._output], [], [], max(deadline - time.monotonic(), 0))
        assert ready, f"no more output in time; there was {self.text!r}"
        try:
            data = os.read(self._output, 65536)
        except OSError:  # how a terminal says that nobody has it open any more
            return False
        text = self._decoder.decode(data)
        self.received(text)
        self.text += text
        return bool(data)


def shown(text: str) -> str:
    """Take the control sequences out of what a terminal was sent."""
    return CONTROL.sub("", text)


def _start_fresh(
    line: list[str],
    output: int,
    errors: int,
    env: Mapping[str, str],
    cwd: Path | None,
    terminal: bool,
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        line,
        stdin=output if terminal else subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        env=env,
        cwd=cwd,
        start_new_session=True,
        preexec_fn=_own_terminal if terminal else _usual_signals,
    )


def _start_preloaded(
    line: list[str],
    output: int,
    errors: int,
    env: Mapping[str, str],
    cwd: Path | None,
    terminal: bool,
) -> PreloadedProcess:
    with Path(os.devnull).open("rb") as null:
        return PreloadedProcess(
            line[1:],
            stdin=output if terminal else null.fileno(),
            stdout=output,
            stderr=errors,
            env=env,
            cwd=cwd,
            terminal=terminal,
            libraries=PROJECT,
        )


def _usual_signals() -> None:
    # Under a shell without job control SIGINT is ignored, and children inherit that.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _own_terminal() -> None:
    _usual_signals()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
