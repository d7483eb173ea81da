"""The processes of a run and what it keeps of them, and streams that are read under faults."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit
from uuid import UUID

from coreason_client.server._names import ANONYMOUS
from coreason_client.server.log.base import DEFAULT_LEASE
from coreason_client.testing import ChaosProxy

from .content import Order
from .faults import Kind, Store, Striker, plan
from .fleet import Fleet
from .logs import make_log
from .options import AGENT_ID, ReplicaOptions
from .readers import client_for, read_spread
from .tally import Notes, Reading, Row, count, plain, some, zero

AFTER_FAULTS = 60.0  # seconds until every hanging reader is noticed
_PRESSURE = 240.0  # seconds for the faults of `pressure`
_ROLLING = 60.0
_FAILOVERS = 300.0
_POSTGRES = 240.0
_TALKING = 240.0

Part: TypeAlias = Literal["all", "faults", "pressure", "durable", "failover", "postgres", "talking"]


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
    cuts_store: bool = False  # also connections between replicas and the store
    half_open: int | None = None  # None: as many as the system allows
    part: Part = "all"

    @property
    def deadline(self) -> float:
        """The longest duration of a run, in seconds."""
        parts = _PRESSURE + _ROLLING + _FAILOVERS + _POSTGRES + _TALKING
        return 6 * self.seconds + 4 * AFTER_FAULTS + parts


@dataclass(slots=True)
class Site:
    """The processes and the proxies of a run."""

    fleet: Fleet
    proxy: ChaosProxy  # before the replicas
    store_proxy: ChaosProxy | None  # before the store
    striker: Striker

    def rows(self) -> list[Row]:
        """Return what has happened to the processes and the connections."""
        found = [
            *(plain(name, number) for name, number in sorted(self.striker.struck.items())),
            plain("connections cut", self.proxy.faults),
        ]
        if self.store_proxy is not None:
            found.append(some("connections to the store cut", self.store_proxy.faults))
        return found


@dataclass(slots=True)
class Account:
    """The data of one part of a run, to be counted at its end."""

    readings: list[Reading] = field(default_factory=list)
    stored: dict[UUID, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    errors: str = ""
    codes: list[int | None] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    async def close(
        self, fleet: Fleet, store: Store, prefix: str, principal: str = ANONYMOUS
    ) -> None:
        """Stop the replicas, and read the last number of each stream from the store."""
        self.codes = await fleet.leave()
        self.stored = await _stored(store.url, prefix, principal, self.readings)
        self.notes, self.errors = list(fleet.notes()), fleet.errors()


def account_rows(accounts: Sequence[Account], *more: Row) -> list[Row]:
    """Return the table of some parts of a run; `more` rows come before those of the processes."""
    codes = [code for account in accounts for code in account.codes]
    tracebacks = sum(account.errors.count("Traceback") for account in accounts)
    return [
        *count(
            [reading for account in accounts for reading in account.readings],
            Notes.parse(line for account in accounts for line in account.notes),
            {stream_id: last for account in accounts for stream_id, last in account.stored.items()},
        ),
        *(row for account in accounts for row in account.rows),
        *more,
        zero("replicas with an exit code other than 0", sum(code != 0 for code in codes)),
        zero("tracebacks of replicas", tracebacks),
    ]


@asynccontextmanager
async def started(
    folder: Path, store: Store, options: ReplicaOptions, settings: Settings
) -> AsyncIterator[Site]:
    """Start the replicas of a run, a proxy before them, and one before the store if it is cut."""
    async with AsyncExitStack() as stack:
        store_proxy = None
        if settings.cuts_store:
            upstream = f"http://127.0.0.1:{store.port}"
            store_proxy = ChaosProxy(upstream, seed=settings.seed, faults=())
            await stack.enter_async_context(store_proxy)
            port = urlsplit(store_proxy.url).port
            options = replace(options, url=store.url.replace(f":{store.port}/", f":{port}/"))
        fleet = Fleet(folder, [options] * settings.replicas)
        urls = [replica.url for replica in fleet.replicas]
        proxy = ChaosProxy(urls, seed=settings.seed, faults=())
        await stack.enter_async_context(fleet)
        await stack.enter_async_context(proxy)
        proxies = [each for each in (proxy, store_proxy) if each is not None]
        striker = Striker(fleet, store, proxies, durable=options.durable)
        yield Site(fleet, proxy, store_proxy, striker)


async def read_under_faults(site: Site, settings: Settings, readings: Sequence[Reading]) -> None:
    """Read streams through the proxy while faults occur."""
    async with client_for(site.proxy.url) as client:
        reading = read_spread(client, readings, settings.seconds - length(settings) / 2)
        await work_under_faults(site, settings, reading)


async def work_under_faults(site: Site, settings: Settings, work: Awaitable[object]) -> None:
    """Do something while faults occur; return when it is done and all processes run again."""
    faults = plan(settings.seed, settings.seconds, settings.faults)
    striking = asyncio.ensure_future(site.striker.strike(faults))
    cutting = asyncio.ensure_future(
        site.striker.cut(settings.cut_every, settings.seconds, settings.seed)
    )
    try:
        await work
        await striking
    finally:
        for task in (striking, cutting):
            task.cancel()
        await asyncio.wait({striking, cutting})


def length(settings: Settings) -> float:
    """Return the duration of one stream."""
    return settings.seconds / 4


def order(settings: Settings, name: str, **more: bool) -> Order:
    """Return the order of one stream under faults."""
    return Order.lasting(name, settings.packets, length(settings), **more)


async def _stored(
    url: str, prefix: str, principal: str, readings: Sequence[Reading]
) -> dict[UUID, int]:
    """Read the last number of each stream from the store itself."""
    log = make_log(ReplicaOptions(url=url, prefix=prefix, lease=DEFAULT_LEASE))
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
