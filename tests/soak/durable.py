"""Durable agents under the faults of the first part, and a rolling restart of their replicas.

Half of the clients understand REWIND. The first table has agents that write the same text in every
run, so all answers are complete. In the second table one step writes other text in each run: its
answers are complete for clients that understand REWIND, and the others never get two runs.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from ..server.log.valkey_server import ValkeyServer
from .content import Order
from .durable_tally import DifferingReading, differing_rows, hand_over_rows
from .faults import Store, until
from .options import ReplicaOptions
from .readers import client_for, read_spread
from .site import Account, Settings, Site, order, read_under_faults, started
from .tally import COMPLETE, Notes, Reading, Row, count, plain, titled, zero

PREFIX = "durable"
ROLLED_PREFIX = "rolled"
_SAME = 40  # more streams than in the first part, for those that it has beside the flood
_DIFFERING = 60
_ROLLED = 100
_ROLL_DRAIN = 1.0
_ROLL_LENGTH = 16.0  # longer than the restarts of all replicas
_CONTINUED_WITHIN = 2.0


async def durable_rows(
    folder: Path, store: ValkeyServer, settings: Settings
) -> tuple[list[Row], str]:
    """Return the tables of durable agents and the stderr of the replicas."""
    rows, errors = await durable_under_faults(folder, store, settings)
    with ValkeyServer() as other:  # it does not crash, so it need not keep anything
        rolled, more = await rolling_restart(folder / "rolled", other, settings, _ROLLED)
    return [*rows, *rolled], errors + more


async def durable_under_faults(
    folder: Path, store: Store, settings: Settings, *, long: bool = True
) -> tuple[list[Row], str]:
    """Return the tables of durable agents under faults, and the stderr of the replicas."""
    same, differing = _same(settings), _differing(settings)
    options = ReplicaOptions(url=store.url, prefix=PREFIX, lease=settings.lease, durable=True)
    account = Account()
    async with started(folder, store, options, settings) as site:
        await read_under_faults(site, settings, _mixed(same, differing))
        same += site.striker.stale
        account.readings = [*same, *differing]
        await account.close(site.fleet, store, PREFIX)
    notes = Notes.parse(account.notes)
    rows = [
        *count(same, notes, _of(account, same)),
        zero("streams not complete", sum(reading.end != COMPLETE for reading in same)),
        plain("restarts of agents", notes.restarts),
        *site.rows(),
        *_process_rows(account),
    ]
    other = [
        *count(differing, notes, _of(account, differing)),
        *differing_rows(differing, long=long),
    ]
    return [*titled("durable", rows), *titled("durable, other text", other)], account.errors


def _same(settings: Settings) -> list[Reading]:
    number = settings.streams + _SAME
    return [
        Reading.of(order(settings, f"same{settings.seed}-{turn}", rewinds=turn % 2 == 0))
        for turn in range(number)
    ]


def _differing(settings: Settings) -> list[DifferingReading]:
    number = min(_DIFFERING, settings.streams)
    return [
        DifferingReading.of(
            order(settings, f"other{settings.seed}-{turn}", differs=True, rewinds=turn % 2 == 0)
        )
        for turn in range(number)
    ]


def _mixed(same: Sequence[Reading], differing: Sequence[Reading]) -> list[Reading]:
    """Return the streams of both tables in the order of their starts, spread evenly."""
    placed = [
        (turn / len(group), reading)
        for group in (same, differing)
        for turn, reading in enumerate(group)
    ]
    return [reading for _, reading in sorted(placed, key=lambda pair: pair[0])]


async def rolling_restart(
    folder: Path,
    store: ValkeyServer,
    settings: Settings,
    streams: int,
    seconds: float = _ROLL_LENGTH,
    *,
    continued_within: float = _CONTINUED_WITHIN,
) -> tuple[list[Row], str]:
    """Stop and replace each replica in turn while streams are open, each of them for some time."""
    options = ReplicaOptions(
        url=store.url,
        prefix=ROLLED_PREFIX,
        lease=settings.lease,
        durable=True,
        drain_timeout=_ROLL_DRAIN,
    )
    account = Account()
    account.readings = [
        Reading.of(Order.lasting(f"rolled{settings.seed}-{turn}", settings.packets, seconds))
        for turn in range(streams)
    ]
    async with started(folder, store, options, settings) as site:
        codes = await _roll(site, account.readings)
        await account.close(site.fleet, store, ROLLED_PREFIX)
        account.codes += codes
    notes = Notes.parse(account.notes)
    rows = [
        *count(account.readings, notes, account.stored),
        *hand_over_rows(account.readings, notes, continued_within),
        *_process_rows(account),
    ]
    return titled("rolling restart", rows), account.errors


async def _roll(site: Site, readings: Sequence[Reading]) -> list[int | None]:
    """Read streams while each replica is stopped and replaced; return the exit codes."""
    codes: list[int | None] = []
    async with client_for(site.proxy.url) as client:
        reading = asyncio.ensure_future(read_spread(client, readings, 1.0))
        await until(lambda: all(one.stream_id is not None for one in readings))
        for replica in site.fleet.replicas:
            codes.append(await replica.leave())
            await replica.start()
        await reading
    return codes


def _of(account: Account, readings: Sequence[Reading]) -> dict[UUID, int]:
    known = {reading.stream_id for reading in readings}
    return {id_: last for id_, last in account.stored.items() if id_ in known}


def _process_rows(account: Account) -> list[Row]:
    return [
        zero("replicas with an exit code other than 0", sum(code != 0 for code in account.codes)),
        zero("tracebacks of replicas", account.errors.count("Traceback")),
    ]
