"""Draws an answer in a terminal: finished blocks once, the rest again whenever it changes."""

import io
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Self, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from coreason_manifest.definitions.presentation import ProgressUpdate

from ._base import Output, Source
from ._keyboard import EchoSwitch
from ._lines import clean
from ._page import AnswerPage, PageAction, PageHistory
from ._screen import Screen


def live_console() -> Console | None:
    """Return a console for stdout, or None if it is not a terminal that can be redrawn."""
    console = Console(highlight=False, emoji=False)
    # rich also calls a pipe a terminal when FORCE_COLOR is set, but a pipe cannot be redrawn.
    drawable = sys.stdout.isatty() and not console.is_dumb_terminal and not console.legacy_windows
    return console if drawable else None


class LiveOutput(Output):
    """Shows one answer in a terminal, with the line that `status` returns while it is written."""

    can_rewind = True

    def __init__(self, console: Console, status: Callable[[], str] = str) -> None:
        page = AnswerPage()
        screen = Screen(console)
        self._history = PageHistory(page, screen)
        self._painter = Painter(page, screen, status)
        self._seq: int | None = None
        self._terminal = _Terminal(_keyboard(console, self._painter), self._log_line)

    def __enter__(self) -> Self:
        try:
            self._terminal.start()
            self._painter.start()
        except BaseException:  # Ctrl-C too
            self._terminal.stop()
            raise
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        try:
            self._painter.stop()
        except OSError:
            if exc_type is None:
                raise
            return
        finally:
            self._terminal.stop()
        if exc_type is KeyboardInterrupt:
            self._add(Text("stopped", style="dim"))

    def begin_packet(self, seq: int) -> None:
        """Begin the packet with this number."""
        self._seq = seq

    def rewind(self, to_seq: int) -> None:
        """Remove the void parts, or show the valid ones again if void parts have scrolled away."""
        self._painter.do(lambda: self._history.rewind(to_seq))

    def write(self, text: str) -> None:
        """Continue the text."""
        self._do(lambda page: page.write(text))

    def end_text(self, *, as_written: bool = False) -> None:
        """End the text; the next text starts a new block."""
        self._do(lambda page: page.end_text(as_written=as_written))

    def block(self, text: str) -> None:
        """Show Markdown that does not continue the text."""
        self._do(lambda page: page.add_block(text))

    def line(self, text: str) -> None:
        """Show a line that is not Markdown."""
        self._add(Text(clean(text)))

    def thought(self, text: str) -> None:
        """Show a thought, dimmed."""
        self._add(Text(clean(text), style="dim italic"))

    def progress(self, update: ProgressUpdate) -> None:
        """Show a progress bar, which stays visible when the step has ended."""
        self._do(lambda page: page.progress(update))

    def detail(self, text: str) -> None:
        """Show one line, dimmed and truncated at the width of the terminal."""
        line = clean(text).replace("\n", " ")
        self._add(Text(line, style="dim", overflow="ellipsis", no_wrap=True))

    def info(self, text: str) -> None:
        """Show a line that is not part of the answer, dimmed."""
        self._add(Text(clean(text), style="dim"))

    def warning(self, text: str) -> None:
        """Show a warning in yellow."""
        self._add(Text(clean(text), style="yellow"))

    def sources(self, sources: Sequence[Source]) -> None:
        """Show a table below a title."""
        table = Table.grid(padding=(0, 1))
        table.add_column()
        table.add_column(overflow="fold")
        for number, title, uri in sources:
            line = Text.assemble(clean(title), "  ", (clean(uri), "dim"))
            table.add_row(Text(f"[{number}]", style="cyan"), line)
        self._add(Text())
        self._add(Text("Sources", style="bold"))
        self._add(table)

    def report(self, text: str) -> None:
        """Show a sentence about the answer, below it."""
        self._add(Text())
        self._add(Text(clean(text), style="bold"))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop drawing, and turn on the echo, while the block runs."""
        self._painter.pause()
        self._terminal.stop()
        try:
            yield
        finally:
            self._terminal.start()
            self._painter.resume()

    def _add(self, part: Text | Table) -> None:
        self._do(lambda page: page.add(part))

    def _do(self, action: PageAction) -> None:
        seq = self._seq
        self._painter.do(lambda: self._history.do(seq, action))

    def _log_line(self, line: str) -> None:
        part = Text(clean(line))
        with suppress(OSError):  # the next write of the answer raises the same error
            self._painter.do(lambda: self._history.do(None, lambda page: page.add(part)))


class _Terminal:
    """The keyboard and stderr while an answer is drawn; `on_line` gets the lines of stderr."""

    def __init__(self, keyboard: EchoSwitch | None, on_line: Callable[[str], None]) -> None:
        self._keyboard = keyboard
        self._on_line = on_line
        self._stderr: TextIO | None = None

    def start(self) -> None:
        if self._keyboard is not None:
            self._keyboard.start()
        if sys.stderr.isatty():  # it is probably the same screen
            self._stderr, sys.stderr = sys.stderr, _LineCallback(self._on_line)

    def stop(self) -> None:
        if self._stderr is not None:
            sys.stderr.flush()
            sys.stderr, self._stderr = self._stderr, None
        if self._keyboard is not None:
            self._keyboard.stop()


class _LineCallback(io.TextIOBase):
    """Replaces stderr; calls a function with each line."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._partial = ""

    def write(self, text: str) -> int:
        *lines, self._partial = (self._partial + text).split("\n")
        for line in lines:
            self._on_line(line)
        return len(text)

    def flush(self) -> None:
        line, self._partial = self._partial, ""
        if line:
            self._on_line(line)


