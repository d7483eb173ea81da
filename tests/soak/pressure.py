"""Five faults that test liveness and isolation: none may delay other streams for long.

They run on a separate fleet with a short lease, patience and retention. Three of them occur at the
same time, each on its own replica: silent connections up to the limit of descriptors, freezes that
leave the process a quarter of its time, and an agent that blocks the event loop. A fourth replica
stays healthy, to take over streams that seem lost. Then one key sends large bodies, and finally the
store is full. Other streams run during each fault.
"""

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from coreason_client.server.log.valkey._errors import NO_ANSWER

from ..server.log.valkey_server import ValkeyServer
from .attacks import send_bodies
from .content import Order
from .faults import until
from .fleet import Fleet, Replica
from .fullstore import Probe, full, probe
from .halfopen import SILENT, half_open, still_open
from .options import AGENT_ID, ReplicaOptions
from .readers import client_for, read_spread
from .replica import block_the_event_loop
from .tally import COMPLETE, Reading, Row, bounded, longest_silence, plain, some, zero

T = TypeVar("T")

PREFIX = "pressed"
PRINCIPAL = "good"
_KEY, _ATTACKER_KEY = "key-of-good", "key-of-attacker"
_PACKETS = 200
_EXPLAINED = 5  # failed streams of an episode whose log lines are shown
_REPLICAS = 4

_LEASE = 4.0
_RETENTION = 6.0
_FREEZE, _RUN, _FREEZES = 1.8, 0.6, 4
_PATIENCE = 1.5  # with the store: shorter than a freeze, in which a process cannot wait
_BLOCK = 1.5 * _LEASE
_DESCRIPTORS = 256
_SILENT_CONNECTIONS = 2 * _DESCRIPTORS
_RECOVERY = 25.0  # of a full store: retention, the period of expiry (10 s), and half as much again
_END_WITHIN = 10.0  # a reader of a stream that cannot be written gets an end or a disconnect

_MOST_SILENCE = {  # seconds
    "silent connections": 10.0,
    "starved replica": 10.0,
    "blocking agent": 15.0,
    "large bodies": 10.0,
    "full store": 30.0,
}


@dataclass(frozen=True, slots=True)
class Episode:
    """One fault: the streams during it, its rows of the table, and which must be complete."""

    readings: Sequence[Reading]
    rows: Sequence[Row]
    must_complete: Sequence[Reading]


@dataclass(frozen=True, slots=True)
class Roles:
    """The replica for each fault."""

    crowded: Replica
    starved: Replica
    blocked: Replica


def pressed_fleet(folder: Path, url: str, seed: int) -> tuple[Fleet, Roles]:
    """Return replicas that have not been started, and their roles."""
    places = list(range(_REPLICAS))
    random.Random(seed).shuffle(places)
    crowded, starved, blocked, _ = places
    options = [
        ReplicaOptions(
            url=url,
            prefix=PREFIX,
            lease=_LEASE,
            patience=_PATIENCE,
            retention=_RETENTION,
            api_keys={_KEY: PRINCIPAL, _ATTACKER_KEY: "attacker"},
            descriptors=_DESCRIPTORS if place == crowded else None,
        )
        for place in range(_REPLICAS)
    ]
    fleet = Fleet(folder, options)
    replicas = fleet.replicas
    return fleet, Roles(replicas[crowded], replicas[starved], replicas[blocked])


async def under_pressure(
    fleet: Fleet, roles: Roles, store: ValkeyServer, seed: int
) -> Sequence[Episode]:
    """Run all five faults; return the results of the streams during them."""
    together = await asyncio.gather(
        _silent_connections(roles.crowded, seed),
        _starved(roles.starved, store, seed),
        _blocking(roles.blocked, seed),
    )
    episodes = [
        *together,
        await _large_bodies(roles.blocked, seed),
        await _full_store(fleet, store, seed),
    ]
    for episode in episodes:
        _explain(episode.must_complete, fleet)
    return episodes


