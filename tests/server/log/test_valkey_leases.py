"""A stream that is released while its lease is being renewed."""

import asyncio
from collections.abc import Mapping
from uuid import UUID, uuid4

import pytest

from coreason_client.server.log.base import AgentVersion, NewStream
from coreason_client.server.log.valkey._indexes import Indexes

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

    async with logs(2) as (log, other):
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
