"""What a forked child process does with the connections of its parent: it leaves them alone.

After `os.fork()` both processes hold the same sockets. If the child read from them, answers would
reach the wrong process; if it closed them in the ordinary way (`shutdown`, a TLS close_notify), it
would cut the parent's streams. So in the child

* every client starts with no connections and with new locks, because a lock may have been held by
  a thread that does not exist in the child;
* the child's copies of the sockets are replaced by a socket that leads nowhere: that tells the
  peer nothing, and the parent alone decides when a connection ends;
* the objects that belong to the parent's connections are never finalised, because their
  finalisers act on event loops and locks that both processes copied.
"""

import logging
import os
import socket
from contextlib import suppress
from typing import Any, Protocol
from weakref import WeakSet

from ._http._types import FailureKind, TransportFailure

__all__ = [
    "Inherited",
    "ProcessMark",
    "disconnect",
    "keep",
    "register",
]

logger = logging.getLogger("coreason_client")

_generation = 0
_kept: list[object] = []
_immortal = False


class Inherited(Protocol):
    """Something that must change when it finds itself in a forked child."""

    def after_fork(self) -> None:
        """Leave what belongs to the parent process; called in the child, before anything else."""


_registered: "WeakSet[Inherited]" = WeakSet()


def register(inherited: Inherited) -> None:
    """Call `after_fork` of this object, for as long as it lives, in every forked child."""
    _registered.add(inherited)


class ProcessMark:
    """Remembers in which process an object was made."""

    __slots__ = ("_generation",)

    def __init__(self) -> None:
        self._generation = _generation

    @property
    def is_here(self) -> bool:
        """Whether this is still that process, and not a forked child of it."""
        return self._generation == _generation

    def check(self) -> None:
        """Refuse to go on in another process.

        Raises:
            TransportFailure: this is a forked child of the process.
        """
        if self._generation != _generation:
            raise TransportFailure(
                FailureKind.CLOSED,
                "this stream was begun in another process, before a fork: begin a new one here",
            )


def keep(value: object) -> None:
    """Never finalise an object, not even when the interpreter ends."""
    global _immortal
    _kept.append(value)
    if not _immortal:
        _immortal = True
        with suppress(ImportError, AttributeError):  # then it lives until the interpreter ends
            import ctypes

            ctypes.pythonapi.Py_IncRef(ctypes.py_object(_kept))


def disconnect(sock: Any) -> None:
    """Let the descriptor of an inherited socket lead nowhere, without a word to the peer.

    The number stays in use: objects that still hold it must not close a new socket by it.
    """
    descriptor = -1 if sock is None else sock.fileno()
    if descriptor < 0:
        return
    nowhere, other_end = socket.socketpair()
    with nowhere, other_end:
        os.dup2(nowhere.fileno(), descriptor, inheritable=False)


def _after_fork_in_child() -> None:
    global _generation
    _generation += 1
    for inherited in list(_registered):
        try:
            inherited.after_fork()
        except Exception:
            logger.exception("a client could not leave the connections of the parent process")


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_after_fork_in_child)
