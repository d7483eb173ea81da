"""The state in a Valkey or Redis server, for any number of processes."""

from collections.abc import Callable
from typing import Any, Self

from ..._valkey_address import parse_address
from ...errors import ArgumentError
from ._commands import Acquire, Acquired
from ._connections import Connections
from ._numbers import is_number
from ._rules import FIRST_COOLDOWN
from ._scripts import Invocation, acquire_call, acquired, settle_call, totals_call
from ._state import Command, MemoryState, State

__all__ = ["ValkeyState"]


class ValkeyState(State):
    """The state in a Valkey or Redis server, shared by all processes with the same prefix.

    If the server cannot be reached, calls with a budget fail with `LLMStateError`. Calls without
    one go on: their deployments are chosen by the state of this process alone, and nothing is
    cached.

    Args:
        url: `valkey://user:password@host:port/db`, or with `redis`, and an s for TLS.
        prefix: the beginning of all keys in the server.
        timeout: seconds for one command.

    Raises:
        ValueError: an argument is invalid.
        MissingExtraError: the extra `valkey` is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "coreason-llm",
        timeout: float = 2.0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._address = parse_address(url)
        if not prefix or "{" in prefix or "}" in prefix:
            raise ArgumentError("prefix", "must be text without braces", prefix)
        if not is_number(timeout) or not 0 < timeout < 1e6:
            raise ArgumentError("timeout", "must be a number greater than 0", timeout)
        self.prefix = prefix
        self._clock = clock  # None for the clock of the server
        self._fallback = MemoryState()
        self.connections = Connections(self._address, timeout)

    def __repr__(self) -> str:
        return f"ValkeyState({self._address.shown!r}, prefix={self.prefix!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def fallback(self) -> MemoryState:
        """The state of this process, for calls without a budget."""
        return self._fallback

    def run(self, command: Command) -> Acquired | None:
        """Run a command.

        Raises:
            LLMStateError: the server cannot be reached.
        """
        return _result(command, self.connections.evaluate(self._invocation(command)))

    async def run_async(self, command: Command) -> Acquired | None:
        """Run a command without blocking the event loop; raises like `run`."""
        return _result(command, await self.connections.evaluate_async(self._invocation(command)))

    def totals(self, account: str) -> tuple[int, int]:
        """Return the nanodollars spent and reserved in an account; raises like `run`."""
        spent, reserved = self.connections.evaluate(totals_call(self.prefix, account, self._now()))
        return int(spent), int(reserved)

    def close(self) -> None:
        """Close the connections of sync calls; may be called twice."""
        self.connections.close()

    async def aclose(self) -> None:
        """Close all connections; may be called twice. The end of an event loop closes its own."""
        await self.connections.aclose()

    def _invocation(self, command: Command) -> Invocation:
        if isinstance(command, Acquire):
            return acquire_call(self.prefix, command, self._now())
        return settle_call(self.prefix, command, FIRST_COOLDOWN, self._now())

    def _now(self) -> int | None:
        return None if self._clock is None else int(self._clock() * 1000)


def _result(command: Command, reply: Any) -> Acquired | None:
    return acquired(reply) if isinstance(command, Acquire) else None
