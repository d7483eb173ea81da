"""The start of a Valkey log: what it checks, and whose clock counts."""

import asyncio
import logging
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from coreason_client.server.errors import LogUnavailable
from coreason_client.server.log import Conversation, LeaseState, ValkeyStreamLog
from coreason_client.server.log.valkey._leases import Claims
from coreason_client.server.log.valkey._session import Session

from ..aio import aio
from .backends import Clock
from .valkey_logs import LONG, NEVER, everything, keys_of, logs, new
from .valkey_server import ValkeyServer, fresh_prefix, shared_cluster, shared_server

GUIDE = Path(__file__).parents[3] / "docs" / "scaling.md"


def documented(prefix: str = "coreason") -> list[str]:
    """Return the rules for a user that the guide lists, for the keys of a prefix."""
    (rules,) = re.findall(
        r"^ACL SETUSER coreason on >password (.*)$", GUIDE.read_text(), re.MULTILINE
    )
    return [rule.replace("coreason", prefix) for rule in rules.split()]


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    """A server with users."""
    with ValkeyServer() as server:
        yield server


def user(server: ValkeyServer, *rules: str) -> str:
    """Make a user with these rules and return the address for it."""
    server.command("ACL", "SETUSER", "josephine", "reset", "on", ">tops3cret", *rules)
    return server.url.replace("://", "://josephine:tops3cret@")


async def rejected(url: str, **options: float) -> str:
    """Start a log that is refused; return the sentence."""
    log = ValkeyStreamLog(url, prefix="coreason", **options)  # type: ignore[arg-type]
    with pytest.raises(LogUnavailable) as caught:
        await log.start("me")
    with pytest.raises(LogUnavailable, match="has not been started"):
        await log.find("ann", new().request_id)
    sentence = str(caught.value)
    assert "tops3cret" not in sentence
    assert "josephine" not in sentence
    assert "\n" not in sentence
    return sentence


# What the store must allow.

EVERYTHING = ("~coreason:*", "&coreason:*", "+@all")


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (("~*", "&*", "+@read"), "denies access: .*'evalsha'"),  # read-only
        (("~coreason:*", "resetchannels", "+@all"), "does not allow PUBLISH, which the log needs"),
        (
            (*EVERYTHING, "-subscribe"),
            r"'subscribe' command \(the log needs .* channels coreason:",
        ),
        ((*EVERYTHING, "-xadd"), "does not allow XADD, which the log needs"),
        ((*EVERYTHING, "-zrangebyscore"), "does not allow ZRANGEBYSCORE, which the log needs"),
        ((*EVERYTHING, "-@scripting"), "denies access: .*'evalsha'"),
        (
            ("~other:*", "&*", "+@all"),
            "access a key .the log needs the keys .* coreason:",
        ),
        (("~coreason:*", "%R~coreason:*", "&*", "+@read", "+evalsha", "+eval"), "not allow DEL"),
    ],
)
@aio
async def test_what_a_user_may_not_do_is_told_at_the_start(
    server: ValkeyServer, rules: tuple[str, ...], words: str
) -> None:
    sentence = await rejected(user(server, *rules))
    assert re.search(words, sentence), sentence
    assert keys_of("coreason", server) == []


@aio
async def test_a_user_with_what_the_documentation_lists_can_do_everything(
    server: ValkeyServer,
) -> None:
    url = user(server, *documented())
    clock = Clock()
    log, other = (ValkeyStreamLog(url, poll=NEVER, clock=clock) for _ in "ab")
    await log.start("me")
    await other.start("me")
    stream, lost = new(), new()
    for one in (stream, lost):
        await log.open(one, "me")
    reading = asyncio.ensure_future(other.read(stream.stream_id, 0, 9, LONG))
    await log.append(stream.stream_id, 1, 1, [b"x"])
    assert list((await reading).entries) == [b"x"]
    await log.request_cancel(stream.stream_id)
    assert await log.renew({stream.stream_id: 1}) == {stream.stream_id: LeaseState.CANCEL_REQUESTED}
    await log.add_turn(Conversation("ann", "talk"), stream.stream_id, b"turn")
    assert list(await log.turns(Conversation("ann", "talk"), 9)) == [b"turn"]
    await log.close(stream.stream_id, 1, 2, [b"y"], "complete")
    clock.forward(log.lease)
    (won,) = await other.claim_lost("me", 9)
    await other.close(lost.stream_id, won.epoch, 1, [b"lost"], "lost")
    clock.forward(100)
    await log.expire(10, 500)
    clock.forward(1000)
    await log.expire(10, 500)
    assert keys_of("coreason", server) == []
    await log.stop("me")
    await other.stop("me")


