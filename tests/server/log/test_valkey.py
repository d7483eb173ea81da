"""Only the Valkey log has several logs on one store, and a store that fails."""

import asyncio
import gc
import logging
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
import trustme
from redis._parsers.base import BaseParser
from redis.crc import key_slot
from redis.exceptions import ResponseError

from coreason_client._valkey_address import Script, parse_address
from coreason_client.server.errors import (
    LogUnavailable,
    UnknownStream,
)
from coreason_client.server.log import (
    Conversation,
    LeaseState,
    NewStream,
    ValkeyStreamLog,
)
from coreason_client.server.log._rules import digest
from coreason_client.server.log.valkey import _scripts as scripts
from coreason_client.server.log.valkey._errors import is_transient, rejected, reply_error
from coreason_client.server.log.valkey._keys import KeyNames
from coreason_client.server.log.valkey._subscription import _merge

from ..aio import aio, turns
from .backends import Clock
from .valkey_logs import LONG, NEVER, everything, logs, new, until
from .valkey_server import ValkeyServer, fresh_prefix, shared_cluster, shared_server


@pytest.fixture
def own_server() -> Iterator[ValkeyServer]:
    """A server that a test may harm."""
    with ValkeyServer() as server:
        yield server


# What is in the store.


@aio
async def test_any_bytes_and_any_names_come_back_as_they_were() -> None:
    async with logs() as (log,):
        principal = "Ünï\ud800 {}:*"
        stream = NewStream(uuid4(), principal, uuid4(), "\x00{x}")
        await log.open(stream, "me")
        entries = [bytes(range(256)), b"", b"\r\n$5\r\n", b"x" * 3_000_000]
        await log.append(stream.stream_id, 1, 1, entries)
        assert await everything(log, stream.stream_id) == entries
        found = await log.find(principal, stream.request_id)
        assert found is not None
        assert (found.principal, found.fingerprint) == (principal, "\x00{x}")
        talk = Conversation(principal, "\udcff ")
        await log.add_turn(talk, stream.stream_id, b"\x00")
        assert list(await log.turns(talk, 5)) == [b"\x00"]
        assert list(await log.turns(talk, 0)) == []


@pytest.mark.proves("RES2-5b")
def test_the_keys_of_a_stream_are_in_one_slot() -> None:
    keys = KeyNames("p")
    for _ in range(50):
        id_, name = uuid4(), digest("ann", uuid4().bytes)
        tags = [keys.meta(id_), keys.entries(id_), keys.question(id_), keys.channel(id_)]
        assert {key_slot(key.encode()) for key in tags} == {key_slot(id_.hex.encode())}
        pair = [keys.turns(name), keys.order(name), keys.request(name)]
        assert len({key_slot(key.encode()) for key in pair}) == 1
    for index in (keys.leases, keys.bodies, keys.finals, keys.conversations):
        assert len({key_slot(key.encode()) for key in index}) == len(index)


