"""A database that dies, freezes, becomes another one, or waits for a standby."""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any
from uuid import uuid4

import asyncpg  # type: ignore[import-untyped]
import pytest

from coreason_client.server.errors import LogUnavailable
from coreason_client.server.log import LeaseState, NewStream, PostgresStreamLog
from coreason_client.server.log.base import AgentVersion

from ..aio import aio
from .postgres_logs import everything, logs
from .postgres_server import PostgresServer, PostgresStandby, shared_server
from .valkey_logs import new, until

PATIENCE = 2.0


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server that a test may harm."""
    with PostgresServer() as own:
        yield own


@pytest.fixture
def pair(server: PostgresServer) -> tuple[PostgresServer, PostgresStandby]:
    """A server and its synchronous standby."""
    return server, server.add_standby("other")


def both(primary: PostgresServer, standby: PostgresServer) -> str:
    return f"postgresql://postgres@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/postgres"


async def in_thread(function: Any, *arguments: Any) -> Any:
    return await asyncio.to_thread(function, *arguments)


async def process_that_waits(server: PostgresServer, event: str) -> int:
    """Wait until a process of the server waits for something."""
    found: list[tuple[int]] = []
    while not found:
        found = await in_thread(
            server.execute, "SELECT pid FROM pg_stat_activity WHERE wait_event = $1", event
        )
    return found[0][0]


async def opened(log: PostgresStreamLog) -> NewStream:
    stream = new()
    await log.open(stream, "me")
    return stream


async def append_all(log: PostgresStreamLog, stream: NewStream, count: int) -> None:
    """Append entries one by one, each after the one before was acknowledged."""
    for seq in range(1, count + 1):
        await log.append(stream.stream_id, 1, seq, [b"%d" % seq])


async def end_connections(
    server: PostgresServer, which: str = "backend_type = 'client backend'"
) -> None:
    """End those that a condition names, but not the one that says so."""
    ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    await in_thread(server.execute, f"{ends} WHERE pid <> pg_backend_pid() AND ({which})")


def entries(count: int) -> list[bytes]:
    return [b"%d" % seq for seq in range(1, count + 1)]


@aio
async def test_a_killed_server_loses_and_doubles_nothing(server: PostgresServer) -> None:
    # A busy machine needs longer than usual for three restarts.
    async with logs(server=server, patience=40.0) as [log]:
        streams = [await opened(log) for _ in range(10)]
        writing = asyncio.gather(*(append_all(log, stream, 100) for stream in streams))
        for _ in range(3):
            await asyncio.sleep(0.1)
            await in_thread(server.kill)
            await in_thread(server.start)
        await writing
        for stream in streams:
            assert await everything(log, stream.stream_id) == entries(100)


@aio
async def test_a_frozen_server_is_reported_and_used_again(server: PostgresServer) -> None:
    async with logs(server=server, patience=PATIENCE) as [log]:
        stream = await opened(log)
        await log.append(stream.stream_id, 1, 1, [b"1"])
        server.pause()
        started = time.monotonic()
        with pytest.raises(LogUnavailable, match=r"did not answer for 2 s"):
            await log.append(stream.stream_id, 1, 2, [b"2"])
        assert time.monotonic() - started < 10 * PATIENCE
        server.go_on()
        await log.append(stream.stream_id, 1, 2, [b"2"])
        assert await everything(log, stream.stream_id) == entries(2)


@aio
async def test_a_short_freeze_is_not_noticed(server: PostgresServer) -> None:
    async with logs(server=server) as [log]:
        stream = await opened(log)
        server.pause()
        appending = asyncio.ensure_future(log.append(stream.stream_id, 1, 1, [b"1"]))
        await asyncio.sleep(0.5)
        server.go_on()
        assert await appending is False


@aio
async def test_a_full_disk_is_reported_at_once_and_the_stream_goes_on_after_it() -> None:
    with PostgresServer(size_limit=100_000_000) as server:
        async with logs(server=server, patience=40.0) as [log]:
            stream, seq = await opened(log), 0
            server.fill_disk()
            large = bytes(100_000)
            with pytest.raises(LogUnavailable, match="refuses a call: could not extend file"):
                async with asyncio.timeout(20.0):
                    while True:
                        await log.append(stream.stream_id, 1, seq + 1, [large])
                        seq += 1
            server.free_disk()
            await log.append(stream.stream_id, 1, seq + 1, [large])
            assert await everything(log, stream.stream_id) == [large] * (seq + 1)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://ann:tops3cret@127.0.0.1:1/db", "did not answer for 2 s"),
        ("postgresql://ann:tops3cret@127.0.0.1:{port}/postgres", 'role "ann" does not exist'),
        ("postgresql://postgres@127.0.0.1:{port}/nowhere", 'database "nowhere" does not exist'),
        ("postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=require", "SSL"),
    ],
)
@aio
async def test_a_database_that_cannot_be_used(url: str, message: str) -> None:
    log = PostgresStreamLog(url.format(port=shared_server().port), patience=PATIENCE)
    with pytest.raises(LogUnavailable) as caught:
        await log.start("me")
    assert message in str(caught.value)
    for text in (str(caught.value), repr(caught.value), repr(log)):
        assert "tops3cret" not in text
    with pytest.raises(LogUnavailable, match="has not been started"):
        await log.meta(uuid4())


@aio
async def test_a_refused_password_is_not_shown() -> None:
    with PostgresServer(password="rights3cret") as server:
        url = f"postgresql://postgres:wrongs3cret@127.0.0.1:{server.port}/postgres"
        with pytest.raises(LogUnavailable) as caught:
            await PostgresStreamLog(url).start("me")
        assert "password authentication failed" in str(caught.value)
        assert "s3cret" not in str(caught.value)


@aio
async def test_a_standby_is_no_place_for_a_log(
    pair: tuple[PostgresServer, PostgresStandby],
) -> None:
    log = PostgresStreamLog(pair[1].url, patience=PATIENCE)
    with pytest.raises(LogUnavailable, match="is a standby and did not become a primary"):
        await log.start("me")


@aio
async def test_nothing_is_read_from_a_standby(
    pair: tuple[PostgresServer, PostgresStandby],
) -> None:
    """It may be behind. So it is while a name has moved to a server that is not promoted yet."""
    primary, standby = pair
    standby.execute("SELECT pg_wal_replay_pause()")
    async with logs(1, server=primary, patience=PATIENCE) as [log]:
        stream = await opened(log)
        server = log._session().store.server
        there = server.address
        server.address = replace(there, url=standby.url)
        await end_connections(primary)
        with pytest.raises(LogUnavailable, match="is a standby and did not become a primary"):
            await log.meta(stream.stream_id)
        server.address = there
        assert (await log.meta(stream.stream_id)).stream_id == stream.stream_id


@aio
async def test_an_isolation_level_that_shows_old_rows_is_refused(server: PostgresServer) -> None:
    await in_thread(server.set, "default_transaction_isolation", "repeatable read")
    with pytest.raises(LogUnavailable, match="uses the isolation level 'repeatable read'"):
        await PostgresStreamLog(server.url, patience=PATIENCE).start("me")


@pytest.mark.parametrize(
    ("name", "value"),
    [("synchronous_standby_names", ""), ("synchronous_commit", "local")],
)
@aio
async def test_replicas_need_a_database_that_waits_for_them(
    pair: tuple[PostgresServer, PostgresStandby], name: str, value: str
) -> None:
    primary, _ = pair
    async with logs(server=primary, replicas=1) as [log]:
        assert not log.may_forget
    await in_thread(primary.set, name, value)
    with pytest.raises(LogUnavailable, match="does not wait for 1 standbys"):
        await PostgresStreamLog(primary.url, replicas=1).start("me")


@aio
async def test_a_promoted_server_may_get_its_standbys_a_moment_later(
    pair: tuple[PostgresServer, PostgresStandby],
) -> None:
    primary, _ = pair
    async with logs(server=primary, replicas=1) as [log]:
        stream = await opened(log)
        ((names,),) = await in_thread(primary.execute, "SHOW synchronous_standby_names")
        await in_thread(primary.set, "synchronous_standby_names", "")
        log._session().store.server.demoted()
        appending = asyncio.ensure_future(log.append(stream.stream_id, 1, 1, [b"1"]))
        await asyncio.sleep(0.5)
        assert not appending.done()
        await in_thread(primary.set, "synchronous_standby_names", names)
        assert await appending is False


@aio
async def test_two_replicas_are_more_than_one(
    pair: tuple[PostgresServer, PostgresStandby],
) -> None:
    with pytest.raises(LogUnavailable, match=r"synchronous_standby_names is 'FIRST 1"):
        await PostgresStreamLog(pair[0].url, replicas=2).start("me")


@aio
async def test_a_missing_standby_is_reported_and_waited_for(
    pair: tuple[PostgresServer, PostgresStandby], caplog: pytest.LogCaptureFixture
) -> None:
    primary, standby = pair
    async with logs(server=primary, replicas=1, patience=PATIENCE) as [log]:
        stream, others = await opened(log), [await opened(log) for _ in range(5)]
        standby.pause()
        with caplog.at_level(logging.WARNING):
            with pytest.raises(LogUnavailable, match="no standby of the database"):
                await log.append(stream.stream_id, 1, 1, [b"1"])
            assert log.degraded == "standby missing"
            await log.meta(stream.stream_id)  # a read does not wait
            assert log.degraded == "standby missing"
            failed = await asyncio.gather(
                *(log.append(other.stream_id, 1, 1, [b"1"]) for other in others),
                return_exceptions=True,
            )
            assert {type(error) for error in failed} == {LogUnavailable}
        # What the standby does not have, nobody sees; and each attempt does not leave a connection.
        ((count,),) = await in_thread(
            primary.execute, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'postgres'"
        )
        assert count < 12
        standby.go_on()
        await log.append(stream.stream_id, 1, 1, [b"1"])
        assert await everything(log, stream.stream_id) == entries(1)
        assert log.degraded is None
    lines = [record.getMessage() for record in caplog.records]
    assert len([line for line in lines if "does not confirm commits" in line]) == 1


@aio
async def test_a_wait_for_a_standby_that_was_cancelled_is_no_acknowledgement(
    pair: tuple[PostgresServer, PostgresStandby],
) -> None:
    primary, standby = pair
    async with logs(server=primary, replicas=1) as [log]:
        stream = await opened(log)
        standby.pause()
        appending = asyncio.ensure_future(log.append(stream.stream_id, 1, 1, [b"1"]))
        pid = await process_that_waits(primary, "SyncRep")
        await in_thread(primary.execute, f"SELECT pg_cancel_backend({pid})")
        await asyncio.sleep(0.5)
        assert not appending.done()
        standby.go_on()
        assert await appending is False
        await in_thread(primary.kill)
        await in_thread(standby.promote)
        async with logs(server=standby, schema=log._schema) as [other]:
            assert await everything(other, stream.stream_id) == entries(1)


@aio
async def test_a_promoted_standby_has_all_that_was_acknowledged(
    pair: tuple[PostgresServer, PostgresStandby],
) -> None:
    primary, standby = pair
    changes: list[str] = []
    async with logs(url=both(primary, standby), replicas=0, lease=60.0, patience=40.0) as [log]:
        log.on_store_changed(lambda: changes.append("changed"))
        streams = [await opened(log) for _ in range(10)]
        writing = asyncio.gather(*(append_all(log, stream, 300) for stream in streams))
        await asyncio.sleep(0.3)
        await in_thread(primary.kill)
        await in_thread(standby.promote)
        await in_thread(standby.set, "synchronous_standby_names", "")
        await writing
        for stream in streams:
            assert await everything(log, stream.stream_id) == entries(300)
        assert changes == ["changed"]
        # Nobody claims for a lease, although the leases of another process look old by then.
        await in_thread(standby.execute, f"UPDATE {log._schema}.leases SET until = 1")
        assert await log.claim_lost("heir", 100) == []
        async with logs(url=log._address.url, schema=log._schema, lease=60.0) as [fresh]:
            assert await fresh.claim_lost("heir", 100) == []
        held = dict.fromkeys([stream.stream_id for stream in streams], 1)
        assert set((await log.renew(held)).values()) == {LeaseState.HELD}


@aio
async def test_a_silent_primary_does_not_hide_the_one_that_replaces_it(
    pair: tuple[PostgresServer, PostgresStandby], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that was lost does not refuse connections: it says nothing."""
    primary, standby = pair
    async with logs(url=both(primary, standby), patience=5.0) as [log]:
        stream = await opened(log)
        await log.append(stream.stream_id, 1, 1, [b"1"])
        primary.pause()
        await in_thread(standby.promote)
        await in_thread(standby.set, "synchronous_standby_names", "")
        await log.append(stream.stream_id, 1, 2, [b"2"])
        assert await everything(log, stream.stream_id) == entries(2)
        server, tried = log._session().store.server, []
        connect_to = server._connect

        async def record(url: str, host: tuple[str | None, int | None], seconds: float) -> Any:
            tried.append(host)
            return await connect_to(url, host, seconds)

        monkeypatch.setattr(server, "_connect", record)
        (await server.connect())[0].terminate()
        assert tried == [("127.0.0.1", standby.port)]
        # A new process has never seen the other one answer, and there may be more that do not.
        silent = f"127.0.0.1:{primary.port}"
        url = log._address.url.replace(silent, f"{silent},{silent},{silent}")
        async with logs(url=url, schema=log._schema, patience=5.0) as [other]:
            assert (await other.meta(stream.stream_id)).last_seq == 2