@aio
async def test_the_documented_user_of_a_cluster_can_start_and_write() -> None:
    nodes, prefix = shared_cluster().nodes, fresh_prefix()
    rules = [*documented(prefix), "+cluster|slots", "+command"]
    assert "`+cluster|slots +command`" in GUIDE.read_text()
    try:
        urls = [user(node, *rules) for node in nodes]
        log = ValkeyStreamLog(urls[0], prefix=prefix, cluster=True)
        await log.start("me")
        for _ in range(10):  # on all nodes
            stream = new()
            await log.open(stream, "me")
            await log.append(stream.stream_id, 1, 1, [b"x"])
            assert await everything(log, stream.stream_id) == [b"x"]
        await log.stop("me")
    finally:
        for node in nodes:
            node.command("ACL", "DELUSER", "josephine")


@aio
async def test_a_replica_is_told_at_the_start() -> None:
    with ValkeyServer() as server:
        server.command("REPLICAOF", "127.0.0.1", "1")
        sentence = await rejected(server.url, patience=0.3)
    assert "is a read-only replica" in sentence
    assert "give the log the address of the primary" in sentence


@aio
async def test_a_command_that_the_store_does_not_have_is_told_at_the_start() -> None:
    with ValkeyServer("--rename-command", "XRANGE", "") as server:
        assert "does not allow XRANGE, which the log needs" in await rejected(server.url)


@aio
async def test_the_check_leaves_nothing_behind_and_wakes_nobody() -> None:
    prefix = fresh_prefix()
    async with logs(3, prefix=prefix):
        assert keys_of(prefix) == []
    async with logs(2, shared_cluster().nodes[0], prefix=prefix, cluster=True):
        for node in shared_cluster().nodes:
            assert keys_of(prefix, node) == []


@aio
async def test_several_owners_start_at_once_and_again() -> None:
    log = ValkeyStreamLog(shared_server().url, prefix=fresh_prefix())
    start = asyncio.ensure_future(log.start("one"))
    await asyncio.sleep(0)
    await log.start("one")  # waits for the first, and changes nothing
    await log.open(new(), "one")
    await start
    await asyncio.gather(*(log.start(owner) for owner in ("two", "three")))
    session = log._session()
    await log.start("one")
    assert log._session() is session
    await log.stop("one")
    await log.stop("two")
    await log.find("ann", new().request_id)
    await log.stop("three")


# Whose clock counts.

AHEAD = 16 * 60.0


@pytest.fixture
def wrong_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of this machine, as far as Python shows it, with a number of seconds to add."""
    true, skew = time.time, Clock(0.0)
    monkeypatch.setattr(time, "time", lambda: true() + skew())
    return skew


@pytest.mark.parametrize(
    ("skew", "words"),
    [
        (AHEAD, "960.0 s ahead of the clock of the store"),
        (-30.0, "30.0 s behind the clock of the store"),
        (0.0, None),
    ],
)
@aio
async def test_clocks_that_differ_are_told_once_at_the_start(
    wrong_clock: Clock, caplog: pytest.LogCaptureFixture, skew: float, words: str | None
) -> None:
    wrong_clock.forward(skew)
    with caplog.at_level(logging.WARNING, "coreason_client.server"):
        async with logs():
            pass
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == (0 if words is None else 1)
    assert all(words in line for line in lines if words)


AHEAD_PROGRAM = """
import asyncio, time
true = time.time
time.time = lambda: true() + {ahead}  # before anything can take the clock as it was
from uuid import UUID, uuid4
from coreason_client.server import ValkeyStreamLog
from coreason_client.server.log import NewStream

async def main():
    log = ValkeyStreamLog({url!r}, prefix={prefix!r})
    await log.start("ahead")
    await log.expire({ahead} - 60, 86_400)
    print(len((await log.read(UUID({ended!r}), 0, 9, 0)).entries), "entries")
    print(len(await log.claim_lost("ahead", 9)), "claims")
    stream = NewStream(uuid4(), "p", uuid4(), "f")
    await log.open(stream, "ahead")
    await log.renew({{stream.stream_id: 1}})
    await log.close(stream.stream_id, 1, 1, [b"z"], "complete")
    print(stream.stream_id)
    await log.stop("ahead")

