"""Ownership of connections: by the process and by the event loop that opened them.

After `os.fork()` both processes hold the same sockets. If the child read from them, responses would
reach the wrong process; if it closed them normally (`shutdown`, a TLS close_notify), it would break
the parent's streams. Therefore, in the child:

* Every client starts with no connections and with new locks, because a lock may have been held by
  a thread that does not exist in the child.
* The child's copies of the sockets are replaced by a socket without a peer. Nothing is sent to the
  real peer, and only the parent closes the connection.
* Objects that belong to the parent's connections are never finalised, because their finalisers act
  on event loops and locks that were copied from the parent.

Connections, locks and tasks also belong to the event loop on which they were created. So each loop
has its own value in a `PerLoop`, which is closed when the loop ends at the latest.
"""

import logging
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakSet

from ._http._types import FailureKind, TransportFailure

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


T = TypeVar("T")


class PerLoop(Generic[T]):
    """One value per event loop.

    `current_loop` returns the running loop. `leave` is called with each value in a forked child;
    there the value belongs to the parent process and is never closed or finalised.
    """

    def __init__(
        self, current_loop: Callable[[], Any], *, leave: Callable[[T], object] | None = None
    ) -> None:
        self._current_loop = current_loop
        self._leave = leave
        self._values: dict[Any, T] = {}
        self._guards: dict[Any, tuple[AsyncGenerator[None], _Closing]] = {}
        register(self)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, loop: object) -> bool:
        return loop in self._values

    def get(self) -> T | None:
        """Return the value of the running loop; None if it has no value."""
        return self._values.get(self._current_loop())

    def items(self) -> list[tuple[Any, T]]:
        """Return all loops and their values."""
        return list(self._values.items())

    def set(self, value: T) -> None:
        """Set the value of the running loop; the caller removes it before the loop ends."""
        self._values[self._current_loop()] = value

    async def open(self, value: T, close: Callable[[], Awaitable[object]]) -> None:
        """Set the value of the running loop; the end of the loop or `aclose` calls `close`."""
        loop = self._current_loop()
        self._values[loop] = value
        closing = _Closing(close)
        guard = self._guard(loop, value, closing)
        self._guards[loop] = guard, closing
        await anext(guard)

    async def _guard(self, loop: Any, value: T, closing: "_Closing") -> AsyncGenerator[None]:
        # `asyncio.run`, and everything else that ends a loop cleanly, closes the async generators
        # of the loop while it still runs. That is the last opportunity to close connections.
        try:
            yield
        finally:
            self.discard(loop, value)
            await closing.finish()

    def discard(self, loop: Any, value: T) -> None:
        """Remove a value without closing it, unless its loop has a new value by now."""
        if self._values.get(loop) is value:
            del self._values[loop]
            self._guards.pop(loop, None)

    async def aclose(self) -> None:
        """Close the value of the running loop, if it was opened."""
        guarded = self._guards.get(self._current_loop())
        if guarded is not None:
            await guarded[0].aclose()

    def close_everywhere(self) -> None:
        """Remove all values and start closing each on its own loop; safe from any thread."""
        guards, self._guards, self._values = self._guards, {}, {}
        for loop, (guard, closing) in guards.items():
            _call_on(loop, closing.start, loop, guard)

    async def close_dead(self, disconnect: Callable[[T], object]) -> None:
        """Close the values of loops that were closed without a clean end.

        `disconnect` is called first, because those loops cannot send anything any more.
        """
        for loop, value in self.items():
            if loop.is_closed():
                guarded = self._guards.get(loop)
                self.discard(loop, value)
                disconnect(value)
                if guarded is not None:
                    await guarded[0].aclose()

    def forget_dead(self) -> None:
        """Remove the values whose loops are closed."""
        for loop, value in self.items():
            if loop.is_closed():
                self.discard(loop, value)

    def call_on_each(self, function: Callable[[T], object]) -> None:
        """Call a function with each value on its loop; immediately for the running loop."""
        try:
            current = self._current_loop()
        except RuntimeError:  # no loop runs in this thread
            current = None
        for loop, value in self.items():
            if loop is current:
                function(value)
            else:
                _call_on(loop, function, value)

    def after_fork(self) -> None:
        """Drop the values, which belong to the parent process."""
        if self._leave is not None:
            for value in self._values.values():
                self._leave(value)
        never_finalize((self._values, self._guards))
        self._values, self._guards = {}, {}


def _call_on(loop: Any, function: Callable[..., object], *arguments: object) -> None:
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(function, *arguments)


_started: set[Any] = set()  # event loops hold only weak references to tasks


class _Closing:
    """Closes a value once, although a task and the end of the loop may both ask for it.

    The task does not close the guard: the end of the loop does, and an async generator must not be
    closed twice at the same time.
    """

    def __init__(self, close: Callable[[], Awaitable[object]]) -> None:
        self._close = close
        self._task: Any = None

    def start(self, loop: Any, guard: AsyncGenerator[None]) -> None:
        """Start closing in a task, which keeps the guard; called on the loop."""
        self._task = task = loop.create_task(self._closed(guard))
        _started.add(task)
        task.add_done_callback(_started.discard)

    async def finish(self) -> None:
        """Close the value, unless the task has done so; waits for a running task."""
        if self._task is not None:
            import asyncio  # slow to import; a sync client does not need it

            await asyncio.wait([self._task])
            if not self._task.cancelled():
                return
        await self._close()

    async def _closed(self, guard: AsyncGenerator[None]) -> None:
        await self._close()
        del guard  # until here the end of the loop waits for this task
