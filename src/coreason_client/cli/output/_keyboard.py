"""Turns off the echo of keys while an answer is drawn, and restores the terminal on signals.

Keys typed meanwhile stay in the terminal's buffer, for the next prompt or for the shell. In a
conversation the echo is off all the time: an editor shows what is typed, and keys between an answer
and the prompt must not appear either.
"""

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

_CHUNK = 65536

if sys.platform != "win32":
    import termios

    # The attributes of the terminal before `echo_off`: those that the shell must get back.
    _before: list[Any] | None = None

    @contextmanager
    def echo_off(fd: int) -> Iterator[None]:
        """Turn off the echo of a terminal while the block runs; an `EchoSwitch` works inside."""
        global _before
        saved = _quiet(fd)
        if saved is None:
            yield
            return

        def restore() -> None:
            _set(fd, saved)

        _before = saved
        atexit.register(restore)  # in case Ctrl-C prevents the code below
        try:
            yield
        finally:
            _before = None
            restore()
            atexit.unregister(restore)

    def _quiet(fd: int) -> list[Any] | None:
        """Turn off the echo; return the attributes before, None if that is not possible."""
        # A background job that changed the terminal would be stopped by SIGTTOU.
        with suppress(OSError, termios.error):
            if os.tcgetpgrp(fd) == os.getpgrp():
                saved = termios.tcgetattr(fd)
                quiet = list(saved)
                quiet[3] &= ~(termios.ECHO | termios.ECHONL)
                termios.tcsetattr(fd, termios.TCSANOW, quiet)
                return saved
        return None

    def _set(fd: int, attributes: list[Any]) -> None:
        with suppress(OSError, termios.error):
            if os.tcgetpgrp(fd) == os.getpgrp():
                termios.tcsetattr(fd, termios.TCSANOW, attributes)

    def typed_ahead(fd: int, *, keeps_raw: bool = False) -> str:
        """Return the pending lines, also an unfinished one; an Enter is a line break.

        The terminal gives out unfinished lines only while it does not wait for their end. With
        `keeps_raw` that stays so, and the caller edits the line; a background job gets nothing.
        """
        try:
            if keeps_raw and os.tcgetpgrp(fd) != os.getpgrp():
                return ""
            saved = termios.tcgetattr(fd)
            attributes = list(saved)
            attributes[3] &= ~termios.ICANON
            attributes[6] = [*saved[6]]
            attributes[6][termios.VMIN] = attributes[6][termios.VTIME] = 0
            termios.tcsetattr(fd, termios.TCSANOW, attributes)
        except (OSError, termios.error):
            return ""
        try:
            return _read_all(fd).decode(errors="replace").replace("\r", "\n")
        finally:
            with suppress(OSError, termios.error):
                termios.tcsetattr(fd, termios.TCSANOW, attributes if keeps_raw else saved)

    def _read_all(fd: int) -> bytes:
        data = b""
        with suppress(OSError):
            while piece := os.read(fd, _CHUNK):
                data += piece
        return data

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
            if self._saved is None:
                self._saved = _quiet(self._fd)

        def _restore(self, *, for_shell: bool = False) -> None:
            """Restore what was before; `for_shell` also undoes `echo_off`."""
            if self._saved is not None:
                _set(self._fd, (for_shell and _before) or self._saved)
            self._saved = None

        def _on_term(self, number: int, frame: FrameType | None) -> None:
            self._finish()
            self._restore(for_shell=True)
            self.stop()
            os.kill(os.getpid(), number)

        def _on_stop(self, number: int, frame: FrameType | None) -> None:
            self._pause()
            self._restore(for_shell=True)
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)  # the process stops here until SIGCONT
            signal.signal(number, self._on_stop)
            self._disable_echo()
            self._resume()

        def _on_continue(self, number: int, frame: FrameType | None) -> None:
            self._disable_echo()

else:

    @contextmanager
    def echo_off(fd: int) -> Iterator[None]:
        """Do nothing, as `EchoSwitch`."""
        yield

    def typed_ahead(fd: int, *, keeps_raw: bool = False) -> str:
        """Return nothing: the console keeps the keys for the editor."""
        return ""

    class EchoSwitch:
        """Does nothing: Windows consoles echo keys only while they are being read."""

        def __init__(self, *_: object) -> None:
            pass

        def start(self) -> None:
            """Do nothing."""

        def stop(self) -> None:
            """Do nothing."""
