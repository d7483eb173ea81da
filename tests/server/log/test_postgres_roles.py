"""What `docs/postgres.md` says about roles, rights and backups holds on a real server."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import asyncpg  # type: ignore[import-untyped]
import pytest

from coreason_client.server import LogUnavailable, PositionGone, UnknownStream
from coreason_client.server.log import (
    AgentVersion,
    Claim,
    Conversation,
    LeaseState,
    NewStream,
    Notes,
    PostgresStreamLog,
    upgrade_schema,
)
from coreason_client.server.log.deliveries import Delivery
from coreason_client.server.log.postgres._errors import parse_address, rejected
from coreason_client.server.log.tasks import StreamEnd, TaskChange, TaskQuery, TaskRecord
from tests.docs.blocks import parse

from ..aio import aio
from .postgres_logs import NEVER, everything
from .postgres_server import PostgresServer
from .postgres_tools import postgres
from .valkey_logs import new

PAGE = Path(__file__).parents[3] / "docs" / "postgres.md"
SQL = {block.title: block.code for block in parse(PAGE.read_text("utf-8"), PAGE.name)}
AGENT = AgentVersion("agent", "1")


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of which an administrator has prepared the database, as the page says."""
    with PostgresServer() as own:
        own.execute("CREATE ROLE administrator LOGIN CREATEROLE CREATEDB")  # as of a service
        asyncio.run(execute(url_of(own, "administrator", "postgres"), "CREATE DATABASE agents"))
        asyncio.run(execute(url_of(own, "administrator"), SQL["administrator.sql"]))
        yield own


@pytest.fixture
def ready(server: PostgresServer) -> PostgresServer:
    """A server with the tables and the rights."""
    asyncio.run(give_rights(server))
    return server


def url_of(server: PostgresServer, role: str, database: str = "agents") -> str:
    return f"postgresql://{role}@127.0.0.1:{server.port}/{database}"


