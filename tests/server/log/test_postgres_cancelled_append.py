"""An append whose caller was cancelled may fail: nobody waits for its error."""

import asyncio
import gc
from typing import Any

import pytest

from ..aio import aio
from .postgres_logs import logs
from .postgres_server import PostgresServer
from .valkey_logs import new, until


async def cancel_and_fail(server: PostgresServer, *, after_a_failure: bool) -> None:
    """Cancel an append that has no reply yet, or has failed once; then it fails."""
    async with logs(server=server, patience=3.0) as (log,):
        stream = new()
        await log.open(stream, "me")
        await log.append(stream.stream_id, 1, 1, [b"1"])
        store = log._session().store
        (server.kill if after_a_failure else server.pause)()
        appending = log.begin_append(stream.stream_id, 1, 2, [b"2"])
        if after_a_failure:
            await until(lambda: bool(store._recovering))
        appending.cancel()
        server.kill()
        await until(lambda: not store._appends.busy and not store._recovering)


@pytest.mark.parametrize("after_a_failure", [False, True])
@aio
async def test_its_error_is_not_reported(after_a_failure: bool) -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: reported.append(about))
    with PostgresServer() as server:
        await cancel_and_fail(server, after_a_failure=after_a_failure)
    gc.collect()
    assert reported == []
