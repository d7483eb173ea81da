"""The cost of the log in a Postgres database, compared with plain INSERTs and with DBOS.

One shape of appends through the log alone, for 50 s, for a profiler of this process (`py-spy`) or
of the server (`pg_stat_statements`, `perf`):

    .venv-bench/bin/python -m bench.postgres "lone packets of 180 bytes, 100 streams"
"""

import asyncio
import gc
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from uuid import UUID, uuid4

import asyncpg  # type: ignore[import-untyped]

from coreason_client.server.log.base import AgentVersion, NewStream
from coreason_client.server.log.postgres import PostgresStreamLog

from ._killed_streams import after_kill_of_dbos, after_kill_of_ours
from ._measure import Effort, Goal, Row, Table, amount, at_least, at_most, compare, fact, seconds
from ._postgres import Postgres, postgres
from ._process import in_new_process
from ._token_agents import FAST, FIELDS, PLAIN, POSTGRES
from ._wire import events, packets, tokens
from .durable import DBOS, agent_writes_per_second, dbos_writes_per_second
from .tokens import measured

__all__ = ["table"]

_OWNER = "bench"
_LOG, _BARE, _ROWS = "PostgresStreamLog", "plain INSERT", "plain INSERT of all rows of a batch"
_CONNECTIONS = 8  # at most, of the bare side
_NOTE = b'{"name":"search","result":["a result","another result"]}'
_LARGE = 4_096
_WRITES, _ACKNOWLEDGED_WRITES = 5_000, 1_000
_FOR_PROFILES = 50.0  # seconds
_RATE: Final = "{:,.0f}".format
_LONE_GOAL = at_least(0.8)
_BATCH_GOAL = at_least(3.0)
_BATCH_RATE_GOAL = Goal("at least 20,000", lambda rate: rate >= 20_000)

Append: TypeAlias = Callable[[UUID, int, list[bytes]], Awaitable[object]]
"""Appends entries to a stream, from a number on."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """The shape of appends. Of a batch, the plain side inserts one row after the other."""

    batch: int
    appends: int
    """Of a turn, all streams together."""
    streams: int
    """That append at once, each one append after the other."""
    size: int | None = None
    """Of an entry; None is that of a packet with one token."""
    notes: bool = False
    """A note of the journal in each append."""

    def entries(self) -> list[bytes]:
        if self.size is None:
            return events(tokens(self.batch, " token"), with_ids=True)
        return [entry.ljust(self.size, b"x") for entry in events(packets(self.batch))]


_SHAPES = {
    "lone packets of 180 bytes, 1 stream": _Shape(1, 1_000, 1),
    "lone packets of 180 bytes, 10 streams": _Shape(1, 3_000, 10),
    "lone packets of 180 bytes, 100 streams": _Shape(1, 6_000, 100),
    "lone packets of 4 KB, 1 stream": _Shape(1, 1_000, 1, _LARGE),
    "lone packets of 4 KB, 10 streams": _Shape(1, 2_000, 10, _LARGE),
    "lone packets of 4 KB, 100 streams": _Shape(1, 3_000, 100, _LARGE),
    "lone packets of 180 bytes with a note, 1 stream": _Shape(1, 1_000, 1, notes=True),
    "lone packets of 180 bytes with a note, 100 streams": _Shape(1, 4_000, 100, notes=True),
    "batches of 50, 1 stream": _Shape(50, 60, 1),
    "batches of 50, 20 streams": _Shape(50, 160, 20),
    "batches of 50 packets of 4 KB, 20 streams": _Shape(50, 60, 20, _LARGE),
}


@dataclass(frozen=True, slots=True)
class _Turn:
    """The rate of a turn, and the CPU per packet of this process and of Postgres."""

    rate: float
    cpu: float
    server_cpu: float


class _Side:
    """One way to append; every turn is on new streams."""

    def __init__(
        self, server: Postgres, append: Append, prepare: Callable[[UUID], Awaitable[object]]
    ) -> None:
        self._server = server
        self._append = append
        self._prepare = prepare

    async def run(self, shape: _Shape) -> _Turn:
        streams = [uuid4() for _ in range(shape.streams)]
        for stream in streams:
            await self._prepare(stream)
        entries = shape.entries()
        appends = shape.appends // shape.streams
        gc.collect()
        before = self._clocks()
        await asyncio.gather(*(self._write(stream, entries, appends) for stream in streams))
        spent = (after - then for after, then in zip(self._clocks(), before, strict=True))
        elapsed, cpu, server_cpu = spent
        count = shape.streams * appends * shape.batch
        return _Turn(count / elapsed, cpu / count, server_cpu / count)

    async def _write(self, stream: UUID, entries: list[bytes], appends: int) -> None:
        for number in range(appends):
            await self._append(stream, 1 + number * len(entries), entries)

    def _clocks(self) -> tuple[float, float, float]:
        return time.perf_counter(), time.process_time(), self._server.cpu_seconds()


@asynccontextmanager
async def _through_the_log(server: Postgres, shape: _Shape) -> AsyncIterator[_Side]:
    log = PostgresStreamLog(server.url)
    agent = AgentVersion("agent", "1") if shape.notes else None

    async def append(stream: UUID, first: int, entries: list[bytes]) -> None:
        await log.append(stream, 1, first, entries, (first, [_NOTE]) if shape.notes else None)

    async def prepare(stream: UUID) -> None:
        await log.open(NewStream(stream, "user", uuid4(), "fingerprint", agent=agent), _OWNER)

    await log.start(_OWNER)
    try:
        yield _Side(server, append, prepare)
    finally:
        await log.stop(_OWNER)


class _Connections:
    """Open connections; a writer takes a free one. A pool of asyncpg also resets each of them."""

    def __init__(self, connections: list[Any]) -> None:
        self._free: asyncio.LifoQueue[Any] = asyncio.LifoQueue()
        for connection in connections:
            self._free.put_nowait(connection)

    async def execute(self, statement: str, *arguments: object) -> None:
        connection = await self._free.get()
        try:
            await connection.execute(statement, *arguments)
        finally:
            self._free.put_nowait(connection)


_TABLES = """
CREATE TABLE IF NOT EXISTS bare
  (stream uuid, number bigint, entry bytea NOT NULL, PRIMARY KEY (stream, number));
