"""An operation is one statement, which waits for nobody it need not wait for."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import asyncpg  # type: ignore[import-untyped]
import pytest

from coreason_client.server.errors import LogUnavailable
from coreason_client.server.log import (
    AgentVersion,
    Conversation,
    LeaseState,
    NewStream,
    Notes,
    PostgresStreamLog,
)
from coreason_client.server.log.deliveries import Delivery
from coreason_client.server.log.postgres._connection import answered
from coreason_client.server.log.tasks import StreamEnd, TaskChange, TaskQuery, TaskRecord

from ..aio import aio
from .postgres_logs import NEVER, everything, logs
from .postgres_server import PostgresServer, shared_server

AGENT = AgentVersion("agent", "1")
SOON = 20.0


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server that a test may harm."""
    with PostgresServer() as own:
        yield own


async def in_thread(function: Any, *arguments: Any) -> Any:
    return await asyncio.to_thread(function, *arguments)


async def opened(log: PostgresStreamLog, agent: AgentVersion | None = None) -> NewStream:
    stream = NewStream(uuid4(), "ann", uuid4(), "f", b"question", agent)
    await log.open(stream, "me")
    return stream


async def waiting_call(server: PostgresServer, function: str, event: str) -> int:
    """Wait until a call of a function waits for something; return the process that serves it."""
    query = (
        "SELECT pid FROM pg_stat_activity WHERE wait_event = $1 AND query LIKE $2"
        " AND pid <> pg_backend_pid()"
    )
    async with asyncio.timeout(SOON):
        while not (found := await in_thread(server.execute, query, event, f"%.{function}(%")):
            pass
    return int(found[0][0])


@asynccontextmanager
async def locked(server: PostgresServer, query: str) -> Any:
    """Hold the locks of a query."""
    connection = await asyncpg.connect(server.url)
    try:
        await connection.execute(f"BEGIN; {query}")
        yield
        await connection.execute("COMMIT")
    finally:
        connection.terminate()


@aio
async def test_an_operation_is_one_statement(server: PostgresServer) -> None:
    """A process that is stopped between two statements would keep its locks."""
    async with logs(server=server, poll=NEVER) as [log]:
        await opened(log)
        await in_thread(server.set, "log_statement", "all")
        begin = len(server.log)
        id_ = (await opened(log, AGENT)).stream_id
        await log.append(id_, 1, 1, [b"1"])
        await log.append(id_, 1, 2, [b"2"], Notes(1, [b"note"]))
        await log.request_cancel(id_)
        await log.renew({id_: 1})
        await log.release(id_, 1)
        [claim] = await log.claim_durable("me", AGENT, 1)
        held = await log.claim_held(id_, claim.epoch, "me")
        await log.close(id_, held.epoch, 3, [b"3"], "complete")
        await log.add_turn(Conversation("ann", "session"), id_, b"turn")
        await log.meta(id_)
        log._session().owned.drop(id_)
        await log.read(id_, 0, 10, 0)
        await log.stop("owner 0")
        statements = re.findall(r"(?:statement|execute [^:]*): (.*)", server.log[begin:])
        await log.start("owner 0")
    assert not [text for text in statements if re.match("BEGIN|START|COMMIT", text)]
    calls = [
        found[1] for text in statements if (found := re.search(log._schema + r"\.(\w+)\(", text))
    ]
    expected = "open append_run append_run request_cancel renew release claim claim_held append"
    assert [
        call for call in calls if call != "announce"
    ] == f"{expected} add_turn describe read".split()


@aio
async def test_appends_that_wait_together_share_a_commit() -> None:
    async with logs() as [log]:
        streams = [await opened(log) for _ in range(60)]
        await asyncio.gather(*(log.append(one.stream_id, 1, 1, [b"1"]) for one in streams))
        query = f"SELECT count(DISTINCT xmin::text) FROM {log._schema}.runs"
        [(commits,)] = await in_thread(shared_server().execute, query)
        assert commits < 6


@aio
async def test_a_process_keeps_six_connections() -> None:
    async with logs(url=f"{shared_server().url}&application_name=six") as [log]:
        streams = await asyncio.gather(*(opened(log) for _ in range(50)))
        await asyncio.gather(*(log.append(one.stream_id, 1, 1, [b"1"]) for one in streams))
        await asyncio.gather(*(log.meta(one.stream_id) for one in streams))
        query = "SELECT query FROM pg_stat_activity WHERE application_name = 'six'"
        rows = await in_thread(shared_server().execute, query)
        assert len(rows) == 6
        assert len([text for (text,) in rows if text.startswith("LISTEN")]) == 1