def _keyboard(console: Console, painter: "Painter") -> EchoSwitch | None:
    try:
        fd = console.file.fileno()
    except (OSError, ValueError):  # not a real file
        return None
    return EchoSwitch(fd, painter.pause, painter.resume, painter.stop_soon)


_INTERVAL = 1 / 12  # seconds between two drawings
_REST_FACTOR = 3  # the thread rests this many times as long as the last drawing took
_STOP_TIMEOUT = 2.0  # seconds that a signal handler waits for the thread


class Painter:
    """The thread that draws a page on a screen while it changes.

    Every change of the page or the screen is an action; one thread performs the actions in order.
    So no locks are needed. Python raises KeyboardInterrupt only in the main thread, so Ctrl-C never
    interrupts a drawing.
    """

    def __init__(self, page: AnswerPage, screen: Screen, status: Callable[[], str]) -> None:
        self._page = page
        self._screen = screen
        self._status = status
        self._actions: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._paused = False
        self._error: BaseException | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="coreason-painter", daemon=True)
        self._thread.start()

    def do(self, action: Callable[[], None]) -> None:
        """Perform an action in the thread; if it does not run, perform it and draw now.

        Raises:
            OSError: the terminal could not be written to.
        """
        if self._error is not None:
            raise self._error
        if self._thread is not None:
            self._actions.put(action)
            return
        action()
        self._screen.draw(self._page.take(), ())

    def stop(self, timeout: float | None = None) -> None:
        """Draw the end of the page, and wait for it for at most `timeout` seconds.

        Raises:
            OSError: the terminal could not be written to.
        """
        thread, self._thread = self._thread, None
        if thread is not None:
            self._actions.put(None)
            _join(thread, timeout)
        if self._error is not None:
            raise self._error

    def stop_soon(self) -> None:
        """Stop, for a signal handler: a terminal that accepts no output does not block it."""
        with suppress(OSError):
            self.stop(_STOP_TIMEOUT)

    def pause(self) -> None:
        """Erase the unfinished parts from the screen, and do not draw until `resume`."""
        if self._thread is None:
            return
        done = threading.Event()

        def clear() -> None:
            self._paused = True
            self._screen.draw(self._page.take(), ())
            self._screen.forget()  # others write to the terminal now
            done.set()

        self._actions.put(clear)
        done.wait(_STOP_TIMEOUT)

    def resume(self) -> None:
        """Continue to draw at the cursor."""

        def unpause() -> None:
            self._paused = False

        self._actions.put(unpause)

    def _run(self) -> None:
        try:
            due = time.monotonic()
            while self._perform_until(due):
                began = time.monotonic()
                if not self._paused:
                    self._screen.draw(self._page.take(), self._page.live(self._status()))
                took = time.monotonic() - began
                due = began + took + max(_INTERVAL, _REST_FACTOR * took)
            self._page.finish()
            self._screen.draw(self._page.take(), ())
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            self._error = error

    def _perform_until(self, due: float) -> bool:
        """Perform actions until a time; return False after the last action."""
        while True:
            left = due - time.monotonic()
            try:
                action = self._actions.get(timeout=max(left, 0))
            except Empty:
                return True
            if action is None:
                return False
            action()
            if left <= 0:
                return True


def _join(thread: threading.Thread, timeout: float | None) -> None:
    try:
        thread.join(timeout)
    except KeyboardInterrupt:
        # The end is being drawn. A terminal that accepts no output must not block a second Ctrl-C.
        thread.join(_STOP_TIMEOUT)
        raise
