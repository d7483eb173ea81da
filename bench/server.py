"""Serving many streams: our agent side on its logs, and sse-starlette that only echoes."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median, quantiles

from ._agents import KINDS, PACKETS
from ._child import Child, child
from ._counting_reader import read_all
from ._measure import Effort, Row, Table, amount, at_most, compare, seconds
from ._process import in_new_process
from ._wire import PACKET_BYTES

__all__ = ["table"]

_STREAMS = 200
_WARM_STREAMS = 4
_MEMORY, _SQLITE, _ECHO = KINDS
_GOAL = at_most(2.0)


@dataclass(frozen=True, slots=True)
class _Run:
    """The cost of the streams; the CPU time is per packet, in the server."""

    packets_per_second: float
    server_cpu: float
    first_median: float
    first_p99: float
    grown_bytes: float


def _load(server: Child) -> _Run:
    read_all(server.port, _WARM_STREAMS, PACKETS)
    before = server.usage()
    start = time.monotonic()
    readers = read_all(server.port, _STREAMS, PACKETS)
    elapsed = time.monotonic() - start
    after = server.usage()
    firsts = [reader.first_after for reader in readers]
    return _Run(
        packets_per_second=_STREAMS * PACKETS / elapsed,
        server_cpu=(after.cpu_seconds - before.cpu_seconds) / _STREAMS / PACKETS,
        first_median=median(firsts),
        first_p99=quantiles(firsts, n=100)[-1],
        grown_bytes=after.resident_bytes - before.resident_bytes,
    )


def _run(kind: str, how: str) -> _Run:
    with child("_agents", kind, how) as server:
        return _load(server)


def _measured(how: str, effort: Effort) -> dict[str, list[_Run]]:
    """Run each kind in turns, with a new server every time."""
    runs: dict[str, list[_Run]] = {kind: [] for kind in KINDS}
    for _ in range(effort.rounds):
        for kind, done in runs.items():
            done.append(in_new_process(_run)(kind, how))
    return runs


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _megabytes(value: float) -> str:
    return f"{value / 1e6:.3g} MB"


def _ratios(runs: dict[str, list[_Run]], where: str) -> list[Row]:
    cpu = {kind: [run.server_cpu for run in done] for kind, done in runs.items()}
    rates = {kind: [run.packets_per_second for run in done] for kind, done in runs.items()}
    return [
        compare(cpu, _MEMORY, _ECHO, _GOAL, where=f"{where}, CPU per packet: "),
        compare(cpu, _SQLITE, _ECHO, where=f"{where}, CPU per packet: "),
        compare(rates, _MEMORY, _ECHO, where=f"{where}, packets per second: ", shown=_whole),
        compare(rates, _SQLITE, _ECHO, where=f"{where}, packets per second: ", shown=_whole),
    ]


def _amounts(runs: dict[str, list[_Run]], where: str) -> list[Row]:
    picks: list[tuple[str, Callable[[_Run], float], Callable[[float], str]]] = [
        ("time to the first packet, median", lambda run: run.first_median, seconds),
        ("time to the first packet, p99", lambda run: run.first_p99, seconds),
        ("memory after all streams ended", lambda run: run.grown_bytes, _megabytes),
    ]
    return [
        amount(f"{where}, {what}: {kind}", [pick(run) for run in done], shown)
        for what, pick, shown in picks
        for kind, done in runs.items()
    ]


def table(effort: Effort) -> Table:
    """Compare agents that write without pauses, and agents that pause after every packet."""
    rounds = effort.fewer(5)
    at_once, pausing = _measured("at once", rounds), _measured("pausing", rounds)
    return Table(
        f"{_STREAMS} streams of {PACKETS} packets of {PACKET_BYTES} bytes",
        None,
        [
            *_ratios(at_once, "without pauses"),
            *_ratios(pausing, "with pauses"),
            *_amounts(at_once, "without pauses"),
            *_amounts(pausing, "with pauses"),
        ],
    )
