"""Durable agents: what the journal costs, how long a replay takes, and the rate of DBOS.

One subject alone, under load for 50 s, for a profiler (`pip install py-spy` in `.venv-bench`):

    .venv-bench/bin/python -m bench.durable "SQLite log" durable "without pauses"
    .venv-bench/bin/py-spy record --pid PID --duration 30 --rate 400 --format raw --output FILE

The first command prints the PID.
"""

import asyncio
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from coreason_client.server import AgentApp, AgentStream, SQLiteStreamLog, StreamLog, running
from coreason_manifest.definitions.service import ServiceRequest

from ._child import Child, child
from ._counting_reader import CountingReader, assist_request, read_all
from ._durable_agents import AT_ONCE, DURABLE, LOGS, PACES, PACKETS_PER_STEP, PLAIN, STREAMS, VALKEY
from ._measure import Effort, Row, Table, amount, at_least, at_most, compare, seconds
from ._process import in_new_process
from ._store import DURABLE as STORE_ON_DISK
from ._store import Valkey, valkey
from ._wire import text

__all__ = ["DBOS", "agent_writes_per_second", "dbos_writes_per_second", "table"]

_WARM_STREAMS = 4
_LOADS = 4  # of one server: the CPU of a single one differs by a quarter from the next one
_REPLAYED = 10_000  # packets
_STEPS = 100
_WRITES = 5_000
_DBOS_WRITES = 200
_LONGEST_WAIT = 120.0
_FOR_PROFILES = 50.0  # seconds


# The cost of the journal.


@dataclass(frozen=True, slots=True)
class _Subject:
    """A server with one of the agents, and its store."""

    server: Child
    store: Valkey | None
    packets: int
    """Of a stream, the CLOSE included."""

    def load(self, streams: int = STREAMS) -> tuple[float, float]:
        """Return the CPU per packet of the server and of its store."""
        before = self._clocks()
        read_all(self.server.port, streams, self.packets)
        server, store = (after - then for after, then in zip(self._clocks(), before, strict=True))
        return server / streams / self.packets, store / streams / self.packets

    def _clocks(self) -> tuple[float, float]:
        return self.server.cpu_seconds(), self.store.cpu_seconds() if self.store else 0.0


@contextmanager
def _subject(log: str, how: str, pace: str) -> Iterator[_Subject]:
    with valkey(*STORE_ON_DISK) if log == VALKEY else nullcontext() as store:
        address = () if store is None else (store.url,)
        with child("_durable_agents", log, how, pace, *address) as server:
            yield _Subject(server, store, PACES[pace].packets + 1)


def _journal_rows(log: str, pace: str, effort: Effort) -> list[Row]:
    """Let both agents take turns, with a new server every time.

    Two servers differ by more than the journal costs: streams that happen to write at the same
    moment share the work.
    """
    server: dict[str, list[float]] = {DURABLE: [], PLAIN: []}
    store: dict[str, list[float]] = {DURABLE: [], PLAIN: []}
    for number in range(effort.rounds):
        for how in list(server)[:: 1 if number % 2 else -1]:
            with _subject(log, how, pace) as subject:
                subject.load(_WARM_STREAMS)
                costs = [subject.load() for _ in range(_LOADS)]
            server[how].append(median(cost for cost, _ in costs))
            store[how].append(median(cost for _, cost in costs))
    where = f"{log}, {pace}"
    goal = None if pace == AT_ONCE else at_most(1.15)
    rows = [compare(server, DURABLE, PLAIN, goal, where=f"{where}, CPU per packet: ")]
    if log == VALKEY:
        rows.append(compare(store, DURABLE, PLAIN, where=f"{where}, CPU of Valkey per packet: "))
    return rows


# The replay.


async def _result(number: int) -> int:
    return number


