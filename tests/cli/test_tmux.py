"""An answer in tmux, which wraps rows again at a resize, and keeps a copy of an erased screen."""

import os
import re
import shlex
import shutil
import subprocess
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from tests.programs import missing

from .command import COMMAND, PATIENCE, Process, environment

ITEMS = [f"Item{number:03d}" for number in range(45)]
RESIZES = {12: (50, 20), 21: (100, 30), 30: (40, 12), 39: (80, 24)}  # after these items
LONG = "is a sentence with so many words that it needs more than one row of the terminal."
AGENT = textwrap.dedent(
    f"""
    import asyncio

    async def agent(request, stream):
        for number in range({len(ITEMS)}):
            end = "\\n\\n" if number % 3 == 2 else "\\n"
            await stream.write(f"Item{{number:03d}} {LONG}{{end}}")
            # A drawing on its way to tmux during a resize would have the wrong number of rows.
            await asyncio.sleep(0.6 if number in {list(RESIZES)} else 0.03)
        await stream.write("The end.")
    """
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("listing")
    (folder / "listing.py").write_text(AGENT)
    with Process("serve", "listing:agent", "--port", "0", cwd=folder) as process:
        [found] = re.findall(r"at (http://127\.0\.0\.1:\d+)", process.expect("}'\n"))
        yield found


class Tmux:
    """A command in a pane, after `clear`."""

    def __init__(self, socket: Path, size: tuple[int, int], *arguments: str) -> None:
        self._tmux = shutil.which("tmux") or missing("tmux", "install the package tmux")
        self._socket = socket
        self._size = size
        self._command = f"clear; {shlex.join([*COMMAND, *arguments])}; exec cat"

    def __enter__(self) -> Self:
        columns, rows = (str(number) for number in self._size)
        self._run("new-session", "-d", "-x", columns, "-y", rows, "sh", "-c", self._command)
        return self

    def __exit__(self, *_: object) -> None:
        self._run("kill-server")

    def resize(self, columns: int, rows: int) -> None:
        self._run("resize-window", "-x", str(columns), "-y", str(rows))

    @property
    def text(self) -> str:
        """The scrollback and the screen, without white space."""
        return "".join(self._run("capture-pane", "-p", "-S", "-").split())

    def sees(self, text: str) -> str:
        """Wait for a text; return all that is shown then."""
        deadline = time.monotonic() + PATIENCE
        while text not in (shown := self.text):
            assert time.monotonic() < deadline, f"{text!r} is not in {shown}"
            time.sleep(0.02)
        return shown

    def _run(self, *arguments: str) -> str:
        env = {name: value for name, value in environment().items() if name != "TMUX"}
        command = [self._tmux, "-S", str(self._socket), "-f", os.devnull, *arguments]
        return subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=True
        ).stdout


def expected() -> str:
    return "".join(f"{item}{LONG}".replace(" ", "") for item in ITEMS) + "Theend."


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (33, 12)], ids=lambda size: str(size[0]))
def test_a_long_answer_is_there_once_after_clear(
    url: str, size: tuple[int, int], tmp_path: Path
) -> None:
    with Tmux(tmp_path / "s", size, "chat", "--url", url, "hello") as tmux:
        assert tmux.sees("Theend.") == expected()


def test_it_is_there_once_after_resizes(url: str, tmp_path: Path) -> None:
    with Tmux(tmp_path / "s", (80, 24), "chat", "--url", url, "hello") as tmux:
        for item, (columns, rows) in RESIZES.items():
            tmux.sees(ITEMS[item])
            tmux.resize(columns, rows)
        assert tmux.sees("Theend.") == expected()
