"""The thread that draws an answer.

Every change of the page or the screen is an action; one thread performs the actions in order. So
no locks are needed. Python raises KeyboardInterrupt only in the main thread, so Ctrl-C never
interrupts a drawing.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from ._page import Page
from ._screen import Screen

__all__ = ["Painter"]

_INTERVAL = 1 / 12  # seconds between two drawings
_REST_FACTOR = 3  # the thread rests this many times as long as the last drawing took
_STOP_TIMEOUT = 2.0  # seconds that a signal handler waits for the thread


class Painter:
    """Draws a page on a screen while it changes."""

    def __init__(self, page: Page, screen: Screen, status: Callable[[], str]) -> None:
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
