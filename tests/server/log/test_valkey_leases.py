"""Leases are renewed together, and a stream may be released while its lease is being renewed."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

import pytest

from coreason_client.server.log.base import AgentVersion, LeaseState, NewStream
from coreason_client.server.log.valkey._session import Indexes
from coreason_client.server.log.valkey._store import Store

from ..aio import aio
from .valkey_logs import logs

AGENT = AgentVersion("writer", "1")


@pytest.mark.proves("DUR-11-hand-over")
@aio
async def test_the_renewal_does_not_delay_the_next_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    reached, gate = asyncio.Event(), asyncio.Event()
    extend = Indexes.extend_leases

    async def gated(self: Indexes, streams: Mapping[UUID, str], until: float) -> None:
        reached.set()
        await gate.wait()
        await extend(self, streams, until)

    # With one clock for both: their estimates of the store's clock may differ by a round trip.
    async with logs(2, clock=time.time) as (log, other):
        new = NewStream(uuid4(), "ann", uuid4(), "print", b"question", AGENT)
        id_ = (await log.open(new, "me")).meta.stream_id
        monkeypatch.setattr(Indexes, "extend_leases", gated)
        renewal = asyncio.create_task(log.renew({id_: 1}))
        await reached.wait()
        release = asyncio.create_task(log.release(id_, 1))
        await asyncio.wait({release}, timeout=0.1)
        gate.set()
        await asyncio.gather(renewal, release)
        assert [claim.stream_id for claim in await other.claim_durable("b", AGENT, 9)] == [id_]


@aio
async def test_many_leases_are_renewed_in_few_commands_each_with_its_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with logs(2) as (log, other):
        streams = [
            NewStream(uuid4(), "ann", uuid4(), "print", b"", AGENT if number % 7 == 0 else None)
            for number in range(250)
        ]
        for stream in streams:
            await log.open(stream, "me")
        held = {stream.stream_id: 1 for stream in streams}
        cancelled, ended = streams[3].stream_id, streams[120].stream_id
        await other.request_cancel(cancelled)
        await other.close(ended, 1, 1, [b"end"], "complete")
        unknown, old = uuid4(), streams[249].stream_id
        expected = dict.fromkeys(held, LeaseState.HELD) | {
            cancelled: LeaseState.CANCEL_REQUESTED,
            **dict.fromkeys((ended, unknown, old), LeaseState.LOST),
        }
        sent: list[int] = []
        script = Store.script

        def counted(self: Store, *arguments: Any) -> Any:
            sent.append(len(arguments[1]))
            return script(self, *arguments)

        monkeypatch.setattr(Store, "script", counted)
        states = await log.renew(held | {unknown: 1, old: 2})
        assert dict(states) == expected
        assert len(sent) < 40  # three for the leases, and one for each part of an index
        assert dict(await log.renew({})) == {}
