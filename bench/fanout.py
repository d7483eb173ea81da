"""A thousand streams at once in one process: our async client, and httpx2 with our decoder."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import httpx2

from coreason_client import AsyncCAPClient
from coreason_client.sse import SSEDecoder
from coreason_manifest.definitions.presentation import parse_packet

from ._child import child, resident_bytes
from ._many_streams import END, GO, raise_file_limit
from ._measure import Effort, Row, Table, amount, at_most, compare, seconds
from ._process import in_new_process
from ._request import chat_request
from ._wire import PACKET_BYTES

__all__ = ["table"]

_STREAMS = 1000
_SECONDS = 5
_RATE = 10  # packets a second of a stream
_SLOW_RATE = 2
_TICK = 0.005
_LONGEST_RUN = 120.0
_REQUEST = chat_request("How are you?")
_BODY = _REQUEST.to_json().encode()
_HEADERS = {"Accept": "text/event-stream", "Content-Type": "application/json"}
_OURS, _PLAIN = "AsyncCAPClient", "httpx2.AsyncClient with our decoder"

_Reader: TypeAlias = Callable[[str, Callable[[int], None]], Coroutine[Any, Any, int]]
"""Reads the stream at a path, reports the number of each packet, and returns their count."""


@dataclass(frozen=True, slots=True)
class _Moment:
    """The time on the clock, the CPU time of this process, and its garbage collector's part."""

    clock: float
    cpu: float
    collector: float

    @classmethod
    def now(cls) -> "_Moment":
        return cls(time.monotonic(), time.process_time(), _collector.cpu)