@pytest.mark.proves("RES2-5b")
@aio
async def test_a_cluster_wakes_readers_on_any_node() -> None:
    cluster = shared_cluster()
    async with logs(2, cluster.nodes[1], cluster=True, poll=NEVER) as (here, there):
        streams = [new() for _ in range(12)]  # on all nodes
        assert len({key_slot(s.stream_id.hex.encode()) // 5462 for s in streams}) > 1
        for stream in streams:
            await here.open(stream, "me")
        waiting = [asyncio.ensure_future(there.read(s.stream_id, 0, 9, LONG)) for s in streams]
        await turns()
        for stream in streams:
            await here.append(stream.stream_id, 1, 1, [b"x"])
        for page in await asyncio.gather(*waiting):
            assert list(page.entries) == [b"x"]


@aio
async def test_a_node_of_a_cluster_is_not_mistaken_for_a_single_store() -> None:
    node = shared_cluster().nodes[0]
    with pytest.raises(
        LogUnavailable, match="is a node of a cluster: pass cluster=True to the log"
    ):
        async with logs(1, node) as (log,):
            for _ in range(20):
                await log.open(new(), "me")


# Two logs.


@aio
async def test_a_cancel_reaches_a_producer_elsewhere() -> None:
    async with logs(2) as (producer, other):
        stream = new()
        await producer.open(stream, "me")
        await other.request_cancel(stream.stream_id)
        assert await producer.append(stream.stream_id, 1, 1, [b"x"]) is True
        assert await producer.renew({stream.stream_id: 1}) == {
            stream.stream_id: LeaseState.CANCEL_REQUESTED
        }


# Waking.


@pytest.mark.proves("RES2-5c")
@aio
async def test_an_append_wakes_readers_elsewhere_and_its_announcement_is_empty() -> None:
    async with logs(2, poll=NEVER, prefix=(prefix := fresh_prefix())) as (producer, other):
        stream = new()
        await producer.open(stream, "me")
        waiting = [asyncio.ensure_future(other.read(stream.stream_id, 0, 9, LONG)) for _ in "ab"]
        channel = f"{prefix}:{{{stream.stream_id.hex}}}:wake"
        await until(lambda: shared_server().command("PUBSUB", "NUMSUB", channel)[1] == 1)
        heard: list[Any] = []
        subscription = other._session().subscription
        take = subscription._handle_message

        def note(message: Any) -> None:
            heard.append(message)
            take(message)

        subscription._handle_message = note  # type: ignore[method-assign]
        await producer.append(stream.stream_id, 1, 1, [b"secret"])
        for page in await asyncio.gather(*waiting):
            assert list(page.entries) == [b"secret"]
        await until(lambda: any(message[0] == b"message" for message in heard))
        # Beside the confirmations of what was subscribed to before.
        messages = [message for message in heard if message[0] == b"message"]
        assert messages == [[b"message", channel.encode(), b""]]
        # Its own readers need no announcement.
        waiting = [asyncio.ensure_future(producer.read(stream.stream_id, 1, 9, LONG))]
        await turns()
        await producer.append(stream.stream_id, 1, 2, [b"more"])
        assert list((await waiting[0]).entries) == [b"more"]
        assert shared_server().command("PUBSUB", "NUMSUB", channel)[1] == 1


@aio
async def test_a_reader_that_comes_between_look_and_subscription_misses_nothing() -> None:
    async with logs(2, poll=NEVER) as (producer, other):
        for _ in range(30):
            stream = new()
            await producer.open(stream, "me")
            reading = asyncio.ensure_future(other.read(stream.stream_id, 0, 9, LONG))
            await turns(_ % 15)
            await producer.append(stream.stream_id, 1, 1, [b"x"])
            assert list((await reading).entries) == [b"x"]


@aio
async def test_a_lost_subscription_is_made_again(own_server: ValkeyServer) -> None:
    async with logs(2, own_server, poll=NEVER) as (producer, other):
        streams = [new() for _ in range(3)]
        for stream in streams:
            await producer.open(stream, "me")
        waiting = [asyncio.ensure_future(other.read(s.stream_id, 0, 9, LONG)) for s in streams]
        await until(lambda: len(own_server.command("PUBSUB", "CHANNELS", "*:wake")) == 3)
        own_server.command("CLIENT", "KILL", "TYPE", "pubsub")
        await producer.append(streams[0].stream_id, 1, 1, [b"x"])  # perhaps announced to nobody
        assert list((await waiting[0]).entries) == [b"x"]
        await until(lambda: len(own_server.command("PUBSUB", "CHANNELS", "*:wake")) == 3)
        await producer.append(streams[1].stream_id, 1, 1, [b"y"])
        assert list((await waiting[1]).entries) == [b"y"]
        waiting[2].cancel()


@aio
async def test_a_quiet_subscription_is_asked_whether_it_lives(
    own_server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coreason_client.server.log.valkey._subscription._PING_INTERVAL", 0.5)
    async with logs(2, own_server, poll=NEVER) as (producer, other):
        stream = new()
        await producer.open(stream, "me")
        reading = asyncio.ensure_future(other.read(stream.stream_id, 0, 9, LONG))
        await until(lambda: own_server.command("PUBSUB", "CHANNELS", "*:wake"))
        subscription = other._session().subscription
        first = subscription._connection
        assert not (await asyncio.wait({reading}, timeout=1.2))[0]
        assert subscription._connection is first  # it answered
        own_server.pause()
        await until(lambda: subscription._connection is not first)  # it did not, and was given up
        own_server.go_on()
        await producer.append(stream.stream_id, 1, 1, [b"x"])
        assert list((await reading).entries) == [b"x"]


@pytest.mark.proves("RES2-5c")
@aio
async def test_without_any_announcement_a_reader_is_only_late() -> None:
    async with logs(2, poll=0.02) as (producer, other):
        other._session().subscription._tasks[0].cancel()  # nobody listens any more
        stream = new()
        await producer.open(stream, "me")
        reading = asyncio.ensure_future(other.read(stream.stream_id, 0, 9, LONG))
        assert not (await asyncio.wait({reading}, timeout=0.05))[0]
        await producer.append(stream.stream_id, 1, 1, [b"x"])
        assert list((await reading).entries) == [b"x"]
        # One that is forgotten meanwhile is noticed too.
        lost = asyncio.ensure_future(other.read(stream.stream_id, 1, 9, LONG))
        assert not (await asyncio.wait({lost}, timeout=0.05))[0]
        shared_server().command("DEL", producer._keys.meta(stream.stream_id))
        with pytest.raises(UnknownStream):
            await lost


@aio
async def test_a_probe_of_the_subscription_is_not_forgotten_between_two_polls() -> None:
    """On a busy machine its message may take many of them."""
    async with logs(poll=0.005) as (log,):
        session, probe, attempts = log._session(), uuid4(), 0

        async def publish() -> None:
            nonlocal attempts
            attempts += 1
            if attempts > 1:  # dozens of polls later
                channel = log._keys.channel(probe)
                await session.store.script(scripts.NEEDED, log._keys.probes(probe), channel)

        assert await session.subscription.receive_probe(probe, publish) is None
        assert attempts > 1
        assert probe not in session.subscription._subscribed


@aio
async def test_a_producer_that_is_fenced_no_longer_vouches_for_its_readers() -> None:
    clock = Clock()
    async with logs(2, poll=NEVER, clock=clock) as (producer, heir):
        stream = new()
        await producer.open(stream, "me")
        reading = asyncio.ensure_future(producer.read(stream.stream_id, 0, 9, LONG))
        await turns()
        clock.forward(producer.lease)
        (claim,) = await heir.claim_lost("me", 10)
        assert await producer.renew({stream.stream_id: 1}) == {stream.stream_id: LeaseState.LOST}
        await heir.close(stream.stream_id, claim.epoch, 1, [b"lost"], "producer_lost")
        page = await reading
        assert (list(page.entries), page.ended) == ([b"lost"], True)


@aio
async def test_what_a_taken_over_stream_got_elsewhere_reaches_a_reader_here() -> None:
    clock = Clock()
    async with logs(2, poll=0.05, clock=clock) as (producer, heir):
        stream = new()
        id_ = stream.stream_id
        await producer.open(stream, "me")
        await producer.append(id_, 1, 1, [b"one"])
        clock.forward(producer.lease)
        (claim,) = await heir.claim_lost("me", 10)
        await heir.close(id_, claim.epoch, 2, [b"lost"], "producer_lost")
        # The process here has not noticed, and still trusts what it wrote itself.
        assert list((await producer.read(id_, 0, 9, LONG)).entries) == [b"one"]
        page = await producer.read(id_, 1, 9, LONG)
        assert (list(page.entries), page.ended) == ([b"lost"], True)


@aio
async def test_many_waiting_readers_share_few_connections(own_server: ValkeyServer) -> None:
    async with logs(2, own_server, poll=NEVER) as (producer, other):
        streams = [new() for _ in range(100)]
        await asyncio.gather(*(producer.open(stream, "me") for stream in streams))
        reading = [
            asyncio.ensure_future(other.read(stream.stream_id, 0, 9, LONG))
            for stream in streams
            for _ in range(5)
        ]
        await until(lambda: len(own_server.command("PUBSUB", "CHANNELS", "*:wake")) == 100)
        # Of each log two lanes of two connections and a subscription; and who asks.
        assert len(own_server.command("CLIENT", "LIST").splitlines()) <= 2 * 5 + 1
        await asyncio.gather(*(producer.append(s.stream_id, 1, 1, [b"x"]) for s in streams))
        assert all(list(page.entries) == [b"x"] for page in await asyncio.gather(*reading))


@aio
async def test_a_channel_that_nobody_waits_on_is_left(own_server: ValkeyServer) -> None:
    async with logs(2, own_server, poll=0.01) as (producer, other):
        stream = new()
        await producer.open(stream, "me")
        reading = asyncio.ensure_future(other.read(stream.stream_id, 0, 9, LONG))
        await until(lambda: own_server.command("PUBSUB", "CHANNELS", "*:wake"))
        await producer.append(stream.stream_id, 1, 1, [b"x"])
        await reading
        await until(lambda: not own_server.command("PUBSUB", "CHANNELS", "*:wake"))
        reading = asyncio.ensure_future(other.read(stream.stream_id, 1, 9, LONG))
        await until(lambda: own_server.command("PUBSUB", "CHANNELS", "*:wake"))
        await producer.append(stream.stream_id, 1, 2, [b"y"])
        assert list((await reading).entries) == [b"y"]


def test_commands_to_a_subscription_are_merged_in_order() -> None:
    outbox = [("SUBSCRIBE", ["a"]), ("SUBSCRIBE", ["b"]), ("UNSUBSCRIBE", ["a"])]
    assert _merge(outbox) == ("SUBSCRIBE", ["a", "b"])
    assert outbox == [("UNSUBSCRIBE", ["a"])]


# A store that has its days.


@aio
async def test_a_store_that_forgot_its_scripts_learns_them_again() -> None:
    async with logs() as (log,):
        stream = new()
        await log.open(stream, "me")
        shared_server().command("SCRIPT", "FLUSH")
        await log.append(stream.stream_id, 1, 1, [b"x"])
        shared_server().command("SCRIPT", "FLUSH")
        assert await everything(log, stream.stream_id) == [b"x"]


@aio
async def test_what_was_acknowledged_survives_a_crash_of_the_store() -> None:
    with ValkeyServer(keep=True) as server:
        async with logs(2, server) as (producer, other):
            streams = [new() for _ in range(3)]
            for stream in streams:
                await producer.open(stream, "me")
            acknowledged = dict.fromkeys((s.stream_id for s in streams), 0)
            done = asyncio.Event()

            async def produce(id_: UUID) -> None:
                while not done.is_set():
                    first = acknowledged[id_] + 1
                    batch = [b"%d" % number for number in range(first, first + 3)]
                    await producer.append(id_, 1, first, batch)
                    acknowledged[id_] += 3

            producing = [asyncio.ensure_future(produce(s.stream_id)) for s in streams]
            for _ in range(3):
                start = dict(acknowledged)
                await until(lambda start=start: all(acknowledged[i] > start[i] + 30 for i in start))
                server.kill()
                kept = dict(acknowledged)
                await asyncio.to_thread(server.start)
                for id_, count in kept.items():
                    assert len(await everything_of(other, id_)) >= count
            done.set()
            await asyncio.gather(*producing)
            for id_, count in acknowledged.items():
                assert await everything_of(other, id_) == [b"%d" % n for n in range(1, count + 1)]


async def everything_of(log: ValkeyStreamLog, id_: UUID) -> list[bytes]:
    got: list[bytes] = []
    while page := (await log.read(id_, len(got), 512, 0)).entries:
        got += page
    return got


@aio
async def test_a_store_that_holds_still_is_waited_for(own_server: ValkeyServer) -> None:
    async with logs(1, own_server) as (log,):
        stream = new()
        await log.open(stream, "me")
        own_server.pause()
        appending = asyncio.ensure_future(log.append(stream.stream_id, 1, 1, [b"x"]))
        assert not (await asyncio.wait({appending}, timeout=0.1))[0]
        own_server.go_on()
        await appending
        assert await everything(log, stream.stream_id) == [b"x"]


@aio
async def test_a_store_that_holds_still_for_too_long_is_unavailable(
    own_server: ValkeyServer,
) -> None:
    async with logs(1, own_server, patience=0.5) as (log,):
        stream = new()
        await log.open(stream, "me")
        own_server.pause()
        start = time.monotonic()
        with pytest.raises(LogUnavailable, match=r"did not answer for 0\.5 s"):
            await log.append(stream.stream_id, 1, 1, [b"x"])
        assert time.monotonic() - start < 2
        own_server.go_on()
        # Perhaps both attempts arrive now; the entry is there once.
        await log.append(stream.stream_id, 1, 1, [b"x"])
        await log.close(stream.stream_id, 1, 2, [b"y"], "complete")
        assert await everything(log, stream.stream_id) == [b"x", b"y"]


@aio
async def test_a_store_that_is_not_there_is_unavailable_within_a_bound(
    own_server: ValkeyServer,
) -> None:
    url = own_server.url
    own_server.kill()
    log = ValkeyStreamLog(url, patience=0.4)
    start = time.monotonic()
    with pytest.raises(LogUnavailable, match=r"did not answer for 0\.4 s: .*connecting"):
        await log.start("me")
    assert time.monotonic() - start < 2
    with pytest.raises(LogUnavailable, match="has not been started"):
        await log.meta(uuid4())
    own_server.start()
    await log.start("me")  # it may be tried again
    await log.stop("me")


@aio
async def test_a_reader_outlives_a_restart_of_the_store() -> None:
    with ValkeyServer(keep=True) as server:
        async with logs(2, server, poll=NEVER) as (producer, other):
            stream = new()
            await producer.open(stream, "me")
            reading = asyncio.ensure_future(other.read(stream.stream_id, 0, 9, LONG))
            await until(lambda: server.command("PUBSUB", "CHANNELS", "*:wake"))
            server.kill()
            await asyncio.to_thread(server.start)
            await producer.append(stream.stream_id, 1, 1, [b"x"])
            assert list((await reading).entries) == [b"x"]


@aio
async def test_a_store_in_failover_is_waited_for(own_server: ValkeyServer) -> None:
    async with logs(1, own_server) as (log,):
        stream = new()
        await log.open(stream, "me")
        before = connections(own_server)
        own_server.command("REPLICAOF", "127.0.0.1", "1")  # READONLY, until it is primary again
        appending = asyncio.ensure_future(log.append(stream.stream_id, 1, 1, [b"x"]))
        assert not (await asyncio.wait({appending}, timeout=0.1))[0]
        own_server.command("REPLICAOF", "NO", "ONE")
        await appending
        # The name may belong to another server now, so it was looked up again.
        assert connections(own_server) > before + 3  # those of this test


def connections(server: ValkeyServer) -> int:
    """The number of all that there have ever been."""
    return int(server.command("INFO", "stats")["total_connections_received"])


@aio
async def test_a_store_without_room_is_unavailable_at_once(own_server: ValkeyServer) -> None:
    async with logs(1, own_server) as (log,):
        stream = new()
        await log.open(stream, "me")
        own_server.command("CONFIG", "SET", "maxmemory", "1")
        start = time.monotonic()
        with pytest.raises(LogUnavailable, match=r"is full: .*maxmemory"):
            await log.append(stream.stream_id, 1, 1, [b"x"])
        assert time.monotonic() - start < 1
        own_server.command("CONFIG", "SET", "maxmemory", "0")
        await log.append(stream.stream_id, 1, 1, [b"x"])


@pytest.mark.parametrize(
    ("reply", "passing"),
    [
        ("LOADING Valkey is loading the dataset in memory", True),
        ("READONLY You can't write against a read only replica.", True),
        ("CLUSTERDOWN The cluster is down", True),
        ("TRYAGAIN Multiple keys request during rehashing of slot", True),
        ("MASTERDOWN Link with MASTER is down", True),
        ("NOREPLICAS Not enough good replicas to write.", True),
        ("BUSY Valkey is busy running a script.", True),
        ("ERR max number of clients reached", True),
        ("OOM command not allowed when used memory > 'maxmemory'.", False),
        ("MISCONF Errors writing to the AOF file: No space left on device", False),
        ("NOAUTH Authentication required.", False),
        ("WRONGPASS invalid username-password pair or user is disabled.", False),
        ("NOPERM User default has no permissions to run the 'xadd' command", False),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", False),
        ("MOVED 1234 127.0.0.1:7001", False),
        ("CROSSSLOT Keys in request don't hash to the same slot", False),
        ("ERR unknown command 'EVALSHA'", False),
    ],
)
def test_which_replies_are_worth_another_attempt(reply: str, passing: bool) -> None:
    theirs: Exception = BaseParser.parse_error(reply)  # type: ignore[no-untyped-call]
    ours = reply_error(reply)
    assert is_transient(theirs) is passing
    assert is_transient(ours) is passing
    assert type(rejected(parse_address("redis://h"), "p", ours)) is LogUnavailable


def spoil(kind: str, keys: KeyNames, stream: NewStream) -> None:
    """Put something into the store that the log would never write."""
    command, request = shared_server().command, digest("ann", stream.request_id.bytes)
    commands: dict[str, list[tuple[str, ...]]] = {
        "meta": [("SET", keys.meta(stream.stream_id), "x")],
        "entries": [("SET", keys.entries(stream.stream_id), "x")],
        "values": [("HSET", keys.meta(stream.stream_id), "request", "x")],
        "request": [("RPUSH", keys.request(request), "x")],
        "no uuid": [("SET", keys.request(request), "x")],
        "index": [("SET", key, "x") for key in keys.leases],
        "members": [("ZADD", key, "0", "x") for key in (*keys.leases, *keys.bodies)],
    }
    for arguments in commands[kind]:
        command(*arguments)


@pytest.mark.parametrize("kind", ["meta", "entries", "values", "members"])
@aio
async def test_other_data_in_the_place_of_a_stream_is_told(kind: str) -> None:
    async with logs(prefix=(prefix := fresh_prefix())) as (log,):
        stream = new()
        await log.open(stream, "me")
        spoil(kind, KeyNames(prefix), stream)
        calls: dict[str, list[Coroutine[Any, Any, object]]] = {
            "meta": [log.append(stream.stream_id, 1, 1, [b"x"]), log.meta(stream.stream_id)],
            "entries": [log.append(stream.stream_id, 1, 1, [b"x"])],
            "values": [log.meta(stream.stream_id), log.find("ann", stream.request_id)],
            "members": [log.claim_lost("me", 10), log.expire(0, 0)],
        }
        for kinds, group in calls.items():
            for call in group:
                if kinds != kind:
                    call.close()
                    continue
                with pytest.raises(
                    LogUnavailable, match=f"has other data under the prefix '{prefix}'"
                ):
                    await call


@pytest.mark.parametrize("kind", ["request", "no uuid", "index"])
@aio
async def test_other_data_in_the_place_of_a_request_is_told(kind: str) -> None:
    async with logs(prefix=(prefix := fresh_prefix())) as (log,):
        stream = new()
        spoil(kind, KeyNames(prefix), stream)
        with pytest.raises(LogUnavailable, match=f"has other data under the prefix '{prefix}'"):
            await log.open(stream, "me")


# Addresses and secrets.


@pytest.mark.parametrize(
    ("url", "shown", "tls"),
    [
        ("redis://host", "redis://host:6379/0", False),
        ("valkey://host:7000/3", "valkey://host:7000/3", False),
        ("rediss://u:p%40w@host/", "rediss://host:6379/0", True),
        ("valkeys://:pw@[::1]:1?ssl_ca_certs=/x", "valkeys://[::1]:1/0", True),
    ],
)
def test_addresses(url: str, shown: str, tls: bool) -> None:
    address = parse_address(url)
    assert (address.shown, address.tls) == (shown, tls)
    assert "pw" not in repr(address)
    assert "p@w" not in repr(address)
    log = ValkeyStreamLog(url)
    assert repr(log) == f"<ValkeyStreamLog {shown!r} prefix='coreason'>"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "must start with redis://"),
        ("host:6379", "must start with redis://"),
        ("http://:secret@host", "must start with redis://"),
        ("unix:///tmp/x", "must start with redis://"),
        ("redis://", "must name a host"),
        ("redis://:secret@", "must name a host"),
        ("redis://:secret@host:port", "valid port"),
        ("redis://host:99999", "valid port"),
        ("redis://[::1", "valid port"),
        ("redis://host/name", "database number"),
        ("redis://host/-1", "database number"),
        ("redis://host?decode_responses=1", "got 'decode_responses'"),
        ("redis://host?ssl_ca_certs=/x", "must start with valkeys://"),
        ("rediss://host?ssl_cert_reqs=maybe", "must be none, optional or required, got 'maybe'"),
    ],
)
def test_bad_addresses_are_told_without_their_secrets(url: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        ValkeyStreamLog(url)
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("options", [{"lease": 0}, {"patience": -1}, {"poll": float("nan")}])
def test_bad_options_are_told(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be a number of seconds greater than 0"):
        ValkeyStreamLog("redis://host", **options)


@pytest.mark.parametrize("prefix", ["", "a{b}", "a b", "ü", "a\n"])
def test_bad_prefixes_are_told(prefix: str) -> None:
    with pytest.raises(ValueError, match="prefix must be visible ASCII characters"):
        ValkeyStreamLog("redis://host", prefix=prefix)


def test_a_cluster_has_one_database() -> None:
    with pytest.raises(ValueError, match="must name database 0"):
        ValkeyStreamLog("redis://host/1", cluster=True)


@aio
async def test_a_password_is_used_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with ValkeyServer(password="tops3cret") as server:
        async with logs(1, server) as (log,):
            await log.open(new(), "me")
            assert "tops3cret" not in repr(log)
        wrong = server.url.replace("tops3cret", "wr0ng")
        for url in (wrong, wrong.replace(":wr0ng@", "")):
            start = time.monotonic()
            with pytest.raises(LogUnavailable, match=r"valkey://127.*denies access") as caught:
                await ValkeyStreamLog(url).start("me")
            assert time.monotonic() - start < 2
            assert "wr0ng" not in f"{caught.value!r} {caught.value}"
    assert "s3cret" not in caplog.text
    assert "wr0ng" not in caplog.text


@asynccontextmanager
async def behind_tls(folder: Path) -> AsyncIterator[int]:
    """A door with a lock before the shared server, which has none."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", shared_server().port)
        await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))

    server = await asyncio.start_server(pass_on, "127.0.0.1", 0, ssl=context)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await until(lambda: len(asyncio.all_tasks()) <= 2)  # of this test and of its limit


@aio
async def test_a_store_behind_tls_is_checked(tmp_path: Path) -> None:
    async with behind_tls(tmp_path) as port:
        trusting = f"valkeys://localhost:{port}?ssl_ca_certs={tmp_path / 'ca.pem'}"
        log = ValkeyStreamLog(trusting, prefix=fresh_prefix())
        await log.start("me")
        stream = new()
        await log.open(stream, "me")
        await log.append(stream.stream_id, 1, 1, [b"x"])
        assert await everything(log, stream.stream_id) == [b"x"]
        await log.stop("me")
        with pytest.raises(
            LogUnavailable, match=r"has an untrusted certificate: .*certificate verify failed"
        ):
            await ValkeyStreamLog(f"rediss://localhost:{port}").start("me")
        careless = ValkeyStreamLog(f"rediss://localhost:{port}?ssl_cert_reqs=none")
        await careless.start("me")
        await careless.stop("me")


def test_a_server_that_repeats_the_password_does_not_show_it() -> None:
    address = parse_address("redis://josephine:tops3cret@host")
    words = "unknown command 'AUTH', with args beginning with: 'josephine' 'tops3cret'"
    told = str(rejected(address, "p", ResponseError(words)))
    assert "tops3cret" not in told
    assert "josephine" not in told


# Starting, stopping, and what is left afterwards.


def test_a_log_serves_one_event_loop_after_another() -> None:
    log = ValkeyStreamLog(shared_server().url, prefix=fresh_prefix())
    stream = new()

    async def first() -> None:
        await log.start("me")
        await log.open(stream, "me")
        await log.append(stream.stream_id, 1, 1, [b"x"])
        await log.stop("me")
        await log.stop("me")

    async def second() -> None:
        await log.start("me")
        assert await everything(log, stream.stream_id) == [b"x"]
        await log.stop("me")

    asyncio.run(first())
    asyncio.run(second())
    gc.collect()


@aio
async def test_two_event_loops_share_a_log_and_its_wake_readers() -> None:
    log = ValkeyStreamLog(shared_server().url, prefix=fresh_prefix(), poll=NEVER)
    await log.start("here")
    stream = new()
    await log.open(stream, "here")

    async def there() -> list[bytes]:
        await log.start("there")
        page = await log.read(stream.stream_id, 0, 9, LONG)
        await log.stop("there")
        return list(page.entries)

    def reads(loop_count: int) -> bool:
        return sum(stream.stream_id in s.waiters for _, s in log._sessions.items()) == loop_count

    reading = asyncio.ensure_future(asyncio.to_thread(asyncio.run, there()))
    await until(lambda: reads(1))
    await log.append(stream.stream_id, 1, 1, [b"x"])
    assert await reading == [b"x"]
    reading = asyncio.ensure_future(asyncio.to_thread(asyncio.run, nothing(log, stream.stream_id)))
    await until(lambda: reads(1))
    log.wake_readers()
    assert await reading == []
    await log.stop("here")


async def nothing(log: ValkeyStreamLog, stream_id: UUID) -> list[bytes]:
    await log.start("there")
    page = await log.read(stream_id, 1, 9, LONG)
    await log.stop("there")
    return list(page.entries)


@aio
async def test_a_stop_ends_what_is_under_way(own_server: ValkeyServer) -> None:
    async with logs(1, own_server) as (log,):
        stream = new()
        await log.open(stream, "me")
        reading = asyncio.ensure_future(log.read(stream.stream_id, 0, 9, LONG))
        await turns()
        own_server.pause()
        appending = asyncio.ensure_future(log.append(stream.stream_id, 1, 1, [b"x"]))
        await turns()
        await log.stop("owner 0")
        own_server.go_on()
        with pytest.raises(LogUnavailable, match="has been stopped"):
            await appending
        # A read that waits has nothing to tell; one that still looks is broken off.
        with suppress(LogUnavailable):
            assert list((await reading).entries) == []
    gc.collect()


def test_a_program_that_uses_the_log_ends_without_a_warning() -> None:
    program = f"""
import asyncio, gc
from uuid import uuid4
from coreason_client.server import ValkeyStreamLog
from coreason_client.server.log import NewStream

async def main():
    log = ValkeyStreamLog({shared_server().url!r}, prefix={fresh_prefix()!r})
    await log.start("me")
    stream = NewStream(uuid4(), "p", uuid4(), "f")
    await log.open(stream, "me")
    reading = asyncio.ensure_future(log.read(stream.stream_id, 0, 9, 60))
    await asyncio.gather(*(log.meta(stream.stream_id) for _ in range(50)))
    reading.cancel()
    await log.stop("me")

asyncio.run(main())
gc.collect()
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")


def test_without_the_extra_only_the_valkey_log_is_missing() -> None:
    program = """
import sys
sys.modules["redis"] = None
import coreason_client.server as server
import coreason_client.server.log
from coreason_client import MissingExtraError
for module in (server, server.log):
    try:
        module.ValkeyStreamLog
    except MissingExtraError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, timeout=30
    )
    sentence = "the Valkey log needs the extra 'valkey': pip install 'coreason-client[valkey]'"
    assert done.stdout.decode().splitlines() == [sentence] * 2


def test_the_package_does_not_load_the_client_library_before_it_is_used() -> None:
    program = "import sys, coreason_client.server; print('redis' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, timeout=30
    )
    assert done.stdout.strip() == b"False"


# Connections and scripts.


@aio
async def test_a_caller_that_gives_up_leaves_the_connections_in_order() -> None:
    async with logs() as (log,):
        stream = new()
        await log.open(stream, "me")
        await log.append(stream.stream_id, 1, 1, [b"x" * 200_000])
        for pause in range(40):
            reading = asyncio.ensure_future(log.read(stream.stream_id, 0, 9, 0))
            await turns(pause % 12)
            reading.cancel()
            assert (await log.meta(stream.stream_id)).last_seq == 1
        assert len(await everything(log, stream.stream_id)) == 1


def test_every_script_names_its_keys() -> None:
    named = [value for value in vars(scripts).values() if isinstance(value, Script)]
    assert scripts.NEEDED in named
    for script in named:
        assert "KEYS" in script.source
        assert len(script.sha) == 40
