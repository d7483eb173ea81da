"""One run from a seed: load and faults, half-open connections, pressure, and the table."""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from ..server.log.valkey_server import ValkeyServer
from .content import Order
from .durable import durable_rows, durable_under_faults
from .failover import POSTGRES_FAILOVERS, Size, failover_rows
from .faults import Store
from .fulldisk import TcpPostgres, full_disk_rows
from .growth import growth_rows
from .halfopen import affordable, half_open, still_open
from .options import ReplicaOptions
from .pressure import PREFIX as PRESSED_PREFIX
from .pressure import PRINCIPAL, pressed_fleet, under_pressure
from .readers import client_for, read_spread
from .replica import set_descriptor_limit
from .site import Account, Part, Settings, Site, account_rows, order, read_under_faults, started
from .talking import talking_rows
from .tally import COMPLETE, Notes, Reading, Row, plain, titled, zero

__all__ = ["Part", "Settings", "soak", "under_faults"]

PREFIX = "soak"
# Of the parts on Postgres, which are smaller.
_POSTGRES_STREAMS, _POSTGRES_PACKETS, _POSTGRES_SECONDS = 60, 100, 12.0
_POSTGRES_SIZE = Size(copies=1, replicas=(2, 2), words=80)


async def soak(settings: Settings) -> tuple[list[Row], str]:
    """Run once; return the table and the stderr of the replicas."""
    began = time.monotonic()
    accounts, errors = [], ""
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as folder,
        ValkeyServer(keep=True) as store,
    ):
        async with asyncio.timeout(settings.deadline):
            if settings.part in ("all", "faults"):
                accounts.append(await under_faults(Path(folder, "faults"), store, settings))
            if settings.part in ("all", "pressure"):
                accounts.append(await _pressure(Path(folder, "pressure"), store, settings.seed))
            rows: list[Row] = []
            if accounts:
                rows = [
                    *account_rows(accounts),
                    plain("seconds", f"{time.monotonic() - began:.0f}"),
                ]
            if settings.part in ("all", "durable"):
                durable, more = await durable_rows(Path(folder, "durable"), store, settings)
                rows, errors = [*rows, *durable], errors + more
            if settings.part in ("all", "failover"):
                failed, more = await failover_rows(Path(folder, "failover"), settings.seed)
                rows, errors = [*rows, *failed], errors + more
            if settings.part in ("all", "postgres"):
                found, more = await _postgres(Path(folder, "postgres"), settings)
                rows, errors = [*rows, *found], errors + more
            if settings.part in ("all", "talking"):
                found, more = await talking_rows(Path(folder, "talking"), settings)
                rows, errors = [*rows, *found], errors + more
    return rows, errors_of(accounts) + errors


def errors_of(accounts: Sequence[Account]) -> str:
    """Return the stderr of all replicas."""
    return "".join(account.errors for account in accounts)


async def under_faults(folder: Path, store: Store, settings: Settings) -> Account:
    """Kill, freeze, cut and restart; then hold connections half open."""
    descriptors = set_descriptor_limit()
    account = Account()
    options = ReplicaOptions(url=store.url, prefix=PREFIX, lease=settings.lease)
    async with started(folder, store, options, settings) as site:
        account.readings = [
            Reading.of(order(settings, f"s{settings.seed}-{number}"))
            for number in range(settings.streams)
        ]
        await read_under_faults(site, settings, account.readings)
        beside, opened = await _under_flood(site, settings, descriptors)
        stale = site.striker.stale
        account.readings += [*stale, *beside]
        await account.close(site.fleet, store, PREFIX)
    account.rows = [
        *_stale_rows(stale, Notes.parse(account.notes)),
        *site.rows(),
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


async def _postgres(folder: Path, settings: Settings) -> tuple[list[Row], str]:
    """Run smaller forms of the other parts on Postgres; return their tables, and the stderr."""
    seed = settings.seed
    small = replace(
        settings,
        streams=min(settings.streams, _POSTGRES_STREAMS),
        packets=min(settings.packets, _POSTGRES_PACKETS),
        seconds=min(settings.seconds, _POSTGRES_SECONDS),
        faults={"kill": 2, "pause": 1, "restart": 1, "freeze": 1},
        cuts_store=True,
        half_open=0,
    )
    parts = (
        partial(faults_on_postgres, folder / "faults", small),
        partial(full_disk_rows, folder / "full", seed),
        partial(failover_rows, folder / "failover", seed, _POSTGRES_SIZE, POSTGRES_FAILOVERS),
        *((growth_rows,) if seed == 1 else ()),  # once: it depends on no chance
    )
    rows: list[Row] = []
    errors = ""
    for part in parts:
        try:
            found, more = await part()
        except pytest.skip.Exception as skipped:
            found, more = [plain("skipped", skipped.msg)], ""
        rows, errors = [*rows, *titled("Postgres", found)], errors + more
    return rows, errors


async def faults_on_postgres(folder: Path, settings: Settings) -> tuple[list[Row], str]:
    """Run the faults of the first part, and those of durable agents."""
    with TcpPostgres() as store:
        account = await under_faults(folder / "plain", store, settings)
        durable, errors = await durable_under_faults(
            folder / "durable", store, settings, long=False
        )
    return [*account_rows([account]), *durable], account.errors + errors


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
