"""Fork safety: a forked child process does not use the connections of its parent.

After `os.fork()` both processes hold the same sockets. If the child read from them, responses would
reach the wrong process; if it closed them normally (`shutdown`, a TLS close_notify), it would break
the parent's streams. Therefore, in the child:

* Every client starts with no connections and with new locks, because a lock may have been held by
  a thread that does not exist in the child.
* The child's copies of the sockets are replaced by a socket without a peer. Nothing is sent to the
  real peer, and only the parent closes the connection.
* Objects that belong to the parent's connections are never finalised, because their finalisers act
  on event loops and locks that were copied from the parent.
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
    "OwnerProcess",
    "detach_socket",
    "never_finalize",
    "register",
]

logger = logging.getLogger("coreason_client")

_generation = 0
_never_finalized: list[object] = []
_pinned = False


class Inherited(Protocol):
    """An object that must be reset in a forked child process."""

    def after_fork(self) -> None:
        """Drop the resources of the parent process; called in the child, right after the fork."""


_registered: "WeakSet[Inherited]" = WeakSet()


def register(inherited: Inherited) -> None:
    """Call `after_fork` of this object in every forked child, while the object exists."""
    _registered.add(inherited)


class OwnerProcess:
    """Records the process in which it was created."""

    __slots__ = ("_generation",)

    def __init__(self) -> None:
        self._generation = _generation

    @property
    def is_current(self) -> bool:
        """True if this is the same process, not a forked child of it."""
        return self._generation == _generation

    def check(self) -> None:
        """Raise an error in a forked child.

        Raises:
            TransportFailure: this process is a forked child of the recorded one.
        """
        if self._generation != _generation:
            raise TransportFailure(
                FailureKind.CLOSED,
                "this stream was started before a fork, in the parent process; start a new one",
            )


def never_finalize(value: object) -> None:
    """Prevent an object from ever being finalised, even when the interpreter exits."""
    global _pinned
    _never_finalized.append(value)
    if not _pinned:
        _pinned = True
        with suppress(ImportError, AttributeError):  # then it is kept until the interpreter exits
            import ctypes

            ctypes.pythonapi.Py_IncRef(ctypes.py_object(_never_finalized))


def detach_socket(sock: Any) -> None:
    """Replace the descriptor of an inherited socket; nothing is sent to the peer.

    The descriptor number stays in use. Otherwise an object that still holds the number could close
    a new socket.
    """
    descriptor = -1 if sock is None else sock.fileno()
    if descriptor < 0:
        return
    replacement, peer = socket.socketpair()
    with replacement, peer:
        os.dup2(replacement.fileno(), descriptor, inheritable=False)


def _after_fork_in_child() -> None:
    global _generation
    _generation += 1
    for inherited in list(_registered):
        try:
            inherited.after_fork()
        except Exception:
            logger.exception(
                "a client could not drop the connections of the parent process after a fork"
            )


if hasattr(os, "register_at_fork"):  # absent on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork_in_child)
