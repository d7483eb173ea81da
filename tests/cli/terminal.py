"""A terminal of the tests' own: what it is sent becomes a screen and what has scrolled off it."""

import io
import threading
from collections.abc import Callable

import pyte

__all__ = ["Emulator", "EmulatorFile", "squeezed"]


class Emulator:
    """A screen with its scrollback."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._screen = pyte.HistoryScreen(columns, rows, history=100_000, ratio=0.5)
        self._stream = pyte.Stream(self._screen)

    def feed(self, text: str) -> None:
        self._stream.feed(text)

    def resize(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._screen.resize(rows, columns)

    @property
    def lines(self) -> list[str]:
        """The scrollback and the screen, without blanks at the ends of lines."""
        above = list(self._screen.history.top)
        on_screen = [self._screen.buffer[row] for row in range(self._screen.lines)]
        shown = [
            "".join(line[column].data for column in range(self._screen.columns)).rstrip()
            for line in (*above, *on_screen)
        ]
        while shown and not shown[-1]:
            shown.pop()
        return shown

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


class EmulatorFile(io.StringIO):
    """A file whose text goes to an emulator, as a terminal driver would pass it on.

    `delay` is called before each write. Two threads in `write` at once are an error of the caller.
    """

    def __init__(self, emulator: Emulator, delay: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._emulator = emulator
        self._delay = delay
        self._writing = threading.Lock()
        self.writes = 0

    def write(self, text: str) -> int:
        assert self._writing.acquire(blocking=False), "two threads draw at the same time"
        try:
            self._delay()
            self._emulator.feed(text.replace("\n", "\r\n"))
            self.writes += 1
        finally:
            self._writing.release()
        return len(text)


def squeezed(text: str) -> str:
    """Take all blanks out of a text: how it is wrapped does not matter, only what is there."""
    return "".join(text.split())
