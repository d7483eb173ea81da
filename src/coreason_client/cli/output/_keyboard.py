"""Turns off the echo of keys while an answer is drawn, and restores the terminal on signals.

Keys typed meanwhile stay in the terminal's buffer, for the next prompt or for the shell.
"""

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

__all__ = ["EchoSwitch"]

if sys.platform != "win32":
    import termios

    class EchoSwitch:
        """Turns off the echo of a terminal; Ctrl-C, Ctrl-Z and similar keys still work.

        Args:
            fd: file descriptor of the terminal.
            pause: called before Ctrl-Z stops the process.
            resume: called when the process continues.
            finish: called before SIGTERM ends the process.
        """

        def __init__(
            self,
            fd: int,
            pause: Callable[[], None],
            resume: Callable[[], None],
            finish: Callable[[], None],
        ) -> None:
            self._fd = fd
            self._pause, self._resume, self._finish = pause, resume, finish
            self._saved: list[Any] | None = None
            self._handlers: dict[signal.Signals, Any] = {}

        def start(self) -> None:
            """Turn off the echo and install signal handlers."""
            atexit.register(self._restore)  # in case Ctrl-C prevents the call of `stop`
            if threading.current_thread() is threading.main_thread():
                self._handle(signal.SIGTERM, self._on_term)
                self._handle(signal.SIGTSTP, self._on_stop)
                self._handle(signal.SIGCONT, self._on_continue)
            self._disable_echo()

        def stop(self) -> None:
            """Restore the terminal and the signal handlers."""
            self._restore()
            atexit.unregister(self._restore)
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            self._handlers.clear()

        def _handle(
            self, number: signal.Signals, handler: Callable[[int, FrameType | None], None]
        ) -> None:
            if signal.getsignal(number) is signal.SIG_DFL:
                self._handlers[number] = signal.signal(number, handler)

        def _disable_echo(self) -> None:
            # A background job that changed the terminal would be stopped by SIGTTOU.
            with suppress(OSError, termios.error):
                if self._saved is None and os.tcgetpgrp(self._fd) == os.getpgrp():
                    saved = termios.tcgetattr(self._fd)
                    quiet = list(saved)
                    quiet[3] &= ~(termios.ECHO | termios.ECHONL)
                    self._saved = saved
                    termios.tcsetattr(self._fd, termios.TCSANOW, quiet)

        def _restore(self) -> None:
            with suppress(OSError, termios.error):
                if self._saved is not None and os.tcgetpgrp(self._fd) == os.getpgrp():
                    termios.tcsetattr(self._fd, termios.TCSANOW, self._saved)
            self._saved = None

        def _on_term(self, number: int, frame: FrameType | None) -> None:
            self._finish()
            self.stop()
            os.kill(os.getpid(), number)

        def _on_stop(self, number: int, frame: FrameType | None) -> None:
            self._pause()
            self._restore()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)  # the process stops here until SIGCONT
            signal.signal(number, self._on_stop)
            self._disable_echo()
            self._resume()

        def _on_continue(self, number: int, frame: FrameType | None) -> None:
            self._disable_echo()

else:

    class EchoSwitch:
        """Does nothing: Windows consoles echo keys only while they are being read."""

        def __init__(self, *_: object) -> None:
            pass

        def start(self) -> None:
            """Do nothing."""

        def stop(self) -> None:
            """Do nothing."""