def _explain(readings: Sequence[Reading], fleet: Fleet) -> None:
    """Print the log lines of the replicas about streams that are incomplete by mistake."""
    lines = [line for line in fleet.errors().splitlines() if "stream " in line]
    for reading in [one for one in readings if one.end != COMPLETE][:_EXPLAINED]:
        print(f"  {reading.end}: {reading.summary}", file=sys.stderr)
        for line in lines:
            if str(reading.stream_id) in line:
                print(f"    {line}", file=sys.stderr)


async def _silent_connections(replica: Replica, seed: int) -> Episode:
    name = _announce("silent connections")
    before, during = _readings(f"crowd{seed}", 20, 6.0), _readings(f"crowded{seed}", 10, 3.0)

    async def attack() -> list[bool]:
        async with half_open(replica.port, _SILENT_CONNECTIONS, SILENT) as socks:
            await _read(replica, during, 2.0)
            return [still_open(sock) for sock in socks]

    opened = await _beside(replica, before, attack)
    return _episode(
        name,
        [*before, *during],
        plain(f"{name}: made, with {_DESCRIPTORS} descriptors", _SILENT_CONNECTIONS),
        plain(f"{name}: of these closed by the server", opened.count(False)),
    )


async def _starved(replica: Replica, store: ValkeyServer, seed: int) -> Episode:
    name = _announce("starved replica")
    readings = _readings(f"starved{seed}", 40, 6.0)
    slowest = 0.0

    async def starve() -> None:
        nonlocal slowest
        for _ in range(_FREEZES):
            replica.freeze()
            try:
                await asyncio.sleep(_FREEZE)
            finally:
                replica.thaw()
            slowest = max(slowest, await _answer_time(store))
            await asyncio.sleep(_RUN)

    await _beside(replica, readings, starve)
    return _episode(
        name,
        readings,
        plain(f"{name}: freezes of {_FREEZE:g} s", _FREEZES),
        plain(f"{name}: slowest answer of the store", f"{slowest:.2f} s"),
        zero(f"{name}: log lines that blame the store", count_blaming(replica.errors())),
    )


def count_blaming(lines: str) -> int:
    """Return how many log lines report that the store did not answer."""
    return sum(NO_ANSWER in line for line in lines.splitlines())


async def _blocking(replica: Replica, seed: int) -> Episode:
    name = _announce("blocking agent")
    readings = _readings(f"beside{seed}", 20, 5.0)
    blocker = Reading.of(Order.lasting(f"block{seed}", 20, 1.0, _BLOCK))

    async def block() -> None:
        await _read(replica, [blocker], 0.0)

    await _beside(replica, readings, block)
    return _episode(
        name,
        [*readings, blocker],
        plain(f"{name}: lease, and time of blocking", f"{_LEASE:g} s, {_BLOCK:g} s"),
        some(f"{name}: log lines that name the function", _named(replica, block_the_event_loop)),
    )


async def _large_bodies(replica: Replica, seed: int) -> Episode:
    name = _announce("large bodies")
    readings = _readings(f"bodies{seed}", 20, 6.0)
    answers = await _beside(
        replica, readings, lambda: send_bodies(replica.url, _ATTACKER_KEY, random.Random(seed))
    )
    return _episode(
        name,
        readings,
        plain(f"{name}: of 4 MB, sent by another key", answers.total()),
        *(plain(f"{name}: answered {answer}", n) for answer, n in sorted(answers.items())),
    )


async def _full_store(fleet: Fleet, store: ValkeyServer, seed: int) -> Episode:
    _announce("full store")
    before, during = (
        [_readings(f"{when}{seed}-{replica.number}", 8, seconds) for replica in fleet.replicas]
        for when, seconds in (("filling", 6.0), ("filled", 3.0))
    )
    reading = _read_all(fleet, before, 0.5)
    await _until_begun(_flat(before))
    async with full(store, PREFIX, f"{AGENT_ID}/{PRINCIPAL}"):
        reading += _read_all(fleet, during, 2.0)
        found = await probe(fleet.replicas[0].url, _KEY, random.Random(seed), _RECOVERY)
    await asyncio.gather(*reading)
    return Episode(
        _flat(before) + _flat(during),
        _full_store_rows(found, _flat(before), _flat(during)),
        must_complete=_flat(during),
    )


