"""The primary may change, and replicas may have to confirm what is written."""

import asyncio
import functools
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from coreason_client.errors import ArgumentError
from coreason_client.server.errors import LogUnavailable
from coreason_client.server.log import NewStream, ValkeyStreamLog
from coreason_client.server.log.base import AgentVersion, Claim, Notes
from coreason_client.server.log.valkey._opening import agent_digest

from ..aio import aio
from .valkey_logs import everything, logs, new, until
from .valkey_server import ValkeyCluster, ValkeyServer, fresh_prefix

LIMIT = 60.0
AGENT = AgentVersion("writer", "1")


# Several servers need time on a busy machine.
slow_aio = functools.partial(aio, limit=3 * LIMIT)


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def promote(replica: ValkeyServer) -> None:
    """Make a replica of a cluster a primary.

    An election that gets no majority in time is given up after seconds, and must be asked for anew.
    """
    asked = -LIMIT

    def is_promoted() -> bool:
        nonlocal asked
        if replica.command("ROLE")[0] == b"master":
            return True
        if time.monotonic() - asked > 6.0:
            asked = time.monotonic()
            replica.command("CLUSTER", "FAILOVER")
        return False

    wait_for(is_promoted)


def is_in_sync(replica: ValkeyServer) -> bool:
    return bool(replica.command("ROLE")[3] == b"connected")


def follow(replica: ValkeyServer, primary: ValkeyServer) -> None:
    """Make a server the replica of another one, and wait until it has its data."""
    replica.command("REPLICAOF", "127.0.0.1", primary.port)
    wait_for(lambda: is_in_sync(replica))


@pytest.fixture
def primary() -> Iterator[ValkeyServer]:
    with ValkeyServer("--repl-diskless-sync-delay", "0") as server:
        yield server


@pytest.fixture
def replica(primary: ValkeyServer) -> Iterator[ValkeyServer]:
    with ValkeyServer("--repl-diskless-sync-delay", "0") as server:
        follow(server, primary)
        yield server


