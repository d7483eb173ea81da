"""Single tokens on many slow streams: the CPU per packet, and the time to the first packet.

One subject alone, under load for 50 s, for a profiler (`pip install py-spy` in `.venv-bench`):

    .venv-bench/bin/python -m bench.tokens "memory log" "asyncio, h11"
    .venv-bench/bin/py-spy record --pid PID --duration 30 --rate 400 --format raw --output FILE

The first command prints the PID and, at the end, the figures.
"""

import selectors
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from statistics import median
from typing import Self, TypeAlias

from ._child import Child, child
from ._counting_reader import CountingReader, assist_request
from ._measure import Effort, Row, Table, amount, at_most, compare, seconds
from ._postgres import Postgres, postgres
from ._store import Valkey, valkey
from ._token_agents import (
    BYTES,
    FAST,
    FIELDS,
    MEMORY,
    PERIOD,
    PLAIN,
    POSTGRES,
    SQLITE,
    STREAMS,
    VALKEY,
)

__all__ = ["Readers", "Run", "load", "measured", "table"]

Store: TypeAlias = Valkey | Postgres

_TOKENS = 40  # of a stream, after the first
_TOKENS_FOR_PROFILES = 900
_LONGEST_RUN = 180.0
_CPU_GOALS = {MEMORY: at_most(1.0), SQLITE: at_most(1.4), VALKEY: at_most(1.8)}
_FIRST_GOALS = {MEMORY: at_most(1.5), SQLITE: None, VALKEY: at_most(2.0)}
_OPENING_GOALS = {MEMORY: at_most(1.3), SQLITE: at_most(1.6), VALKEY: at_most(1.8)}
_KINDS = (FIELDS, MEMORY, SQLITE, VALKEY, BYTES)


class Readers:
    """Simultaneous requests for streams, each of which has so many events in the end."""

    def __init__(self, readers: list[CountingReader], expected: int) -> None:
        self._all = readers
        self._selector = selectors.DefaultSelector()
        self._deadline = time.monotonic() + _LONGEST_RUN
        self._expected = expected
        self.count = 0

    def __enter__(self) -> Self:
        for reader in self._all:
            reader.ask()
            self._selector.register(reader.socket, selectors.EVENT_READ, reader)
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        for reader in self._all:
            reader.socket.close()

    def read_until(self, count: int) -> None:
        """Read until so many packets have come on all streams together, or all streams ended."""
        while self.count < count and self._selector.get_map():
            if time.monotonic() > self._deadline:
                raise AssertionError("the streams did not end")
            for key, _ in self._selector.select(1.0):
                found = key.data.read()
                if found is None:
                    self._selector.unregister(key.fileobj)
                else:
                    self.count += found

    def read_to_the_end(self) -> None:
        self.read_until(sys.maxsize)
        counts = {reader.count for reader in self._all}
        if counts != {self._expected}:
            raise AssertionError(f"streams of {sorted(counts)} packets, not of {self._expected}")

    def first_after(self) -> float:
        """Return the median time from a request to its first packet."""
        return median(reader.first_after for reader in self._all)


@dataclass(frozen=True, slots=True)
class Run:
    """The figures of a subject in one round; CPU times are per packet or per opened stream."""

    opening_cpu: float
    server_cpu: float
    store_cpu: float
    first_after: float
    packets_per_second: float


def _load(server: Child, store: Store | None, tokens: int) -> Run:
    requests = (assist_request(str(tokens), number) for number in range(STREAMS))
    readers = [CountingReader(server.port, request) for request in requests]
    # One packet comes before the tokens, and one after them.
    return load(server, store, Readers(readers, tokens + 2), tokens)


