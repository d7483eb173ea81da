"""The database as one event loop uses it: connections, and which appends share a call."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from ..remote._command_queue import Job, PatienceExceeded, QueueStopped
from ..remote._store import RemoteStore, finished_within
from ._connection import Connection, PostgresLink, Server
from ._errors import (
    DATABASE_ERRORS,
    DatabaseAddress,
    StandbyMissing,
    StreamBusy,
    UnknownOutcome,
    is_transient,
    rejected,
    unreachable,
)

T = TypeVar("T")

# Five connections for each event loop, and one that listens. One for appends: they are cheaper the
# more of them share a call, and those of a stream stay in order.
_APPEND_LINKS = 1
_READ_LINKS = 2
_CALL_LINKS = 2
_APPENDS_AT_ONCE = 128
_NOTIFY = "SELECT pg_notify($1, $2)"
_APPEND_DELAY = 0.005  # as in SQLite: a commit costs the same for one append as for ten


class Append(NamedTuple):
    """The arguments of the function `append_one`; `note` is None without a journal."""

    stream_id: UUID
    epoch: int
    first_seq: int
    size: int
    ending: bytes | None
    runs: Sequence[bytes]
    note: int | None = None
    notes: Sequence[bytes] = ()


class PostgresStore(RemoteStore):
    """Calls the functions of the schema. Appends, reads and all other calls have their own queue.

    `clock` returns the time that the functions use; None is the clock of the database.
    """

    failures = (
        *DATABASE_ERRORS,
        *(StandbyMissing, StreamBusy, UnknownOutcome),
        *(PatienceExceeded, QueueStopped),
    )

    def __init__(
        self,
        address: DatabaseAddress,
        schema: str,
        *,
        clock: Callable[[], float] | None,
        patience: float,
        pooled: bool,
        replicas: int,
        listeners: Sequence[Callable[[], None]],
    ) -> None:
        super().__init__(patience)
        self.schema = schema
        self.server = Server(
            address,
            pooled=pooled,
            replicas=replicas,
            timeout=self._reply_timeout,
            listeners=listeners,
        )
        self._time = clock
        self._lone = f"SELECT {schema}.append_run($1, $2, $3, $4, $5, $6, $7)"
        link = partial(PostgresLink, self.server)
        append = partial(link, self._append, self._reply_timeout)
        call = partial(link, _call, self._reply_timeout)
        self._appends = self._make_queue(
            [append] * _APPEND_LINKS, _APPENDS_AT_ONCE, batch_delay=_APPEND_DELAY
        )
        self._reads = self._make_queue([call] * _READ_LINKS, 1)
        self._calls = self._make_queue([call] * _CALL_LINKS, 1)

    def now(self) -> float | None:
        """Return the time for a function; None if it is that of the database."""
        return None if self._time is None else self._time()

    def call(self, function: str, *arguments: Any) -> Awaitable[Any]:
        """Call a function; return its rows.

        Raises:
            LogUnavailable: the database refuses the call, or did not answer for too long.
        """
        return self._run(self._calls, self._command(function, *arguments))

    def read(self, function: str, *arguments: Any) -> Awaitable[Any]:
        """Call a function that only reads; raises like `call`."""
        return self._run(self._reads, self._command(function, *arguments))

    async def prepare(self, work: Callable[[Connection], Awaitable[None]]) -> None:
        """Run something with a connection; raises like `call`."""
        await self._run(self._calls, (work,))

    async def limited(self, waiting: Awaitable[None]) -> None:
        """Wait for something as long as for a reply.

        Raises:
            LogUnavailable: it took too long.
        """
        task = asyncio.ensure_future(waiting)
        try:
            if await finished_within(task, self._patience):
                return task.result()
        finally:
            task.cancel()
        silent = PatienceExceeded(sent=True, blocked=0.0, error=None)
        raise unreachable(self.server.address, self._patience, silent)

    def notify(self, payload: str) -> "asyncio.Future[Any]":
        """Announce something without retries; raises `failures`.

        Nobody waits for the disk or a standby: a transaction that only announces writes nothing.
        """
        return self._calls.submit((_NOTIFY, self.schema, payload), self._clock.mark())

    def begin_append(self, append: Append, read: Callable[[Any], T]) -> "asyncio.Future[T]":
        """Append; the future gets `read(row)`. It creates a task only after a failure."""
        return self._begin(self._appends, append, read)

    async def _append(self, connection: Connection, jobs: Sequence[Job]) -> Sequence[Any]:
        """Append to all streams with one call; to one that occurs twice, with the next one."""
        if len(jobs) == 1 and (reply := await self._append_run(connection, jobs[0].command)):
            return [reply]
        replies: dict[int, Any] = {}
        left = list(range(len(jobs)))
        while left:
            first = {jobs[place].command[0]: place for place in reversed(left)}
            # In the order in which a renewal locks leases, as the end of a stream does.
            places = [first[id_] for id_ in sorted(first, key=attrgetter("int"))]
            rows = await self._append_some(connection, [jobs[place].command for place in places])
            replies.update(zip(places, rows, strict=True))
            left = [place for place in left if place not in replies]
        return [replies[place] for place in range(len(jobs))]

    async def _append_run(self, connection: Connection, append: Any) -> Any:
        """Do an append that has nothing unusual, faster; return None if it has, or may have."""
        stream_id, epoch, first_seq, count, ending, runs, note, notes = append
        if ending is not None or len(runs) != 1 or len(notes) > 1:
            return None
        body = notes[0] if notes else None
        arguments = (stream_id, epoch, first_seq, count, runs[0], note, body)
        cancel = await connection.fetchval(self._lone, *arguments)
        return None if cancel is None else {"state": "ok", "last": first_seq - 1, "cancel": cancel}

    async def _append_some(self, connection: Connection, appends: Sequence[Any]) -> Sequence[Any]:
        ids, epochs, firsts, counts, endings, runs, note_firsts, notes = zip(*appends, strict=True)
        command = self._command(
            *("append", self.now(), ids, epochs, firsts, counts, endings),
            *([len(one) for one in runs], [run for one in runs for run in one]),
            *(note_firsts, [len(one) for one in notes], [note for one in notes for note in one]),
        )
        rows = await connection.fetch(*command)
        return [StreamBusy() if row["state"] == "busy" else row for row in rows]

    def _command(self, function: str, *arguments: Any) -> tuple[Any, ...]:
        """Return the statement that calls a function, and its arguments."""
        marks = ", ".join(f"${number}" for number in range(1, len(arguments) + 1))
        return (f"SELECT * FROM {self.schema}.{function}({marks})", *arguments)  # noqa: S608

    def _is_transient(self, error: Exception) -> bool:
        return is_transient(error)

    def _is_timeout(self, error: Exception) -> bool:
        return isinstance(error, TimeoutError)

    def _final_error(self, failure: Exception) -> Exception:
        if isinstance(failure, PatienceExceeded):
            return unreachable(self.server.address, self._patience, failure)
        return rejected(self.server.address, self.schema, failure)


async def _call(connection: Connection, jobs: Sequence[Job]) -> Sequence[Any]:
    (job,) = jobs
    text, *arguments = job.command
    if callable(text):
        return [await text(connection)]
    return [await connection.fetch(text, *arguments)]