@aio
async def test_a_listener_finds_the_primary_among_its_hosts(
    pair: tuple[PostgresServer, PostgresStandby],
) -> None:
    primary, standby = pair
    listen_url = both(standby, primary)
    async with logs(url=primary.url, listen_url=listen_url, patience=PATIENCE) as [log]:
        await opened(log)


@aio
async def test_a_primary_that_takes_no_more_connections_is_still_the_primary() -> None:
    """A standby that answers instead does not mean that there is another primary."""
    with PostgresServer(max_connections=12) as primary:
        url = both(primary, primary.add_standby("other"))
        async with logs(url=url) as [log], AsyncExitStack() as others:
            stream = await opened(log)
            await log.append(stream.stream_id, 1, 1, [b"1"])
            server = log._session().store.server
            with pytest.raises(asyncpg.TooManyConnectionsError):
                while True:
                    connection, _ = await server.connect()
                    others.callback(connection.terminate)
            await log.append(stream.stream_id, 1, 2, [b"2"])
            assert server.generation == 0


@aio
async def test_a_restart_behind_the_back_of_the_connections_stops_claims(
    server: PostgresServer,
) -> None:
    """A pooler can change the server without closing our connections: the claim itself notices."""
    async with logs(server=server, lease=5.0) as [log]:
        await opened(log)
        changes: list[str] = []
        log.on_store_changed(lambda: changes.append("changed"))
        await in_thread(server.execute, f"UPDATE {log._schema}.leases SET until = 1")
        await in_thread(server.execute, f"UPDATE {log._schema}.serving SET server = 'another'")
        log._session().store.server._identity = "another"
        assert await log.claim_lost("heir", 100) == []
        assert await log.claim_durable("heir", AgentVersion("a", "1"), 100) == []
        assert changes == ["changed"]
        await in_thread(server.execute, f"UPDATE {log._schema}.serving SET since = since - 5")
        assert len(await log.claim_lost("heir", 100)) == 1


