"""A process whose lease ran out claims its own stream again, before it noticed the loss."""

import asyncio
from pathlib import Path

import pytest

from coreason_client.server import AgentApp, SQLiteStreamLog
from coreason_client.server.engine._packets import CANCELLED
from coreason_client.server.log import LeaseState

from ..aio import aio
from ..faulty_log import runtime_of
from .test_hand_over import durable, start


@aio
async def test_the_new_producer_replaces_the_old_one(tmp_path: Path) -> None:
    now = [1000.0]
    log = SQLiteStreamLog(tmp_path / "log.db", clock=lambda: now[0])
    app = durable(log)
    async with app.lifespan():
        runtime = runtime_of(app)
        await start(app, 1)
        (old,) = runtime.producers
        await claim_again(app, now)
        (new,) = runtime.producers
        assert new is not old
        epoch = (await log.meta(new.meta.stream_id)).epoch
        assert epoch > old.meta.epoch
        assert runtime.producers.held_leases() == {new.meta.stream_id: epoch}
        new.stop(CANCELLED)
        await asyncio.wait({new.task})
        assert len(runtime.producers) == 0
        assert (await log.meta(new.meta.stream_id)).outcome == "cancelled"


@aio
async def test_a_late_answer_about_the_old_lease_does_not_stop_the_new_producer(
    tmp_path: Path,
) -> None:
    now = [1000.0]

    class Late(SQLiteStreamLog):
        """Answers a renewal after the stream was claimed again."""

        async def renew(self, held):  # type: ignore[no-untyped-def]
            now[0] += self.lease + 1
            takeover = runtime_of(app).takeover
            assert takeover is not None
            await takeover.once()
            return dict.fromkeys(held, LeaseState.LOST)

    app = durable(Late(tmp_path / "log.db", clock=lambda: now[0]))
    async with app.lifespan():
        runtime = runtime_of(app)
        await start(app, 1)
        await runtime.upkeep.once()
        (new,) = runtime.producers
        assert new.meta.epoch == (await app.log.meta(new.meta.stream_id)).epoch > 1
        assert not new.ended


@aio
async def test_the_readers_of_the_old_producer_are_those_of_the_new_one(tmp_path: Path) -> None:
    now = [1000.0]
    log = SQLiteStreamLog(tmp_path / "log.db", clock=lambda: now[0])
    app = durable(log, on_abandoned="cancel", abandon_grace=0.01)
    async with app.lifespan():
        producers = runtime_of(app).producers
        await start(app, 1)
        (old,) = producers
        for _ in range(2):
            unit = await producers.take_reader(old.meta.principal)
            assert unit is not None
            producers.add_reader(old.meta, unit)
        await claim_again(app, now)
        (new,) = producers
        producers.remove_reader(old.meta)
        assert new.abandon_timer is None
        producers.remove_reader(old.meta)
        await asyncio.wait({new.task})
        assert (await log.meta(new.meta.stream_id)).outcome == "abandoned"


@pytest.mark.proves("DUR-8-claims")
@aio
async def test_without_readers_the_time_to_the_cancel_begins_with_the_claim(
    tmp_path: Path,
) -> None:
    now = [1000.0]
    log = SQLiteStreamLog(tmp_path / "log.db", clock=lambda: now[0])
    app = durable(log, on_abandoned="cancel", abandon_grace=0.01)
    async with app.lifespan():
        await start(app, 1)
        (old,) = runtime_of(app).producers
        assert old.abandon_timer is None
        await claim_again(app, now)
        (new,) = runtime_of(app).producers
        await asyncio.wait({new.task})
        assert (await log.meta(new.meta.stream_id)).outcome == "abandoned"


async def claim_again(app: AgentApp, now: list[float]) -> None:
    """Let the lease of the only stream run out, and continue it."""
    (old,) = runtime_of(app).producers
    now[0] += app.log.lease + 1
    takeover = runtime_of(app).takeover
    assert takeover is not None
    await takeover.once()
    await asyncio.wait({old.task})
