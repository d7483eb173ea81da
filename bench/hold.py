"""A thousand open streams on a replica with the Valkey log; the maximum rates of one and three."""

import asyncio
import gc
import re
import time
from array import array
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import cycle
from statistics import median, quantiles
from typing import TypeAlias

from coreason_client import AsyncCAPClient
from coreason_manifest.definitions.presentation import StreamOpCode
from coreason_manifest.definitions.service import ServiceRequest

from ._child import Child, Usage, child
from ._many_streams import raise_file_limit
from ._measure import Effort, Goal, Row, Table, at_most, fact, seconds
from ._process import in_new_process
from ._replica import DUE_CHARACTERS
from ._request import chat_request
from ._store import DURABLE, Valkey, valkey
from ._wire import PACKET_BYTES

__all__ = ["table"]

_STREAMS = 1000
_RATE = 10  # packets a second of a stream
_SECONDS, _QUICK_SECONDS = 60, 10
_PROBES = (1, 2, 4, 8, 12)  # packets a second of a stream
_PROBE_SECONDS = 6
_BURST_STREAMS = 200
_BURST_PACKETS = 500
_LONGEST_RUN = 240.0
_MOST_GROWTH = 0.1  # seconds of lag, from the first fifth of a run to the last
_OURS, _PLAIN = "AsyncCAPClient", "plain sockets"

Seen: TypeAlias = Callable[[float], None]
"""Called with the due time of each packet that is read."""

Read: TypeAlias = Callable[[int, Seen], Awaitable[None]]
"""Opens a stream on the replica of a number and reads it to its end."""


class _Lags:
    """The lag of each packet, measured from its due time."""

    def __init__(self, streams: int, packets: int) -> None:
        self.opened, self.all_read = asyncio.Event(), asyncio.Event()
        self._streams = streams
        self._wanted = streams * packets
        self._opened_streams = 0
        self._due, self._lags = array("d"), array("d")

    def reader(self) -> Seen:
        """Return the callback for the packets of a new reader; the first one opens its stream."""
        is_open = False

        def seen(due: float) -> None:
            nonlocal is_open
            if is_open:
                self._due.append(due)
                self._lags.append(time.time() - due)
                if len(self._lags) == self._wanted:
                    self.all_read.set()
                return
            is_open = True
            self._opened_streams += 1
            if self._opened_streams == self._streams:
                self.opened.set()

        return seen

    @property
    def count(self) -> int:
        return len(self._lags)

    def percentiles(self) -> tuple[float, float, float]:
        """Return the median, the p99 and the longest."""
        return median(self._lags), quantiles(self._lags, n=100)[-1], max(self._lags)

    def growth(self) -> float:
        """Return the growth of the median lag from the first to the last fifth of the run."""
        first, last = min(self._due), max(self._due)
        fifth = (last - first) / 5
        early, late = array("d"), array("d")
        for due, lag in zip(self._due, self._lags, strict=True):
            if due < first + fifth:
                early.append(lag)
            elif due > last - fifth:
                late.append(lag)
        return median(late) - median(early)


@dataclass(frozen=True, slots=True)
class _Run:
    """The cost of streams that were kept open for a while."""

    missing: int
    lag_median: float
    lag_p99: float
    lag_longest: float
    lag_growth: float
    packets_per_second: float
    server_cpu: float
    store_cpu: float
    reader_cpu: float
    elapsed: float
    open_bytes: float
    held_bytes: float
    store_bytes: float


@dataclass(frozen=True, slots=True)
class _Cluster:
    """Replicas on one store."""

    store: Valkey
    replicas: list[Child]

    @property
    def urls(self) -> list[str]:
        return [replica.url for replica in self.replicas]

    def usage(self) -> Usage:
        """Return the CPU time of all replicas together."""
        used = [replica.usage() for replica in self.replicas]
        return Usage(sum(u.cpu_seconds for u in used), sum(u.resident_bytes for u in used))


@contextmanager
def _cluster(replicas: int, rate: float, packets: int, streams: int) -> Iterator[_Cluster]:
    raise_file_limit()
    with ExitStack() as stack:
        store = stack.enter_context(valkey(*DURABLE))
        yield _Cluster(
            store,
            [
                stack.enter_context(child("_replica", store.url, rate, packets, streams))
                for _ in range(replicas)
            ],
        )


def _request(word: str) -> ServiceRequest:
    return chat_request(word)


async def _tell(url: str, word: str) -> None:
    async with AsyncCAPClient(url, "key") as client:
        async for _ in client.assist(_request(word)):
            pass


async def _ours(urls: list[str], stack: AsyncExitStack, word: str) -> Read:
    """Read with the client, as a user does."""
    clients = [await stack.enter_async_context(AsyncCAPClient(url, "key")) for url in urls]

    async def read(number: int, seen: Seen) -> None:
        async for packet in clients[number].assist(_request(word)):
            if packet.op is StreamOpCode.DELTA:
                seen(float(packet.p[:DUE_CHARACTERS]))

    return read