@aio
async def test_a_clock_that_is_set_back_after_a_restart_does_not_stop_claims(
    server: PostgresServer,
) -> None:
    async with logs(server=server, lease=5.0) as [log]:
        await opened(log)
        await in_thread(server.execute, f"UPDATE {log._schema}.leases SET until = 1")
        await in_thread(server.execute, f"UPDATE {log._schema}.serving SET since = since + 1e10")
        assert len(await log.claim_lost("heir", 100)) == 1


@aio
async def test_a_cancelled_caller_cancels_no_statement(server: PostgresServer) -> None:
    """A cancel request may hit another client of a pooler."""
    async with logs(server=server) as [log]:
        stream = await opened(log)
        await in_thread(server.set, "log_min_messages", "debug3")
        for seq in range(1, 30):
            appending = asyncio.ensure_future(log.append(stream.stream_id, 1, seq, [b"%d" % seq]))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            appending.cancel()
            await asyncio.gather(appending, return_exceptions=True)
            await log.append(stream.stream_id, 1, seq, [b"%d" % seq])
        assert await everything(log, stream.stream_id) == entries(29)
        assert "canceling statement due to user request" not in server.log


@aio
async def test_a_log_that_stops_while_the_server_is_frozen(server: PostgresServer) -> None:
    log = PostgresStreamLog(server.url)
    await log.start("me")
    stream = await opened(log)
    server.pause()
    appending = asyncio.ensure_future(log.append(stream.stream_id, 1, 1, [b"1"]))
    reading = asyncio.ensure_future(log.meta(stream.stream_id))
    await asyncio.sleep(0.1)
    started = time.monotonic()
    await log.stop("me")
    assert time.monotonic() - started < 8
    for call in (appending, reading):
        with pytest.raises(LogUnavailable, match="has been stopped"):
            await call
    server.go_on()