def load(server: Child, store: Store | None, reading: Readers, tokens: int) -> Run:
    """Open all streams at once; measure the CPU from the last first packet to the last token."""
    cpu_before = server.cpu_seconds()
    with reading as readers:
        readers.read_until(STREAMS)
        count_before, before = readers.count, _clocks(server, store)
        opening_cpu = server.cpu_seconds() - cpu_before
        readers.read_until(STREAMS * (tokens + 1))
        packets = readers.count - count_before
        elapsed, server_cpu, store_cpu = (
            end - start for start, end in zip(before, _clocks(server, store), strict=True)
        )
        readers.read_to_the_end()
        return Run(
            opening_cpu=opening_cpu / STREAMS,
            server_cpu=server_cpu / packets,
            store_cpu=store_cpu / packets,
            first_after=readers.first_after(),
            packets_per_second=packets / elapsed,
        )


def _clocks(server: Child, store: Store | None) -> tuple[float, float, float]:
    """Return the time, and the CPU time of the server and of its store."""
    return time.monotonic(), server.cpu_seconds(), store.cpu_seconds() if store else 0.0


@contextmanager
def _subject(kind: str, stack: str) -> Iterator[tuple[Child, Store | None]]:
    stores = {VALKEY: valkey, POSTGRES: postgres}
    with stores[kind]() if kind in stores else nullcontext() as store:
        address = () if store is None else (store.url,)
        with child("_token_agents", kind, stack, *address) as server:
            yield server, store


def measured(kinds: tuple[str, ...], stack: str, effort: Effort) -> dict[str, list[Run]]:
    """Let the subjects take short turns, after one turn each that does not count."""
    runs: dict[str, list[Run]] = {kind: [] for kind in kinds}
    with ExitStack() as servers:
        started = {kind: servers.enter_context(_subject(kind, stack)) for kind in kinds}
        for number in range(effort.rounds + 1):
            first = number % len(kinds)
            for kind in kinds[first:] + kinds[:first]:
                run = _load(*started[kind], _TOKENS)
                if number:
                    runs[kind].append(run)
    return runs


def _rows(stack: str, effort: Effort) -> list[Row]:
    runs = measured(_KINDS, stack, effort)
    cpu = {kind: [run.server_cpu for run in done] for kind, done in runs.items()}
    firsts = {kind: [run.first_after for run in done] for kind, done in runs.items()}
    opening = {kind: [run.opening_cpu for run in done] for kind, done in runs.items()}
    rates = [run.packets_per_second for done in runs.values() for run in done]
    store = [run.store_cpu for run in runs[VALKEY]]
    where = f"{stack}, hiredis" if stack == FAST else stack
    return [
        *(
            compare(cpu, kind, FIELDS, goal, where=f"{where}, CPU per packet: ")
            for kind, goal in _CPU_GOALS.items()
        ),
        *(
            compare(cpu, kind, BYTES, where=f"{where}, CPU per packet: ")
            for kind in (*_CPU_GOALS, FIELDS)
        ),
        amount(f"{where}, CPU per packet: Valkey itself", store, seconds),
        *(
            compare(firsts, kind, FIELDS, goal, where=f"{where}, first packet, p50: ")
            for kind, goal in _FIRST_GOALS.items()
        ),
        *(
            compare(opening, kind, FIELDS, goal, where=f"{where}, CPU until the first packet: ")
            for kind, goal in _OPENING_GOALS.items()
        ),
        amount(f"{where}, packets per second, all subjects", rates, "{:,.0f}".format),
    ]


def table(effort: Effort) -> Table:
    """Compare our logs with no log, on the plain and on the fast stack."""
    rounds = effort.fewer(2)
    return Table(
        f"{STREAMS} streams, single tokens, {1 / PERIOD:g} per second on each",
        None,
        [*_rows(PLAIN, rounds), *_rows(FAST, rounds)],
    )


def _main(kind: str, stack: str) -> None:
    with _subject(kind, stack) as (server, store):
        print(f"the PID of the server is {server.pid}", flush=True)
        print(_load(server, store, _TOKENS_FOR_PROFILES))


if __name__ == "__main__":
    _main(*sys.argv[1:])
