"""Logs on a real Valkey server, as the tests of the Valkey log use them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest

from coreason_client.server.log import NewStream, ValkeyStreamLog

from .valkey_server import ValkeyServer, fresh_prefix, shared_server

LONG = 60.0  # a wait that no test sits out
NEVER = 1e6  # a poll that never comes, so that only an announcement can wake a reader


def new(request_id: UUID | None = None, principal: str = "ann") -> NewStream:
    return NewStream(uuid4(), principal, request_id or uuid4(), "f")


@asynccontextmanager
async def logs(
    count: int = 1, server: ValkeyServer | None = None, **options: Any
) -> AsyncIterator[list[ValkeyStreamLog]]:
    """Logs of as many processes, on one store."""
    options.setdefault("prefix", fresh_prefix())
    url = (server or shared_server()).url
    made = [ValkeyStreamLog(url, **options) for _ in range(count)]
    for number, log in enumerate(made):
        await log.start(f"owner {number}")
    try:
        yield made
    finally:
        for number, log in enumerate(made):
            await log.stop(f"owner {number}")


def keys_of(prefix: str, server: ValkeyServer | None = None) -> list[str]:
    """All keys of a log but the one that names the server: it stays, and there is only one."""
    found = (server or shared_server()).command("KEYS", f"{prefix}:*")
    return sorted(key.decode() for key in found if not key.endswith(b":{serving}"))


async def until(condition: Any) -> None:
    """Wait for something that must happen."""
    while not condition():  # noqa: ASYNC110 - the condition is in another process
        await asyncio.sleep(0.005)


async def everything(log: ValkeyStreamLog, id_: UUID) -> list[bytes]:
    return list((await log.read(id_, 0, 1000, 0)).entries)


def counted_reads(log: ValkeyStreamLog, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets an item for each read of the store from now on."""
    reads: list[str] = []
    store = log._session().store
    query = store.query

    async def recorded(*arguments: Any) -> Any:
        reads.append("read")
        return await query(*arguments)

    monkeypatch.setattr(store, "query", recorded)
    return reads
