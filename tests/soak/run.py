"""One run from a seed: the load, the faults, the flood of half-open connections, and the table."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from coreason_client.server import ValkeyStreamLog
from coreason_client.server._auth import ANYBODY

from ..server.log.valkey_server import ValkeyServer
from .content import BURST, Order
from .faults import Kind, Striker, plan
from .fleet import Fleet
from .halfopen import affordable, half_open, still_open
from .proxy import Proxy
from .readers import client_for, read_spread
from .replica import AGENT_ID, raise_descriptor_limit
from .tally import COMPLETE, Notes, Reading, Row, count

PREFIX = "soak"
_AFTER_FAULTS = 60.0  # for everything that hangs to be found hanging


@dataclass(frozen=True, slots=True)
class Settings:
    """How large a run is."""

    seed: int = 1
    streams: int = 300
    packets: int = 200
    replicas: int = 3
    seconds: float = 45.0  # over which streams begin and faults strike
    lease: float = 3.0
    faults: Mapping[Kind, int] = field(
        default_factory=lambda: {"kill": 5, "pause": 3, "restart": 3, "freeze": 2}
    )
    cut_every: float = 0.25
    half_open: int | None = None  # None: as many as the system allows

    @property
    def deadline(self) -> float:
        """Seconds after which a run ends in any case."""
        return 3 * self.seconds + 2 * _AFTER_FAULTS

    def order(self, name: str, packets: int, seconds: float) -> Order:
        return Order(name, packets, round(seconds * BURST / packets, 4))


@dataclass(slots=True)
class Site:
    """Everything that runs."""

    fleet: Fleet
    store: ValkeyServer
    proxy: Proxy
    striker: Striker


async def soak(settings: Settings) -> tuple[list[Row], str]:
    """Run once; return the table, and what the replicas had to say."""
    began = time.monotonic()
    descriptors = raise_descriptor_limit()
    async with asyncio.timeout(settings.deadline), _site(settings) as site:
        readings = await _under_faults(site, settings)
        beside, opened = await _under_flood(site, settings, descriptors)
        stale = site.striker.stale
        readings += [*stale, *beside]
        stored = await _stored(site.store.url, readings)
        codes = await site.fleet.leave()
        notes, errors = Notes.parse(site.fleet.notes()), site.fleet.errors()
        cuts = site.proxy.cuts
    rows = [
        *count(readings, notes, stored),
        *_stale_rows(stale, notes),
        *(Row(name, str(number)) for name, number in sorted(site.striker.struck.items())),
        Row("connections cut", str(cuts)),
        *_flood_rows(beside, opened),
        Row(
            "replicas that left with another code than 0", *_zero(sum(code != 0 for code in codes))
        ),
        Row("tracebacks of replicas", *_zero(errors.count("Traceback"))),
        Row("seconds", f"{time.monotonic() - began:.0f}"),
    ]
    return rows, errors


@asynccontextmanager
async def _site(settings: Settings) -> AsyncIterator[Site]:
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as folder,
        ValkeyServer(keep=True) as store,
    ):
        fleet = Fleet(Path(folder), settings.replicas, store.url, PREFIX, settings.lease)
        ports = [replica.port for replica in fleet.replicas]
        async with fleet, Proxy(ports, settings.seed) as proxy:
            yield Site(fleet, store, proxy, Striker(fleet, store, proxy))


async def _under_faults(site: Site, settings: Settings) -> list[Reading]:
    """Read all streams through the proxy while things go wrong."""
    faults = plan(settings.seed, settings.seconds, settings.faults)
    length = settings.seconds / 4
    orders = [
        settings.order(f"s{settings.seed}-{number}", settings.packets, length)
        for number in range(settings.streams)
    ]
    striking = asyncio.ensure_future(site.striker.strike(faults))
    cutting = asyncio.ensure_future(
        site.striker.cut(settings.cut_every, settings.seconds, settings.seed)
    )
    try:
        async with client_for(site.proxy.url) as client:
            readings = await read_spread(client, orders, settings.seconds - length / 2)
        await striking
    finally:
        for task in (striking, cutting):
            task.cancel()
        await asyncio.wait({striking, cutting})
    return readings


async def _under_flood(
    site: Site, settings: Settings, descriptors: int
) -> tuple[list[Reading], list[bool]]:
    """Read streams of one replica, begun before and during a flood of half-open connections."""
    wanted = affordable(descriptors)
    number = wanted if settings.half_open is None else min(wanted, settings.half_open)
    if not number:
        return [], []
    replica = site.fleet.replicas[0]
    before, during = (
        [settings.order(f"{when}{settings.seed}-{turn}", 100, 6.0) for turn in range(20)]
        for when in ("before", "during")
    )
    async with client_for(replica.url) as client:
        reading = asyncio.ensure_future(read_spread(client, before, 0.5))
        async with half_open(replica.port, number) as socks:
            readings = await read_spread(client, during, 2.0)
            readings += await reading
            return readings, [still_open(sock) for sock in socks]


def _stale_rows(stale: Sequence[Reading], notes: Notes) -> list[Row]:
    fenced = sum(reading.stream_id in notes.fenced for reading in stale)
    return [
        Row("two producers forced onto one stream", str(len(stale))),
        Row("of these the stale one fenced", str(fenced), fenced == len(stale)),
    ]


def _flood_rows(beside: Sequence[Reading], opened: Sequence[bool]) -> list[Row]:
    if not opened:
        return []
    slowest = max(reading.first_after or 0.0 for reading in beside)
    return [
        Row("half-open connections to one replica", str(len(opened))),
        Row("of these still open at the end", str(sum(opened))),
        Row("streams beside them", str(len(beside))),
        Row("of these stopped", *_zero(sum(reading.end != COMPLETE for reading in beside))),
        Row("of these reconnected", str(sum(reading.reconnects > 0 for reading in beside))),
        Row("their slowest first packet", f"{slowest:.2f} s"),
    ]


async def _stored(url: str, readings: Sequence[Reading]) -> dict[UUID, int]:
    """Ask the store itself how far each stream came."""
    log = ValkeyStreamLog(url, prefix=PREFIX)
    await log.start("driver")
    try:
        stored: dict[UUID, int] = {}
        for reading in readings:
            meta = await log.find(f"{AGENT_ID}/{ANYBODY}", reading.request.request_id)
            if meta is not None:
                stored[meta.stream_id] = meta.last_seq
        return stored
    finally:
        await log.stop("driver")


def _zero(value: int) -> tuple[str, bool]:
    return str(value), value == 0
