"""A disk of Postgres that is full for a while, as streams are written and read.

As long as the files of its WAL suffice, the server refuses what needs another page of a table. A
server that needs another file of its WAL ends; it is started again when the disk is free.
"""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from coreason_client.server.log.postgres._errors import DATABASE_ERRORS

from ..server.log.postgres_server import PostgresServer
from .content import Order
from .faults import until
from .fleet import Fleet
from .options import ReplicaOptions
from .readers import client_for, read_spread
from .site import Account, account_rows
from .tally import COMPLETE, Reading, Row, plain, some, titled, zero

_SIZE = 200_000_000
_REPLICAS = 2  # of the plain agent, and of the durable one
_STREAMS, _PACKETS = 20, 100
_LEASE = 2.0
_PATIENCE = 1.5
_FULL = 4.0  # seconds


class TcpPostgres(PostgresServer):
    """A server whose address has a port, so that a proxy can be put before it."""

    @property
    def url(self) -> str:
        return self.tcp_url


async def full_disk_rows(folder: Path, seed: int) -> tuple[list[Row], str]:
    """Return the table of a full disk and the stderr of the replicas."""
    print("  full disk", file=sys.stderr)
    async with AsyncExitStack() as stack:
        store = await asyncio.to_thread(lambda: TcpPostgres(size_limit=_SIZE))
        stack.callback(store.close)
        fleets = _fleets(folder, store.url)
        await asyncio.gather(*map(stack.enter_async_context, fleets))
        accounts = [Account(_readings(f"{kind}{seed}")) for kind in ("plain", "durable")]
        exited = await _fill(store, fleets, accounts, ends=seed % 2 == 1)
        for account, fleet, prefix in zip(accounts, fleets, ("plain", "durable"), strict=True):
            await account.close(fleet, store, prefix)
    rows = titled("full disk", _rows(accounts, exited=exited))
    return rows, "".join(account.errors for account in accounts)


def _fleets(folder: Path, url: str) -> list[Fleet]:
    options = ReplicaOptions(url=url, prefix="plain", lease=_LEASE, patience=_PATIENCE)
    durable = replace(options, prefix="durable", durable=True)
    return [Fleet(folder / each.prefix, [each] * _REPLICAS) for each in (options, durable)]


def _readings(name: str) -> list[Reading]:
    """Return streams of which the first half begins before the disk is full."""
    return [
        Reading.of(Order.lasting(f"{name}-{turn}", _PACKETS, 6.0 if turn < _STREAMS // 2 else 2.0))
        for turn in range(_STREAMS)
    ]


async def _fill(
    store: TcpPostgres, fleets: Sequence[Fleet], accounts: Sequence[Account], *, ends: bool
) -> bool:
    """Fill the disk for a while; return True if the server ended by itself meanwhile."""
    half = _STREAMS // 2
    before, during = (
        [account.readings[part] for account in accounts]
        for part in (slice(half), slice(half, None))
    )
    reading = _read_all(fleets, before, 1.0)
    await until(lambda: all(one.stream_id is not None for group in before for one in group))
    connection = await asyncpg.connect(store.url)  # a full disk may refuse new ones
    await asyncio.to_thread(store.fill_disk)
    reading += _read_all(fleets, during, _FULL)
    if ends:
        await _use_up_wal(connection)
    await asyncio.sleep(_FULL)
    connection.terminate()
    exited = store.exited
    store.free_disk()
    if exited:
        await asyncio.to_thread(store.start)
    await asyncio.gather(*reading)
    return exited


async def _use_up_wal(connection: Any) -> None:
    """Begin a new file of the WAL until the server cannot create one."""
    with suppress(*DATABASE_ERRORS):  # the connection is lost then
        for _ in range(20):
            await connection.execute("SELECT pg_switch_wal()")
            await asyncio.sleep(0.1)  # a file that is empty is not switched


def _read_all(
    fleets: Sequence[Fleet], groups: Sequence[Sequence[Reading]], spread: float
) -> list[asyncio.Future[None]]:
    return [
        asyncio.ensure_future(_read(fleet.replicas[turn].url, group[turn::_REPLICAS], spread))
        for fleet, group in zip(fleets, groups, strict=True)
        for turn in range(_REPLICAS)
    ]


async def _read(url: str, readings: Sequence[Reading], spread: float) -> None:
    async with client_for(url) as client:
        await read_spread(client, readings, spread)


def _rows(accounts: Sequence[Account], *, exited: bool) -> list[Row]:
    readings = [reading for account in accounts for reading in account.readings]
    durable = accounts[1].readings
    return account_rows(
        accounts,
        plain("the server ended by itself", "yes" if exited else "no"),
        some("requests refused meanwhile", sum(one.asked_again for one in readings)),
        zero("durable streams not complete", sum(one.end != COMPLETE for one in durable)),
    )
