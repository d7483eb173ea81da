"""The schema of the Postgres log: created once, checked, kept small; and poolers before it."""

import asyncio
from collections import Counter
from typing import Any
from uuid import uuid4

import pytest

from coreason_client.errors import ArgumentError
from coreason_client.server.errors import LogUnavailable
from coreason_client.server.log import Notes, PostgresStreamLog
from coreason_client.server.log.base import AgentVersion, Conversation, NewStream
from coreason_client.server.log.postgres import upgrade_schema

from ..aio import aio
from .postgres_logs import everything, logs
from .postgres_server import PgBouncer, PostgresServer, fresh_schema, shared_server
from .valkey_logs import new


@aio
async def test_processes_that_start_together_create_one_schema() -> None:
    schema = fresh_schema()
    made = [PostgresStreamLog(shared_server().url, schema=schema) for _ in range(8)]
    await asyncio.gather(*(log.start(f"{number}") for number, log in enumerate(made)))
    stream = new()
    opened = await asyncio.gather(*(log.open(stream, "me") for log in made))
    assert sorted(one.created for one in opened) == [False] * 7 + [True]
    await asyncio.gather(*(log.stop(f"{number}") for number, log in enumerate(made)))
    assert await upgrade_schema(shared_server().url, schema=schema) == 1


@aio
async def test_a_schema_that_only_a_newer_release_can_use() -> None:
    async with logs() as [log]:
        schema = log._schema
    change = f"UPDATE {schema}.schema_version SET version = 3"
    await asyncio.to_thread(shared_server().execute, change)
    async with logs(schema=schema) as [log]:  # a newer one that this release can use
        await log.open(new(), "me")
    await asyncio.to_thread(shared_server().execute, f"{change}, oldest = 2")
    for call in (
        PostgresStreamLog(shared_server().url, schema=schema).start("me"),
        upgrade_schema(shared_server().url, schema=schema),
    ):
        with pytest.raises(LogUnavailable, match="has version 3, and this release can only use"):
            await call


@aio
async def test_a_schema_that_is_dropped_under_a_running_log() -> None:
    async with logs() as [log]:
        await asyncio.to_thread(shared_server().execute, f"DROP SCHEMA {log._schema} CASCADE")
        with pytest.raises(LogUnavailable, match=r"`coreason store upgrade URL`"):
            await log.open(new(), "me")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"schema": "Upper"}, "schema must have only a-z"),
        ({"schema": "a; DROP TABLE x"}, "schema must have only a-z"),
        ({"schema": ""}, "schema must have only a-z"),
        ({"replicas": -1}, "replicas must be a number from 0 to 99"),
        ({"lease": 0.0}, "lease must be a number of seconds"),
        ({"listen_url": "http://host"}, "listen_url must start with postgresql://"),
        ({"url": "valkey://host"}, "url must start with postgresql://"),
        ({"url": "postgresql://[::1"}, "url must be a URL with valid hosts"),
    ],
)
def test_arguments_that_are_not_valid(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        PostgresStreamLog(**{"url": "postgresql://host/db", **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:secret1@host/db", "postgresql://host/db"),
        (
            "postgres://host:1,other:2/db?user=ann&password=secret1",
            "postgresql://host:1,other:2/db",
        ),
        ("postgresql://ann@/db?host=/run/postgresql", "postgresql:///run/postgresql/db"),
        ("postgresql://", "postgresql://localhost"),
    ],
)
def test_an_address_is_shown_without_its_credentials(url: str, shown: str) -> None:
    assert repr(PostgresStreamLog(url)) == f"<PostgresStreamLog {shown!r} schema='coreason'>"


async def whole_life(log: PostgresStreamLog) -> None:
    """Use a durable stream and a conversation, from the beginning to the end."""
    agent = AgentVersion("agent", "1")
    stream = NewStream(uuid4(), "ann", uuid4(), "f", b"question", agent)
    await log.open(stream, "me")
    id_ = stream.stream_id
    for seq in range(1, 30):
        await log.append(id_, 1, seq, [b"%d" % seq], Notes(seq, [b"note %d" % seq]))
    await log.release(id_, 1)
    (claim,) = [one for one in await log.claim_durable("me", agent, 10) if one.stream_id == id_]
    assert claim.question == b"question"
    assert len(await log.journal(id_)) == 29
    await log.close(id_, claim.epoch, 30, [b"30"], "complete")
    await log.add_turn(Conversation("ann", "session"), id_, b"turn", claim.epoch)
    assert await log.turns(Conversation("ann", "session"), 5) == [b"turn"]
    assert await everything(log, id_) == [b"%d" % seq for seq in range(1, 31)]


@pytest.mark.parametrize("mode", ["session", "transaction"])
@aio
async def test_a_pooler_that_is_restarted_in_the_middle(mode: str) -> None:
    server = shared_server()
    with PgBouncer(server, mode) as pooler:  # type: ignore[arg-type]
        listen_url = server.url if mode == "transaction" else None
        async with logs(2, url=pooler.url, listen_url=listen_url, poll=1e6) as [log, other]:
            await whole_life(log)
            stream = new()
            await log.open(stream, "me")
            for seq in range(1, 40):
                if seq % 13 == 0:
                    await asyncio.to_thread(pooler.kill)
                    await asyncio.to_thread(pooler.start)
                await log.append(stream.stream_id, 1, seq, [b"%d" % seq])
            assert await everything(log, stream.stream_id) == [b"%d" % seq for seq in range(1, 40)]
            reading = asyncio.ensure_future(other.read(stream.stream_id, 39, 10, 60.0))
            await asyncio.sleep(0.2)
            await log.append(stream.stream_id, 1, 40, [b"40"])
            assert (await asyncio.wait_for(reading, 20)).entries == [b"40"]


# Growth.


def sizes(server: PostgresServer, schema: str) -> dict[str, int]:
    """Return the size of each table with its indexes, after a vacuum."""
    tables = server.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r'",
        schema,
    )
    for (table,) in tables:
        server.execute(f"VACUUM {schema}.{table}")
    rows = server.execute(
        "SELECT relname, pg_total_relation_size(oid) FROM pg_class"
        " WHERE relnamespace = $1::regnamespace AND relkind = 'r'",
        schema,
    )
    return {str(name): int(size) for name, size in rows}


