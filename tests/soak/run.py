"""One run from a seed: load and faults, half-open connections, pressure, and the table."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias
from uuid import UUID

from coreason_client.server import ValkeyStreamLog
from coreason_client.server.http._auth import ANONYMOUS

from ..server.log.valkey_server import ValkeyServer
from .content import Order
from .faults import Kind, Striker, plan
from .fleet import Fleet
from .halfopen import affordable, half_open, still_open
from .options import AGENT_ID, ReplicaOptions
from .pressure import PREFIX as PRESSED_PREFIX
from .pressure import PRINCIPAL, pressed_fleet, under_pressure
from .proxy import Proxy
from .readers import client_for, read_spread
from .replica import set_descriptor_limit
from .tally import COMPLETE, Notes, Reading, Row, count, plain, zero

PREFIX = "soak"
_AFTER_FAULTS = 60.0  # seconds until every hanging reader is noticed
_PRESSURE = 240.0  # seconds for the faults of `pressure`

Part: TypeAlias = Literal["all", "faults", "pressure"]


@dataclass(frozen=True, slots=True)
class Settings:
    """The size of a run."""

    seed: int = 1
    streams: int = 300
    packets: int = 200
    replicas: int = 3
    seconds: float = 45.0  # the time in which streams start and faults occur
    lease: float = 3.0
    faults: Mapping[Kind, int] = field(
        default_factory=lambda: {"kill": 5, "pause": 3, "restart": 3, "freeze": 2}
    )
    cut_every: float = 0.25
    half_open: int | None = None  # None: as many as the system allows
    part: Part = "all"

    @property
    def deadline(self) -> float:
        """The longest duration of a run, in seconds."""
        return 3 * self.seconds + 2 * _AFTER_FAULTS + _PRESSURE


@dataclass(slots=True)
class Site:
    """The processes and the proxy of a run."""

    fleet: Fleet
    proxy: Proxy
    striker: Striker


@dataclass(slots=True)
class Account:
    """The data of one part of a run, to be counted at its end."""

    readings: list[Reading] = field(default_factory=list)
    stored: dict[UUID, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    errors: str = ""
    codes: list[int | None] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    async def close(self, fleet: Fleet, store: ValkeyServer, prefix: str, principal: str) -> None:
        """Stop the replicas, and read the last number of each stream from the store."""
        self.codes = await fleet.leave()
        self.stored = await _stored(store.url, prefix, principal, self.readings)
        self.notes, self.errors = list(fleet.notes()), fleet.errors()


async def soak(settings: Settings) -> tuple[list[Row], str]:
    """Run once; return the table and the stderr of the replicas."""
    began = time.monotonic()
    accounts = []
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as folder,
        ValkeyServer(keep=True) as store,
    ):
        async with asyncio.timeout(settings.deadline):
            if settings.part != "pressure":
                accounts.append(await _faults(Path(folder, "faults"), store, settings))
            if settings.part != "faults":
                accounts.append(await _pressure(Path(folder, "pressure"), store, settings.seed))
    return _rows(accounts, time.monotonic() - began), "".join(one.errors for one in accounts)


def _rows(accounts: Sequence[Account], seconds: float) -> list[Row]:
    codes = [code for account in accounts for code in account.codes]
    tracebacks = sum(account.errors.count("Traceback") for account in accounts)
    return [
        *count(
            [reading for account in accounts for reading in account.readings],
            Notes.parse(line for account in accounts for line in account.notes),
            {stream_id: last for account in accounts for stream_id, last in account.stored.items()},
        ),
        *(row for account in accounts for row in account.rows),
        zero("replicas with an exit code other than 0", sum(code != 0 for code in codes)),
        zero("tracebacks of replicas", tracebacks),
        plain("seconds", f"{seconds:.0f}"),
    ]


async def _faults(folder: Path, store: ValkeyServer, settings: Settings) -> Account:
    """Kill, freeze, cut and restart; then hold connections half open."""
    descriptors = set_descriptor_limit()
    account = Account()
    async with _site(folder, store, settings) as site:
        account.readings = await _under_faults(site, settings)
        beside, opened = await _under_flood(site, settings, descriptors)
        stale = site.striker.stale
        account.readings += [*stale, *beside]
        await account.close(site.fleet, store, PREFIX, ANONYMOUS)
    account.rows = [
        *_stale_rows(stale, Notes.parse(account.notes)),
        *(plain(name, number) for name, number in sorted(site.striker.struck.items())),
        plain("connections cut", site.proxy.cuts),
        *_flood_rows(beside, opened),
    ]
    return account


async def _pressure(folder: Path, store: ValkeyServer, seed: int) -> Account:
    """Starve, block, crowd and attack replicas, and fill the store."""
    account = Account()
    fleet, roles = pressed_fleet(folder, store.url, seed)
    async with fleet:
        for episode in await under_pressure(fleet, roles, store, seed):
            account.readings += episode.readings
            account.rows += episode.rows
        await account.close(fleet, store, PRESSED_PREFIX, PRINCIPAL)
    return account


@asynccontextmanager
async def _site(folder: Path, store: ValkeyServer, settings: Settings) -> AsyncIterator[Site]:
    options = ReplicaOptions(url=store.url, prefix=PREFIX, lease=settings.lease)
    fleet = Fleet(folder, [options] * settings.replicas)
    ports = [replica.port for replica in fleet.replicas]
    async with fleet, Proxy(ports, settings.seed) as proxy:
        yield Site(fleet, proxy, Striker(fleet, store, proxy))


async def _under_faults(site: Site, settings: Settings) -> list[Reading]:
    """Read all streams through the proxy while faults occur."""
    faults = plan(settings.seed, settings.seconds, settings.faults)
    length = settings.seconds / 4
    readings = [
        Reading.of(Order.lasting(f"s{settings.seed}-{number}", settings.packets, length))
        for number in range(settings.streams)
    ]
    striking = asyncio.ensure_future(site.striker.strike(faults))
    cutting = asyncio.ensure_future(
        site.striker.cut(settings.cut_every, settings.seconds, settings.seed)
    )
    try:
        async with client_for(site.proxy.url) as client:
            await read_spread(client, readings, settings.seconds - length / 2)
        await striking
    finally:
        for task in (striking, cutting):
            task.cancel()
        await asyncio.wait({striking, cutting})
    return readings


async def _under_flood(
    site: Site, settings: Settings, descriptors: int
) -> tuple[list[Reading], list[bool]]:
    """Read streams that start before and during a flood of half-open connections."""
    wanted = affordable(descriptors)
    number = wanted if settings.half_open is None else min(wanted, settings.half_open)
    if not number:
        return [], []
    replica = site.fleet.replicas[0]
    before, during = (
        [Reading.of(Order.lasting(f"{when}{settings.seed}-{turn}", 100, 6.0)) for turn in range(20)]
        for when in ("before", "during")
    )
    async with client_for(replica.url) as client:
        reading = asyncio.ensure_future(read_spread(client, before, 0.5))
        async with half_open(replica.port, number) as socks:
            await read_spread(client, during, 2.0)
            await reading
            return [*before, *during], [still_open(sock) for sock in socks]


def _stale_rows(stale: Sequence[Reading], notes: Notes) -> list[Row]:
    fenced = sum(reading.stream_id in notes.fenced for reading in stale)
    return [
        plain("two producers forced onto one stream", len(stale)),
        Row("of these the stale one fenced", str(fenced), fenced == len(stale)),
    ]


def _flood_rows(beside: Sequence[Reading], opened: Sequence[bool]) -> list[Row]:
    if not opened:
        return []
    slowest = max(reading.first_after or 0.0 for reading in beside)
    return [
        plain("half-open connections to one replica", len(opened)),
        plain("of these still open at the end", sum(opened)),
        plain("streams beside them", len(beside)),
        zero("of these stopped", sum(reading.end != COMPLETE for reading in beside)),
        plain("of these reconnected", sum(reading.reconnects > 0 for reading in beside)),
        plain("their slowest first packet", f"{slowest:.2f} s"),
    ]


async def _stored(
    url: str, prefix: str, principal: str, readings: Sequence[Reading]
) -> dict[UUID, int]:
    """Read the last number of each stream from the store itself."""
    log = ValkeyStreamLog(url, prefix=prefix)
    await log.start("driver")
    try:
        stored: dict[UUID, int] = {}
        for reading in readings:
            meta = await log.find(f"{AGENT_ID}/{principal}", reading.request.request_id)
            if meta is not None:
                stored[meta.stream_id] = meta.last_seq
        return stored
    finally:
        await log.stop("driver")