class Switch:
    """One address in front of several servers, of which one is used; connections are cut."""

    def __init__(self, target: ValkeyServer) -> None:
        self.target = target
        self.port = 0
        self._writers: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield f"valkey://127.0.0.1:{self.port}/0"
        finally:
            server.close()
            self.cut()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            other, back = await asyncio.open_connection("127.0.0.1", self.target.port)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, back}
        await asyncio.gather(_copy(reader, back), _copy(other, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.transport.abort()


async def opened(log: ValkeyStreamLog, agent: AgentVersion | None = None) -> UUID:
    stream = NewStream(uuid4(), "ann", uuid4(), "f", b"question", agent)
    return (await log.open(stream, "owner 0")).meta.stream_id


# Which server it is.


@slow_aio
async def test_a_replica_is_not_used_as_the_store(
    primary: ValkeyServer, replica: ValkeyServer
) -> None:
    log = ValkeyStreamLog(replica.url, prefix=fresh_prefix(), patience=0.5)
    with pytest.raises(LogUnavailable, match="is a read-only replica"):
        await log.start("owner")


@slow_aio
async def test_reads_leave_a_server_that_was_demoted(
    primary: ValkeyServer, replica: ValkeyServer
) -> None:
    """A read connection to the old primary would show what a lagging replica has."""
    switch = Switch(primary)
    async with switch.running() as url:
        log = ValkeyStreamLog(url, prefix=fresh_prefix())
        await log.start("owner 0")
        try:
            id_ = await opened(log)
            await log.append(id_, 1, 1, [b"1"])
            assert await everything(log, id_) == [b"1"]
            log._session().disown(id_)  # so that reads ask the store
            assert await everything(log, id_) == [b"1"]  # its connection is open now
            wait_for(lambda: replica.command("HGET", log._keys.meta(id_), "last") == b"1")
            replica.command("REPLICAOF", "NO", "ONE")
            switch.target = replica  # connections to the old primary stay open
            primary.command("REPLICAOF", "127.0.0.1", 1)  # a primary that cannot be reached
            await log.append(id_, 1, 2, [b"2"])  # READONLY, and then on the new primary
            assert await everything(log, id_) == [b"1", b"2"]
            assert log._session().store.primary.changes == 1
        finally:
            await log.stop("owner 0")


@pytest.mark.parametrize("agent", [None, AGENT])
@slow_aio
async def test_nobody_claims_for_one_lease_after_the_store_has_changed(
    primary: ValkeyServer,
    replica: ValkeyServer,
    agent: AgentVersion | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    switch = Switch(primary)
    async with switch.running() as url:
        log = ValkeyStreamLog(url, prefix=fresh_prefix(), lease=1.5)
        await log.start("owner 0")
        try:
            id_ = await opened(log, agent)
            primary.command("WAIT", 1, 5000)
            replica.command("REPLICAOF", "NO", "ONE")
            await asyncio.sleep(1.6)  # the lease runs out, as in a long failover
            switch.target = replica
            switch.cut()

            async def claims() -> int:
                if agent is None:
                    return len(await log.claim_lost("heir", 10))
                return len(await log.claim_durable("heir", agent, 10))

            assert await log.turns(_talk(), 1) == []  # a login, which notices the change
            changed = time.monotonic()
            assert await claims() == 0
            assert (await log.renew({id_: 1}))[id_].value == "held"  # a living producer is first
            found = 0
            while not found:
                found = await claims()
                await asyncio.sleep(0.05)
            assert time.monotonic() - changed >= 1.4
        finally:
            await log.stop("owner 0")
    assert "is another server than before, or was restarted" in caplog.text


@pytest.mark.parametrize("agent", [None, AGENT])
@slow_aio
async def test_a_process_that_starts_after_a_failover_does_not_claim_for_one_lease(
    primary: ValkeyServer, replica: ValkeyServer, agent: AgentVersion | None
) -> None:
    """It has never seen the other server, so the store remembers when it changed."""
    switch, prefix = Switch(primary), fresh_prefix()
    async with switch.running() as url:
        log, fresh = (ValkeyStreamLog(url, prefix=prefix, lease=1.5) for _ in range(2))

        async def claims(by: ValkeyStreamLog) -> int:
            if agent is None:
                return len(await by.claim_lost("heir", 10))
            return len(await by.claim_durable("heir", agent, 10))

        await log.start("owner 0")
        try:
            id_ = await opened(log, agent)
            assert await claims(log) == 0
            primary.command("WAIT", 1, 5000)
            replica.command("REPLICAOF", "NO", "ONE")
            await asyncio.sleep(1.6)  # the lease runs out, as in a long failover
            switch.target = replica
            switch.cut()
            await fresh.start("owner 1")
            changed = time.monotonic()
            assert await claims(fresh) == 0
            assert (await log.renew({id_: 1}))[id_].value == "held"
            found = 0
            while not found:
                found = await claims(fresh)
                await asyncio.sleep(0.05)
            assert time.monotonic() - changed >= 1.4
        finally:
            await log.stop("owner 0")
            await fresh.stop("owner 1")


def _talk() -> Any:
    from coreason_client.server.log.base import Conversation

    return Conversation("ann", "session")


# Confirmed by replicas.


@slow_aio
async def test_an_append_is_acknowledged_and_shown_when_the_replica_has_it(
    primary: ValkeyServer, replica: ValkeyServer
) -> None:
    async with logs(2, primary, replicas=1, lease=6.0) as (log, other):
        id_ = await opened(log)
        await log.append(id_, 1, 1, [b"1"])
        replica.command("REPLICAOF", "127.0.0.1", 1)  # it gets nothing from now on
        append = asyncio.create_task(log.append(id_, 1, 2, [b"2"]))
        primary_has = log._keys.meta(id_)
        await until(lambda: primary.command("HGET", primary_has, "last") == b"2")
        assert await everything(log, id_) == [b"1"]
        assert await everything(other, id_) == [b"1"]  # the primary has it, readers do not
        waiting = asyncio.create_task(other.read(id_, 1, 10, LIMIT))
        await until(lambda: log.degraded == "replicas missing")
        assert not append.done()
        follow(replica, primary)
        async with asyncio.timeout(LIMIT):
            assert await append is False
            assert list((await waiting).entries) == [b"2"]
        assert log.degraded is None
        assert await everything(other, id_) == [b"1", b"2"]
        await log.close(id_, 1, 3, [b"end"], "complete")
        assert (await other.read(id_, 2, 10, LIMIT)).ended


@slow_aio
async def test_what_was_acknowledged_survives_a_failover(
    primary: ValkeyServer, replica: ValkeyServer
) -> None:
    switch = Switch(primary)
    async with switch.running() as url:
        log = ValkeyStreamLog(url, prefix=fresh_prefix(), replicas=1)
        await log.start("owner 0")
        id_ = await opened(log)
        for number in range(1, 51):
            await log.append(id_, 1, number, [b"%d" % number])
        primary.kill()
        replica.command("REPLICAOF", "NO", "ONE")
        entries = replica.command("XLEN", log._keys.entries(id_))
        assert entries == 50
        await log.stop("owner 0")


@slow_aio
async def test_too_few_replicas_are_one_clear_error(primary: ValkeyServer) -> None:
    log = ValkeyStreamLog(primary.url, prefix=fresh_prefix(), replicas=2, patience=2.0)
    with pytest.raises(LogUnavailable, match="too few replicas: 0 of 2 replicas confirmed"):
        await log.start("owner")


@slow_aio
async def test_the_state_of_the_replicas_is_logged_once(
    primary: ValkeyServer, replica: ValkeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with logs(1, primary, replicas=1, patience=1.0, lease=1.0) as (log,):
        id_ = await opened(log)
        replica.command("REPLICAOF", "127.0.0.1", 1)
        with pytest.raises(LogUnavailable, match="too few replicas"):
            await log.append(id_, 1, 1, [b"1"])
        with pytest.raises(LogUnavailable, match="too few replicas"):
            await log.append(id_, 1, 1, [b"1"])
        # A renewal needs no replica, so the producer keeps its stream.
        assert (await log.renew({id_: 1}))[id_].value == "held"
        follow(replica, primary)
        await log.append(id_, 1, 1, [b"1"])
        assert await everything(log, id_) == [b"1"]
    lines = [r.message for r in caplog.records if "replicas of the store" in r.message]
    assert len(lines) == 2
    assert "0 of 1 replicas" in lines[0]
    assert "confirm writes again" in lines[1]


@slow_aio
async def test_a_repeated_append_is_confirmed_too(
    primary: ValkeyServer, replica: ValkeyServer
) -> None:
    """It has nothing to write, and on a new connection WAIT would confirm nothing."""
    async with logs(2, primary, replicas=1, patience=1.0, lease=1.0) as (log, second):
        id_ = await opened(log)
        replica.command("REPLICAOF", "127.0.0.1", 1)
        for writer in (log, second):
            with pytest.raises(LogUnavailable, match="too few replicas"):
                await writer.append(id_, 1, 1, [b"1"])
        assert primary.command("HGET", log._keys.meta(id_), "last") == b"1"
        assert await everything(second, id_) == []


@slow_aio
async def test_a_stream_whose_producer_died_before_it_showed_the_end_is_shown(
    primary: ValkeyServer, replica: ValkeyServer
) -> None:
    async with logs(2, primary, replicas=1, lease=1.0) as (log, other):
        id_ = await opened(log)
        await log.append(id_, 1, 1, [b"1"])
        await log.close(id_, 1, 2, [b"end"], "complete")
        # As it was between the confirmation of the end and its announcement.
        keys = log._keys
        primary.command("HSET", keys.meta(id_), "safe", "1")
        request = primary.command("HGET", keys.meta(id_), "index").decode()
        await log._session().indexes.remove_ended(id_, request)
        await log._session().indexes.extend_leases({id_: ""}, 1.0)
        assert await everything(other, id_) == [b"1"]
        assert list(await other.claim_lost("heir", 10)) == []
        assert await everything(other, id_) == [b"1", b"end"]


@pytest.mark.parametrize("replicas", [-1, 100])
def test_the_number_of_replicas_is_checked(replicas: int) -> None:
    with pytest.raises(ArgumentError, match="replicas must be a number from 0 to 99"):
        ValkeyStreamLog("valkey://127.0.0.1", replicas=replicas)


# Sentinel.


class Sentinel(ValkeyServer):
    """A process that watches a primary, alone."""

    def __init__(self, primary: ValkeyServer) -> None:
        self._primary = primary
        super().__init__()

    def _arguments(self) -> list[str]:
        file = Path(self._folder.name, "sentinel.conf")
        file.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {self._folder.name}\n"
            f"sentinel monitor agents 127.0.0.1 {self._primary.port} 1\n"
        )
        return [str(file), "--sentinel"]


@pytest.fixture
def sentinel(primary: ValkeyServer, replica: ValkeyServer) -> Iterator[ValkeyServer]:
    with Sentinel(primary) as server:
        server.command("SENTINEL", "DEBUG", "info-period", 100)
        wait_for(lambda: len(server.command("SENTINEL", "REPLICAS", "agents")) == 1)
        yield server


@slow_aio
async def test_sentinel_names_the_primary_before_and_after_a_failover(
    primary: ValkeyServer,
    replica: ValkeyServer,
    sentinel: ValkeyServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    url = f"valkey+sentinel://127.0.0.1:1,127.0.0.1:{sentinel.port}/agents/0"
    log = ValkeyStreamLog(url, prefix=fresh_prefix(), lease=2.0, patience=LIMIT)
    await log.start("owner 0")
    try:
        id_ = await opened(log)
        await log.append(id_, 1, 1, [b"1"])
        wait_for(lambda: replica.command("XLEN", log._keys.entries(id_)) == 1)
        wait_for(lambda: sentinel.command("SENTINEL", "CKQUORUM", "agents"))
        sentinel.command("SENTINEL", "FAILOVER", "agents")
        wait_for(lambda: replica.command("ROLE")[0] == b"master")
        primary.kill()  # until Sentinel reconfigures it, it would accept writes
        async with asyncio.timeout(LIMIT):
            await log.append(id_, 1, 2, [b"2"])
        assert replica.command("XLEN", log._keys.entries(id_)) == 2
        stream = new()
        assert (await log.open(stream, "owner 0")).created
        # Messages come from the new primary too.
        log._session().disown(id_)
        waiting = asyncio.create_task(log.read(id_, 2, 10, LIMIT))
        await asyncio.sleep(0.1)
        await log.append(id_, 1, 3, [b"3"])
        async with asyncio.timeout(LIMIT):
            assert list((await waiting).entries) == [b"3"]
    finally:
        await log.stop("owner 0")
    assert "is another server than before" in caplog.text


# A cluster.


@pytest.mark.timeout(3 * LIMIT)
@slow_aio
async def test_replicas_of_a_cluster_confirm_and_are_promoted() -> None:
    cluster = ValkeyCluster()
    try:
        replicas = cluster.add_replicas()
        async with logs(
            2, cluster.nodes[0], cluster=True, replicas=1, lease=3.0, patience=LIMIT
        ) as (log, other):
            ids = [await opened(log, AGENT) for _ in range(12)]  # on all nodes
            for id_ in ids:
                await log.append(id_, 1, 1, [b"1"], Notes(1, [b"note"]))
                assert await everything(other, id_) == [b"1"]
            for replica in replicas:
                promote(replica)
            for id_ in ids:
                await log.append(id_, 1, 2, [b"2"])
                assert await everything(other, id_) == [b"1", b"2"]
                await log.close(id_, 1, 3, [b"end"], "complete")
                assert (await other.read(id_, 2, 10, LIMIT)).ended
            assert list(await log.claim_lost("heir", 10)) == []
            assert log._session().store.primary.changes
    finally:
        cluster.close()


@slow_aio
async def test_a_stream_whose_lease_is_no_longer_in_the_index_is_found() -> None:
    """In a cluster, the index and the stream are in different slots, which fail over alone."""
    async with logs(2, lease=0.3, poll=0.1) as (log, other):
        for agent in (None, AGENT):
            id_ = await opened(log, agent)
            digest = agent_digest(agent)
            await log._session().indexes.remove_lease(id_, digest)
            waiting = asyncio.create_task(other.read(id_, 0, 10, LIMIT))

            async def claimed(agent: AgentVersion | None = agent) -> list[Claim]:
                if agent is None:
                    return list(await other.claim_lost("heir", 10))
                return list(await other.claim_durable("heir", agent, 10))

            found: list[Claim] = []
            async with asyncio.timeout(LIMIT):
                while not found:
                    await asyncio.sleep(0.05)
                    found = await claimed()
            assert [claim.stream_id for claim in found] == [id_]
            await other.close(id_, found[0].epoch, 1, [b"end"], "producer_lost")
            assert (await waiting).ended
