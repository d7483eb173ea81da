"""The meaning of SIGHUP: the terminal was closed, or files have to be read again.

A server in a terminal must end when its terminal is closed; a server without one, such as a
service, has never had a terminal that could be closed.
"""

import os
import signal
from collections.abc import Callable

__all__ = ["SIGHUP", "Hangup", "has_terminal", "is_ignored"]

SIGHUP = getattr(signal, "SIGHUP", None)  # Windows has none


def has_terminal() -> bool:
    """Return True if this process has a controlling terminal that is not closed."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


class Hangup:
    """Remembers whether the process had a terminal when it started."""

    __slots__ = ("_had_terminal", "_has_terminal")

    def __init__(self, terminal: Callable[[], bool] = has_terminal) -> None:
        self._has_terminal = terminal
        self._had_terminal = terminal()

    def terminal_closed(self) -> bool:
        """Return True if the process has lost its terminal since it started."""
        return self._had_terminal and not self._has_terminal()


def is_ignored() -> bool:
    """Return True if SIGHUP is ignored, as under `nohup`, or does not exist."""
    return SIGHUP is None or signal.getsignal(SIGHUP) is signal.SIG_IGN
