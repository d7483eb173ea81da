"""Logs on a real Postgres server, as the tests of the Postgres log use them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from coreason_client.server.log import PostgresStreamLog

from .postgres_server import PostgresServer, fresh_schema, shared_server

NEVER = 1e6  # a poll that never comes, so that only an announcement can wake a reader


@asynccontextmanager
async def logs(
    count: int = 1, server: PostgresServer | None = None, url: str = "", **options: Any
) -> AsyncIterator[list[PostgresStreamLog]]:
    """Logs of as many processes, in one schema."""
    options.setdefault("schema", fresh_schema())
    url = url or (server or shared_server()).url
    made = [PostgresStreamLog(url, **options) for _ in range(count)]
    for number, log in enumerate(made):
        await log.start(f"owner {number}")
    try:
        yield made
    finally:
        for number, log in enumerate(made):
            await log.stop(f"owner {number}")


async def everything(log: PostgresStreamLog, id_: UUID) -> list[bytes]:
    """Return all entries of a stream, from the database."""
    log._session().owned.drop(id_)
    return list((await log.read(id_, 0, 10_000, 0)).entries)
