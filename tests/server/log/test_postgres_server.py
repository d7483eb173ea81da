"""The real Postgres that tests use: it starts, fails and recovers as a test asks it to."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import asyncpg  # type: ignore[import-untyped]
import pytest

from ..aio import aio
from . import postgres_tools
from .postgres_server import PgBouncer, PostgresServer, fresh_schema, shared_server

SOON = 10.0
A_MOMENT = 0.3


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url, statement_cache_size=0, timeout=SOON)
    try:
        yield connection
        await connection.close(timeout=SOON)
    finally:
        connection.terminate()


async def answer(url: str) -> object:
    async with connected(url) as connection:
        return await connection.fetchval("SELECT 42", timeout=SOON)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that these tests may kill; it has a table with a number."""
    with PostgresServer() as server:
        server.execute("CREATE TABLE numbers (number int PRIMARY KEY)")
        yield server


def processes_of(server: PostgresServer) -> list[str]:
    """Return the titles of the processes that name its folder."""
    titles = []
    for title in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended since
            titles.append(title.read_bytes().decode(errors="replace"))
    return [title for title in titles if server.folder.name in title]


@aio
async def test_it_answers_at_a_unix_socket_and_at_a_port() -> None:
    server = shared_server()
    assert await answer(server.url) == await answer(server.tcp_url) == 42
    assert server.execute("SELECT $1::int, 'b' UNION ALL SELECT 2, 'c'", 1) == [(1, "b"), (2, "c")]
    assert server.execute("SHOW fsync") == [("on",)]


def test_each_test_has_its_own_schema() -> None:
    schema = fresh_schema()
    assert schema != fresh_schema()
    shared_server().execute(f"CREATE SCHEMA {schema}")
    shared_server().execute(f"DROP SCHEMA {schema}")


@aio
async def test_a_killed_server_keeps_what_was_committed(server: PostgresServer) -> None:
    server.execute("INSERT INTO numbers VALUES (1)")
    async with connected(server.url) as connection:
        await connection.execute("BEGIN; INSERT INTO numbers VALUES (2)")
        server.kill()
        assert not processes_of(server)
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await connection.execute("COMMIT", timeout=SOON)
    with pytest.raises(OSError):
        await answer(server.tcp_url)
    server.start()
    assert server.execute("SELECT number FROM numbers WHERE number < 10") == [(1,)]
    assert processes_of(server)


@aio
async def test_a_stopped_server_can_be_restarted(server: PostgresServer) -> None:
    server.execute("INSERT INTO numbers VALUES (10)")
    server.stop()
    assert not processes_of(server)
    server.restart()
    server.restart()
    assert server.execute("SELECT number FROM numbers WHERE number = 10") == [(10,)]


@aio
async def test_a_paused_server_keeps_connections_and_does_not_answer(
    server: PostgresServer,
) -> None:
    async with connected(server.url) as connection:
        server.pause()
        asked = asyncio.ensure_future(connection.fetchval("SELECT 42"))
        fresh = asyncio.ensure_future(answer(server.tcp_url))
        done, _ = await asyncio.wait((asked, fresh), timeout=A_MOMENT)
        assert not done
        server.go_on()
        assert await asyncio.wait_for(asked, SOON) == await asyncio.wait_for(fresh, SOON) == 42


def test_a_paused_server_can_be_killed(server: PostgresServer) -> None:
    server.pause()
    server.kill()
    assert not processes_of(server)
    server.start()


@aio
async def test_a_promoted_standby_has_what_was_committed() -> None:
    with PostgresServer() as primary:
        standby = primary.add_standby("second")
        primary.execute("CREATE TABLE numbers (number int)")
        async with connected(primary.url) as connection:
            standby.pause()
            insert = connection.execute("INSERT INTO numbers VALUES (1)")
            committed = asyncio.ensure_future(insert)
            await asyncio.wait([committed], timeout=A_MOMENT)
            assert not committed.done(), "a commit waits for the standby"
            standby.go_on()
            await asyncio.wait_for(committed, SOON)
        standby.catch_up()
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            standby.execute("INSERT INTO numbers VALUES (2)")
        primary.kill()
        standby.promote()
        standby.execute("INSERT INTO numbers VALUES (3)")
        assert standby.execute("SELECT number FROM numbers") == [(1,), (3,)]
    assert not standby.folder.exists()


