"""The renewal of leases in the place of a blocked event loop."""

import logging
import threading
from uuid import uuid4

import pytest

from coreason_client.server import MemoryStreamLog
from coreason_client.server.engine._watchdog import MAX_BLOCKED, LeaseRescue, renew_in_thread
from coreason_client.server.errors import LogUnavailable
from coreason_client.server.log import NewStream

from ..aio import aio
from ..log.backends import Clock
from ..log.valkey_logs import logs
from ..log.valkey_server import ValkeyServer, fresh_prefix


def test_leases_are_renewed_every_period_for_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now, renewed = 0.0, []
    rescue = LeaseRescue(3.0, lambda: renewed.append(now))
    for _ in range(2):  # a second block is like the first
        renewed.clear()
        caplog.clear()
        for quarters in range(1, 400):
            now = quarters / 4
            rescue.check(now, now)
        assert renewed == [3.0 * number for number in range(1, 21)]
        assert renewed[-1] == MAX_BLOCKED == 60
        [record] = caplog.records
        assert record.levelno == logging.ERROR
        assert "no progress for 60 s: the leases of its streams are no longer" in record.message


def test_a_loop_that_is_blocked_for_less_than_a_period_renews_its_leases_itself() -> None:
    renewed: list[None] = []
    rescue = LeaseRescue(3.0, lambda: renewed.append(None))
    for _ in range(10):
        for quarters in range(1, 12):
            rescue.check(quarters / 4, quarters / 4)
    assert renewed == []


def test_the_time_that_a_process_was_stopped_for_does_not_count_against_it() -> None:
    renewed: list[None] = []
    rescue = LeaseRescue(3.0, lambda: renewed.append(None))
    rescue.check(0.25, 0.25)
    rescue.check(100.0, 0.5)  # at once: the leases are as old as that
    rescue.check(101.0, 1.5)
    rescue.check(103.0, 3.5)
    assert len(renewed) == 2


def test_a_renewal_that_fails_is_reported_and_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tried: list[None] = []

    def renew() -> None:
        tried.append(None)
        raise OSError("no way")

    rescue = LeaseRescue(1.0, renew)
    for second in range(4):
        rescue.check(float(second), float(second))
    assert len(tried) == 3
    assert "leases could not be renewed while the event loop is blocked: OSError('no way')" in (
        caplog.text
    )


def test_leases_are_renewed_on_an_event_loop_of_its_own() -> None:
    clock = Clock()
    log, stream_id = MemoryStreamLog(clock=clock), uuid4()

    @aio
    async def open_stream() -> None:
        await log.open(NewStream(stream_id, "p", uuid4(), "f"), "owner")

    @aio
    async def nothing_is_lost() -> None:
        assert await log.claim_lost("other", 10) == []

    open_stream()
    for _ in range(3):
        clock.forward(log.lease - 1)
        renew_in_thread(log, "owner", {stream_id: 1})
    nothing_is_lost()
    renew_in_thread(log, "owner", {})  # nothing to do


@aio
async def test_leases_are_renewed_on_a_full_store_while_the_event_loop_is_blocked() -> None:
    clock, prefix = Clock(), fresh_prefix()
    with ValkeyServer("--maxmemory-policy", "noeviction") as server:
        async with logs(2, server, prefix=prefix, clock=clock) as (log, other):
            stream = NewStream(uuid4(), "p", uuid4(), "f")
            await log.open(stream, "owner 0")
            server.command("CONFIG", "SET", "maxmemory", 1)
            with pytest.raises(LogUnavailable, match="is full"):
                await log.append(stream.stream_id, 1, 1, [b"entry"])
            failures: list[Exception] = []

            def rescue() -> None:
                try:
                    renew_in_thread(log, "owner 0", {stream.stream_id: 1})
                except Exception as error:  # noqa: BLE001 - the test shows it
                    failures.append(error)

            for _ in range(3):
                clock.forward(log.lease - 1)
                thread = threading.Thread(target=rescue)
                thread.start()
                thread.join(30)  # the event loop is blocked meanwhile
                assert not thread.is_alive()
            assert failures == []
            assert await other.claim_lost("other", 10) == []
            clock.forward(log.lease)
            assert [claim.stream_id for claim in await other.claim_lost("other", 10)] == [
                stream.stream_id
            ]