class _Replayed:
    """An agent that writes much and then waits; `live` is set when it has done so."""

    def __init__(self) -> None:
        self.live = threading.Event()

    async def __call__(self, _: ServiceRequest, stream: AgentStream) -> None:
        words = text()
        for number in range(_REPLAYED):
            if number % (_REPLAYED // _STEPS) == 0:
                await stream.step("result", _result, number)
            await stream.write(words)
        await stream.progress("written")
        self.live.set()
        await asyncio.Event().wait()


def _replay() -> tuple[float, float]:
    """Return the time and the CPU time until a restarted agent writes live.

    They begin with the start of the application, so they have the opening of the file too.
    """
    with tempfile.TemporaryDirectory() as folder:
        _run_replayed(Path(folder))
        return _run_replayed(Path(folder))


def _run_replayed(folder: Path) -> tuple[float, float]:
    agent = _Replayed()
    log = SQLiteStreamLog(folder / "log")
    app = AgentApp(agent, log=log, agent_id="bench", durable=True, drain_timeout=0.0)
    known = (folder / "log").exists()
    before = time.monotonic(), time.process_time()
    with running(app, access_log=False) as server:
        if not known:
            CountingReader(server.port, assist_request("How are you?", 0)).ask()
        if not agent.live.wait(_LONGEST_WAIT):
            raise AssertionError("the agent did not write everything")
        return time.monotonic() - before[0], time.process_time() - before[1]


def _replay_rows(effort: Effort) -> list[Row]:
    runs = [in_new_process(_replay)() for _ in range(effort.rounds)]
    what = f"replay of {_REPLAYED:,} packets and {_STEPS} steps"
    return [
        amount(f"{what}, time", [run[0] for run in runs], seconds, at_most(0.5, seconds)),
        amount(f"{what}, CPU", [run[1] for run in runs], seconds),
    ]


# Stream writes per second.


def agent_writes_per_second(log: StreamLog, acknowledged: bool, writes: int = _WRITES) -> float:
    """Return the rate of a durable agent that only writes, with a reader."""
    spent: list[float] = []

    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        words = text()
        start = time.monotonic()
        for _number in range(writes):
            if acknowledged:
                await stream.markdown(words)
            else:
                await stream.write(words)
        await stream.progress("written")  # returns when all packets are stored
        spent.append(time.monotonic() - start)

    with running(AgentApp(agent, log=log, durable=True), access_log=False) as server:
        read_all(server.port, 1, writes + 2)
    return writes / spent[0]


def dbos_writes_per_second(url: str) -> float:
    """Return the rate of a workflow that only writes, on a database."""
    from ._dbos_stream import writes_per_second  # only in the process that measures it

    return writes_per_second(url, _DBOS_WRITES)


def _writes_per_second(synchronous: Literal["NORMAL", "FULL"], acknowledged: bool) -> float:
    with tempfile.TemporaryDirectory() as folder:
        log = SQLiteStreamLog(Path(folder) / "log", synchronous=synchronous)
        return agent_writes_per_second(log, acknowledged)


def _dbos() -> float:
    with tempfile.TemporaryDirectory() as folder:
        return dbos_writes_per_second(f"sqlite:///{folder}/dbos.sqlite")


DBOS = "DBOS.write_stream"
_OURS = {
    "stream.write": ("NORMAL", False),
    "stream.write, synchronous=FULL": ("FULL", False),
    "packets that each wait for the log": ("NORMAL", True),
    "packets that each wait for the log, synchronous=FULL": ("FULL", True),
}


def _rate_rows(effort: Effort) -> list[Row]:
    rates: dict[str, list[float]] = {name: [] for name in (*_OURS, DBOS)}
    for _ in range(effort.rounds):
        for name, arguments in _OURS.items():
            rates[name].append(in_new_process(_writes_per_second)(*arguments))
        rates[DBOS].append(in_new_process(_dbos)())
    goals = dict.fromkeys(_OURS) | {"stream.write": at_least(50.0)}
    return [
        compare(rates, name, DBOS, goal, where="writes per second: ", shown="{:,.0f}".format)
        for name, goal in goals.items()
    ]


def table(effort: Effort) -> Table:
    """Compare a durable agent with the same one that is not, and with DBOS."""
    some, few = effort.fewer(2), effort.fewer(3)
    return Table(
        f"Durable agents; {STREAMS} streams with one step per {PACKETS_PER_STEP} packets",
        None,
        [
            *(row for log in LOGS for pace in PACES for row in _journal_rows(log, pace, some)),
            *_replay_rows(few),
            *_rate_rows(few),
        ],
    )


def _main(log: str, how: str, pace: str) -> None:
    with _subject(log, how, pace) as subject:
        print(f"the PID of the server is {subject.server.pid}", flush=True)
        end = time.monotonic() + _FOR_PROFILES
        while time.monotonic() < end:
            subject.load()


if __name__ == "__main__":
    _main(*sys.argv[1:])