asyncio.run(main())
"""


@aio
async def test_a_replica_that_is_ahead_drops_nothing_and_claims_nothing() -> None:
    # The lease must outlast the start of the other process, and not the difference of the clocks.
    async with logs(prefix=(prefix := fresh_prefix()), lease=120.0) as (right,):
        running, ended = new(), new()
        for stream in (running, ended):
            await right.open(stream, "me")
            await right.append(stream.stream_id, 1, 1, [b"x"])
        await right.close(ended.stream_id, 1, 2, [b"y"], "complete")
        program = AHEAD_PROGRAM.format(
            ahead=AHEAD, url=shared_server().url, prefix=prefix, ended=ended.stream_id.hex
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        output, errors = await process.communicate()
        entries, claims, theirs = output.decode().splitlines()
        assert (entries, claims) == ("2 entries", "0 claims"), errors.decode()
        assert b"960.0 s ahead of the clock of the store" in errors
        # What it wrote itself is on the same time.
        meta = await right.meta(UUID(theirs))
        assert abs(meta.opened_at - store_time()) < 60
        assert meta.ended_at is not None
        assert abs(meta.ended_at - store_time()) < 60


def store_time() -> float:
    seconds, micros = shared_server().command("TIME")
    return float(seconds) + float(micros) / 1e6


@pytest.mark.parametrize("call", ["renew", "claim_lost", "expire"])
@aio
async def test_the_clock_of_the_store_is_measured_again_and_again(call: str) -> None:
    async with logs() as (log,):
        clock = log._session()._store_clock
        stream = new()
        await log.open(stream, "me")
        local, skew = clock._local, Clock(0.0)
        clock._local = lambda: local() + skew()
        skew.forward(1000.0)  # the machine slept, or the store did
        assert abs(clock() - store_time()) > 500
        if call == "renew":
            await log.renew({stream.stream_id: 1})
        elif call == "claim_lost":
            await log.claim_lost("me", 0)
        else:
            await log.expire(1e6, 1e6)
        assert abs(clock() - store_time()) < 30


@aio
async def test_a_clock_that_is_given_is_the_only_one(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock(5_000.0)
    with caplog.at_level(logging.WARNING, "coreason_client.server"):
        async with logs(clock=clock) as (log,):
            stream = new()
            assert (await log.open(stream, "me")).meta.opened_at == 5_000.0
            await log.close(stream.stream_id, 1, 1, [b"x"], "complete")
            assert (await log.meta(stream.stream_id)).ended_at == 5_000.0
            assert isinstance(log._session(), Session)
    assert caplog.records == []


# Leases.


@aio
async def test_a_renewal_never_shortens_a_lease() -> None:
    clock = Clock()
    async with logs(2, clock=clock) as (log, other):
        stream = new()
        await log.open(stream, "me")
        clock.forward(5)
        await log.renew({stream.stream_id: 1})  # until 15
        clock.forward(-4)  # a renewal that was under way for long, or of a clock that is behind
        assert await log.renew({stream.stream_id: 1}) == {stream.stream_id: LeaseState.HELD}
        clock.forward(13.9)  # 14.9
        assert list(await other.claim_lost("me", 9)) == []
        # Nor by somebody whose index lags behind the stream, and who looks too early.
        early = Claims(other._session(), other._keys, other.lease)
        assert await early.claim(stream.stream_id) is None
        clock.forward(0.2)
        assert [c.stream_id for c in await other.claim_lost("me", 9)] == [stream.stream_id]


@aio
async def test_a_process_that_did_not_renew_in_time_asks_the_store() -> None:
    clock = Clock()
    async with logs(2, clock=clock, poll=0.05) as (producer, heir):
        stream = new()
        id_ = stream.stream_id
        await producer.open(stream, "me")
        await producer.append(id_, 1, 1, [b"one"])
        owned = producer._session().owned
        assert owned.owns(id_)
        local = owned._clock
        owned._clock = lambda: local() + producer.lease  # as if it had been held up for so long
        assert not owned.owns(id_)
        clock.forward(producer.lease)
        (won,) = await heir.claim_lost("me", 9)
        await heir.close(id_, won.epoch, 2, [b"lost"], "producer_lost")
        page = await producer.read(id_, 0, 9, LONG)
        assert (list(page.entries), page.ended) == ([b"one", b"lost"], True)


@aio
async def test_a_renewal_of_a_forgotten_stream_makes_it_ours_again() -> None:
    async with logs() as (log,):
        stream = new()
        await log.open(stream, "me")
        owned = log._session().owned
        owned.disown(stream.stream_id)  # as after a long time without renewals
        assert await log.renew({stream.stream_id: 1}) == {stream.stream_id: LeaseState.HELD}
        assert owned.owns(stream.stream_id)


@aio
async def test_a_renewal_on_another_event_loop_counts_for_the_one_that_writes() -> None:
    log = ValkeyStreamLog(shared_server().url, prefix=fresh_prefix())
    await log.start("here")
    stream = new()
    await log.open(stream, "here")
    owned = log._session().owned
    before = owned._until[stream.stream_id]

    async def there() -> LeaseState:
        await log.start("there")
        state = (await log.renew({stream.stream_id: 1}))[stream.stream_id]
        await log.stop("there")
        return state

    assert await asyncio.to_thread(asyncio.run, there()) is LeaseState.HELD
    assert owned._until[stream.stream_id] > before
    shared_server().command("HSET", log._keys.meta(stream.stream_id), "epoch", "2")
    assert await asyncio.to_thread(asyncio.run, there()) is LeaseState.LOST
    await asyncio.sleep(0)
    assert not owned.owns(stream.stream_id)
    await log.stop("here")