class _PlainReader(asyncio.Protocol):
    """Only finds the due times in the received bytes."""

    _DUE = re.compile(rb'"p":"(\d{10}\.\d{6})')

    def __init__(self, word: str, seen: Seen) -> None:
        self._word = word
        self._seen = seen
        self._tail = b""
        self.over = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        body = _request(self._word).to_json().encode()
        transport.write(
            b"POST /assist HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        )

    def data_received(self, data: bytes) -> None:
        data = self._tail + data
        end = 0
        for found in self._DUE.finditer(data):
            self._seen(float(found[1]))
            end = found.end()
        self._tail = data[max(end, len(data) - 30) :]

    def connection_lost(self, _: Exception | None) -> None:
        self.over.set_result(None)


async def _plain(urls: list[str], _: AsyncExitStack, word: str) -> Read:
    """Read as cheaply as possible, so the readers are not what is measured."""
    ports = [int(url.rpartition(":")[2]) for url in urls]

    async def read(number: int, seen: Seen) -> None:
        loop = asyncio.get_running_loop()
        _, reader = await loop.create_connection(
            lambda: _PlainReader(word, seen), "127.0.0.1", ports[number]
        )
        await reader.over

    return read


_READERS = {_OURS: _ours, _PLAIN: _plain}


async def _hold(cluster: _Cluster, reader: str, streams: int, packets: int, longest: float) -> _Run:
    lags = _Lags(streams, packets)
    urls = cluster.urls
    async with AsyncExitStack() as stack:
        read = await _READERS[reader](urls, stack, "hold")
        for url in urls:  # so that all is imported and made that is not a stream's own
            await _tell(url, "hello")
        before, store_before = cluster.usage(), cluster.store.used_memory()
        numbers = cycle(range(len(urls)))  # a balancer that costs nothing
        tasks = [
            asyncio.create_task(_to_the_end(read(next(numbers), lags.reader())))
            for _ in range(streams)
        ]
        await asyncio.wait_for(lags.opened.wait(), _LONGEST_RUN)
        gc.collect()
        gc.freeze()
        opened, store_cpu = cluster.usage(), cluster.store.cpu_seconds()
        cpu, start = time.process_time(), time.time() + 0.5
        for url in urls:
            await _tell(url, f"go {start}")
        with suppress(TimeoutError):
            await asyncio.wait_for(lags.all_read.wait(), longest)
        elapsed, cpu = time.time() - start, time.process_time() - cpu
        store_cpu = cluster.store.cpu_seconds() - store_cpu
        held, store_bytes = cluster.usage(), cluster.store.used_memory() - store_before
        for url in urls:
            await _tell(url, "end")
        await asyncio.wait(tasks, timeout=_LONGEST_RUN)
    p50, p99, most = lags.percentiles()
    return _Run(
        missing=streams * packets - lags.count,
        lag_median=p50,
        lag_p99=p99,
        lag_longest=most,
        lag_growth=lags.growth(),
        packets_per_second=lags.count / elapsed,
        server_cpu=(held.cpu_seconds - opened.cpu_seconds) / lags.count,
        store_cpu=store_cpu / lags.count,
        reader_cpu=cpu / lags.count,
        elapsed=elapsed,
        open_bytes=(opened.resident_bytes - before.resident_bytes) / streams,
        held_bytes=(held.resident_bytes - before.resident_bytes) / streams,
        store_bytes=store_bytes / streams,
    )


async def _to_the_end(reading: Awaitable[None]) -> None:
    await reading


def _held(replicas: int, reader: str, streams: int, rate: float, duration: int) -> _Run:
    packets = round(rate * duration)
    with _cluster(replicas, rate, packets, streams // replicas) as cluster:
        # A run that takes 1.5 times as long has fallen behind; waiting longer is useless.
        return asyncio.run(_hold(cluster, reader, streams, packets, duration * 1.5 + 5))


@dataclass(frozen=True, slots=True)
class _Burst:
    """The cost of streams that were written as fast as possible."""

    packets_per_second: float
    server_cpu: float
    store_cpu: float
    reader_cpu: float
    elapsed: float


async def _read_bursts(cluster: _Cluster) -> _Burst:
    count = 0

    def seen(_: float) -> None:
        nonlocal count
        count += 1

    async with AsyncExitStack() as stack:
        urls = cluster.urls
        read = await _plain(urls, stack, "burst")
        for url in urls:
            await _tell(url, "hello")
        before, store_cpu = cluster.usage(), cluster.store.cpu_seconds()
        cpu, start = time.process_time(), time.monotonic()
        numbers = cycle(range(len(urls)))
        async with asyncio.timeout(_LONGEST_RUN):
            await asyncio.gather(*(read(next(numbers), seen) for _ in range(_BURST_STREAMS)))
        elapsed, cpu = time.monotonic() - start, time.process_time() - cpu
        after, store_cpu = cluster.usage(), cluster.store.cpu_seconds() - store_cpu
    if count != _BURST_STREAMS * (_BURST_PACKETS - 1):
        raise AssertionError(
            f"{count} packets were received, expected {_BURST_STREAMS * (_BURST_PACKETS - 1)}"
        )
    return _Burst(
        packets_per_second=count / elapsed,
        server_cpu=after.cpu_seconds - before.cpu_seconds,
        store_cpu=store_cpu,
        reader_cpu=cpu,
        elapsed=elapsed,
    )


def _burst(replicas: int) -> _Burst:
    with _cluster(replicas, 1, _BURST_PACKETS, _BURST_STREAMS) as cluster:
        return asyncio.run(_read_bursts(cluster))


def _kilobytes(value: float) -> str:
    return f"{value / 1000:.3g} KB"


def _goal(what: str, seen: float, goal: Goal, shown: Callable[[float], str]) -> Row:
    return Row(what, "", shown(seen), "", goal.words, goal.is_met(seen))


def _signed(value: float) -> str:
    return f"-{seconds(-value)}" if value < 0 else seconds(value)


def _held_rows(run: _Run, duration: int) -> list[Row]:
    return [
        fact("packets not received", f"{run.missing:,}", "0"),
        _goal(
            "growth of the median lag from the first to the last fifth of the run",
            run.lag_growth,
            at_most(_MOST_GROWTH, seconds),
            _signed,
        ),
        fact("lag, median", seconds(run.lag_median)),
        fact("lag, p99", seconds(run.lag_p99)),
        fact("lag, longest", seconds(run.lag_longest)),
        fact(f"time until all were received, {duration} s of packets", seconds(run.elapsed)),
        fact("packets per second", f"{run.packets_per_second:,.0f}"),
        fact("CPU per packet, the replica", seconds(run.server_cpu)),
        fact("CPU per packet, Valkey", seconds(run.store_cpu)),
        fact("CPU per packet, the readers", seconds(run.reader_cpu)),
        fact("memory per stream, just opened", _kilobytes(run.open_bytes)),
        fact(f"memory per stream, after {duration} s", _kilobytes(run.held_bytes)),
        fact(f"memory of Valkey per stream, after {duration} s", _kilobytes(run.store_bytes)),
    ]


def _probe_rows(replicas: int) -> list[Row]:
    """Raise the rate until the replicas fall behind, and beyond."""
    rows: list[Row] = []
    for rate in _PROBES:
        run = in_new_process(_held)(replicas, _PLAIN, _STREAMS, rate, _PROBE_SECONDS)
        cpu = f"{seconds(run.server_cpu)}, {seconds(run.store_cpu)}, {seconds(run.reader_cpu)}"
        where = f"{_named(replicas)}, {rate * _STREAMS:,} packets a second due"
        lags = f"{seconds(run.lag_median)}, {seconds(run.lag_p99)}"
        rows += [
            fact(f"{where}: lag, median and p99", lags),
            fact(f"{where}: packets received per second", f"{run.packets_per_second:,.0f}"),
            fact(f"{where}: CPU per packet of replicas, Valkey, readers", cpu),
        ]
    return rows


def _burst_rows(replicas: int, effort: Effort) -> list[Row]:
    runs = [in_new_process(_burst)(replicas) for _ in range(effort.rounds)]
    run = sorted(runs, key=lambda run: run.packets_per_second)[len(runs) // 2]
    where = f"{_named(replicas)}, at the maximum rate"
    return [
        fact(f"{where}, packets per second", f"{run.packets_per_second:,.0f}"),
        *(
            fact(f"{where}, cores used by {who}", f"{cpu / run.elapsed:.2f}")
            for who, cpu in (
                ("replicas", run.server_cpu),
                ("Valkey", run.store_cpu),
                ("readers", run.reader_cpu),
            )
        ),
    ]


def _named(replicas: int) -> str:
    return "1 replica" if replicas == 1 else f"{replicas} replicas"


def table(effort: Effort) -> Table:
    """Keep a thousand streams open, then find the maximum of one replica and of three."""
    duration = _SECONDS if effort.rounds >= Effort.full().rounds else _QUICK_SECONDS
    held = in_new_process(_held)(1, _OURS, _STREAMS, _RATE, duration)
    fewer = effort.fewer(5)
    return Table(
        f"{_STREAMS} streams on one replica, {_RATE} packets of {PACKET_BYTES} bytes a second each",
        None,
        [
            *_held_rows(held, duration),
            *_probe_rows(1),
            *_probe_rows(3),
            *_burst_rows(1, fewer),
            *_burst_rows(3, fewer),
        ],
    )
