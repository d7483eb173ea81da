"""The background tasks of the Valkey log survive mistakes, and the mistakes are logged."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from coreason_client.server import ValkeyStreamLog
from coreason_client.server.log import NewStream
from coreason_client.server.log.remote import _store
from coreason_client.server.log.valkey._subscription import Subscription

from ..aio import aio
from .valkey_server import fresh_prefix, shared_server


@aio
async def test_what_runs_for_ever_starts_again_and_is_reported_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_store, "_RESTART_DELAY", 0.0)
    runs, enough = [], asyncio.Event()

    async def work() -> None:
        runs.append(1)
        if len(runs) == 5:
            enough.set()
        if len(runs) != 3:  # an end without an error is not a reason to stop either
            raise ZeroDivisionError

    task = asyncio.ensure_future(_store.run_forever(work, "this task"))
    await enough.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    [record] = caplog.records
    assert record.getMessage() == "this task failed with an unexpected error and is restarted"
    assert record.exc_info is not None


@aio
async def test_a_subscription_that_made_a_mistake_still_wakes_readers(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistakes = 0
    take = Subscription._handle_message

    def mistaken(self: Subscription, message: Any) -> None:
        nonlocal mistakes
        if message[0] == b"message" and not mistakes:
            mistakes += 1
            raise ZeroDivisionError
        take(self, message)

    monkeypatch.setattr(Subscription, "_handle_message", mistaken)
    prefix = fresh_prefix()
    # Without the poll, which would find the packet too.
    ours, theirs = (ValkeyStreamLog(shared_server().url, prefix=prefix, poll=1e6) for _ in "ab")
    await ours.start("one")
    await theirs.start("two")
    new = NewStream(uuid4(), "p", uuid4(), "f")
    await theirs.open(new, "two")
    seq = 0
    while not mistakes:  # an announcement may come before the subscription does
        reading = asyncio.ensure_future(ours.read(new.stream_id, seq, 10, 15.0))
        await asyncio.sleep(0.05)
        await theirs.append(new.stream_id, 1, seq + 1, [b"entry"])
        assert (await reading).entries == [b"entry"]
        seq += 1
    await ours.stop("one")
    await theirs.stop("two")
    assert (
        "the subscription of the log failed with an unexpected error and is restarted"
        in caplog.text
    )
