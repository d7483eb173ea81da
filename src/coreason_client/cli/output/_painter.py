"""The thread that draws an answer.

Everything that changes the page or the screen is an action, performed by this one thread in the
order in which it was given. So there is nothing to lock, and since Python raises KeyboardInterrupt
in the main thread only, Ctrl-C never leaves a drawing half done.
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
_SHARE = 3  # the thread rests this many times as long as a drawing took
_PATIENCE = 2.0  # seconds that a signal handler waits for the thread


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
        """Begin to draw."""
        self._thread = threading.Thread(target=self._run, name="coreason-painter", daemon=True)
        self._thread.start()

    def do(self, action: Callable[[], None]) -> None:
        """Let the thread change the page; without a thread, change it and draw at once.

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

    def stop(self, within: float | None = None) -> None:
        """Draw the end of the page, and wait until that is done, but no longer than `within`.

        Raises:
            OSError: the terminal could not be written to.
        """
        thread, self._thread = self._thread, None
        if thread is not None:
            self._actions.put(None)
            _join(thread, within)
        if self._error is not None:
            raise self._error

    def stop_soon(self) -> None:
        """Stop, for a signal handler: a terminal that takes no output does not hold it up."""
        with suppress(OSError):
            self.stop(_PATIENCE)

    def pause(self) -> None:
        """Take what is drawn anew off the screen, and draw no more until `resume`."""
        if self._thread is None:
            return
        done = threading.Event()

        def clear() -> None:
            self._paused = True
            self._screen.draw(self._page.take(), ())
            done.set()

        self._actions.put(clear)
        done.wait(_PATIENCE)

    def resume(self) -> None:
        """Go on drawing, from where the cursor is."""

        def go_on() -> None:
            self._paused = False

        self._actions.put(go_on)

    def _run(self) -> None:
        try:
            due = time.monotonic()
            while self._perform_until(due):
                began = time.monotonic()
                if not self._paused:
                    self._screen.draw(self._page.take(), self._page.live(self._status()))
                took = time.monotonic() - began
                due = began + took + max(_INTERVAL, _SHARE * took)
            self._page.finish()
            self._screen.draw(self._page.take(), ())
        except BaseException as error:  # noqa: BLE001 - raised again where the answer is read
            self._error = error

    def _perform_until(self, due: float) -> bool:
        """Perform actions until a time; False when there will be no more."""
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


def _join(thread: threading.Thread, within: float | None) -> None:
    try:
        thread.join(within)
    except KeyboardInterrupt:
        # The end is being drawn; a terminal that takes no more must not hold up a second Ctrl-C.
        thread.join(_PATIENCE)
        raise
