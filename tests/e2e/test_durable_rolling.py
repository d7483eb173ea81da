"""Replicas of durable agents are stopped and replaced in turn while their streams are open."""

import asyncio
import logging
from pathlib import Path

import pytest

from ..server.log.valkey_server import ValkeyServer
from ..soak.durable import rolling_restart
from ..soak.site import Settings

STREAMS = 30


def test_another_replica_continues_each_stream_and_no_reader_sees_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # A failure shows the table, not hundreds of lines about reconnects.
    caplog.set_level(logging.ERROR, "coreason_client.cap")
    settings = Settings(packets=120, replicas=3)
    with ValkeyServer() as store:
        rolling = rolling_restart(
            *(tmp_path, store, settings, STREAMS, 12.0),
            continued_within=6.0,  # `make soak` allows 2 s; here other tests need the processors
        )
        rows, errors = asyncio.run(rolling)
    assert [row for row in rows if row.right is False] == [], errors
    table = {row.name.removeprefix("rolling restart: "): row.value for row in rows}
    assert table["streams complete"] == f"{STREAMS}"
    assert int(table["hand-overs"]) >= STREAMS / 2