CREATE TABLE IF NOT EXISTS bare_notes
  (stream uuid, number bigint, note bytea NOT NULL, PRIMARY KEY (stream, number));
"""
_INSERT = "INSERT INTO bare VALUES ($1, $2, $3)"
_INSERT_BOTH = f"WITH noted AS (INSERT INTO bare_notes VALUES ($1, $2, $4)) {_INSERT}"
_INSERT_ALL = "INSERT INTO bare SELECT $1, * FROM unnest($2::bigint[], $3::bytea[])"


@asynccontextmanager
async def _bare(server: Postgres, shape: _Shape, *, all_rows: bool) -> AsyncIterator[_Side]:
    """Insert each entry as a row; `all_rows` inserts those of a batch with one statement."""
    opened = [await asyncpg.connect(server.url) for _ in range(min(shape.streams, _CONNECTIONS))]
    connections = _Connections(opened)
    await connections.execute(_TABLES)

    async def append(stream: UUID, first: int, entries: list[bytes]) -> None:
        if all_rows:
            numbers = list(range(first, first + len(entries)))
            await connections.execute(_INSERT_ALL, stream, numbers, entries)
            return
        for number, entry in enumerate(entries, first):
            if shape.notes:
                await connections.execute(_INSERT_BOTH, stream, number, entry, _NOTE)
            else:
                await connections.execute(_INSERT, stream, number, entry)

    try:
        yield _Side(server, append, lambda _: asyncio.sleep(0))
    finally:
        for connection in opened:
            await connection.close()


async def _alternately(server: Postgres, shape: _Shape, rounds: int) -> dict[str, list[_Turn]]:
    """Let all sides take turns, after one turn each that does not count."""
    async with (
        _through_the_log(server, shape) as ours,
        _bare(server, shape, all_rows=False) as bare,
        _bare(server, shape, all_rows=True) as rows,
    ):
        sides = [(_LOG, ours), (_BARE, bare), *([(_ROWS, rows)] if shape.batch > 1 else [])]
        turns: dict[str, list[_Turn]] = {name: [] for name, _ in sides}
        for number in range(rounds + 1):
            for name, side in sides:
                turn = await side.run(shape)
                if number:
                    turns[name].append(turn)
            sides.reverse()
    return turns


def _appending(shape: _Shape, rounds: int) -> dict[str, list[_Turn]]:
    with postgres() as server:
        return asyncio.run(_alternately(server, shape, rounds))


def _appending_rows(effort: Effort) -> list[Row]:
    rows: list[Row] = []
    for words, shape in _SHAPES.items():
        turns = in_new_process(_appending)(shape, effort.rounds)
        rates = {name: [turn.rate for turn in done] for name, done in turns.items()}
        cpu = {name: [turn.cpu for turn in done] for name, done in turns.items()}
        server = {name: [turn.server_cpu for turn in done] for name, done in turns.items()}
        goal = _LONE_GOAL if shape.batch == 1 else _BATCH_GOAL
        where = f"{words}, packets per second: "
        rows.append(compare(rates, _LOG, _BARE, goal, where=where, shown=_RATE))
        if shape.batch > 1:
            rows.append(compare(rates, _LOG, _ROWS, where=where, shown=_RATE))
            if shape.size is None:
                rows.append(amount(f"{where}{_LOG}", rates[_LOG], _RATE, _BATCH_RATE_GOAL))
        rows += [
            compare(cpu, _LOG, _BARE, where=f"{words}, CPU per packet: "),
            compare(server, _LOG, _BARE, where=f"{words}, CPU of Postgres per packet: "),
        ]
    return rows


# Single tokens over HTTP.


def _token_rows(stack: str, effort: Effort) -> list[Row]:
    runs = measured((FIELDS, POSTGRES), stack, effort)
    cpu = {kind: [run.server_cpu for run in done] for kind, done in runs.items()}
    server = [run.store_cpu for run in runs[POSTGRES]]
    where = f"lone tokens over HTTP, {stack}, CPU per packet: "
    return [
        compare(cpu, POSTGRES, FIELDS, at_most(2.0), where=where),
        amount(f"{where}Postgres itself", server, seconds),
    ]


# DBOS.


def _agent_rate(url: str, acknowledged: bool) -> float:
    writes = _ACKNOWLEDGED_WRITES if acknowledged else _WRITES
    return agent_writes_per_second(PostgresStreamLog(url), acknowledged, writes)


def _dbos_rows(effort: Effort) -> list[Row]:
    goals = {"stream.write": at_least(10.0), "packets that each wait for the log": None}
    rates: dict[str, list[float]] = {name: [] for name in (*goals, DBOS)}
    with postgres() as server:
        for _ in range(effort.rounds):
            for name, acknowledged in zip(goals, (False, True), strict=True):
                rates[name].append(in_new_process(_agent_rate)(server.url, acknowledged))
            rates[DBOS].append(in_new_process(dbos_writes_per_second)(server.url))
    return [
        compare(rates, name, DBOS, goal, where="durable writes per second: ", shown=_RATE)
        for name, goal in goals.items()
    ]


def _kill_rows() -> list[Row]:
    with postgres() as server:
        ours, dbos = after_kill_of_ours(server.url), after_kill_of_dbos(server.url)
    what = "packets missing and duplicated after kill -9 in the middle of a durable stream: "
    return [
        fact(f"{what}{_LOG}", "{} and {}".format(*ours), "0 and 0"),
        fact(f"{what}{DBOS}", "{} and {}".format(*dbos)),
    ]


def table(effort: Effort) -> Table:
    """Compare appends, single tokens over HTTP, and durable writes."""
    some, few = effort.fewer(2), effort.fewer(3)
    return Table(
        "The log in a Postgres database",
        None,
        [
            *_appending_rows(some),
            *(row for stack in (PLAIN, FAST) for row in _token_rows(stack, some)),
            *_dbos_rows(few),
            *_kill_rows(),
        ],
    )


async def _append_for_profiles(server: Postgres, shape: _Shape) -> None:
    end = time.monotonic() + _FOR_PROFILES
    async with _through_the_log(server, shape) as side:
        while time.monotonic() < end:
            print(await side.run(shape), flush=True)


def _main(words: str) -> None:
    with postgres() as server:
        print(f"the PID is {os.getpid()}, the database {server.url}", flush=True)
        asyncio.run(_append_for_profiles(server, _SHAPES[words]))


if __name__ == "__main__":
    _main(*sys.argv[1:])