@aio
async def test_one_more_connection_finds_out_why_nobody_answers(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with logs(server=server, patience=2.0) as [log]:
        id_ = (await opened(log)).stream_id

        async def call_all() -> set[type]:
            calls = (log.append(id_, 1, 1, [b"1"]), log.meta(id_), log.meta(id_))
            cancels = (log.request_cancel(id_), log.request_cancel(id_))
            results = await asyncio.gather(*calls, *cancels, return_exceptions=True)
            return set(map(type, results))

        await call_all()
        probes = most = 0
        connect = log._session().store.server.connect

        async def counted(*arguments: Any, **options: Any) -> Any:
            nonlocal probes, most
            probe = "timeout" in options
            probes, most = probes + probe, max(most, probes + probe)
            try:
                return await connect(*arguments, **options)
            finally:
                probes -= probe

        monkeypatch.setattr(log._session().store.server, "connect", counted)
        server.pause()
        assert await call_all() == {LogUnavailable}
        server.go_on()
        assert most == 1


@pytest.mark.parametrize("order", [1, -1])
@aio
async def test_ends_that_share_a_call_and_a_renewal_do_not_wait_for_each_other(
    server: PostgresServer, order: int
) -> None:
    """Both lock leases, so both do it in the same order."""
    async with logs(server=server) as [log]:
        first, second, other = sorted([(await opened(log)).stream_id for _ in range(3)])
        query = (
            f"SELECT FROM {log._schema}.leases JOIN {log._schema}.streams USING (n)"
            f" WHERE stream_id = '{first}' FOR UPDATE OF leases"
        )
        async with locked(server, query):
            renewing = asyncio.ensure_future(log.renew({first: 1, second: 1}))
            await waiting_call(server, "renew", "transactionid")
            ending = asyncio.gather(
                log.append(other, 1, 1, [b"1"]),  # for which the others wait, so they share a call
                *(log.close(one, 1, 1, [b"end"], "complete") for one in (first, second)[::order]),
            )
            await waiting_call(server, "append", "tuple")
        await asyncio.gather(renewing, ending)
    assert "deadlock detected" not in server.log


@aio
async def test_a_claim_knows_of_the_append_that_was_stored_at_the_same_time(
    server: PostgresServer,
) -> None:
    """Otherwise two processes would write the same number."""
    async with logs(server=server, lease=60.0) as [log]:
        schema, id_ = log._schema, (await opened(log)).stream_id
        await in_thread(server.execute, f"UPDATE {schema}.leases SET until = 1")
        append = (
            f"SELECT FROM {schema}.streams FOR NO KEY UPDATE;"
            f" INSERT INTO {schema}.runs SELECT n, 1, 1, '\\x' FROM {schema}.streams"
        )
        async with locked(server, append):
            assert await log.claim_lost("heir", 9) == []
            claiming = asyncio.ensure_future(log.claim_held(id_, 1, "me"))
            await waiting_call(server, "claim_held", "transactionid")
        assert (await claiming).last_seq == 1


@aio
async def test_a_lease_begins_when_its_lock_is_there(server: PostgresServer) -> None:
    async with logs(server=server, lease=60.0) as [log]:
        id_ = (await opened(log)).stream_id
        async with locked(server, f"SELECT FROM {log._schema}.leases FOR UPDATE"):
            renewing = asyncio.ensure_future(log.renew({id_: 1}))
            await waiting_call(server, "renew", "transactionid")
            await in_thread(server.execute, "SELECT pg_sleep(0.3)")
            query = "SELECT extract(epoch FROM clock_timestamp())::float8"
            [(now,)] = await in_thread(server.execute, query)
        assert await renewing == {id_: LeaseState.HELD}
        [(ends,)] = await in_thread(server.execute, f"SELECT until FROM {log._schema}.leases")
        assert ends >= now + 60.0


@aio
async def test_a_call_that_somebody_has_cancelled_is_repeated(server: PostgresServer) -> None:
    """A pooler may mistake us for another client. The call may have been carried out or not."""
    async with logs(server=server) as [log]:
        stream = await opened(log)
        async with locked(server, f"SELECT FROM {log._schema}.streams FOR UPDATE"):
            cancelling = asyncio.ensure_future(log.request_cancel(stream.stream_id))
            for _ in range(2):
                pid = await waiting_call(server, "request_cancel", "transactionid")
                await in_thread(server.execute, "SELECT pg_cancel_backend($1)", pid)
        await cancelling
        assert (await log.meta(stream.stream_id)).cancel_requested


class SilentConnection:
    """One that never replies; its call fails when it is closed, as that of asyncpg does."""

    def __init__(self) -> None:
        self.reply: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def terminate(self) -> None:
        self.reply.set_exception(ConnectionResetError())


@pytest.mark.parametrize("cancelled", [False, True])
@aio
async def test_a_call_without_a_reply_is_never_cancelled(cancelled: bool) -> None:
    """A cancel request may hit another client of a pooler: the connection is closed instead."""
    connection = SilentConnection()
    waiting = asyncio.ensure_future(answered(connection, connection.reply, 60 if cancelled else 0))
    await asyncio.sleep(0)
    if cancelled:
        waiting.cancel()
    with pytest.raises(asyncio.CancelledError if cancelled else ConnectionResetError):
        await waiting
    assert isinstance(connection.reply.exception(), ConnectionResetError)


@aio
async def test_a_timeout_of_statements_is_reported_within_the_patience(
    server: PostgresServer,
) -> None:
    async with logs(server=server) as [first]:  # this one creates the tables, which takes longer
        stream = await opened(first)
        await in_thread(server.execute, "ALTER ROLE postgres SET statement_timeout = '200ms'")
        async with logs(server=server, schema=first._schema, patience=1.0) as [log]:
            async with locked(server, f"SELECT FROM {log._schema}.streams FOR UPDATE"):
                reason = "for 1 s: canceling statement due to state"
                with pytest.raises(LogUnavailable, match=reason):
                    await asyncio.wait_for(log.request_cancel(stream.stream_id), SOON)
            await log.request_cancel(stream.stream_id)


def test_the_rows_of_streams_survive_a_crash_and_have_no_foreign_keys() -> None:
    schema = asyncio.run(_schema_of_a_log())
    tables = "SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace"
    unlogged = f"{tables} AND relkind = 'r' AND relpersistence <> 'p' ORDER BY 1"
    assert shared_server().execute(unlogged, schema) == [("buckets",), ("reservations",)]
    keys = "SELECT conname FROM pg_constraint WHERE connamespace = $1::regnamespace"
    assert shared_server().execute(f"{keys} AND contype = 'f'", schema) == []


async def _schema_of_a_log() -> str:
    async with logs() as [log]:
        return log._schema


# With a standby.


def test_no_function_reads_from_a_standby(server: PostgresServer) -> None:
    """A pooler may have moved our connection there."""
    standby = server.add_standby("other")

    async def prepare() -> str:
        async with logs(server=server) as [log]:
            await opened(log)
            return log._schema

    schema = asyncio.run(prepare())
    functions = server.execute(
        "SELECT proname, pronargs FROM pg_proc WHERE pronamespace = $1::regnamespace"
        " AND provolatile = 's' AND proname <> 'server'",
        schema,
    )
    assert {"read", "describe", "positions"} < {name for name, _ in functions}
    standby.catch_up()
    for name, count in [*functions, ("claim", 8)]:
        nothing = ", ".join(["NULL"] * count)
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError, match="the server is a standby"):
            standby.execute(f"SELECT * FROM {schema}.{name}({nothing})")


