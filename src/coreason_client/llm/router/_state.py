"""The interface of a state, the step that runs a command on it, and the state in this process."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from ... import _ownership
from ..._clock import monotonic
from ..._drive import Action
from ..errors import LLMStateError
from ._rules import Acquire, Acquired, Settle, StateRules

Command: TypeAlias = Acquire | Settle


class RouterState(ABC):
    """The store of cooldowns, limits and budgets.

    `immediate` is True if a command needs no I/O.
    """

    immediate = False

    @abstractmethod
    def run(self, command: Command) -> Acquired | None:
        """Run a command.

        Raises:
            LLMStateError: the state cannot be reached.
        """

    @abstractmethod
    async def run_async(self, command: Command) -> Acquired | None:
        """Run a command without blocking the event loop; raises like `run`."""

    @property
    @abstractmethod
    def fallback(self) -> "RouterState":
        """The state that routes calls without a budget while this one cannot be reached."""


class StateAction(Action):
    """A step that runs a command; afterwards it has the result or the error."""

    __slots__ = ("_state", "command", "error", "result")

    def __init__(self, state: RouterState, command: Command) -> None:
        self._state = state
        self.command = command
        self.result: Acquired | None = None
        self.error: LLMStateError | None = None

    def perform(self) -> None:
        """Run the command."""
        try:
            self.result = self._state.run(self.command)
        except LLMStateError as error:
            self.error = error

    async def perform_async(self) -> None:
        """Run the command without blocking the event loop."""
        try:
            self.result = await self._state.run_async(self.command)
        except LLMStateError as error:
            self.error = error


class MemoryState(RouterState):
    """The state of one process; clients that are given the same object share it.

    It may be used from several threads and event loops. A forked child begins with a copy, without
    the reservations of calls that are in flight in the parent.
    """

    immediate = True

    def __init__(self, *, clock: Callable[[], float] | None = None) -> None:
        self._clock = steady_clock() if clock is None else clock
        self._rules = StateRules()
        self._lock = threading.Lock()
        _ownership.register(self)

    def __repr__(self) -> str:
        return "MemoryState()"

    def run(self, command: Command) -> Acquired | None:
        """Run a command; this never blocks for long."""
        with self._lock:
            now = self._now()
            if isinstance(command, Acquire):
                return self._rules.acquire(command, now)
            self._rules.settle(command, now)
            return None

    async def run_async(self, command: Command) -> Acquired | None:
        """Run a command; this never blocks for long."""
        return self.run(command)

    @property
    def fallback(self) -> "MemoryState":
        """This state itself."""
        return self

    def totals(self, account: str) -> tuple[int, int]:
        """Return the nanodollars spent and reserved in an account."""
        with self._lock:
            return self._rules.totals(account, self._now())

    def after_fork(self) -> None:
        """Replace the lock, and drop the reservations of the parent process."""
        self._lock = threading.Lock()
        self._rules.release_all()

    def _now(self) -> int:
        return int(self._clock() * 1000)


def steady_clock() -> Callable[[], float]:
    """Return a clock with the seconds since 1970 that does not jump when the time is set."""
    offset = time.time() - monotonic()
    return lambda: monotonic() + offset
