"""The connections of a command queue: to one store, or to a cluster."""

import asyncio
import math
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from redis.asyncio import Connection, RedisCluster
from redis.exceptions import (
    AskError,
    AuthenticationError,
    ClusterDownError,
    InvalidResponse,
    MovedError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as StoreConnectionError
from redis.exceptions import TimeoutError as StoreTimeoutError

from ...._host_port import host_port
from ...._valkey_address import Address
from ..remote._clocks import Mark
from ..remote._command_queue import Health, Job, QueueStopped, fail, settle, settle_all
from ..remote._store import cancel_all
from ._primary import LOGIN_CHECK, Confirmation, Primary
from ._resp import MORE, Command, make_reader, pack


class _RespProtocol(asyncio.Protocol):
    """The protocol of one socket: replies arrive in the order of the commands.

    The reply of a cancelled command is read and dropped, so that the next reply still belongs to
    the next command. With a `confirmation`, which is set after the login, the jobs of a batch get
    their replies when replicas have confirmed it.
    """

    __slots__ = (
        "_closed",
        "_ends",
        "_health",
        "_on_demoted",
        "_on_idle",
        "_replies",
        "_transport",
        "_unconfirmed",
        "_unsent",
        "confirmation",
        "generation",
        "jobs",
        "last_activity",
        "stale",
    )

    def __init__(
        self, health: Health, on_idle: Callable[[], None], on_demoted: Callable[[], None]
    ) -> None:
        self.jobs: deque[Job] = deque()
        self.generation = 0  # of the primary, at the login
        self.confirmation: Confirmation | None = None
        self._ends: Sequence[Job] = ()  # the commands that end a batch
        self._unconfirmed: list[tuple[Job, Any]] = []
        self._on_demoted = on_demoted
        self.last_activity = health.clock.now  # the last time that data was sent or received
        self.stale = False  # True if the connection must not be used any more
        self._health = health
        self._on_idle = on_idle
        self._replies = make_reader()
        self._transport: asyncio.Transport | None = None
        self._unsent = 0
        self._closed = asyncio.get_running_loop().create_future()

    def send(self, jobs: Sequence[Job]) -> None:
        """Send commands; the jobs get their replies."""
        assert self._transport is not None  # noqa: S101
        self.last_activity = self._health.clock.now
        if self.confirmation is not None:
            self._ends = [_internal(command) for command in self.confirmation.commands()]
            jobs = [*jobs, *self._ends]
        self.jobs.extend(jobs)
        try:
            self._transport.write(pack([job.command for job in jobs]))
        except RuntimeError as error:  # uvloop raises it if the connection has just been closed
            self.abort(StoreConnectionError(str(error)))
            asyncio.get_running_loop().call_soon(self._on_idle)

    async def request(self, command: Command) -> Any:
        """Send one command of the login and return its reply."""
        future = asyncio.get_running_loop().create_future()
        self.send([Job(command, future, self._health.clock.mark())])
        return await future

    def is_silent(self, seconds: float) -> bool:
        """Return True if no data was sent or received for so many seconds."""
        transport, clock = self._transport, self._health.clock
        unsent = 0 if transport is None else transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent = unsent
            self.last_activity = self._health.last_activity = clock.now
        return clock.passed(self.last_activity, seconds)

    def abort(self, error: Exception) -> None:
        """Close the connection at once; jobs without a reply get the error."""
        self.stale = True
        if self._transport is not None:
            self._transport.abort()
        jobs, self.jobs = self.jobs, deque()
        unconfirmed, self._unconfirmed = self._unconfirmed, []
        settle_all([*(job for job, _ in unconfirmed), *jobs], error, self._health)

    async def closed(self) -> None:
        """Wait until the socket is closed."""
        if self._transport is not None:
            await self._closed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Configure the socket; called by the event loop."""
        self._transport = cast("asyncio.Transport", transport)
        if (sock := transport.get_extra_info("socket")) is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        """Give complete replies to their jobs; called by the event loop."""
        self.last_activity = self._health.clock.now
        try:
            self._replies.feed(data)
            self._settle()
        except InvalidResponse as error:
            self.abort(error)
            self._on_idle()

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the jobs without a reply; called by the event loop."""
        if not self._closed.done():
            self._closed.set_result(None)
        if not self.stale:
            why = "" if error is None else f": {error}"
            self.abort(StoreConnectionError(f"the store closed the connection{why}"))
            self._on_idle()

    def _settle(self) -> None:
        jobs, demoted = self.jobs, False
        waiting = len(jobs)
        while (reply := self._replies.gets()) is not MORE:
            if not jobs:
                raise InvalidResponse("the store sent a reply without a command")
            job = jobs.popleft()
            if self.confirmation is None:
                settle(job, reply, self._health)
            elif job not in self._ends:
                self._unconfirmed.append((job, reply))
            elif job is self._ends[-1]:
                self._confirm(self.confirmation.check(reply))
            demoted = demoted or _is_demoted(reply)
        if len(jobs) == waiting:  # only a part of a long reply was received
            self._health.last_activity = self.last_activity
        if demoted:
            # After a failover the address may belong to another server: connect again.
            self.abort(StoreConnectionError("the store is no longer the primary"))
            self._on_demoted()
        if demoted or not jobs:
            self._on_idle()

    def _confirm(self, error: Exception | None) -> None:
        """Give the jobs of a batch their replies, or the error of its confirmation."""
        unconfirmed, self._unconfirmed = self._unconfirmed, []
        for job, reply in unconfirmed:
            failed = error is not None and not isinstance(reply, Exception)
            settle(job, error if failed else reply, self._health)


def _internal(command: Command) -> Job:
    """Return a job that nobody waits for."""
    done = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return Job(command, done, Mark(0.0, 0.0))


def _is_demoted(reply: Any) -> bool:
    """Return True if a reply shows that the server is, or becomes, a replica."""
    if not isinstance(reply, Exception):  # most replies; a page would be costly as text
        return False
    return isinstance(reply, ReadOnlyError) or str(reply).startswith("UNBLOCKED ")


class SocketLink:
    """Keeps one connection to the store, and connects again for the next batch if it was lost."""

    def __init__(
        self,
        primary: Primary,
        reply_timeout: float,
        confirmation: Confirmation | None,
        health: Health,
        on_idle: Callable[[], None],
    ) -> None:
        self._primary = primary
        self._confirmation = confirmation
        self._reply_timeout = reply_timeout
        self._health = health
        self._on_idle = on_idle
        self._protocol: _RespProtocol | None = None
        self._waiting: Sequence[Job] = ()  # jobs that wait for the connection
        self._connecting: asyncio.Task[None] | None = None
        self._connecting_since = 0.0
        self._stopped = False
        primary.listen(self._leave_old_primary)

    def jobs(self) -> Sequence[Job]:
        """Return the jobs without a result."""
        if self._waiting or self._protocol is None:
            return self._waiting
        return self._protocol.jobs

    def send(self, jobs: Sequence[Job]) -> None:
        """Send a batch; connect first if necessary."""
        if self._protocol is not None and not self._protocol.stale:
            self._protocol.send(jobs)
            return
        self._waiting = jobs
        self._connecting_since = self._health.clock.now
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    def check_timeouts(self) -> None:
        """Close a connection without activity for too long."""
        if self._waiting:
            silent = self._health.clock.passed(self._connecting_since, self._reply_timeout)
            if silent and self._connecting is not None:
                self._connecting_since = math.inf  # cancel it only once
                self._connecting.cancel()
        elif (
            self._protocol is not None
            and self._protocol.jobs
            and self._protocol.is_silent(self._reply_timeout)
        ):
            self._protocol.abort(StoreTimeoutError(f"no reply within {self._reply_timeout:g} s"))
            self._on_idle()

    async def stop(self) -> None:
        """Fail the running jobs and close the connection."""
        self._stopped = True
        if self._connecting is not None:
            await cancel_all([self._connecting])
        if self._protocol is not None:
            self._protocol.abort(QueueStopped())
            await self._protocol.closed()

    async def _connect(self) -> None:
        primary = self._primary
        protocol = _RespProtocol(self._health, self._on_protocol_idle, primary.demoted)
        try:
            await self._log_in(protocol)
        except asyncio.CancelledError:
            if self._stopped:
                await self._fail_connection(protocol, QueueStopped())
                raise
            where = host_port(*self._primary.location)
            await self._fail_connection(
                protocol, StoreTimeoutError(f"timeout connecting to {where}")
            )
        except Exception as error:  # noqa: BLE001 - it is raised to each caller
            await self._fail_connection(protocol, error)
        else:
            jobs, self._waiting = self._waiting, ()
            self._protocol, self._connecting = protocol, None
            protocol.send(jobs)

    async def _fail_connection(self, protocol: _RespProtocol, error: Exception) -> None:
        protocol.abort(error)
        try:
            await protocol.closed()
        finally:
            jobs, self._waiting = self._waiting, ()
            self._connecting = None
            settle_all(jobs, error, self._health)
            self._on_idle()

    async def _log_in(self, protocol: _RespProtocol) -> None:
        primary, address = self._primary, self._primary.address
        await _open_connection(address, await primary.locate(), protocol)
        if address.password is not None:
            user = () if address.username is None else (address.username,)
            await _send_login(protocol, ("AUTH", *user, address.password), AuthenticationError)
        if address.db:
            await _send_login(protocol, ("SELECT", address.db), None)
        primary.check(*await asyncio.gather(*(_ask(protocol, one) for one in LOGIN_CHECK)))
        protocol.generation = primary.generation
        protocol.confirmation = self._confirmation

    def _leave_old_primary(self) -> None:
        """Close a connection that was opened before the primary changed."""
        protocol = self._protocol
        if protocol is None or protocol.stale or protocol.generation == self._primary.generation:
            return
        protocol.abort(StoreConnectionError("the primary of the store has changed"))
        self._on_protocol_idle()

    def _on_protocol_idle(self) -> None:
        if not self._waiting:  # otherwise it was a reply of the login
            self._on_idle()


async def _open_connection(
    address: Address, location: tuple[str, int], protocol: _RespProtocol
) -> None:
    try:
        await asyncio.get_running_loop().create_connection(
            lambda: protocol,
            *location,
            ssl=_tls_context(address) if address.tls else None,
        )
    except OSError as error:
        where = host_port(*location)
        raise StoreConnectionError(f"error connecting to {where}: {error}") from error


async def _ask(protocol: _RespProtocol, command: Command) -> Any:
    """Return the reply, None if the store does not allow the command."""
    try:
        return await protocol.request(command)
    except ResponseError:
        return None


async def _send_login(
    protocol: _RespProtocol, command: Command, kind: type[Exception] | None
) -> None:
    try:
        await protocol.request(command)
    except ResponseError as error:
        raise error if kind is None else kind(str(error)) from None


def _tls_context(address: Address) -> ssl.SSLContext:
    options = address.tls_options
    context = ssl.create_default_context()
    if options.get("ssl_check_hostname") is False:
        context.check_hostname = False
    context.verify_mode = {
        "none": ssl.CERT_NONE,
        "optional": ssl.CERT_OPTIONAL,
        "required": ssl.CERT_REQUIRED,
    }[options.get("ssl_cert_reqs", "required")]
    if "ssl_ca_certs" in options:
        context.load_verify_locations(options["ssl_ca_certs"])
    if "ssl_certfile" in options:
        context.load_cert_chain(options["ssl_certfile"], options.get("ssl_keyfile"))
    return context


class ClusterLink:
    """Sends one command at a time to a cluster.

    The client library finds the node of the command and keeps the connections.
    """

    def __init__(
        self,
        execute: Callable[..., Awaitable[Any]],
        reply_timeout: float,
        health: Health,
        on_idle: Callable[[], None],
    ) -> None:
        self._execute = execute
        self._reply_timeout = reply_timeout
        self._health = health
        self._on_idle = on_idle
        self._jobs: Sequence[Job] = ()
        self._task: asyncio.Task[None] | None = None
        self._sent_at = 0.0
        self._stopped = False

    def jobs(self) -> Sequence[Job]:
        """Return the running job."""
        return self._jobs

    def send(self, jobs: Sequence[Job]) -> None:
        """Send one command."""
        self._jobs = jobs
        self._sent_at = self._health.clock.now
        self._task = asyncio.get_running_loop().create_task(self._run(*jobs))

    def check_timeouts(self) -> None:
        """Cancel a command without a reply for too long.

        Each call cancels again, because a cancellation can get lost in the client library.
        """
        if self._task is not None and self._health.clock.passed(self._sent_at, self._reply_timeout):
            self._task.cancel()

    async def stop(self) -> None:
        """Cancel the running command."""
        self._stopped = True
        if self._task is not None:
            await cancel_all([self._task])

    async def _run(self, job: Job) -> None:
        try:
            reply = await self._execute(*job.command)
        except asyncio.CancelledError:
            if self._stopped:
                fail(job, QueueStopped())
                raise
            reply = StoreTimeoutError(f"no reply within {self._reply_timeout:g} s")
        except (AttributeError, RuntimeError) as error:
            # A connection breaks in the library: on uvloop, or while another task closes it.
            reply = StoreConnectionError(str(error))
        except Exception as error:  # noqa: BLE001 - it is raised to the caller
            reply = error
        self._jobs, self._task = (), None
        settle(job, reply, self._health)
        self._on_idle()


class ConfirmingNodes:
    """Runs commands on the primaries of a cluster, and lets their replicas confirm them.

    The pools of the client library give any connection to a command, but WAIT must follow it on
    the same one. So these connections are separate: each runs one command at a time.
    """

    def __init__(
        self,
        cluster: RedisCluster,
        connect: Callable[[str, int], Connection],
        confirmation: Confirmation,
    ) -> None:
        self._cluster = cluster
        self._connect = connect
        self._confirmation = confirmation
        self._idle: dict[tuple[str, int], list[Connection]] = {}

    async def execute(self, *command: Any) -> Any:
        """Run a command; raises its error, or that of the confirmation."""
        key = command[3] if command[0] in ("EVALSHA", "EVAL") else command[1]
        await self._cluster.initialize()  # does nothing if it has been done
        node = self._cluster.get_node_from_key(str(key))
        if node is None:
            raise ClusterDownError("the cluster has no primary for a key")
        where = (str(node.host), int(node.port))
        idle = self._idle.setdefault(where, [])
        connection = idle.pop() if idle else self._connect(*where)
        try:
            reply = await self._exchange(connection, command, _tagged(str(key)))
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        idle.append(connection)
        if isinstance(reply, (MovedError, ReadOnlyError)):
            await self._cluster.nodes_manager.initialize()
            raise TryAgainError("the primary of a key has changed")
        if isinstance(reply, AskError):
            raise TryAgainError("a slot is being moved to another node")
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def close(self) -> None:
        """Close the connections."""
        for connections in self._idle.values():
            for connection in connections:
                await connection.disconnect(nowait=True)
        self._idle.clear()

    async def _exchange(self, connection: Connection, command: Command, key: str) -> Any:
        commands = (command, *self._confirmation.commands(key))
        await connection.connect()  # type: ignore[no-untyped-call]
        await connection.send_packed_command(pack(commands), check_health=False)
        reply, _, confirmed = [await _read_reply(connection) for _ in commands]
        if isinstance(reply, Exception):
            return reply
        return self._confirmation.check(confirmed) or reply


async def _read_reply(connection: Connection) -> Any:
    try:
        return await connection.read_response(disconnect_on_error=True)
    except ResponseError as error:
        return error


def _tagged(key: str) -> str:
    """Return a key in the same slot of a cluster."""
    return f"{key.partition('}')[0]}}}:confirmed"
