"""Connections to the store that carry batches of commands."""

import asyncio
import math
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from redis.exceptions import AuthenticationError, InvalidResponse, ReadOnlyError, ResponseError
from redis.exceptions import ConnectionError as StoreConnectionError
from redis.exceptions import TimeoutError as StoreTimeoutError

from ._address import Address
from ._errors import LaneStopped
from ._lane import Health, Job, fail, settle, settle_all
from ._tasks import cancel_all
from ._wire import MORE, Command, make_reader, pack

__all__ = ["ClusterLink", "SocketLink"]


class _Wire(asyncio.Protocol):
    """One connection from its beginning to its end: replies come in the order of the commands.

    A reply that nobody waits for any more is read and dropped, so that the next one stays the
    reply of the next command.
    """

    __slots__ = (
        "_closed",
        "_health",
        "_on_idle",
        "_replies",
        "_transport",
        "_unsent",
        "heard",
        "jobs",
        "stale",
    )

    def __init__(self, health: Health, on_idle: Callable[[], None]) -> None:
        self.jobs: deque[Job] = deque()
        self.heard = health.clock.now  # when something moved on this connection
        self.stale = False  # whether it must not be used again
        self._health = health
        self._on_idle = on_idle
        self._replies = make_reader()
        self._transport: asyncio.Transport | None = None
        self._unsent = 0
        self._closed = asyncio.get_running_loop().create_future()

    def send(self, jobs: Sequence[Job]) -> None:
        """Write commands; their replies settle the jobs."""
        assert self._transport is not None  # noqa: S101
        self.heard = self._health.clock.now
        self.jobs.extend(jobs)
        self._transport.write(pack([job.command for job in jobs]))

    async def ask(self, command: Command) -> Any:
        """Send one command of the greeting and return its reply."""
        future = asyncio.get_running_loop().create_future()
        self.send([Job(command, future, self._health.clock.mark())])
        return await future

    def is_silent(self, seconds: float) -> bool:
        """Return True if nothing has moved for so long, in neither direction."""
        transport, clock = self._transport, self._health.clock
        unsent = 0 if transport is None else transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent = unsent
            self.heard = self._health.alive = clock.now
        return clock.passed(self.heard, seconds)

    def abort(self, error: Exception) -> None:
        """Close the connection at once; whoever waits for a reply gets the error."""
        self.stale = True
        if self._transport is not None:
            self._transport.abort()
        jobs, self.jobs = self.jobs, deque()
        settle_all(jobs, error, self._health)

    async def closed(self) -> None:
        """Wait until the socket is closed."""
        if self._transport is not None:
            await self._closed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start; called by the event loop."""
        self._transport = cast("asyncio.Transport", transport)
        if (sock := transport.get_extra_info("socket")) is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        """Settle the jobs whose replies are complete; called by the event loop."""
        self.heard = self._health.clock.now
        try:
            self._replies.feed(data)
            self._settle()
        except InvalidResponse as error:
            self.abort(error)
            self._on_idle()

    def connection_lost(self, error: Exception | None) -> None:
        """Fail what has no reply; called by the event loop."""
        if not self._closed.done():
            self._closed.set_result(None)
        if not self.stale:
            why = "" if error is None else f": {error}"
            self.abort(StoreConnectionError(f"the store closed the connection{why}"))
            self._on_idle()

    def _settle(self) -> None:
        jobs = self.jobs
        waiting = len(jobs)
        while (reply := self._replies.gets()) is not MORE:
            if not jobs:
                raise InvalidResponse("the store sent a reply to no command")
            settle(jobs.popleft(), reply, self._health)
            if isinstance(reply, ReadOnlyError):
                # This was the primary, and its address may by now be that of another server.
                self.stale = True
        if len(jobs) == waiting:  # a part of a long reply
            self._health.alive = self.heard
        if not jobs:
            if self.stale and self._transport is not None:
                self._transport.abort()
            self._on_idle()


class SocketLink:
    """Keeps one connection to the store, and makes a new one for the batch after it broke."""

    def __init__(
        self,
        address: Address,
        answer: float,
        health: Health,
        on_idle: Callable[[], None],
    ) -> None:
        self._address = address
        self._answer = answer
        self._health = health
        self._on_idle = on_idle
        self._wire: _Wire | None = None
        self._held: Sequence[Job] = ()  # while there is no connection yet
        self._connecting: asyncio.Task[None] | None = None
        self._connecting_since = 0.0
        self._stopped = False

    def jobs(self) -> Sequence[Job]:
        """Return the jobs that are not settled."""
        if self._held or self._wire is None:
            return self._held
        return self._wire.jobs

    def send(self, jobs: Sequence[Job]) -> None:
        """Send a batch, on a new connection if there is none that works."""
        if self._wire is not None and not self._wire.stale:
            self._wire.send(jobs)
            return
        self._held = jobs
        self._connecting_since = self._health.clock.now
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    def judge(self) -> None:
        """Give up a connection on which nothing has moved for too long."""
        if self._held:
            silent = self._health.clock.passed(self._connecting_since, self._answer)
            if silent and self._connecting is not None:
                self._connecting_since = math.inf  # once is enough
                self._connecting.cancel()
        elif self._wire is not None and self._wire.jobs and self._wire.is_silent(self._answer):
            self._wire.abort(StoreTimeoutError(f"no reply within {self._answer:g} s"))
            self._on_idle()

    async def stop(self) -> None:
        """Break off what is under way, and close the connection."""
        self._stopped = True
        if self._connecting is not None:
            await cancel_all([self._connecting])
        if self._wire is not None:
            self._wire.abort(LaneStopped())
            await self._wire.closed()

    async def _connect(self) -> None:
        wire = _Wire(self._health, self._idle_again)
        try:
            await self._greet(wire)
        except asyncio.CancelledError:
            if self._stopped:
                await self._give_up(wire, LaneStopped())
                raise
            place = f"{self._address.host}:{self._address.port}"
            await self._give_up(wire, StoreTimeoutError(f"timeout connecting to {place}"))
        except Exception as error:  # noqa: BLE001 - each caller judges it
            await self._give_up(wire, error)
        else:
            jobs, self._held = self._held, ()
            self._wire, self._connecting = wire, None
            wire.send(jobs)

    async def _give_up(self, wire: _Wire, error: Exception) -> None:
        wire.abort(error)
        try:
            await wire.closed()
        finally:
            jobs, self._held = self._held, ()
            self._connecting = None
            settle_all(jobs, error, self._health)
            self._on_idle()

    async def _greet(self, wire: _Wire) -> None:
        await _dial(self._address, wire)
        address = self._address
        if address.password is not None:
            user = () if address.username is None else (address.username,)
            await _ask(wire, ("AUTH", *user, address.password), AuthenticationError)
        if address.db:
            await _ask(wire, ("SELECT", address.db), None)

    def _idle_again(self) -> None:
        if not self._held:  # otherwise it was a reply of the greeting
            self._on_idle()


async def _dial(address: Address, wire: _Wire) -> None:
    place = f"{address.host}:{address.port}"
    try:
        await asyncio.get_running_loop().create_connection(
            lambda: wire,
            address.host,
            address.port,
            ssl=_tls_context(address) if address.tls else None,
        )
    except OSError as error:
        raise StoreConnectionError(f"error connecting to {place}: {error}") from error


async def _ask(wire: _Wire, command: Command, kind: type[Exception] | None) -> None:
    try:
        await wire.ask(command)
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
    """Carries one command at a time to the node of a cluster that it belongs to.

    The client library finds the node, and keeps the connections.
    """

    def __init__(
        self,
        execute: Callable[..., Awaitable[Any]],
        answer: float,
        health: Health,
        on_idle: Callable[[], None],
    ) -> None:
        self._execute = execute
        self._answer = answer
        self._health = health
        self._on_idle = on_idle
        self._jobs: Sequence[Job] = ()
        self._task: asyncio.Task[None] | None = None
        self._sent_at = 0.0
        self._stopped = False

    def jobs(self) -> Sequence[Job]:
        """Return the job under way."""
        return self._jobs

    def send(self, jobs: Sequence[Job]) -> None:
        """Send one command."""
        self._jobs = jobs
        self._sent_at = self._health.clock.now
        self._task = asyncio.get_running_loop().create_task(self._run(*jobs))

    def judge(self) -> None:
        """Give up a command that has had no reply for too long.

        Every time, until it is heard: a cancellation can get lost in the client library.
        """
        if self._task is not None and self._health.clock.passed(self._sent_at, self._answer):
            self._task.cancel()

    async def stop(self) -> None:
        """Break off the command under way."""
        self._stopped = True
        if self._task is not None:
            await cancel_all([self._task])

    async def _run(self, job: Job) -> None:
        try:
            reply = await self._execute(*job.command)
        except asyncio.CancelledError:
            if self._stopped:
                fail(job, LaneStopped())
                raise
            reply = StoreTimeoutError(f"no reply within {self._answer:g} s")
        except Exception as error:  # noqa: BLE001 - the caller judges it
            reply = error
        self._jobs, self._task = (), None
        settle(job, reply, self._health)
        self._on_idle()