def _full_store_rows(
    found: Probe, before: Sequence[Reading], during: Sequence[Reading]
) -> list[Row]:
    name = "full store"
    readings = [*before, *during]
    recovery = _RECOVERY + 1 if found.recovered_after is None else found.recovered_after
    return [
        some(f"{name}: requests refused with 503", found.refused),
        zero(f"{name}: of these without Retry-After", found.without_retry_after),
        zero(f"{name}: requests with another answer", found.surprises),
        bounded(f"{name}: accepts requests again after", recovery, _RECOVERY),
        plain(f"{name}: streams begun before", len(before)),
        plain(f"{name}: of these ended with a typed error", _incomplete(before)),
        zero(f"{name}: of these left on heartbeats", sum(map(_only_heartbeats, before))),
        plain(f"{name}: streams begun during", len(during)),
        zero(f"{name}: of these not complete", _incomplete(during)),
        bounded(f"{name}: longest silence", longest_silence(readings), _MOST_SILENCE[name]),
    ]


def _only_heartbeats(reading: Reading) -> bool:
    """Return True if a reader got neither a packet nor a disconnect for too long."""
    reconnected = reading.reconnects or reading.asked_again
    return not reconnected and reading.longest_silence > _END_WITHIN


def _incomplete(readings: Sequence[Reading]) -> int:
    return sum(reading.end != COMPLETE for reading in readings)


def _flat(groups: Sequence[Sequence[Reading]]) -> list[Reading]:
    return [reading for group in groups for reading in group]


def _read_all(
    fleet: Fleet, groups: Sequence[Sequence[Reading]], spread: float
) -> list[asyncio.Future[None]]:
    """Read a group of streams from each replica."""
    return [
        asyncio.ensure_future(_read(replica, group, spread))
        for replica, group in zip(fleet.replicas, groups, strict=True)
    ]


def _episode(name: str, readings: Sequence[Reading], *rows: Row) -> Episode:
    return Episode(
        readings,
        [
            *rows,
            plain(f"{name}: streams beside", len(readings)),
            zero(f"{name}: of these not complete", _incomplete(readings)),
            bounded(f"{name}: longest silence", longest_silence(readings), _MOST_SILENCE[name]),
        ],
        must_complete=readings,
    )


def _readings(name: str, number: int, seconds: float) -> list[Reading]:
    return [
        Reading.of(Order.lasting(f"{name}-{turn}", _PACKETS, seconds)) for turn in range(number)
    ]


async def _beside(
    replica: Replica, readings: Sequence[Reading], fault: Callable[[], Awaitable[T]]
) -> T:
    """Run a fault while streams of a replica are read; return the result of the fault."""
    reading = asyncio.ensure_future(_read(replica, readings, 0.5))
    try:
        await _until_begun(readings)
        result = await fault()
        await reading
        return result
    finally:
        reading.cancel()


async def _read(replica: Replica, readings: Sequence[Reading], spread: float) -> None:
    async with client_for(replica.url, _KEY) as client:
        await read_spread(client, readings, spread)


async def _until_begun(readings: Sequence[Reading]) -> None:
    await until(lambda: all(reading.stream_id is not None for reading in readings))


def _announce(name: str) -> str:
    print(f"  {name}", file=sys.stderr)
    return name


async def _answer_time(store: ValkeyServer) -> float:
    began = time.monotonic()
    await asyncio.to_thread(store.command, "PING")
    return time.monotonic() - began


def _named(replica: Replica, function: Callable[..., object]) -> int:
    return replica.errors().count(function.__name__)