async def many_streams(log: PostgresStreamLog, count: int) -> None:
    """Let streams begin, grow, be renewed and end."""

    async def one(number: int) -> None:
        stream = NewStream(uuid4(), "ann", uuid4(), "f", b"q" * 500)
        await log.open(stream, "me")
        for seq in range(1, 11):
            await log.append(stream.stream_id, 1, seq, [b"x" * 300])
        await log.renew({stream.stream_id: 1})
        await log.close(stream.stream_id, 1, 11, [b"end"], "complete")
        await log.add_turn(Conversation("ann", str(number % 50)), stream.stream_id, b"turn" * 50)

    for start in range(0, count, 100):
        await asyncio.gather(*(one(number) for number in range(start, start + 100)))


@aio
async def test_expired_streams_leave_tables_and_indexes_flat() -> None:
    """What ended is dropped, and the next streams use its place: the sizes do not grow."""
    async with logs() as [log]:
        seen = []
        for _ in range(4):
            await many_streams(log, 100)
            await log.expire(0.0, 0.0)
            # The server does the same, but when it has time for it.
            await asyncio.to_thread(shared_server().execute, "VACUUM")
            seen.append(await asyncio.to_thread(sizes, shared_server(), log._schema))
        left = await asyncio.to_thread(
            shared_server().execute,
            f"SELECT (SELECT count(*) FROM {log._schema}.runs),"
            f" (SELECT count(*) FROM {log._schema}.streams),"
            f" (SELECT count(*) FROM {log._schema}.turns)",
        )
        assert left == [(0, 0, 0)]
        for table, size in seen[-1].items():
            assert size <= max(seen[1][table] * 1.3, 100_000), (table, [one[table] for one in seen])


@aio
async def test_an_expiry_is_divided_into_short_transactions() -> None:
    """Otherwise it would hold locks for seconds."""
    async with logs() as [log]:
        count = 1_200
        await asyncio.to_thread(
            shared_server().execute,
            f"INSERT INTO {log._schema}.streams (stream_id, request, principal, request_id,"
            " fingerprint, opening, opened_at, ended_at, last_seq, outcome)"
            " SELECT gen_random_uuid(), uuid_send(gen_random_uuid()), '', gen_random_uuid(), '',"
            " gen_random_uuid(), 0, 1, 1, '' FROM generate_series(1, $1)",
            count,
        )
        await asyncio.to_thread(
            shared_server().execute,
            f"INSERT INTO {log._schema}.runs SELECT n, 1, 1, '' FROM {log._schema}.streams",
        )
        store, steps = log._session().store, Counter[str]()
        call = store.call

        def counted(function: str, *arguments: Any) -> Any:
            steps[function] += 1
            return call(function, *arguments)

        store.call = counted  # type: ignore[method-assign]
        await log.expire(0.0, 0.0)
        left = f"SELECT count(*) FROM {log._schema}.streams"
        assert await asyncio.to_thread(shared_server().execute, left) == [(0,)]
        for step in ("mark_bodies", "drop_bodies", "drop_streams"):
            assert steps[step] >= count / 500


@aio
async def test_appends_during_a_backup_leave_no_dead_rows() -> None:
    """An update for each append would make appends slower as long as a snapshot is held."""
    async with logs() as [log]:
        stream = new()
        await log.open(stream, "me")
        for seq in range(1, 200):
            await log.append(stream.stream_id, 1, seq, [b"x"])
        await asyncio.sleep(0)
        query = f"SELECT ctid::text FROM {log._schema}.streams"
        assert await asyncio.to_thread(shared_server().execute, query) == [("(0,1)",)]
