"""The schema of the log: created on first use, and upgraded."""

import re
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from ....errors import ArgumentError
from ...errors import LogUnavailable
from ._connection import Server
from ._errors import DATABASE_ERRORS, DatabaseAddress, parse_address, rejected

DEFAULT_SCHEMA = "coreason"
_VERSION = 1
_CONNECT_SECONDS = 10.0
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,40}", re.ASCII)
# Of each function that is called: the tables change too fast for the statistics, so the planner
# must not choose to read a whole table; and nobody waits for a lock longer than for a reply.
_SETTINGS = "SET enable_seqscan = off SET lock_timeout = '3s'"


def check_name(schema: str) -> str:
    """Return the name of a schema.

    Raises:
        ArgumentError: it would have to be quoted.
    """
    if not _NAME.fullmatch(schema):
        raise ArgumentError(
            "schema", "must have only a-z, 0-9 and _, 41 characters at most", schema
        )
    return schema


async def upgrade_schema(url: str, *, schema: str = DEFAULT_SCHEMA) -> int:
    """Create or upgrade the schema of the log; return its version.

    A log does so by itself if its role may create schemas. This is for a role that may, while that
    of the log may not.

    Args:
        url: the URL of the database, such as `postgresql://user:password@host/database`.
        schema: the name of the schema.

    Raises:
        LogUnavailable: the database cannot be reached, or refuses.
    """
    address = parse_address(url)
    check_name(schema)
    try:
        server = Server(address, pooled=False, replicas=0, timeout=_CONNECT_SECONDS)
        connection, _ = await server.connect()
        try:
            await ensure_schema(connection, address, schema)
        finally:
            await connection.close()
    except DATABASE_ERRORS as error:
        raise rejected(address, schema, error) from None
    return _VERSION


async def ensure_schema(connection: Any, address: DatabaseAddress, schema: str) -> None:
    """Create the schema if there is none; check that this release can use it.

    Raises:
        LogUnavailable: the role may not create it, or it is too new for this release.
    """
    if await _find_version(connection, address, schema) is not None:
        return
    async with connection.transaction():
        # A lock of the transaction, because a pooler would keep one of the session.
        await connection.execute(f"SELECT pg_advisory_xact_lock({_lock_key(schema)})")
        if await _find_version(connection, address, schema) is None:
            await _create(connection, address, schema)


async def _create(connection: Any, address: DatabaseAddress, schema: str) -> None:
    try:
        # With IF NOT EXISTS the right to create schemas would be needed for one that exists.
        if await connection.fetchval(f"SELECT to_regnamespace('{schema}')") is None:
            await connection.execute(f"CREATE SCHEMA {schema}")
        await connection.execute(_script(schema))
    except asyncpg.InsufficientPrivilegeError as error:
        raise LogUnavailable(
            f"the role may not create the schema {schema} in the database {address.shown} "
            f"({address.redact(str(error))}): run `coreason store upgrade URL` with a role that may"
        ) from None


async def _find_version(connection: Any, address: DatabaseAddress, schema: str) -> int | None:
    # A query, because `to_regclass` may answer from a cache that does not know a new table.
    known = "SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = 'schema_version'"
    if await connection.fetchval(known, schema) is None:
        return None
    row = await connection.fetchrow(f"SELECT version, oldest FROM {schema}.schema_version")  # noqa: S608
    version, oldest = row
    if oldest > _VERSION:
        raise LogUnavailable(
            f"the schema {schema} of the database {address.shown} has version {version}, and this "
            f"release can only use versions up to {_VERSION}: install the newer release"
        )
    return int(version)


@cache
def _script(schema: str) -> str:
    text = files(__package__).joinpath("schema.sql").read_text("utf-8")
    return text.replace("{schema}", schema).replace("{settings}", _SETTINGS)


def _lock_key(schema: str) -> int:
    """Return the key of the lock under which a schema is created."""
    return int.from_bytes(blake2b(schema.encode(), digest_size=8).digest(), "big", signed=True)