Call = Callable[[], Awaitable[Any]]


async def calls_by_function(log: PostgresStreamLog) -> list[tuple[str, Call]]:
    """Return a call of each function that writes; all of them can be repeated."""
    plain, ended, held = [(await opened(log)).stream_id for _ in range(3)]
    durable = (await opened(log, AGENT)).stream_id
    known = NewStream(uuid4(), "ann", uuid4(), "f")
    first, later, ending = (NewStream(uuid4(), "ann", uuid4(), "f") for _ in range(3))
    records = [TaskRecord(one.stream_id, "ann", "c", "working", 1.0) for one in (first, later)]
    last = TaskRecord(ending.stream_id, "ann", "c", "working", 1.0)
    for stream, record in ((later, records[1]), (ending, last)):
        await log.tasks.begin(stream, record, {})
    changes = [TaskChange(record, record.updated(state="new")) for record in (*records, last)]
    further = NewStream(uuid4(), "ann", uuid4(), "f")
    end = StreamEnd(ending.stream_id, 1, 1, [b"end"], "complete")
    delivery = Delivery(first.stream_id, "hook", b"", b"", due=None)
    claim = (None, 10.0, uuid4(), 1, 9, b"agent", b"1", 60.0)
    claim_held = (None, 10.0, held, 1, uuid4(), 1)
    deliveries, call = log.tasks.deliveries, log._session().store.call
    return [
        ("open", lambda: log.open(known, "me")),
        ("append_run", lambda: log.append(plain, 1, 1, [b"1"])),
        ("append", lambda: log.close(ended, 1, 1, [b"end"], "complete")),
        ("request_cancel", lambda: log.request_cancel(plain)),
        ("release", lambda: log.release(durable, 1)),
        ("claim", lambda: call("claim", *claim)),
        ("claim_held", lambda: call("claim_held", *claim_held)),
        ("add_turn", lambda: log.add_turn(Conversation("ann", "s"), plain, b"turn")),
        ("begin_task", lambda: log.tasks.begin(first, records[0], {})),
        ("change_question", lambda: log.tasks.start(plain, 1, b"started")),
        ("update_task", lambda: log.tasks.update(changes[0])),
        ("add_stream", lambda: log.tasks.add_turn(further, changes[1])),
        ("end_task", lambda: log.tasks.end(end, changes[2])),
        ("put_delivery", lambda: deliveries.put(delivery, 5)),
        ("replace_delivery", lambda: deliveries.replace(delivery, delivery)),
        ("delete_delivery", lambda: deliveries.delete(delivery.task_id, delivery.name)),
    ]


