"""A process takes all streams over that another one has handed over, and not four at a time."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers

from coreason_client.server import AgentApp, AgentStream, SQLiteStreamLog
from coreason_client.server.durable._slots import SLOTS
from coreason_client.server.engine import _takeover
from coreason_client.server.engine._conversation import dump_request
from coreason_client.server.log import AgentVersion, NewStream
from coreason_manifest.definitions.service import ServiceRequest

from ...soak.content import Order
from ...soak.faults import until
from ..aio import LIMIT, aio
from ..faulty_log import runtime_of


async def waiting(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.progress("waiting")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await stream.progress("too late")  # raises StreamEnded


def durable(log: SQLiteStreamLog, **options: Any) -> AgentApp:
    return AgentApp(
        waiting,
        log=log,
        agent_id="one",
        version="1",
        durable=True,
        drain_timeout=0,
        **options,
    )


async def start(app: AgentApp, number: int) -> None:
    runtime = runtime_of(app)
    for turn in range(number):
        request = Order(f"s{turn}", 1, 0.0).request()
        new = NewStream(
            stream_id=request.request_id,
            principal="one/anybody",
            request_id=request.request_id,
            fingerprint="print",
            question=dump_request("one/anybody", request, {}),
            agent=AgentVersion("one", "1"),
        )
        opened = await app.log.open(new, runtime.owner)
        runtime.producers.start(request, opened.meta, Headers({}), 0.0)
    for producer in runtime.producers:
        await app.log.read(producer.meta.stream_id, 0, 1, LIMIT)  # its agent waits now


@aio
async def test_they_need_no_slots(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_takeover, "_POLL_SECONDS", LIMIT)  # so it looks for them once
    caplog.set_level(logging.ERROR, "coreason_client.server")
    number = 2 * SLOTS + 1
    first, second = (durable(SQLiteStreamLog(tmp_path / "log.db")) for _ in "ab")
    async with first.lifespan():
        await start(first, number)
    async with second.lifespan():
        assert await until(lambda: len(runtime_of(second).producers) == number)
        # An agent that writes no more and calls no step has still done everything again.
        assert await until(lambda: all(one.settled for one in runtime_of(second).producers))
    assert caplog.records == []  # that the agents get StreamEnded is not an error of theirs