async def execute(url: str, script: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(script)
    finally:
        await connection.close()


async def give_rights(server: PostgresServer) -> None:
    owner = url_of(server, "coreason_owner")
    assert await upgrade_schema(owner) == 1
    await execute(owner, SQL["owner.sql"])


@asynccontextmanager
async def log_of_server(
    server: PostgresServer, database: str = "agents"
) -> AsyncIterator[PostgresStreamLog]:
    log = PostgresStreamLog(url_of(server, "coreason_server", database), poll=NEVER, lease=0.3)
    await log.start("me")
    try:
        yield log
    finally:
        await log.stop("me")


async def claimed(log: PostgresStreamLog) -> Claim:
    """Return the claim of a stream whose lease runs out."""
    while not (claims := await log.claim_lost("me", 1)):  # noqa: ASYNC110 - it is a time
        await asyncio.sleep(0.02)
    return claims[0]


@aio
async def test_a_server_without_rights_says_what_to_do(server: PostgresServer) -> None:
    log = PostgresStreamLog(url_of(server, "coreason_server"))
    with pytest.raises(LogUnavailable, match=r"role may not create the schema coreason .*upgrade"):
        await log.start("me")
    await upgrade_schema(url_of(server, "coreason_owner"))
    with pytest.raises(
        LogUnavailable, match=r"denies access: .* the rights that the documentation"
    ):
        await log.start("me")
    await execute(url_of(server, "coreason_owner"), SQL["owner.sql"])
    await log.start("me")
    await log.stop("me")


@aio
async def test_a_schema_that_the_administrator_made_is_enough(server: PostgresServer) -> None:
    revoke = "REVOKE CREATE ON DATABASE agents FROM coreason_owner"
    create = "CREATE SCHEMA coreason AUTHORIZATION coreason_owner"
    await execute(url_of(server, "postgres"), f"{revoke}; {create}")
    await give_rights(server)
    async with log_of_server(server) as log:
        await log.open(new(), "me")


@aio
async def test_the_server_cannot_change_the_tables(ready: PostgresServer) -> None:
    for statement in ("DROP TABLE coreason.runs", "CREATE TABLE coreason.x ()", "CREATE SCHEMA x"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await execute(url_of(ready, "coreason_server"), statement)


@aio
async def test_tables_of_a_later_release_can_be_used(ready: PostgresServer) -> None:
    later = "CREATE TABLE coreason.later (n bigint GENERATED ALWAYS AS IDENTITY, t text)"
    await execute(url_of(ready, "coreason_owner"), later)
    use = "INSERT INTO coreason.later (t) VALUES ('a'); DELETE FROM coreason.later"
    await execute(url_of(ready, "coreason_server"), use)


@aio
async def test_the_server_can_do_everything_with_streams(ready: PostgresServer) -> None:
    async with log_of_server(ready) as log, log_of_server(ready) as other:
        stream = new()
        follower = other.follow(stream.stream_id, 0)
        await log.open(stream, "me")
        reading = asyncio.ensure_future(follower.next(10, NEVER))
        await asyncio.sleep(0.05)
        await log.append(stream.stream_id, 1, 1, [b"one"])
        assert (await reading).entries == [b"one"]  # it was announced: nobody polls
        follower.close()
        await other.request_cancel(stream.stream_id)
        assert await log.renew({stream.stream_id: 1}) == {
            stream.stream_id: LeaseState.CANCEL_REQUESTED
        }
        conversation = Conversation("ann", "session")
        await log.add_turn(conversation, stream.stream_id, b"turn")
        assert await other.turns(conversation, 10) == [b"turn"]
        await log.close(stream.stream_id, 1, 2, [b"two"], "complete")
        assert await everything(other, stream.stream_id) == [b"one", b"two"]
        await other.expire(0, 3600)
        with pytest.raises(PositionGone):
            await other.read(stream.stream_id, 0, 10, 0)
        await other.expire(0, 0)
        with pytest.raises(UnknownStream):
            await other.meta(stream.stream_id)


@aio
async def test_the_server_can_continue_durable_streams(ready: PostgresServer) -> None:
    async with log_of_server(ready) as log:
        stream = NewStream(uuid4(), "ann", uuid4(), "f", b"question", AGENT)
        await log.open(stream, "me")
        await log.append(stream.stream_id, 1, 1, [b"one"], Notes(1, [b"note"]))
        await log.release(stream.stream_id, 1)
        [claim] = await log.claim_durable("me", AGENT, 10)
        assert (claim.stream_id, await log.journal(stream.stream_id)) == (
            stream.stream_id,
            [b"note"],
        )
        held = await log.claim_held(stream.stream_id, claim.epoch, "me")
        await log.close(stream.stream_id, held.epoch, 2, [b"two"], "complete")
        lost = new()
        await log.open(lost, "nobody")
        assert (await claimed(log)).stream_id == lost.stream_id


@aio
async def test_the_server_can_keep_tasks_deliveries_and_limits(ready: PostgresServer) -> None:
    async with log_of_server(ready) as log:
        stream = NewStream(uuid4(), "ann", uuid4(), "f", b"question")
        record = TaskRecord(stream.stream_id, "ann", "context", "working", 1.0)
        assert (await log.tasks.begin(stream, record, {"a": b"b"})).opened is not None
        await log.tasks.start(stream.stream_id, 1, b"started")
        delivery = Delivery(stream.stream_id, "hook", b"data", b"progress", due=1.0)
        assert await log.tasks.deliveries.put(delivery, 5)
        assert len(await log.tasks.deliveries.due(2.0, 5)) == 1
        done = TaskChange(record, record.updated(state="completed", open=False))
        end = StreamEnd(stream.stream_id, 1, 1, [b"one"], "complete")
        assert await log.tasks.end(end, done)
        assert (await log.tasks.find(TaskQuery("ann", 5))).total == 1
        await log.tasks.deliveries.delete(stream.stream_id, "hook")
        await log.tasks.drop(NEVER, NEVER)
        assert await log.tasks.get(stream.stream_id) is None
        assert await log.quotas.take_token("ann", 60) == 0
        await log.expire(0, 0)


@aio
async def test_the_queries_of_the_page_run(ready: PostgresServer) -> None:
    for name in ("sizes.sql", "old-transactions.sql"):
        await execute(url_of(ready, "coreason_server"), SQL[name])


def test_an_error_is_one_line_and_names_a_pooler() -> None:
    address = parse_address("postgresql://ann:s3cret@db/agents")
    pooled = asyncpg.InvalidSQLStatementNameError("statement 7 does not exist")
    assert "pass listen_url, or use a direct address" in str(rejected(address, "s", pooled))
    other = asyncpg.DiskFullError("no space for s3cret\nHINT:  free some")
    assert str(rejected(address, "s", other)).endswith("refuses a call: no space for ***")


def test_a_restored_backup_is_an_earlier_state(ready: PostgresServer, tmp_path: Path) -> None:
    stream = new()
    file = tmp_path / "agents.dump"

    async def write() -> None:
        async with log_of_server(ready) as log:
            await log.open(stream, "me")
            await log.append(stream.stream_id, 1, 1, [b"one"])
            await asyncio.to_thread(
                run, "pg_dump", "--format=custom", "--schema=coreason", f"--file={file}", owner
            )
            await log.append(stream.stream_id, 1, 2, [b"two"])

    async def read() -> None:
        async with log_of_server(ready) as log:
            assert await everything(log, stream.stream_id) == [b"one"]
            claim = await claimed(log)
            await log.close(stream.stream_id, claim.epoch, 2, [b"other"], "producer_lost")
            with pytest.raises(PositionGone):
                await log.read(stream.stream_id, 2, 10, 0)

    owner = url_of(ready, "coreason_owner")
    aio(write)()
    asyncio.run(execute(owner, "DROP SCHEMA coreason CASCADE"))
    run("pg_restore", f"--dbname={owner}", str(file))
    aio(read)()


def run(program: str, *arguments: str) -> None:
    done = subprocess.run(
        [str(postgres() / program), *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