@aio
async def test_a_repetition_waits_for_the_standby_as_the_first_attempt_does(
    server: PostgresServer,
) -> None:
    """The first one may have been carried out there or not: its reply was lost."""
    standby = server.add_standby("other")
    async with logs(server=server, replicas=1, poll=NEVER, patience=60.0) as [log]:
        for function, call in await calls_by_function(log):
            reply = await call()
            standby.pause()
            repeated = asyncio.ensure_future(call())
            try:
                await waiting_call(server, function, "SyncRep")
            finally:
                standby.go_on()
            again = await repeated
            if function.startswith("claim"):
                assert again == reply
                assert len(again) == 1


@aio
async def test_nobody_sees_what_waits_for_a_standby(server: PostgresServer) -> None:
    standby = server.add_standby("other")
    async with logs(2, server=server, replicas=1, patience=60.0) as [log, other]:
        id_ = (await opened(log)).stream_id
        standby.pause()
        appending = asyncio.ensure_future(log.append(id_, 1, 1, [b"1"]))
        await waiting_call(server, "append_run", "SyncRep")
        for reader in (log, other):
            assert await everything(reader, id_) == []
        standby.go_on()
        await appending
        assert await everything(other, id_) == [b"1"]


# Plans.


async def blocks_of_a_renewal(log: PostgresStreamLog, id_: UUID) -> int:
    query = (
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)"
        f" SELECT * FROM {log._schema}.renew(NULL, 10, ARRAY['{id_}'::uuid], ARRAY[1])"
    )
    [(plan,)] = await in_thread(shared_server().execute, query)
    return int(json.loads(plan)[0]["Plan"]["Shared Hit Blocks"])


@aio
async def test_a_renewal_during_a_backup_reads_only_the_latest_row_of_a_lease() -> None:
    """The earlier ones cannot be removed while a snapshot is held."""
    async with logs() as [log]:
        id_ = (await opened(log)).stream_id
        isolation = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
        async with locked(shared_server(), f"{isolation}; SELECT 1"):
            first = await blocks_of_a_renewal(log, id_)
            for _ in range(500):
                await log.renew({id_: 1})
            assert await blocks_of_a_renewal(log, id_) < first + 100


EXPLAINED: dict[str, Any] = {
    "session_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": 0,
    "auto_explain.log_nested_statements": True,
}


async def expired(log: PostgresStreamLog) -> None:
    """Call what only the upkeep calls."""
    await log.claim_lost("me", 10)
    await log.renew({(await opened(log)).stream_id: 1})
    await log._session().store.read("positions", [])
    await log.tasks.find(TaskQuery("ann", 5))
    await log.tasks.deliveries.due(2.0, 5)
    await log.quotas.take_token("ann", 60)
    await log.tasks.drop(NEVER * NEVER, NEVER * NEVER)
    await log.expire(0.0, 0.0)


@aio
async def test_no_operation_reads_a_whole_table() -> None:
    """The planner would also compile such a plan, because the functions forbid it."""
    with PostgresServer(**EXPLAINED) as server:
        async with logs(server=server) as [log]:
            for _, call in await calls_by_function(log):
                await call()
            await expired(log)
            tables = await in_thread(
                server.execute,
                "SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace"
                " AND relkind = 'r' AND relname <> 'schema_version'",
                log._schema,
            )
        plans = server.log
    assert "Index Scan using streams_" in plans
    scanned = set(re.findall(r"Seq Scan on (\w+)", plans))
    assert scanned & {name for (name,) in tables} == set()
