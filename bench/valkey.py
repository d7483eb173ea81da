"""The cost of the log on a Valkey server, compared with plain commands and with the memory log."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median
from typing import TypeAlias
from uuid import UUID, uuid4

from redis.asyncio import BlockingConnectionPool, Redis

from coreason_client import AsyncCAPClient
from coreason_client.server import MemoryStreamLog, StreamLog, ValkeyStreamLog
from coreason_client.server.log.base import NewStream

from ._child import child
from ._measure import Effort, Row, Table, amount, at_least, at_most, compare, seconds
from ._process import in_new_process
from ._request import chat_request
from ._store import DURABLE, valkey
from ._wire import PACKET_BYTES, events, packets

__all__ = ["table"]

_BATCH = 50
_BATCHES = 60  # of a turn, all streams together
_SINGLES = 600
_STREAMS = 20
_FIRSTS = 30  # of a round
_OWNER = "bench"
_LOG, _BARE = "ValkeyStreamLog", "plain XADD"
_CONFIRMED = "replicas=1"
_VALKEY, _MEMORY = "Valkey log", "memory log"

Append: TypeAlias = Callable[[UUID, int, list[bytes]], Awaitable[None]]
"""Appends entries to a stream, from a number on."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """The shape of appends: entries in a batch, and streams at once."""

    batch: int
    batches: int
    streams: int


class _Side:
    """One way to append; every turn is on new streams."""

    def __init__(self, append: Append, prepare: Callable[[UUID], Awaitable[None]]) -> None:
        self._append = append
        self._prepare = prepare

    async def packets_per_second(self, shape: _Shape) -> float:
        streams = [uuid4() for _ in range(shape.streams)]
        for stream in streams:
            await self._prepare(stream)
        entries = events(packets(shape.batch), with_ids=True)
        rounds = shape.batches // shape.streams
        gc.collect()
        start = time.perf_counter()
        await asyncio.gather(*(self._write(stream, entries, rounds) for stream in streams))
        return shape.streams * rounds * shape.batch / (time.perf_counter() - start)

    async def _write(self, stream: UUID, entries: list[bytes], rounds: int) -> None:
        for number in range(rounds):
            await self._append(stream, 1 + number * len(entries), entries)


async def _open(log: StreamLog, stream_id: UUID) -> None:
    await log.open(NewStream(stream_id, "user", uuid4(), "fingerprint"), _OWNER)


@asynccontextmanager
async def _through_the_log(url: str, replicas: int = 0) -> AsyncIterator[_Side]:
    log = ValkeyStreamLog(url, replicas=replicas)

    async def append(stream: UUID, first: int, entries: list[bytes]) -> None:
        await log.append(stream, 1, first, entries)

    await log.start(_OWNER)
    try:
        yield _Side(append, lambda stream: _open(log, stream))
    finally:
        await log.stop(_OWNER)


@asynccontextmanager
async def _bare(url: str) -> AsyncIterator[_Side]:
    """Send each batch as a pipeline of XADD, on as many connections as there are streams."""
    address = url.replace("valkey://", "redis://")
    pool = BlockingConnectionPool.from_url(address, max_connections=_STREAMS, protocol=2)

    async def append(stream: UUID, first: int, entries: list[bytes]) -> None:
        async with client.pipeline(transaction=False) as pipeline:
            for number, entry in enumerate(entries, first):
                pipeline.xadd(stream.hex, {"d": entry}, id=f"{number}-0")
            await pipeline.execute()

    async def nothing(_: UUID) -> None:
        pass

    async with Redis.from_pool(pool) as client:
        yield _Side(append, nothing)


async def _rates(url: str, shape: _Shape, rounds: int) -> dict[str, list[float]]:
    async with _through_the_log(url) as ours, _bare(url) as bare:
        return await _alternately([(_LOG, ours), (_BARE, bare)], shape, rounds)


async def _alternately(
    sides: list[tuple[str, _Side]], shape: _Shape, rounds: int
) -> dict[str, list[float]]:
    """Let both sides take turns, after one turn each that does not count."""
    rates: dict[str, list[float]] = {name: [] for name, _ in sides}
    for number in range(rounds + 1):
        for name, side in sides:
            rate = await side.packets_per_second(shape)
            if number:
                rates[name].append(rate)
        sides.reverse()
    return rates


async def _confirmed_rates(url: str, shape: _Shape, rounds: int) -> dict[str, list[float]]:
    async with _through_the_log(url, 1) as confirmed, _through_the_log(url) as plain:
        return await _alternately([(_CONFIRMED, confirmed), (_LOG, plain)], shape, rounds)


def _confirming(shape: _Shape, durable: bool, rounds: int) -> dict[str, list[float]]:
    options = ("--repl-diskless-sync-delay", "0", *(DURABLE if durable else ()))
    with valkey(*options) as store, valkey(*options) as replica:
        replica.follow(store)
        return asyncio.run(_confirmed_rates(store.url, shape, rounds))


def _appending(shape: _Shape, durable: bool, rounds: int) -> dict[str, list[float]]:
    with valkey(*(DURABLE if durable else ())) as store:
        return asyncio.run(_rates(store.url, shape, rounds))


async def _firsts_of_log(log: StreamLog, count: int) -> float:
    """Return the median time from an opening to a reader that has the first entry."""
    [entry] = events(packets(1), with_ids=True)
    spent = []
    for _ in range(count):
        stream_id = uuid4()
        start = time.perf_counter()
        await _open(log, stream_id)
        reading = asyncio.ensure_future(log.read(stream_id, 0, 1, 10.0))
        await log.append(stream_id, 1, 1, [entry])
        await reading
        spent.append(time.perf_counter() - start)
    return median(spent)


async def _firsts_of_client(client: AsyncCAPClient, count: int) -> float:
    """Return the median time from asking to having the first packet."""
    spent = []
    for _ in range(count):
        request = chat_request("hello")
        start = time.perf_counter()
        async with client.assist(request) as answer:
            async for _packet in answer:
                spent.append(time.perf_counter() - start)
                break
            async for _packet in answer:  # to the end, so that the connection is used again
                pass
    return median(spent)


async def _in_turns(
    valkey_side: Callable[[], Awaitable[float]],
    memory_side: Callable[[], Awaitable[float]],
    rounds: int,
) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {_VALKEY: [], _MEMORY: []}
    for number in range(rounds + 1):
        times = await valkey_side(), await memory_side()
        if number:  # the first round does not count
            for name, spent in zip(found, times, strict=True):
                found[name].append(spent)
    return found


async def _log_firsts(url: str, rounds: int) -> dict[str, list[float]]:
    shared, memory = ValkeyStreamLog(url), MemoryStreamLog()
    for log in (shared, memory):
        await log.start(_OWNER)
    try:
        return await _in_turns(
            lambda: _firsts_of_log(shared, _FIRSTS), lambda: _firsts_of_log(memory, _FIRSTS), rounds
        )
    finally:
        for log in (shared, memory):
            await log.stop(_OWNER)


async def _http_firsts(shared: str, memory: str, rounds: int) -> dict[str, list[float]]:
    async with AsyncCAPClient(shared, "key") as first, AsyncCAPClient(memory, "key") as second:
        return await _in_turns(
            lambda: _firsts_of_client(first, _FIRSTS),
            lambda: _firsts_of_client(second, _FIRSTS),
            rounds,
        )


def _at_the_log(durable: bool, rounds: int) -> dict[str, list[float]]:
    with valkey(*(DURABLE if durable else ())) as store:
        return asyncio.run(_log_firsts(store.url, rounds))


def _over_http(durable: bool, rounds: int) -> dict[str, list[float]]:
    with (
        valkey(*(DURABLE if durable else ())) as store,
        child("_replica", store.url, 1, 1, 1) as shared,
        child("_replica", "memory", 1, 1, 1) as memory,
    ):
        return asyncio.run(_http_firsts(shared.url, memory.url, rounds))


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _appending_rows(effort: Effort) -> list[Row]:
    goal = at_least(0.6)
    batches = _Shape(_BATCH, _BATCHES, 1)
    many = _Shape(_BATCH, _BATCHES * 2, _STREAMS)
    single, many_singles = _Shape(1, _SINGLES, 1), _Shape(1, _SINGLES * 2, _STREAMS)
    shapes = [
        (f"batches of {_BATCH}", batches, False, goal),
        (f"batches of {_BATCH}, {_STREAMS} streams at once", many, False, goal),
        (f"batches of {_BATCH}, with appendfsync always", batches, True, None),
        ("one by one", single, False, None),
        (f"one by one, {_STREAMS} streams at once", many_singles, False, None),
    ]
    return [
        compare(
            in_new_process(_appending)(shape, durable, effort.rounds),
            _LOG,
            _BARE,
            wanted,
            where=f"packets per second, {words}: ",
            shown=_whole,
        )
        for words, shape, durable, wanted in shapes
    ]


def _confirmed_rows(effort: Effort) -> list[Row]:
    """Compare appends that a replica confirms with those that it does not."""
    shapes = [
        ("one by one", _Shape(1, _SINGLES, 1), False),
        (f"one by one, {_STREAMS} streams at once", _Shape(1, _SINGLES * 2, _STREAMS), False),
        (f"batches of {_BATCH}", _Shape(_BATCH, _BATCHES, 1), False),
        (f"batches of {_BATCH}, with appendfsync always", _Shape(_BATCH, _BATCHES, 1), True),
    ]
    return [
        compare(
            in_new_process(_confirming)(shape, durable, effort.rounds),
            _CONFIRMED,
            _LOG,
            None,
            where=f"packets per second with a replica, {words}: ",
            shown=_whole,
        )
        for words, shape, durable in shapes
    ]


def _first_rows(effort: Effort) -> list[Row]:
    rows: list[Row] = []
    for words, measured in (("at the log", _at_the_log), ("over HTTP", _over_http)):
        for kept, durable in (("", False), (", with appendfsync always", True)):
            times = in_new_process(measured)(durable, effort.rounds)
            added = [a - b for a, b in zip(times[_VALKEY], times[_MEMORY], strict=True)]
            where = f"first packet on an idle server, median, {words}{kept}"
            goal = None if durable else at_most(0.005, seconds)
            rows += [
                amount(f"{where}: {_MEMORY}", times[_MEMORY], seconds),
                amount(f"{where}: added by the {_VALKEY}", added, seconds, goal),
            ]
    return rows


def table(effort: Effort) -> Table:
    """Compare appends by the clock, and the time to a first packet."""
    return Table(
        f"The log on a Valkey server, {PACKET_BYTES}-byte packets",
        None,
        [*_appending_rows(effort), *_confirmed_rows(effort), *_first_rows(effort)],
    )
