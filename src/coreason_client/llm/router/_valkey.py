"""The state in a Valkey or Redis server, for any number of processes."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

from ... import _ownership
from ..._ownership import PerLoop
from ..._valkey_address import Address, parse_address
from ...errors import ArgumentError, MissingExtraError
from .._argument_errors import is_number
from ..errors import LLMStateError
from ._rules import FIRST_COOLDOWN, Acquire, Acquired
from ._scripts import Invocation, acquire_call, acquired, settle_call, totals_call
from ._state import Command, MemoryState, RouterState

if TYPE_CHECKING:
    from redis import Redis
    from redis.asyncio import Redis as AsyncRedis


class ValkeyState(RouterState):
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
        self.connections = StateConnections(self._address, timeout)

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


class StateConnections:
    """The connections of one state, for threads and event loops.

    Each event loop has its own, and so has a forked child.
    """

    def __init__(self, address: Address, timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._redis = _library()
        self._client: Redis | None = None
        self._lock = threading.Lock()
        self._clients: PerLoop[AsyncRedis] = PerLoop(asyncio.get_running_loop)
        _ownership.register(self)

    def execute(self, *command: str | bytes | int) -> Any:
        """Run a command of the server.

        Raises:
            LLMStateError: the server cannot be reached, or rejected the command.
        """
        with self._translated():
            client: Any = self._sync_client()
            return client.execute_command(*command)

    async def execute_async(self, *command: str | bytes | int) -> Any:
        """Run a command of the server without blocking the event loop; raises like `execute`."""
        with self._translated():
            client: Any = await self._async_client()
            return await client.execute_command(*command)

    def evaluate(self, invocation: Invocation) -> Any:
        """Run a script; raises like `execute`."""
        script, keys, arguments = invocation
        try:
            return self.execute("EVALSHA", script.sha, len(keys), *keys, *arguments)
        except _UnknownScriptError:
            return self.execute("EVAL", script.source, len(keys), *keys, *arguments)

    async def evaluate_async(self, invocation: Invocation) -> Any:
        """Run a script without blocking the event loop; raises like `execute`."""
        script, keys, arguments = invocation
        try:
            return await self.execute_async("EVALSHA", script.sha, len(keys), *keys, *arguments)
        except _UnknownScriptError:
            return await self.execute_async("EVAL", script.source, len(keys), *keys, *arguments)

    def close(self) -> None:
        """Close the connections of sync calls."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._clients.aclose()
        self._clients.close_everywhere()
        self.close()

    def after_fork(self) -> None:
        """Drop the connections of the parent process."""
        if self._client is not None:
            _ownership.never_finalize(self._client)
        self._client = None
        self._lock = threading.Lock()

    def _sync_client(self) -> "Redis":
        with self._lock:
            if self._client is None:
                from redis.retry import Retry

                self._client = self._redis.Redis(**self._options(Retry))
            return self._client

    async def _async_client(self) -> "AsyncRedis":
        client = self._clients.get()
        if client is None:
            from redis.asyncio import Redis
            from redis.asyncio.retry import Retry

            client = Redis(**self._options(Retry))
            await self._clients.open(client, client.aclose)
            self._clients.forget_dead()
        return client

    def _options(self, retry: Callable[..., Any]) -> dict[str, Any]:
        from redis.backoff import NoBackoff

        address = self._address
        return {
            "host": address.host,
            "port": address.port,
            "db": address.db,
            "ssl": address.tls,
            **address.connection_options(self._timeout),
            # Each command can be repeated; a connection may have been closed by the server.
            "retry": retry(NoBackoff(), 1),
        }

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Translate errors of the library.

        Raises:
            LLMStateError: the server cannot be reached, or rejected the command.
        """
        errors = self._redis.exceptions
        reason: str | None = None
        try:
            yield
        except errors.NoScriptError:
            raise _UnknownScriptError from None
        except (errors.RedisError, OSError) as error:
            reason = self._address.redact(str(error)) or type(error).__name__
        if reason is not None:
            raise LLMStateError(f"the state in {self._address.shown} cannot be used: {reason}")


class _UnknownScriptError(Exception):
    """The server does not have the script yet."""


def _library() -> ModuleType:
    try:
        import redis
    except ImportError:
        raise MissingExtraError("ValkeyState", "valkey") from None
    return redis