@aio
async def test_a_stream_that_another_call_has_locked_holds_up_no_other_one(
    server: PostgresServer,
) -> None:
    async with logs(server=server) as [log]:
        locked, free = await opened(log), await opened(log)
        done = asyncio.Event()
        holding = asyncio.ensure_future(
            in_thread(
                server.execute,
                f"WITH locked AS MATERIALIZED (SELECT FROM {log._schema}.streams WHERE stream_id ="
                f" '{locked.stream_id}' FOR NO KEY UPDATE) SELECT pg_sleep(2) FROM locked",
            )
        )
        holding.add_done_callback(lambda _: done.set())
        await process_that_waits(server, "PgSleep")
        waiting = asyncio.ensure_future(log.append(locked.stream_id, 1, 1, [b"1"]))
        for seq in range(1, 20):
            await log.append(free.stream_id, 1, seq, [b"%d" % seq])
        assert not done.is_set()
        assert not waiting.done()
        assert await waiting is False
        await holding


@aio
async def test_a_lost_listener_connects_again_and_wakes_its_readers(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with logs(2, server=server, poll=1e6) as [writer, other]:
        stream = await opened(writer)
        reading = asyncio.ensure_future(other.read(stream.stream_id, 0, 10, 60.0))
        heard = other._session().announcements
        assert heard is not None
        await until(lambda: heard._heard)
        await asyncio.sleep(0.3)  # it has looked once more, and waits
        connect, may_connect = heard._store.server.connect, asyncio.Event()

        async def connect_later(*arguments: Any) -> Any:
            await may_connect.wait()
            return await connect(*arguments)

        monkeypatch.setattr(heard._store.server, "connect", connect_later)
        await end_connections(server, "query LIKE 'LISTEN%' OR query = 'SELECT 1'")
        await writer.append(stream.stream_id, 1, 1, [b"1"])
        sent = writer._session().announcements
        assert sent is not None
        await until(lambda: not (sent._timer or sent._sending))
        may_connect.set()
        assert (await asyncio.wait_for(reading, 20)).entries == [b"1"]


@aio
async def test_an_announcement_that_was_lost_is_found_by_the_poll(server: PostgresServer) -> None:
    async with logs(2, server=server, poll=0.2) as [writer, other]:
        stream = await opened(writer)
        silent = writer._session().announcements
        assert silent is not None
        silent._send = lambda: None  # type: ignore[method-assign]
        reading = asyncio.ensure_future(other.read(stream.stream_id, 0, 10, 60.0))
        await asyncio.sleep(0.1)
        await writer.append(stream.stream_id, 1, 1, [b"1"])
        assert (await asyncio.wait_for(reading, 20)).entries == [b"1"]
        silent._timer = None


@aio
async def test_a_reader_in_another_process_is_woken_by_an_announcement() -> None:
    async with logs(2, poll=1e6) as [writer, other]:
        stream = await opened(writer)
        for seq in range(1, 6):
            reading = asyncio.ensure_future(other.read(stream.stream_id, seq - 1, 10, 60.0))
            await asyncio.sleep(0.05)
            await writer.append(stream.stream_id, 1, seq, [b"%d" % seq])
            assert (await asyncio.wait_for(reading, 10)).entries == [b"%d" % seq]
        reading = asyncio.ensure_future(other.read(stream.stream_id, 5, 10, 60.0))
        await asyncio.sleep(0.05)
        await writer.close(stream.stream_id, 1, 6, [b"6"], "complete")
        assert (await asyncio.wait_for(reading, 10)).ended
