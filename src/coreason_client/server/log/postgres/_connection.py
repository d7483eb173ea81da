"""Connections to the server: their login, and how long one waits for a reply."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import asyncpg  # type: ignore[import-untyped]

from ...errors import LogUnavailable
from ..remote._command_queue import Health, Job, QueueStopped, fail, settle
from ..remote._store import ServerIdentity
from ._errors import (
    DatabaseAddress,
    Host,
    StandbyMissing,
    UnknownOutcome,
    is_read_only,
    is_transient,
)

logger = logging.getLogger("coreason_client.server")

Connection: TypeAlias = Any
"""A connection of asyncpg, which has no types."""

_LOGIN = (
    "SELECT pg_is_in_recovery(), extract(epoch FROM pg_postmaster_start_time())::text,"
    " current_setting('transaction_isolation'), current_setting('synchronous_commit'),"
    " current_setting('synchronous_standby_names'), pg_backend_pid()"
)
_CONFIRMING = frozenset({"remote_write", "on", "remote_apply"})  # values of synchronous_commit
_STANDBYS = re.compile(r"\s*(?:(?:first|any)\s+)?(\d+)\s*\(", re.IGNORECASE)
_NOT_CONFIRMED = "01000"  # a warning: the wait for a standby was cancelled
_CLOSE_SECONDS = 1.0


async def answered(connection: Connection, call: Awaitable[Any], seconds: float) -> Any:
    """Return the answer of a call; after so many seconds the connection is closed.

    It is also closed if the caller is cancelled: a call is never cancelled, see the package.
    """
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        if not task.done():
            connection.terminate()
            await asyncio.wait({task})
            task.exception()
    return task.result()


class Server(ServerIdentity):
    """The server of one event loop: how to connect to it, and what its connections have seen."""

    def __init__(
        self,
        address: DatabaseAddress,
        *,
        pooled: bool,
        replicas: int,
        timeout: float,
        listeners: Sequence[Callable[[], None]] = (),
    ) -> None:
        super().__init__(address.shown, listeners)
        self.address = address
        self.probing = asyncio.Lock()  # held while a link finds out why nobody answers
        self._waiting: set[object] = set()  # the links whose calls wait for a standby
        self._replicas = replicas
        self._timeout = timeout
        self._options: dict[str, Any] = {}
        if pooled:  # a transaction of a pooler does not have the statements of the one before
            self._options["statement_cache_size"] = 0
        self._answered: dict[DatabaseAddress, Host] = {}  # the host that was used last

    @property
    def standby_missing(self) -> bool:
        """True while a call waits for a standby that does not answer."""
        return bool(self._waiting)

    async def connect(
        self, address: DatabaseAddress | None = None, timeout: float | None = None
    ) -> tuple[Connection, int]:
        """Return a new connection to the primary, and the process that serves it.

        Of several hosts, the one that was used last is tried first. Each has a share of the time,
        because one of them may not answer at all.

        Raises:
            PostgresError: among others ReadOnlySQLTransactionError, if the server is a standby.
            LogUnavailable: the database has settings with which the log does not work.
        """
        address = address or self.address
        last = self._answered.get(address)
        hosts = sorted(address.hosts, key=lambda host: host != last) or [(None, None)]
        seconds = (timeout or self._timeout) / len(hosts)
        errors: list[Exception] = []
        for host in hosts:
            try:
                found = await self._connect(address.url, host, seconds)
            except Exception as error:
                if not is_transient(error):
                    raise
                errors.append(error)
            else:
                self._answered[address] = host
                return found
        # That one is a standby does not mean that another one is no primary any more.
        raise next((error for error in errors if not is_read_only(error)), errors[0])

    async def _connect(self, url: str, host: Host, seconds: float) -> tuple[Connection, int]:
        name, port = host
        options = {"host": name, "port": port, "timeout": seconds, **self._options}
        connection = await asyncpg.connect(url, **options)
        try:
            login = connection.fetchrow(_LOGIN)
            standby, started, *settings, pid = await answered(connection, login, seconds)
            if standby:
                raise asyncpg.ReadOnlySQLTransactionError("the server is a standby")
            self._check_settings(*settings)
        except BaseException:
            connection.terminate()
            raise
        self.identify(started)
        return connection, pid

    def _check_settings(self, isolation: str, commit: str, standbys: str) -> None:
        if isolation != "read committed":
            raise LogUnavailable(
                f"the database {self.shown} uses the isolation level {isolation!r}: set "
                "default_transaction_isolation of the role to 'read committed'"
            )
        if self._replicas and (commit not in _CONFIRMING or _count(standbys) < self._replicas):
            message = (
                f"the database {self.shown} does not wait for {self._replicas} standbys: "
                f"synchronous_commit is {commit!r}, synchronous_standby_names is {standbys!r}"
            )
            # A promoted server may get its standbys a moment later.
            raise LogUnavailable(message) if self.identity is None else StandbyMissing(message)

    async def waits_for_standby(self, pid: int) -> bool:
        """Return True if a process of the server waits for a standby, as a new connection sees."""
        seconds = self._timeout / 2  # so that there is still time for another attempt
        try:
            connection, _ = await self.connect(timeout=seconds)
        except Exception:  # noqa: BLE001 - the caller tries again, and gets the error
            return False
        try:
            query = "SELECT wait_event FROM pg_stat_activity WHERE pid = $1"
            event = await answered(connection, connection.fetchval(query, pid), seconds)
        except Exception:  # noqa: BLE001 - as above
            return False
        finally:
            connection.terminate()
        return bool(event == "SyncRep")

    def report_wait(self, link: object, *, waits: bool) -> None:
        """Record whether the call of a link waits for a standby, and log a change."""
        missing = self.standby_missing
        (self._waiting.add if waits else self._waiting.discard)(link)
        if self.standby_missing != missing:
            logger.warning(
                "the standby of the database %s %s",
                self.shown,
                "confirms commits again" if missing else "does not confirm commits: they wait",
            )


def _count(standbys: str) -> int:
    """Return how many standbys confirm a commit, by `synchronous_standby_names`."""
    if not standbys.strip():
        return 0
    found = _STANDBYS.match(standbys)
    return int(found[1]) if found else 1


Execute: TypeAlias = Callable[[Connection, Sequence[Job]], Awaitable[Sequence[Any]]]


class PostgresLink:
    """One connection of a queue. `execute` runs the jobs on it and returns their replies.

    A call is never cancelled: a connection that is silent for too long is closed, unless its call
    waits for a standby.
    """

    def __init__(
        self,
        server: Server,
        execute: Execute,
        reply_timeout: float,
        health: Health,
        on_idle: Callable[[], None],
    ) -> None:
        self._server = server
        self._execute = execute
        self._reply_timeout = reply_timeout
        self._health = health
        self._on_idle = on_idle
        self._connection: Connection = None
        self._pid = 0
        self._generation = -1
        self._jobs: Sequence[Job] = ()
        self._task: asyncio.Task[None] | None = None
        self._probe: asyncio.Task[None] | None = None
        self._sent_at = 0.0
        self._timed_out = False
        self._unconfirmed = False
        self._stopped = False

    def jobs(self) -> Sequence[Job]:
        """Return the jobs without a result; none if the link is idle."""
        return self._jobs

    def send(self, jobs: Sequence[Job]) -> None:
        """Send a batch and give each job its reply."""
        self._jobs = jobs
        self._sent_at = self._health.clock.now
        self._task = asyncio.get_running_loop().create_task(self._run(jobs))

    def check_timeouts(self) -> None:
        """Close a connection without activity for too long, or find out what it waits for."""
        if (
            self._connection is not None
            and self._task is not None
            and self._probe is None
            and self._health.clock.passed(self._sent_at, self._reply_timeout)
        ):
            self._probe = asyncio.get_running_loop().create_task(self._check_silence())

    async def stop(self) -> None:
        """Fail the running jobs and close the connection."""
        self._stopped = True
        connection, self._connection = self._connection, None
        tasks = {task for task in (self._task, self._probe) if task is not None}
        if connection is not None and self._task is not None:
            connection.terminate()  # which ends the call
        elif self._task is not None:
            self._task.cancel()  # it is connecting
        if self._probe is not None:
            self._probe.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for job in self._jobs:
            fail(job, QueueStopped())
        if connection is not None and not connection.is_closed():
            try:
                await connection.close(timeout=_CLOSE_SECONDS)
            except Exception:  # noqa: BLE001 - it is closed all the same
                connection.terminate()

    async def _run(self, jobs: Sequence[Job]) -> None:
        try:
            replies = await self._execute(await self._connected(), jobs)
            if self._unconfirmed:
                raise UnknownOutcome("the wait for a standby was cancelled")
        except Exception as error:  # noqa: BLE001 - it is raised to the callers
            replies = [self._handle(error)] * len(jobs)
        self._server.report_wait(self, waits=False)
        self._jobs, self._task = (), None
        for job, reply in zip(jobs, replies, strict=True):
            settle(job, reply, self._health)
        if not self._stopped:
            self._on_idle()

    def _handle(self, error: Exception) -> Exception:
        """Close the connection if it cannot be used any more; return the error for the callers."""
        if is_read_only(error):
            self._server.demoted()
        if not isinstance(error, asyncpg.PostgresError) or is_read_only(error):
            self._drop()
        if self._timed_out:
            self._timed_out = False
            return TimeoutError(f"no reply within {self._reply_timeout:g} s")
        return error

    async def _connected(self) -> Connection:
        connection = self._connection
        if connection is not None and (
            connection.is_closed() or self._generation != self._server.generation
        ):
            self._drop()
        if self._connection is None:
            connection, self._pid = await self._server.connect()
            connection.add_log_listener(self._on_message)
            self._connection, self._generation = connection, self._server.generation
            self._unconfirmed = False
            self._sent_at = self._health.clock.now
        return self._connection

    def _on_message(self, _: Connection, message: Any) -> None:
        if message.sqlstate == _NOT_CONFIRMED:
            self._unconfirmed = True

    async def _check_silence(self) -> None:
        silent = self._task
        try:
            async with self._server.probing:
                waits = await self._server.waits_for_standby(self._pid)
            if self._task is not silent or self._connection is None:
                return  # the reply has arrived meanwhile
            if waits:
                self._server.report_wait(self, waits=True)
                self._health.error = StandbyMissing("a commit waits for a standby")
                self._sent_at = self._health.clock.now
            else:
                self._timed_out = True
                self._connection.terminate()
        finally:
            self._probe = None

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
