"""The store as one event loop sees it: a few connections, batches, and patience with a bound."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any, TypeAlias

from redis.asyncio import BlockingConnectionPool, Connection, Redis, RedisCluster, SSLConnection
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, ReadOnlyError, ResponseError

from ...._retry import Backoff
from ...errors import LogUnavailable
from ._address import Address
from ._errors import STORE_ERRORS, is_passing, refusal, silence
from ._lane import Command, Lane, LaneStopped
from ._scripts import Script

__all__ = ["Store"]

# No value is longer than an argument, so bytes and numbers go in as they are.
Argument: TypeAlias = bytes | str | int

_BACKOFF = Backoff(first=0.02, longest=1.0)
# For one answer. Shorter than the patience, so that a connection that died without a word is
# noticed while there is still time for another one.
_ANSWER_SHARE = 0.4
# Connections of a lane. Writes are short, and the more of them share a round trip the less each
# costs; a page is long, and the next one need not wait for it.
_WRITES_BUSY = 1
_READS_BUSY = 2
_WRITES_AT_ONCE = 128  # commands
_READS_AT_ONCE = 16  # each may bring a whole page
_CLUSTER_BUSY = 8  # where each command is a round trip of its own


class Store:
    """Runs commands and scripts; writes and reads each have a lane, so none waits for a page."""

    def __init__(self, address: Address, prefix: str, *, patience: float, cluster: bool) -> None:
        self._address = address
        self._prefix = prefix
        self._patience = patience
        self._answer = patience * _ANSWER_SHARE
        self._options = _connection_options(address, self._answer)
        self._cluster: RedisCluster | None = None
        self._single: Redis | None = None
        if cluster:
            self._cluster = _cluster(address, self._options)
            self._writes = Lane(self._send_one, most_busy=_CLUSTER_BUSY, most_commands=1)
            self._reads = Lane(self._send_one, most_busy=_CLUSTER_BUSY, most_commands=1)
        else:
            # `_send_all` sets the limit for an answer.
            options = self._options | {"socket_timeout": None}
            connections = _WRITES_BUSY + _READS_BUSY
            self._single = _single(address.host, address.port, address, options, connections)
            self._writes = Lane(
                self._send_all, most_busy=_WRITES_BUSY, most_commands=_WRITES_AT_ONCE
            )
            self._reads = Lane(self._send_all, most_busy=_READS_BUSY, most_commands=_READS_AT_ONCE)

    async def command(self, *command: Argument) -> Any:
        """Run one command.

        Raises:
            LogUnavailable: the store refused it, or did not answer for too long.
        """
        return await self._run(self._writes, command)

    async def script(self, script: Script, keys: Sequence[str], *arguments: Argument) -> Any:
        """Run a script that changes something; raises what `command` does."""
        return await self._script(self._writes, script, keys, arguments)

    async def query(self, script: Script, keys: Sequence[str], *arguments: Argument) -> Any:
        """Run a script that only reads, and may have a long answer."""
        return await self._script(self._reads, script, keys, arguments)

    def glance(self, *command: Argument) -> "asyncio.Future[Any]":
        """Run a command once, without patience; raises what the client library raises."""
        return self._reads.submit(command)

    def listener(self) -> Redis:
        """Return a client of its own for a subscription; in a cluster any node will do."""
        host, port = self._address.host, self._address.port
        if self._cluster is not None and (nodes := self._cluster.get_nodes()):
            node = random.choice(nodes)
            host, port = str(node.host), int(node.port)
        return _single(host, port, self._address, self._options, 1)

    async def close(self) -> None:
        """Let go of all connections."""
        await self._writes.stop()
        await self._reads.stop()
        for client in (self._single, self._cluster):
            if client is not None:
                await client.aclose()

    async def _script(
        self, lane: Lane, script: Script, keys: Sequence[str], arguments: Sequence[Argument]
    ) -> Any:
        rest = (len(keys), *keys, *arguments)
        try:
            return await self._run(lane, ("EVALSHA", script.sha, *rest))
        except NoScriptError:  # a store that was restarted has forgotten it, and learns it again
            return await self._run(lane, ("EVAL", script.source, *rest))

    async def _run(self, lane: Lane, command: Command) -> Any:
        last: Exception | None = None
        failures = 0
        try:
            async with asyncio.timeout(self._patience):
                while True:
                    try:
                        return await lane.submit(command)
                    except NoScriptError:
                        raise
                    except STORE_ERRORS as error:
                        if not is_passing(error):
                            raise refusal(self._address, self._prefix, error) from None
                        last = error
                    failures += 1
                    # Never None: a store has no wish.
                    await asyncio.sleep(_BACKOFF.delay(failures, None, random.random) or 0)
        except TimeoutError:
            raise silence(self._address, self._patience, last) from None
        except LaneStopped:
            raise LogUnavailable(f"the log on {self._address.shown} has been stopped") from None

    async def _send_all(self, commands: Sequence[Command]) -> Sequence[Any]:
        # What a pipeline of the client library does, without a timer for each reply: the batch has
        # one.
        assert self._single is not None  # noqa: S101
        pool = self._single.connection_pool
        async with asyncio.timeout(self._answer):
            connection = await pool.get_connection()  # type: ignore[no-untyped-call]
            try:
                packed = connection.pack_commands(commands)
                await connection.send_packed_command(packed, check_health=False)
                replies = [await _reply(connection) for _ in commands]
            finally:
                await pool.release(connection)
        if any(isinstance(reply, ReadOnlyError) for reply in replies):
            # This was the primary, and its address may by now be that of another.
            await self._single.connection_pool.disconnect(inuse_connections=False)
        return replies

    async def _send_one(self, commands: Sequence[Command]) -> Sequence[Any]:
        # A pipeline of the cluster client takes no scripts.
        assert self._cluster is not None  # noqa: S101
        (command,) = commands
        return [await self._cluster.execute_command(*command)]


async def _reply(connection: AbstractConnection) -> Any:
    """Read one reply; one that is an error is returned, since others follow it."""
    try:
        return await connection.read_response()
    except ResponseError as error:
        return error


def _connection_options(address: Address, answer: float) -> dict[str, Any]:
    return {
        "username": address.username,
        "password": address.password,
        "socket_timeout": answer,
        "socket_connect_timeout": answer,
        "socket_keepalive": True,
        "protocol": 2,
    }


def _single(
    host: str, port: int, address: Address, options: dict[str, Any], connections: int
) -> Redis:
    pool = BlockingConnectionPool(
        connection_class=SSLConnection if address.tls else Connection,
        host=host,
        port=port,
        db=address.db,
        max_connections=connections,
        timeout=None,  # the lanes ask for no more than there are
        retry=Retry(NoBackoff(), 0),  # attempts are counted in one place, here
        **options,
        **address.tls_options,
    )
    return Redis.from_pool(pool)


def _cluster(address: Address, options: dict[str, Any]) -> RedisCluster:
    return RedisCluster(
        host=address.host,
        port=address.port,
        max_connections=4 * _CLUSTER_BUSY,
        retry=Retry(NoBackoff(), 1),
        ssl=address.tls,
        **options,
        **address.tls_options,
    )
