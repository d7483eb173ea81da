"""The store as one event loop uses it: a few connections, batches, and patience with a bound."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from redis.asyncio import BlockingConnectionPool, Connection, Redis, RedisCluster, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError
from redis.exceptions import TimeoutError as StoreTimeoutError

from ...._retry import Backoff
from ...errors import LogUnavailable
from ._address import Address
from ._errors import (
    STORE_ERRORS,
    LaneStopped,
    StoreSilent,
    gave_up,
    is_passing,
    refusal,
)
from ._lane import Lane
from ._link import ClusterLink, SocketLink
from ._run_clock import Mark, RunClock
from ._scripts import Script
from ._wire import Argument, Command

__all__ = ["Store"]

T = TypeVar("T")

_BACKOFF = Backoff(first=0.02, longest=1.0)
# For one answer. Shorter than the patience, so that a connection that died without a word is
# noticed while there is still time for another one.
_ANSWER_SHARE = 0.4
_TICKS_PER_ANSWER = 16
# Connections of a lane. Writes are short, and the more of them share a round trip the less each
# costs; a page is long, and the next one need not wait for it.
_WRITE_LINKS = 1
_READ_LINKS = 2
_WRITES_AT_ONCE = 128  # commands
_READS_AT_ONCE = 16  # each may bring a whole page
_CLUSTER_LINKS = 8  # where each command is a round trip of its own

_FAILURES = (*STORE_ERRORS, StoreSilent, LaneStopped)


class Store:
    """Runs commands and scripts; writes and reads each have a lane, so none waits for a page.

    One timer, which runs while a command has no reply, measures how long the store is silent: see
    `RunClock` for what counts, and `Lane` for which commands fail.
    """

    def __init__(self, address: Address, prefix: str, *, patience: float, cluster: bool) -> None:
        self._address = address
        self._prefix = prefix
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        answer = self._answer = patience * _ANSWER_SHARE
        self._options = _connection_options(address, answer)
        self._clock = RunClock(answer / _TICKS_PER_ANSWER)
        self._timer: asyncio.TimerHandle | None = None
        self._recovering: set[asyncio.Task[Any]] = set()
        self._repeating = 0  # commands between two attempts, or in a later one
        self._cluster = _cluster(address, self._options) if cluster else None
        if self._cluster is not None:
            link = partial(ClusterLink, self._cluster.execute_command, answer)
            self._writes = self._lane([link] * _CLUSTER_LINKS, 1)
            self._reads = self._lane([link] * _CLUSTER_LINKS, 1)
        else:
            wire = partial(SocketLink, address, answer)
            self._writes = self._lane([wire] * _WRITE_LINKS, _WRITES_AT_ONCE)
            self._reads = self._lane([wire] * _READ_LINKS, _READS_AT_ONCE)

    def _lane(self, links: Sequence[Any], most_commands: int) -> Lane:
        return Lane(
            links,
            self._clock,
            most_commands=most_commands,
            patience=self._patience,
            on_busy=self._start_ticking,
        )

    def command(self, *command: Argument) -> Awaitable[Any]:
        """Run one command.

        Raises:
            LogUnavailable: the store refused it, or did not answer for too long.
        """
        return self._run(self._writes, command)

    def script(self, script: Script, keys: Sequence[str], *arguments: Argument) -> Awaitable[Any]:
        """Run a script that changes something; raises what `command` does."""
        return self._script(self._writes, script, (len(keys), *keys, *arguments))

    def begin_script(
        self, script: Script, keys: Sequence[str], read: Callable[[Any], T], *arguments: Argument
    ) -> "asyncio.Future[T]":
        """Run a script as `script` does; the future gets what `read` makes of the reply.

        No task is needed for it unless something goes wrong.
        """
        command = ("EVALSHA", script.sha, len(keys), *keys, *arguments)
        since = self._clock.mark()
        result: asyncio.Future[T] = self._loop.create_future()

        def replied(reply: "asyncio.Future[Any]") -> None:
            if result.done():
                return
            if isinstance(reply.exception(), _FAILURES):
                again = self._recover_script(self._writes, script, command, since, reply)
                task = self._loop.create_task(again)
                self._recovering.add(task)
                task.add_done_callback(self._recovering.discard)
                task.add_done_callback(settle)
            else:
                settle(reply)

        def settle(reply: "asyncio.Future[Any]") -> None:
            if result.done():
                return
            if reply.cancelled():
                result.cancel()
                return
            try:
                result.set_result(read(reply.result()))
            except Exception as error:  # noqa: BLE001 - for whoever waits for the result
                result.set_exception(error)

        self._writes.submit(command, since).add_done_callback(replied)
        return result

    def query(self, script: Script, keys: Sequence[str], *arguments: Argument) -> Awaitable[Any]:
        """Run a script that only reads, and may have a long answer."""
        return self._script(self._reads, script, (len(keys), *keys, *arguments))

    def poll(self, *command: Argument) -> "asyncio.Future[Any]":
        """Run a command once; raises what the client library raises, or `StoreSilent`."""
        return self._reads.submit(command, self._clock.mark())

    def listener(self) -> Redis:
        """Return a client of its own for a subscription; in a cluster any node will do."""
        host, port = self._address.host, self._address.port
        if self._cluster is not None and (nodes := self._cluster.get_nodes()):
            node = random.choice(nodes)
            host, port = str(node.host), int(node.port)
        return _listener(host, port, self._address, self._options)

    async def close(self) -> None:
        """Close all connections."""
        await self._writes.stop()
        await self._reads.stop()
        if self._timer is not None:
            self._timer.cancel()
        if self._cluster is not None:
            await self._cluster.aclose()

    async def _script(self, lane: Lane, script: Script, rest: Command) -> Any:
        command = ("EVALSHA", script.sha, *rest)
        since = self._clock.mark()
        reply = lane.submit(command, since)
        try:
            return await reply
        except _FAILURES:
            return await self._recover_script(lane, script, command, since, reply)

    async def _recover_script(
        self,
        lane: Lane,
        script: Script,
        command: Command,
        since: Mark,
        reply: "asyncio.Future[Any]",
    ) -> Any:
        """Get a reply to a script whose first attempt has failed."""
        failure = reply.exception()
        try:
            if not isinstance(failure, NoScriptError):
                return await self._recover(lane, command, since, failure)
        except NoScriptError:
            pass
        # A store that was restarted has forgotten the script, and learns it again.
        return await self._run(lane, ("EVAL", script.source, *command[2:]))

    async def _run(self, lane: Lane, command: Command) -> Any:
        since = self._clock.mark()
        try:
            return await lane.submit(command, since)
        except NoScriptError:
            raise
        except _FAILURES as error:
            failure = error
        return await self._recover(lane, command, since, failure)

    async def _recover(
        self, lane: Lane, command: Command, since: Mark, failure: BaseException | None
    ) -> Any:
        assert isinstance(failure, Exception)  # noqa: S101
        self._repeating += 1
        try:
            return await self._repeat(lane, command, since, failure)
        finally:
            self._repeating -= 1

    async def _repeat(self, lane: Lane, command: Command, since: Mark, failure: Exception) -> Any:
        """Send a command again until it succeeds or the patience is over.

        It is over only when an attempt has failed, so the time in the queue decides nothing.
        """
        self._start_ticking()
        first = self._clock.now
        if isinstance(failure, StoreTimeoutError):
            first -= self._answer  # for which the first attempt waited
        failures = 1
        while True:
            self._check(failure, since, first)
            # Never None without a delay that the server asks for.
            await asyncio.sleep(_BACKOFF.delay(failures, random.random))
            try:
                return await lane.submit(command, since)
            except NoScriptError:
                raise
            except _FAILURES as error:
                failure = error
            failures += 1

    def _check(self, failure: Exception, since: Mark, first: float) -> None:
        """Raise the error for the caller if another attempt makes no sense."""
        if isinstance(failure, LaneStopped):
            raise LogUnavailable(f"the log on {self._address.shown} has been stopped") from None
        if isinstance(failure, StoreSilent):
            raise gave_up(self._address, self._patience, failure) from None
        if not is_passing(failure):
            raise refusal(self._address, self._prefix, failure) from None
        if self._clock.passed(first, self._patience):
            blocked = self._clock.blocked - since.blocked
            silent = StoreSilent(sent=True, blocked=blocked, error=failure)
            raise gave_up(self._address, self._patience, silent) from None

    def _start_ticking(self) -> None:
        if self._timer is None:
            self._clock.resume(self._loop.time())
            self._timer = self._loop.call_later(self._clock.interval, self._tick)

    def _tick(self) -> None:
        try:
            self._clock.tick(self._loop.time())
            self._writes.judge()
            self._reads.judge()
        finally:
            self._timer = None
            if self._repeating or self._writes.busy or self._reads.busy:
                self._timer = self._loop.call_later(self._clock.interval, self._tick)


def _connection_options(address: Address, answer: float) -> dict[str, Any]:
    return {
        "username": address.username,
        "password": address.password,
        "socket_timeout": answer,
        "socket_connect_timeout": answer,
        "socket_keepalive": True,
        "protocol": 2,
    }


def _listener(host: str, port: int, address: Address, options: dict[str, Any]) -> Redis:
    pool = BlockingConnectionPool(
        connection_class=SSLConnection if address.tls else Connection,
        host=host,
        port=port,
        db=address.db,
        max_connections=1,
        retry=Retry(NoBackoff(), 0),  # whoever listens counts the attempts
        **options,
        **address.tls_options,
    )
    return Redis.from_pool(pool)


def _cluster(address: Address, options: dict[str, Any]) -> RedisCluster:
    return RedisCluster(
        host=address.host,
        port=address.port,
        max_connections=4 * _CLUSTER_LINKS,
        retry=Retry(NoBackoff(), 1),
        ssl=address.tls,
        **options,
        **address.tls_options,
    )