def test_a_standby_shows_what_was_committed_once_it_has_caught_up() -> None:
    with PostgresServer() as primary:
        standby = primary.add_standby("second")
        standby.execute("SELECT pg_wal_replay_pause()")
        state, deadline = "SELECT pg_get_wal_replay_pause_state()", time.monotonic() + SOON
        while standby.execute(state) != [("paused",)]:
            assert time.monotonic() < deadline
        primary.execute("CREATE TABLE numbers (number int)")
        with pytest.raises(asyncpg.UndefinedTableError):
            standby.execute("SELECT number FROM numbers")
        with ThreadPoolExecutor(1) as pool:
            caught_up = pool.submit(standby.catch_up)
            with pytest.raises(TimeoutError):
                caught_up.result(A_MOMENT)
            standby.execute("SELECT pg_wal_replay_resume()")
            caught_up.result(SOON)
        assert standby.execute("SELECT number FROM numbers") == []


@aio
async def test_it_asks_for_a_password() -> None:
    password = "a'b@c/d"
    with PostgresServer(password=password) as server:
        assert await answer(server.url) == await answer(server.tcp_url) == 42
        for url in (server.url, server.tcp_url):
            with pytest.raises(asyncpg.InvalidPasswordError):
                await answer(url.replace("a%27b", "wrong"))
        with PgBouncer(server, "session") as bouncer:
            assert await answer(bouncer.url) == 42
        assert server.add_standby("second").execute("SELECT pg_is_in_recovery()") == [(True,)]


@aio
async def test_a_pool_of_sessions_keeps_a_connection_for_its_client(
    server: PostgresServer,
) -> None:
    with PgBouncer(server, "session", pool_size=1) as bouncer:
        assert await answer(bouncer.tcp_url) == 42
        async with connected(bouncer.url) as connection:
            assert await connection.fetchval("SELECT 42") == 42
            other = asyncio.ensure_future(answer(bouncer.url))
            await asyncio.wait([other], timeout=A_MOMENT)
            assert not other.done()
        assert await asyncio.wait_for(other, SOON) == 42


@aio
async def test_a_pool_of_transactions_shares_a_connection(server: PostgresServer) -> None:
    with PgBouncer(server, "transaction", pool_size=1) as bouncer:
        async with connected(bouncer.url) as one, connected(bouncer.tcp_url) as two:
            pids = [await each.fetchval("SELECT pg_backend_pid()") for each in (one, two, one)]
            assert len(set(pids)) == 1


def test_a_full_disk_refuses_writes_until_there_is_space() -> None:
    with PostgresServer(size_limit=100_000_000) as server:
        server.execute("CREATE TABLE texts (text text)")
        insert = "INSERT INTO texts SELECT repeat('x', 1000) FROM generate_series(1, 1000)"
        server.fill_disk()
        with pytest.raises(asyncpg.DiskFullError):
            server.execute(insert)
        assert server.execute("SELECT count(*) FROM texts") == [(0,)]
        server.free_disk()
        server.execute(insert)
    assert not server.folder.exists()


def test_a_server_that_cannot_start_says_why_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setattr("tempfile.tempdir", folder)
        with pytest.raises(Exception, match='unrecognized configuration parameter "no_such_one"'):
            PostgresServer(no_such_one=1)
        assert not list(Path(folder).iterdir())


PROGRAMS = {
    "Postgres is not installed: run `make postgres`": postgres_tools.postgres,
    "PgBouncer is not installed: run `make postgres`": postgres_tools.pgbouncer,
}


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither program is installed."""
    monkeypatch.setattr(postgres_tools, "find_postgres", lambda: None)
    monkeypatch.setattr(postgres_tools, "find_pgbouncer", lambda: None)


@pytest.mark.usefixtures("nothing")
@pytest.mark.parametrize("reason", PROGRAMS)
def test_what_is_missing_skips_the_test(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=reason):
        PROGRAMS[reason]()


@pytest.mark.usefixtures("nothing")
@pytest.mark.parametrize("reason", PROGRAMS)
def test_what_is_missing_fails_in_ci(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    monkeypatch.setenv("CI", "1")
    with pytest.raises(pytest.fail.Exception, match=reason):
        PROGRAMS[reason]()
