"""The store as one event loop uses it: connections, batches of commands, retries, timeouts."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from redis.asyncio import BlockingConnectionPool, Connection, Redis, RedisCluster, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError
from redis.exceptions import TimeoutError as StoreTimeoutError

from ...._valkey_address import Address, Script
from ...errors import LogUnavailable
from ..remote._clocks import Mark
from ..remote._command_queue import CommandQueue, PatienceExceeded, QueueStopped
from ..remote._store import RemoteStore
from ._errors import STORE_ERRORS, is_transient, rejected, unreachable
from ._link import ClusterLink, ConfirmingNodes, SocketLink
from ._primary import Confirmation, Primary
from ._resp import Argument, Command

T = TypeVar("T")

# Connections of each queue. Writes are short, and cheaper the more of them share a round trip. A
# page is long, so with a second connection the next read does not wait for it.
_WRITE_LINKS = 1
_READ_LINKS = 2
_WRITES_AT_ONCE = 128  # commands
_READS_AT_ONCE = 16  # each reply may be a whole page
_CLUSTER_LINKS = 8  # more, because each command is its own round trip


class Store(RemoteStore):
    """Runs commands and scripts. Reads have their own queue, so writes do not wait for pages.

    With `replicas`, so many replicas confirm the scripts of their own queue, for which the store
    has `confirm_seconds`. A renewal of leases, for example, need not wait for that.
    """

    failures = (*STORE_ERRORS, PatienceExceeded, QueueStopped)
    passed_on = (NoScriptError,)

    def __init__(
        self,
        address: Address,
        prefix: str,
        *,
        patience: float,
        cluster: bool,
        replicas: int = 0,
        confirm_seconds: float = 1.0,
        listeners: Sequence[Callable[[], None]] = (),
    ) -> None:
        super().__init__(patience)
        self._prefix = prefix
        reply_timeout = self._reply_timeout
        self._options = {**address.connection_options(reply_timeout), "socket_keepalive": True}
        self.primary = Primary(address, {**self._options, "ssl": address.tls}, listeners)
        self.confirmation: Confirmation | None = None
        if replicas:
            seconds = min(confirm_seconds, reply_timeout / 2)
            key = f"{prefix}:confirmed"
            self.confirmation = Confirmation(replicas, seconds, key, address.shown)
        self._cluster = _cluster(address, self._options) if cluster else None
        self._nodes: ConfirmingNodes | None = None
        if self._cluster is None:
            queues = _socket_queues(
                self._make_queue, self.primary, reply_timeout, self.confirmation
            )
        else:
            if self.confirmation is not None:
                connection = partial(_connection, address, self._options)
                self._nodes = ConfirmingNodes(self._cluster, connection, self.confirmation)
            queues = _cluster_queues(self._make_queue, self._cluster, self._nodes, reply_timeout)
        self._writes, self._reads, self._confirmed = queues

    def command(self, *command: Argument) -> Awaitable[Any]:
        """Run one command.

        Raises:
            LogUnavailable: the store rejected it, or did not answer for too long.
        """
        return self._run(self._writes, command)

    def script(self, script: Script, keys: Sequence[str], *arguments: Argument) -> Awaitable[Any]:
        """Run a script that writes; raises like `command`."""
        return self._script(self._writes, script, (len(keys), *keys, *arguments))

    def confirmed_script(
        self, script: Script, keys: Sequence[str], *arguments: Argument
    ) -> Awaitable[Any]:
        """Run a script whose effect replicas must have, if the log waits for any."""
        return self._script(self._confirmed, script, (len(keys), *keys, *arguments))

    def begin_script(
        self, script: Script, keys: Sequence[str], read: Callable[[Any], T], *arguments: Argument
    ) -> "asyncio.Future[T]":
        """Run a script like `confirmed_script`; the future gets `read(reply)`.

        It creates a task only after a failure, which makes it cheaper.
        """
        command = ("EVALSHA", script.sha, len(keys), *keys, *arguments)

        recover = partial(self._recover_script, self._confirmed, script, command)
        return self._begin(self._confirmed, command, read, recover)

    def query(self, script: Script, keys: Sequence[str], *arguments: Argument) -> Awaitable[Any]:
        """Run a script that only reads and may have a long reply; raises like `command`."""
        return self._script(self._reads, script, (len(keys), *keys, *arguments))

    def poll_once(self, *command: Argument) -> "asyncio.Future[Any]":
        """Run a command without retries; raises the errors of `CommandQueue.submit`."""
        return self._reads.submit(command, self._clock.mark())

    async def make_subscriber(self) -> Redis:
        """Return a new client for a subscription; in a cluster it may be connected to any node."""
        if self._cluster is None:
            host, port = await self.primary.locate()
        else:
            host, port = self.primary.address.host, self.primary.address.port
            if nodes := self._cluster.get_nodes():
                node = random.choice(nodes)
                host, port = str(node.host), int(node.port)
        return _subscriber(host, port, self.primary.address, self._options)

    @property
    def is_cluster(self) -> bool:
        """True if the keys of a script must belong to one node."""
        return self._cluster is not None

    def compare_primaries(self) -> None:
        """Notice a failover in a cluster; a connection to one server does so at its login."""
        if self._cluster is not None:
            primaries = sorted((node.host, node.port) for node in self._cluster.get_primaries())
            self.primary.identify(primaries or None)

    async def close(self) -> None:
        """Close all connections."""
        await super().close()
        await self.primary.close()
        if self._nodes is not None:
            await self._nodes.close()
        if self._cluster is not None:
            await self._cluster.aclose()

    async def _script(self, queue: CommandQueue, script: Script, rest: Command) -> Any:
        command = ("EVALSHA", script.sha, *rest)
        since = self._clock.mark()
        try:
            return await queue.submit(command, since)
        except self.failures as error:
            failure = error
        return await self._recover_script(queue, script, command, since, failure)

    async def _recover_script(
        self,
        queue: CommandQueue,
        script: Script,
        command: Command,
        since: Mark,
        failure: Exception,
    ) -> Any:
        """Run a script again whose first attempt has failed."""
        try:
            if not isinstance(failure, NoScriptError):
                return await self._recover(queue, command, since, failure)
        except NoScriptError:
            pass
        # A store that was restarted does not know the script any more: send its source.
        return await self._run(queue, ("EVAL", script.source, *command[2:]))

    def _is_transient(self, error: Exception) -> bool:
        return is_transient(error)

    def _is_timeout(self, error: Exception) -> bool:
        return isinstance(error, StoreTimeoutError)

    def _final_error(self, failure: Exception) -> Exception:
        if isinstance(failure, QueueStopped):
            return LogUnavailable(f"the log on {self.primary.address.shown} has been stopped")
        if isinstance(failure, PatienceExceeded):
            return unreachable(self.primary.address, self._patience, failure)
        return rejected(self.primary.address, self._prefix, failure)


# Queues for writes, for reads, and for writes that replicas confirm.
_Queues: TypeAlias = tuple[CommandQueue, CommandQueue, CommandQueue]
_MakeQueue: TypeAlias = Callable[[Sequence[Any], int], CommandQueue]


def _socket_queues(
    make: _MakeQueue, primary: Primary, reply_timeout: float, confirmation: Confirmation | None
) -> _Queues:
    def writes(confirmation: Confirmation | None) -> CommandQueue:
        link = partial(SocketLink, primary, reply_timeout, confirmation)
        return make([link] * _WRITE_LINKS, _WRITES_AT_ONCE)

    plain = writes(None)
    reads = make([partial(SocketLink, primary, reply_timeout, None)] * _READ_LINKS, _READS_AT_ONCE)
    return plain, reads, plain if confirmation is None else writes(confirmation)


def _cluster_queues(
    make: _MakeQueue, cluster: RedisCluster, nodes: ConfirmingNodes | None, reply_timeout: float
) -> _Queues:
    def queue(execute: Callable[..., Awaitable[Any]]) -> CommandQueue:
        return make([partial(ClusterLink, execute, reply_timeout)] * _CLUSTER_LINKS, 1)

    writes = queue(cluster.execute_command)
    reads = queue(cluster.execute_command)
    return writes, reads, writes if nodes is None else queue(nodes.execute)


def _connection(address: Address, options: dict[str, Any], host: str, port: int) -> Connection:
    kind = SSLConnection if address.tls else Connection
    retry = Retry(NoBackoff(), 0)
    return kind(host=host, port=port, retry=retry, **options)


def _subscriber(host: str, port: int, address: Address, options: dict[str, Any]) -> Redis:
    pool = BlockingConnectionPool(
        connection_class=SSLConnection if address.tls else Connection,
        host=host,
        port=port,
        db=address.db,
        max_connections=1,
        retry=Retry(NoBackoff(), 0),  # the subscription does its own retries
        **options,
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
    )
