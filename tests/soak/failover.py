"""Failovers of the store while streams are written and read.

The promoted store may lack the last seconds: what was acknowledged, delivered and claimed then is
unknown to it. A reader may get an error that says so, but never text of two runs, an answer that
counts as complete and is not, or silence. Half of the readers understand REWIND, and half of them
disconnect at the failover and resume later.
"""

import asyncio
import itertools
import random
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from coreason_client import CAPClient
from coreason_client.testing import ChaosProxy

from .content import Order
from .failover_postgres import KilledPostgres, ReplacedPostgres
from .failover_readers import read_chat, read_raw, read_within
from .failover_replica import PROGRAM
from .failover_stores import (
    DemotedPrimary,
    FailingCluster,
    FailingStore,
    KilledPrimary,
    ReplacedPrimary,
    SentinelPair,
)
from .failover_tally import RawText, Reader, Reading, judge
from .faults import until
from .fleet import Fleet
from .options import ReplicaOptions
from .readers import ANY_KEY, READ_TIMEOUT, RETRIES, client_for
from .tally import Row, plain, some, titled, zero

_EXPLAINED = 10  # readings that failed and are shown
_READERS: tuple[Reader, ...] = ("raw", "async", "sync")
_DOWN = 0.5  # downtime of a killed replica


@dataclass(frozen=True, slots=True)
class Size:
    """The size of one failover."""

    copies: int = 2  # of each kind of reader, of which there are 36
    replicas: tuple[int, int] = (2, 3)  # of the plain agent, and of the durable one
    words: int = 150
    pause: float = 0.1  # between two words
    spread: float = 1.5  # seconds in which the streams start
    away: tuple[float, float] = (1.0, 5.0)  # seconds for which readers disconnect
    lease: float = 2.0
    limit: float = 40.0  # a reader without an end after so many seconds has hung

    @property
    def duration(self) -> float:
        """The seconds that the agent takes for an answer."""
        return self.words * self.pause


@dataclass(frozen=True, slots=True)
class Failover:
    """A kind of failover."""

    title: str
    store: Callable[[], FailingStore]
    held: tuple[float, float]  # least and most seconds for which replication is held back
    kills: bool = False  # a replica of each fleet dies too
    confirmations: int = 0


FAILOVERS = (
    Failover("primary killed", KilledPrimary, (1.0, 3.0), kills=True),
    Failover("roles swapped", DemotedPrimary, (0.0, 3.0)),
    Failover("not held back", KilledPrimary, (0.0, 0.0)),
    Failover("confirmed", ReplacedPrimary, (0.0, 0.0), confirmations=1),
    Failover("confirmed, then held back", ReplacedPrimary, (1.0, 3.0), confirmations=1),
    Failover("cluster", FailingCluster, (0.0, 3.0), kills=True),
    Failover("Sentinel", SentinelPair, (0.0, 3.0)),
)
POSTGRES_FAILOVERS = (
    Failover("confirmed", ReplacedPostgres, (0.0, 3.0), confirmations=1),
    Failover("primary killed", KilledPostgres, (1.0, 3.0), kills=True),
)

NORMAL_SIZE = Size()


async def failover_rows(
    folder: Path,
    seed: int,
    size: Size = NORMAL_SIZE,
    failovers: Sequence[Failover] = FAILOVERS,
) -> tuple[list[Row], str]:
    """Return the tables of all failovers and the stderr of the replicas."""
    rows: list[Row] = []
    all_errors = ""
    for number, kind in enumerate(failovers):
        print(f"  failover: {kind.title}", file=sys.stderr)
        place, dice = folder / str(number), random.Random(f"{seed} {kind.title}")
        found, errors = await _fail_over(place, kind, size, dice)
        rows += titled(f"failover, {kind.title}", found)
        all_errors += errors
    return rows, all_errors


