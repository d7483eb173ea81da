"""Replicas on one real store while a replica is killed, connections break and the store pauses.

The small sister of `python -m tests.soak`, with the same parts and the same count.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from starlette.datastructures import Headers

from coreason_client.server import AgentApp, AgentStream, LogUnavailable, MemoryStreamLog
from coreason_client.server.engine._packets import Frames
from coreason_client.server.log.base import NewStream
from coreason_client.sse import SSEDecoder
from coreason_manifest.definitions.presentation import (
    Packet,
    PresentationEvent,
    PresentationEventType,
    ProgressUpdate,
    StreamOpCode,
    parse_packet,
)
from coreason_manifest.definitions.service import ServiceRequest

from ..server.aio import aio, turns
from ..soak.content import Order, ends_burst, text_of
from ..soak.faults import Kind, plan
from ..soak.fulldisk import TcpPostgres
from ..soak.run import Settings, soak, under_faults
from ..soak.site import account_rows
from ..soak.tally import Notes, Reading, Row, count


@pytest.mark.proves("RES2-10a", "RES2-10c", "RES2-promise-crash")
def test_nothing_is_lost_doubled_or_left_waiting() -> None:
    settings = Settings(
        seed=20,
        streams=20,
        packets=60,
        replicas=2,
        seconds=3.5,
        lease=1.5,
        faults={"kill": 1, "pause": 1},
        cut_every=0.4,
        half_open=0,
        part="faults",
    )
    rows, words = asyncio.run(soak(settings))
    table = {row.name: row.value for row in rows}
    assert wrong(rows) == [], words
    assert table["streams"] == "20"
    assert table["kills"] == table["pauses of the store"] == "1"
    assert int(table["connections cut"]) > 0
    assert int(table["packets delivered"]) >= int(table["packets acknowledged"]) > 20


def test_nothing_is_lost_doubled_or_left_waiting_on_postgres(tmp_path: Path) -> None:
    settings = Settings(
        seed=20,
        streams=20,
        packets=60,
        replicas=2,
        seconds=3.5,
        lease=1.5,
        faults={"kill": 1, "restart": 1},
        cut_every=0.4,
        cuts_store=True,
        half_open=0,
    )
    with TcpPostgres() as store:
        account = asyncio.run(under_faults(tmp_path, store, settings))
    rows = account_rows([account])
    table = {row.name: row.value for row in rows}
    assert wrong(rows) == [], account.errors
    assert table["kills"] == table["restarts of the store"] == "1"
    assert int(table["packets delivered"]) >= int(table["packets acknowledged"]) > 20


def test_a_plan_follows_from_its_seed() -> None:
    numbers: dict[Kind, int] = {"kill": 3, "pause": 2, "restart": 1, "freeze": 1}
    faults = plan(1, 60, numbers)
    assert faults == plan(1, 60, numbers)
    assert faults != plan(2, 60, numbers)
    assert sorted(fault.kind for fault in faults) == sorted(
        kind for kind, number in numbers.items() for _ in range(number)
    )
    assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)
    assert all(0 <= fault.at < 60 for fault in faults)


# The count itself: each flaw, planted, shows in its row and nowhere else.

ORDER = Order("s", 7, 0.0)
LAST = ORDER.packets + 1


def packet(stream_id: UUID, seq: int, text: str | None = None) -> Packet:
    said = text_of(ORDER.name, seq) if text is None else text
    shown: tuple[StreamOpCode, object] = (StreamOpCode.DELTA, said)
    if seq == LAST:
        shown = (StreamOpCode.CLOSE, {"reason": "complete"})
    elif ends_burst(seq):
        progress = ProgressUpdate(label=said, status="running")
        kind = PresentationEventType.PROGRESS_INDICATOR
        shown = (StreamOpCode.EVENT, PresentationEvent(type=kind, data=progress))
    frame, _ = Frames(stream_id).packet(seq, *shown)
    (event,) = SSEDecoder().feed(frame)
    return parse_packet(event.data_bytes)


def read(packets: Sequence[Packet], *, complete: bool = True) -> Reading:
    reading = Reading.of(ORDER)
    for item in packets:
        reading.take(item, 0.0)
    if complete:
        reading.complete()
    return reading


def counted(
    readings: Sequence[Reading], *more: str, stream_id: UUID, stored: int = LAST
) -> list[str]:
    notes = [f"begin {stream_id} {readings[0].request.request_id}", f"ack {stream_id} 1 1 {LAST}"]
    return wrong(count(readings, Notes.parse([*notes, *more]), {stream_id: stored}))


def wrong(rows: Sequence[Row]) -> list[str]:
    return [row.name for row in rows if row.right is False]


def test_a_stream_as_it_should_be_is_counted_as_right() -> None:
    stream_id = uuid4()
    packets = [packet(stream_id, seq) for seq in range(1, LAST + 1)]
    assert counted([read(packets)], stream_id=stream_id) == []


FLAWS: dict[str, tuple[Callable[[list[Packet], UUID], list[Packet]], set[str]]] = {
    "a packet twice": (lambda good, _: [*good[:3], good[2], *good[3:]], {"doubled"}),
    "two changed places": (
        lambda good, _: [good[0], good[2], good[1], *good[3:]],
        {"out of order"},
    ),
    "another stream": (lambda good, _: [*good[:3], packet(uuid4(), 4), *good[4:]], {"spliced"}),
    "other words": (
        lambda good, own: [*good[:3], packet(own, 4, "other"), *good[4:]],
        {"wrong content"},
    ),
    "a hole": (
        lambda good, _: [*good[:3], *good[4:]],
        {
            "lost: acknowledged and not delivered",
            "lost: in the store and not delivered",
            "lost: holes in the numbers",
            "complete without all packets",
        },
    ),
    "no end": (
        lambda good, _: good[:-1],
        {
            "lost: acknowledged and not delivered",
            "lost: in the store and not delivered",
            "complete without all packets",
        },
    ),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flaw_is_counted(flaw: str) -> None:
    stream_id = uuid4()
    spoil, expected = FLAWS[flaw]
    packets = spoil([packet(stream_id, seq) for seq in range(1, LAST + 1)], stream_id)
    assert set(counted([read(packets)], stream_id=stream_id)) == expected


def test_what_the_replicas_and_the_store_say_is_counted() -> None:
    own, other = uuid4(), uuid4()
    packets = [packet(own, seq) for seq in range(1, LAST + 1)]
    good = read(packets)
    twice = f"begin {other} {good.request.request_id}"
    assert counted([good], twice, stream_id=own) == ["requests generated twice"]
    assert counted([good], f"unfenced {own} 9", stream_id=own) == ["late appends that got through"]
    assert set(counted([good], stream_id=own, stored=6)) == {
        "lost: acknowledged and not in the store",
        "lost: in the store and not delivered",
    }
    unread = read(packets[:3], complete=False)
    unread.end = "hung"
    assert counted([unread], stream_id=own) == [
        "streams not read to their end",
        "streams that hung",
    ]


def test_a_typed_end_is_right_when_all_before_it_was_delivered() -> None:
    own = uuid4()
    reading = read([packet(own, seq) for seq in range(1, 4)], complete=False)
    reading.ended_with("producer_lost", own, 4, 0.0)
    notes = Notes.parse([f"ack {own} 1 1 3", f"ack {own} 2 4 1", f"takeover {own} 2"])
    assert wrong(count([reading], notes, {own: 4})) == []
    notes = Notes.parse([f"ack {own} 1 1 4", f"ack {own} 2 5 1"])
    assert "lost: acknowledged and not delivered" in wrong(count([reading], notes, {own: 5}))


# What the fire has taught: streams that run survive a store that was away.


class Shared(MemoryStreamLog):
    shared = True


async def silent(request: ServiceRequest, stream: AgentStream) -> None:
    await asyncio.Event().wait()


async def lost_streams(log: MemoryStreamLog, number: int) -> list[UUID]:
    """Make streams whose producer is gone; their lease has run out when the clock has moved."""
    ids = [uuid4() for _ in range(number)]
    for stream_id in ids:
        await log.open(NewStream(stream_id, "one/anybody", uuid4(), "print"), "dead")
    return ids


@aio
async def test_others_get_time_to_renew_after_the_store_was_away() -> None:
    now = [1000.0]
    log = Shared(clock=lambda: now[0])
    app = AgentApp(silent, log=log, agent_id="one")
    async with app.lifespan():
        assert app._runtime is not None
        runtime = app._runtime
        (stream_id,) = await lost_streams(log, 1)
        now[0] += log.lease + 1
        for _ in range(2):
            runtime.upkeep._renewed_at -= log.lease  # as if the renewal had taken so long
            await runtime.upkeep.once()
            assert (await log.meta(stream_id)).outcome is None
        runtime.upkeep._renewed_at -= log.lease  # always late: it ends all the same
        await runtime.upkeep.once()
        assert (await log.meta(stream_id)).outcome == "producer_lost"
        (stream_id,) = await lost_streams(log, 1)
        now[0] += log.lease + 1
        await runtime.upkeep.once()  # in time, so nothing speaks for the producer
        assert (await log.meta(stream_id)).outcome == "producer_lost"


@aio
async def test_a_start_does_not_bury_what_others_may_still_renew() -> None:
    now = [1000.0]
    log = Shared(clock=lambda: now[0])
    await log.start("dead")
    (stream_id,) = await lost_streams(log, 1)
    now[0] += log.lease + 1
    app = AgentApp(silent, log=log, agent_id="one")
    async with app.lifespan():
        assert (await log.meta(stream_id)).outcome is None
        assert app._runtime is not None
        await app._runtime.upkeep.once()
        assert (await log.meta(stream_id)).outcome == "producer_lost"


@aio
async def test_many_lost_streams_are_ended_together() -> None:
    now = [1000.0]

    class Slow(Shared):
        at_once = 0
        most = 0

        async def close(self, *args: Any) -> None:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            await turns(3)
            self.at_once -= 1
            await super().close(*args)

    log = Slow(clock=lambda: now[0])
    app = AgentApp(silent, log=log, agent_id="one")
    async with app.lifespan():
        assert app._runtime is not None
        ids = await lost_streams(log, 150)
        now[0] += log.lease + 1
        await app._runtime.upkeep.once()
        assert {(await log.meta(id_)).outcome for id_ in ids} == {"producer_lost"}
        assert log.most == 100


@pytest.mark.parametrize("work", ["claim_lost", "expire"])
@pytest.mark.parametrize("fails", [False, True])
@aio
async def test_our_own_leases_are_renewed_while_the_rest_takes_long(work: str, fails: bool) -> None:
    renewals = asyncio.Semaphore(0)

    class Slow(Shared):
        async def renew(self, held: Any) -> Any:
            renewals.release()
            return await super().renew(held)

        async def _long(self) -> None:
            for _ in range(3):
                await renewals.acquire()
            if fails:
                raise LogUnavailable("not now")

        async def claim_lost(self, owner: str, limit: int) -> Any:
            if work == "claim_lost":
                await self._long()
            return await super().claim_lost(owner, limit)

        async def expire(self, retention: float, final_retention: float) -> None:
            if work == "expire":
                await self._long()

    log = Slow(lease=0.5)
    app = AgentApp(silent, log=log, agent_id="one", drain_timeout=0)
    async with app.lifespan():
        assert app._runtime is not None
        runtime = app._runtime
        own = await log.open(NewStream(uuid4(), "one/anybody", uuid4(), "print"), runtime.owner)
        runtime.producers.start(ORDER.request(), own.meta, Headers({}), 0.0)
        await runtime.upkeep.once()
        assert bool(runtime.upkeep.failing) is fails
