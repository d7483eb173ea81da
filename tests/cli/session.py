"""The command on a terminal of a size; everything it writes goes to an emulator too."""

import fcntl
import struct
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .command import PATIENCE, Process
from .terminal import Emulator

__all__ = ["Session"]

# Bracketed paste is turned on by each prompt, when the terminal is ready for keys.
_READY = "\x1b[?2004h"


class Session(Process):
    """The screen and the keys of a person."""

    def __init__(
        self,
        *arguments: str,
        size: tuple[int, int] = (80, 24),
        script: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        super().__init__(*arguments, terminal=True, size=size, script=script, env=env, cwd=cwd)
        self.emulator = Emulator(*size)

    def received(self, text: str) -> None:
        self.emulator.feed(text)

    def at_prompt(self) -> None:
        """Wait for the next prompt."""
        self.expect(_READY)

    def say(self, text: str) -> None:
        """Wait for the next prompt, type a text there and press Enter."""
        self.at_prompt()
        self.send(f"{text}\r")

    def sees(self, text: str) -> None:
        """Wait until a text is on the screen or has scrolled off it."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.emulator.text:
            assert self._read(deadline), f"{text!r} is not in\n{self.emulator.text}"

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.emulator.resize(columns, rows)

    @property
    def echoes(self) -> bool:
        attributes: list[Any] = termios.tcgetattr(self.fd)
        return bool(attributes[3] & termios.ECHO)

    def comes_to_echo(self, wanted: bool) -> bool:
        deadline = time.monotonic() + PATIENCE
        while self.echoes is not wanted and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.echoes is wanted
