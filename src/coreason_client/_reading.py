"""What a stream shares with the shell that reads it: whether to go on, and in which event loop."""

from typing import Any

from . import _fork

__all__ = ["OtherLoopError", "Reading", "is_running"]


def is_running(generator: object) -> bool:
    """Return True if another thread or task is reading from a generator, sync or async."""
    return any(getattr(generator, name, False) for name in ("gi_running", "ag_running"))


class OtherLoopError(RuntimeError):
    """A stream was read or closed in another event loop than that of its connection."""


class Reading:
    """The state of reading one stream; `to_continue` says how to continue it elsewhere.

    Attributes:
        stopped: the caller wants no more; another thread or task may be waiting for bytes.
        loop: the event loop of the connection; None in sync streams and under trio.
        process: the process that opened the stream; in a forked child there is another error.
    """

    __slots__ = ("_to_continue", "loop", "process", "stopped")

    def __init__(self, to_continue: str = "") -> None:
        self._to_continue = to_continue
        self.stopped = False
        self.loop: Any = None
        self.process = _fork.OwnerProcess()

    def check_loop(self) -> None:
        """Raise an error in another event loop than that of the connection.

        The stream is not changed: its own loop can read it further, and must close it.

        Raises:
            OtherLoopError: this is another event loop.
        """
        if self.loop is None or not self.process.is_current:
            return
        import asyncio  # slow to import; already loaded when there is a loop

        if asyncio._get_running_loop() is self.loop:
            return
        if self.loop.is_closed():
            where, cure = "an event loop that is closed by now", ""
        else:
            where, cure = "another event loop", "read and close it in that loop, or "
        raise OtherLoopError(
            f"this stream was opened in {where}; {cure}open a new stream in this loop"
            f"{self._to_continue}"
        )