async def _fail_over(
    folder: Path, kind: Failover, size: Size, dice: random.Random
) -> tuple[list[Row], str]:
    held = dice.uniform(*kind.held)
    texts = [RawText(reading) for reading in _readings(size, dice)]
    readings = [text.reading for text in texts]
    async with AsyncExitStack() as stack:
        store = await asyncio.to_thread(stack.enter_context, kind.store())
        fleets = _fleets(folder, kind, store, size)
        await asyncio.gather(*map(stack.enter_async_context, fleets))
        proxies = [await stack.enter_async_context(_proxy(fleet)) for fleet in fleets]
        failed = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_read_all(texts, [proxy.url for proxy in proxies], size, failed))
            # On a busy machine some begin late; the failover must not wait until others have ended.
            await until(lambda: all(one.text or one.end for one in readings), size.duration / 3)
            if kind.kills:
                for fleet in fleets:
                    after = dice.uniform(0.0, size.lease + held)
                    tasks.create_task(_kill_one(fleet, after, dice))
                await asyncio.sleep(size.lease)
            if held:
                await asyncio.to_thread(store.hold)
                await asyncio.sleep(held)
            failed.set()
            running = sum(one.end is None for one in readings)
            lacks = await asyncio.to_thread(store.fail, dice)
        codes = await asyncio.gather(*(fleet.leave() for fleet in fleets))
        errors = "".join(fleet.errors() for fleet in fleets)
    _explain(readings)
    return [
        plain("replication held back", f"{held:.1f} s"),
        some("readers at the failover", running),
        (some if kind.held[0] else plain)("bytes that the promoted store lacks", lacks),
        *judge(readings, sum(text.seams for text in texts), confirmed=kind.confirmations > 0),
        zero("replicas with an exit code other than 0", sum(map(_failures, codes))),
        zero("tracebacks of replicas", errors.count("Traceback")),
    ], errors


def _readings(size: Size, dice: random.Random) -> list[Reading]:
    """Return a reading of each kind, in an order that follows from the seed."""
    kinds = itertools.product(
        range(size.copies), ("plain", "same", "differs"), (True, False), _READERS, (True, False)
    )
    readings = [
        Reading(
            Order(
                f"{agent}-{number}",
                size.words,
                size.pause,
                differs=agent == "differs",
                rewinds=rewinds,
            ),
            reader,
            durable=agent != "plain",
            away=dice.uniform(*size.away) if leaves else 0.0,
        )
        for number, (_, agent, rewinds, reader, leaves) in enumerate(kinds)
    ]
    dice.shuffle(readings)
    return readings


def _fleets(folder: Path, kind: Failover, store: FailingStore, size: Size) -> tuple[Fleet, Fleet]:
    options = ReplicaOptions(
        url=store.url,
        prefix="plain",
        lease=size.lease,
        cluster=store.cluster,
        confirmations=kind.confirmations,
        program=PROGRAM,
    )
    durable = replace(options, prefix="durable", durable=True)
    number, number_durable = size.replicas
    return (
        Fleet(folder / "plain", [options] * number),
        Fleet(folder / "durable", [durable] * number_durable),
    )


def _proxy(fleet: Fleet) -> ChaosProxy:
    return ChaosProxy([replica.url for replica in fleet.replicas], faults=())


async def _read_all(
    texts: Sequence[RawText], urls: Sequence[str], size: Size, failed: asyncio.Event
) -> None:
    """Read all answers, the plain ones from the first URL; their starts are spread over a time."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client_for(url)) for url in urls]
        sync_clients = [
            stack.enter_context(CAPClient(url, ANY_KEY, READ_TIMEOUT, RETRIES, deadline=size.limit))
            for url in urls
        ]
        tasks = []
        for text in texts:
            reading = text.reading
            if reading.reader == "raw":
                read = read_raw(urls[reading.durable], text, failed.is_set)
            else:
                client = (clients if reading.reader == "async" else sync_clients)[reading.durable]
                read = read_chat(client, reading, failed.is_set)
            within = read_within(size.limit, reading, asyncio.ensure_future(read))
            tasks.append(asyncio.ensure_future(within))
            await asyncio.sleep(size.spread / len(texts))
        await asyncio.gather(*tasks)


async def _kill_one(fleet: Fleet, after: float, dice: random.Random) -> None:
    """Kill a replica; if its streams are claimed while replication is held back, that is lost."""
    await asyncio.sleep(after)
    replica = dice.choice(fleet.replicas)
    replica.kill()
    await asyncio.sleep(_DOWN)
    await replica.start()


def _failures(codes: Sequence[int | None]) -> int:
    return sum(code != 0 for code in codes)


def _explain(readings: Sequence[Reading]) -> None:
    """Print some of the readings that failed."""
    flaws = [(one.mixed, one.lost, one.doubled, one.untyped) for one in readings]
    order = sorted(range(len(readings)), key=flaws.__getitem__, reverse=True)
    for reading in [readings[number] for number in order if any(flaws[number])][:_EXPLAINED]:
        print(f"    {reading.summary}", file=sys.stderr)