class _Collector:
    """Counts the CPU time of the garbage collector."""

    def __init__(self) -> None:
        self.cpu = 0.0
        self._start = 0.0

    def __call__(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._start = time.process_time()
        else:
            self.cpu += time.process_time() - self._start


_collector = _Collector()


@dataclass(frozen=True, slots=True)
class _Run:
    """The cost of a thousand streams in one process."""

    open_seconds: float
    open_cpu: float
    steady_cpu: float
    total_cpu: float
    bytes_per_stream: float
    blocked_cpu: float
    blocked_cpu_net: float
    blocked_seconds: float
    blocked_cpu_closing: float


@asynccontextmanager
async def _ours(url: str) -> AsyncIterator[_Reader]:
    async with AsyncCAPClient(f"{url}/warm", "key") as warm, AsyncCAPClient(url, "key") as client:

        async def read(path: str, seen: Callable[[int], None]) -> int:
            count = 0
            async for _ in (client if path == "/assist" else warm).assist(_REQUEST):
                count += 1
                seen(count)
            return count

        yield read


@asynccontextmanager
async def _plain(url: str) -> AsyncIterator[_Reader]:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx2.AsyncClient(base_url=url, timeout=60, limits=limits) as client:

        async def read(path: str, seen: Callable[[int], None]) -> int:
            count = 0
            decoder = SSEDecoder()
            async with client.stream("POST", path, content=_BODY, headers=_HEADERS) as response:
                async for piece in response.aiter_raw():
                    for event in decoder.feed(piece):
                        parse_packet(event.data_bytes)
                        count += 1
                        seen(count)
            return count

        yield read


_SIDES: dict[str, Callable[[str], AbstractAsyncContextManager[_Reader]]] = {
    _OURS: _ours,
    _PLAIN: _plain,
}


class _Phase:
    """Ends when every stream has reached a packet; measures the loop iterations meanwhile."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._waiting = _STREAMS
        self._over = asyncio.Event()
        self._ticks: list[_Moment] = []

    def seen(self, number: int) -> None:
        if number == self._number:
            self._waiting -= 1
            if not self._waiting:
                self._over.set()

    async def run(self) -> _Moment:
        """Wait for the end of the phase and return its moment."""
        ticker = asyncio.create_task(self._tick())
        await self._over.wait()
        end = _Moment.now()
        self._ticks.append(end)
        ticker.cancel()
        return end

    async def _tick(self) -> None:
        while True:
            self._ticks.append(_Moment.now())
            await asyncio.sleep(_TICK)

    @property
    def blocked_cpu(self) -> float:
        """The most CPU time between two ticks, in which nothing else could run."""
        return max(after.cpu - before.cpu for before, after in pairwise(self._ticks))

    @property
    def blocked_cpu_net(self) -> float:
        """The same without the time of the garbage collector."""
        return max(
            after.cpu - before.cpu - (after.collector - before.collector)
            for before, after in pairwise(self._ticks)
        )

    @property
    def blocked_seconds(self) -> float:
        """The largest delay of a tick."""
        return max(
            max(0.0, after.clock - before.clock - _TICK) for before, after in pairwise(self._ticks)
        )


async def _tell(url: str, word: bytes) -> None:
    """Let the server continue."""
    _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    writer.write(word)
    await writer.drain()
    writer.close()
    await writer.wait_closed()


async def _open_and_read(url: str, side: str, rounds: int) -> _Run:
    opening, steady, closing = _Phase(1), _Phase(1 + rounds), _Phase(rounds + 2)

    def seen(number: int) -> None:
        for phase in (opening, steady, closing):
            phase.seen(number)

    async with _SIDES[side](url) as read, asyncio.timeout(_LONGEST_RUN):
        # Once, so that all is imported and made that is not a stream's own.
        await read("/warm/assist", lambda _: None)
        gc.collect()
        before = resident_bytes()
        start = _Moment.now()
        async with asyncio.TaskGroup() as group:  # a stream that fails ends them all
            tasks = [group.create_task(read("/assist", seen)) for _ in range(_STREAMS)]
            opened = await opening.run()
            grown = resident_bytes() - before
            await _tell(url, GO)
            done = await steady.run()
            await _tell(url, END)
            await closing.run()
        end = _Moment.now()
    counts = [task.result() for task in tasks]
    if set(counts) != {rounds + 2}:
        raise AssertionError(f"streams of {sorted(set(counts))} packets, not of {rounds + 2}")
    return _Run(
        open_seconds=opened.clock - start.clock,
        open_cpu=opened.cpu - start.cpu,
        steady_cpu=done.cpu - opened.cpu,
        total_cpu=end.cpu - start.cpu,
        bytes_per_stream=grown / _STREAMS,
        blocked_cpu=steady.blocked_cpu,
        blocked_cpu_net=steady.blocked_cpu_net,
        blocked_seconds=steady.blocked_seconds,
        blocked_cpu_closing=closing.blocked_cpu,
    )


def _run(side: str, rate: int) -> _Run:
    raise_file_limit()
    gc.callbacks.append(_collector)
    rounds = rate * _SECONDS
    with child("_many_streams", rate, rounds) as server:
        return asyncio.run(_open_and_read(server.url, side, rounds))


def _kilobytes(value: float) -> str:
    return f"{value / 1000:.3g} KB"


class _Runs:
    """The runs of both sides at one rate, as rows."""

    def __init__(self, rate: int, rounds: int) -> None:
        self._runs: dict[str, list[_Run]] = {side: [] for side in _SIDES}
        for _ in range(rounds):
            for side, done in self._runs.items():
                done.append(in_new_process(_run)(side, rate))

    def ratio(self, what: str, pick: Callable[[_Run], float], most: float | None = None) -> Row:
        goal = None if most is None else at_most(most)
        return compare(self._of(pick), _OURS, _PLAIN, goal, where=f"{what}: ")

    def both(
        self,
        what: str,
        pick: Callable[[_Run], float],
        shown: Callable[[float], str] = seconds,
        most: float | None = None,
    ) -> list[Row]:
        values = self._of(pick)
        goal = None if most is None else at_most(most, shown)
        return [
            amount(f"{what}: {_OURS}", values[_OURS], shown, goal),
            amount(f"{what}: {_PLAIN}", values[_PLAIN], shown),
        ]

    def _of(self, pick: Callable[[_Run], float]) -> dict[str, list[float]]:
        return {side: [pick(run) for run in done] for side, done in self._runs.items()}


def table(effort: Effort) -> Table:
    """Compare in turns, every turn in a new process."""
    rounds = effort.fewer(5).rounds
    runs, slow = _Runs(_RATE, rounds), _Runs(_SLOW_RATE, rounds)
    return Table(
        f"{_STREAMS} streams at once, {_RATE} packets of {PACKET_BYTES} bytes a second each, "
        f"for {_SECONDS} s",
        None,
        [
            runs.ratio("CPU", lambda run: run.total_cpu, 0.6),
            runs.ratio("CPU until all are open", lambda run: run.open_cpu),
            runs.ratio("CPU while packets arrive", lambda run: run.steady_cpu),
            slow.ratio(f"the same, {_SLOW_RATE} packets a second", lambda run: run.steady_cpu),
            runs.ratio("time until all are open", lambda run: run.open_seconds, 0.3),
            *runs.both("memory per stream", lambda run: run.bytes_per_stream, _kilobytes, 30_000),
            *runs.both("longest loop iteration, CPU", lambda run: run.blocked_cpu, seconds, 0.05),
            *runs.both("without the garbage collector", lambda run: run.blocked_cpu_net),
            *runs.both("latest tick by the clock", lambda run: run.blocked_seconds),
            *slow.both(
                f"longest loop iteration, CPU, {_SLOW_RATE} packets a second",
                lambda run: run.blocked_cpu,
            ),
            *runs.both(
                "longest loop iteration when all end at once, CPU",
                lambda run: run.blocked_cpu_closing,
            ),
        ],
    )
