"""A store that has lost its latest state: the schedules that once gave a reader two texts."""

import asyncio
import itertools
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest

from coreason_client._valkey_address import Script
from coreason_client.server import (
    AgentApp,
    AgentStream,
    Fenced,
    PositionGone,
    SQLiteStreamLog,
    ValkeyStreamLog,
    running,
)
from coreason_client.server.engine import _appender
from coreason_client.server.log import AgentVersion, NewStream, Notes, new_epoch
from coreason_client.server.log.valkey import _scripts
from coreason_manifest.definitions.service import ServiceRequest

from .aio import aio, turns
from .conftest import Serve
from .cut_back import CutBackLog, CutBackStore, Saved
from .log.backends import Clock
from .log.valkey_logs import keys_of, logs
from .log.valkey_logs import new as new_stream
from .log.valkey_server import fresh_prefix, shared_server
from .peer import LIMIT, Answer, Gate, Peer, envelope

AGENT = AgentVersion("writer", "1")


def save(prefix: str) -> dict[str, bytes]:
    """Return the state of a log on Valkey."""
    server = shared_server()
    return {key: server.command("DUMP", key) for key in keys_of(prefix)}


def cut_back(prefix: str, state: dict[str, bytes]) -> None:
    """Put an earlier state back, as a promoted replica shows it."""
    server = shared_server()
    for key in keys_of(prefix):
        if key not in state:
            server.command("DEL", key)
    for key, value in state.items():
        server.command("RESTORE", key, 0, value, "REPLACE")


# One epoch never gives one number two contents.


class TwoParts:
    """An agent that writes two parts of an answer, and a third; each waits for its gate."""

    def __init__(self) -> None:
        self.second, self.third = Gate(), Gate()

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        await self.write(stream, range(5))
        await self.second.wait()
        await self.write(stream, range(5, 10))
        await self.third.wait()
        await self.write(stream, range(10, 15))

    async def write(self, stream: AgentStream, numbers: range) -> None:
        for number in numbers:
            await stream.write(f"{number} ")


def test_a_living_producer_sends_again_what_the_store_has_lost(serve: Serve) -> None:
    prefix, agent = fresh_prefix(), TwoParts()
    peer = serve(agent, log=ValkeyStreamLog(shared_server().url, prefix=prefix))
    body = envelope()
    with peer.open(body) as reader:
        reader.until(5)
        state = save(prefix)
        agent.second.open()
        reader.until(10)
        cut_back(prefix, state)
        agent.third.open()
        reader.rest()
    assert reader.text.split() == [str(number) for number in range(15)]
    assert reader.last.op == "CLOSE"
    for cursor in (None, *(event.id for event in reader.events[:-1])):
        seqs = peer.ask(body, cursor).seqs
        assert seqs == list(range(17 - len(seqs), 17))
    assert peer.ask(body).raw == reader.raw


def test_a_producer_that_cannot_send_them_again_does_not_use_their_numbers_again(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the stream has the number of a lost packet, and another epoch."""
    monkeypatch.setattr(_appender, "KEEP_BYTES", 0, raising=False)
    prefix, agent = fresh_prefix(), TwoParts()
    peer = serve(agent, log=ValkeyStreamLog(shared_server().url, prefix=prefix, lease=1.0))
    body = envelope()
    with peer.open(body) as reader:
        reader.until(5)
        state = save(prefix)
        agent.second.open()
        reader.until(10)
        cut_back(prefix, state)
        agent.third.open()
        with pytest.raises(httpx2.RemoteProtocolError):  # without an end, so it resumes
            reader.rest()
    assert reader.seqs == list(range(1, 11))
    whole = once_it_has_ended(peer, body)
    assert (whole.seqs, whole.last.p.code) == (list(range(1, 7)), "producer_lost")
    for event, status in zip(reader.events, (200,) * 5 + (410,) * 5, strict=True):
        assert peer.ask(body, event.id).status == status
    end = peer.ask(body, whole.events[-1].id)
    assert (end.status, end.headers["x-stream-outcome"]) == (204, "producer_lost")


def once_it_has_ended(peer: Peer, body: object) -> Answer:
    """Read a stream whose end could not be written at once."""
    deadline = time.monotonic() + LIMIT
    while (answer := peer.ask(body)).status == 503:
        assert time.monotonic() < deadline, "the stream does not end"
    return answer


# A 204 names the outcome.


def test_half_an_answer_is_not_complete_after_a_resume(serve: Serve) -> None:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        for number in range(5):
            await stream.write(f"{number} ")
        raise ValueError("half an answer")

    peer, body = serve(agent), envelope()
    whole = peer.ask(body)
    assert whole.last.p.code == "agent_error"
    again = peer.ask(body, whole.events[-1].id)
    assert (again.status, again.headers.get("x-stream-outcome")) == (204, "agent_error")


# The number of an epoch is never used twice.


async def write_continuing(log: SQLiteStreamLog, id_: UUID, name: str, last: int) -> list[str]:
    """Claim a stream as a restarted process does, write to it, and return its position."""
    await log.start(name)
    [claim] = await log.claim_durable(name, AGENT, 10)
    entries = [f"{name}{seq}".encode() for seq in range(claim.last_seq + 1, last + 1)]
    await log.append(id_, claim.epoch, claim.last_seq + 1, entries)
    await log.stop(name)
    return [str(last), str(claim.epoch)]


@aio
async def test_a_restored_backup_of_a_file_does_not_continue_another_text(tmp_path: Path) -> None:
    path, backup, id_ = tmp_path / "log.db", tmp_path / "backup.db", uuid4()
    log = SQLiteStreamLog(path)
    await log.start("a")
    await log.open(NewStream(id_, "ann", uuid4(), "f", b"question", AGENT), "a")
    await log.append(id_, 1, 1, [b"a1", b"a2", b"a3"])
    await log.stop("a")
    shutil.copy(path, backup)
    before = await write_continuing(SQLiteStreamLog(path), id_, "b", 10)
    shutil.copy(backup, path)
    after = await write_continuing(SQLiteStreamLog(path), id_, "c", 12)
    assert before[1] != after[1]
    log = SQLiteStreamLog(path)
    await log.start("reader")
    with pytest.raises(PositionGone):
        await log.read(id_, 10, 10, 0, int(before[1]))
    page = await log.read(id_, 3, 10, 0, 1)
    assert [entry.decode() for entry in page.entries] == [f"c{seq}" for seq in range(4, 13)]
    assert list((await log.read(id_, 10, 10, 0, int(after[1]))).entries) == [b"c11", b"c12"]
    await log.stop("reader")


def test_a_reader_of_a_restored_file_gets_410(tmp_path: Path) -> None:
    """The same through a server: its agent does not write the same text again."""
    path, backup, runs = tmp_path / "log.db", tmp_path / "backup.db", itertools.count(1)
    body = envelope()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        run = next(runs)

        async def answer() -> None:
            for number in range(9):
                await stream.write(f"{run}.{number} ")

        await stream.write("a ")
        if run == 1:
            await asyncio.Event().wait()  # until the process ends
        await stream.step("answer", answer)

    @contextmanager
    def restarted() -> Iterator[Peer]:
        log = SQLiteStreamLog(path)
        app = AgentApp(agent, log=log, durable=True, drain_timeout=0.0, cancel_grace=0.1)
        with running(app) as server, closing(Peer(server.url)) as peer:
            yield peer

    with restarted() as peer, peer.open(body) as asked:
        asked.until(1)
    shutil.copy(path, backup)
    with restarted() as peer:
        first = peer.ask(body)
    shutil.copy(backup, path)
    with restarted() as peer:
        second = peer.ask(body)
        assert (len(first.seqs), first.seqs) == (11, second.seqs)
        assert set(first.text.split()) & set(second.text.split()) == {"a"}
        assert [peer.ask(body, event.id).status for event in first.events] == [200] + [410] * 10
        assert peer.ask(body, second.events[7].id).seqs == [9, 10, 11]


@aio
async def test_of_two_claims_of_one_number_only_the_one_that_the_store_knows_may_write() -> None:
    """One claim was not replicated when the store failed over, and somebody claims again."""
    prefix, clock = fresh_prefix(), Clock()
    async with logs(3, prefix=prefix, clock=clock) as (one, two, three):
        stream = new_stream()
        id_ = stream.stream_id
        await one.open(stream, "one")
        await one.append(id_, 1, 1, [b"1", b"2", b"3"])
        state = save(prefix)
        clock.forward(one.lease + 1)
        [lost] = await two.claim_lost("two", 10)
        cut_back(prefix, state)
        [held] = await three.claim_lost("three", 10)
        assert held.epoch != lost.epoch
        for seq in (4, 5, 6):
            with pytest.raises(Fenced):
                await two.append(id_, lost.epoch, seq, [b"of two"])
            await three.append(id_, held.epoch, seq, [b"of three"])
        with pytest.raises(Fenced):
            await two.close(id_, lost.epoch, 6, [b"of two"], "complete")
        page = await one.read(id_, 0, 100, 0)
        assert list(page.entries) == [b"1", b"2", b"3", *[b"of three"] * 3]


@aio
async def test_a_release_whose_answer_was_lost_is_repeated() -> None:
    clock = Clock()
    async with logs(2, clock=clock) as (one, two):
        stream = NewStream(uuid4(), "ann", uuid4(), "f", b"question", AGENT)
        id_ = stream.stream_id
        await one.open(stream, "one")
        await one.append(id_, 1, 1, [b"1"])
        session = one._session()
        # The answer to this one is lost: the index of the leases still has the old lease.
        arguments = (1, repr(session.now()), new_epoch())
        reply = await session.store.script(_scripts.RELEASE, [one._keys.meta(id_)], *arguments)
        assert reply[0] == b"ok"
        clock.forward(0.001)
        assert list(await two.claim_durable("two", AGENT, 10)) == []
        await one.release(id_, 1)
        clock.forward(0.001)
        [claim] = await two.claim_durable("two", AGENT, 10)
        assert claim.last_seq == 1
        with pytest.raises(Fenced):
            await one.release(id_, 1)


def writes() -> int:
    """Return how many changes the store has counted."""
    return int(shared_server().command("INFO", "persistence")["rdb_changes_since_last_save"])


@aio
async def test_a_repetition_writes_although_it_changes_nothing() -> None:
    """Replicas that confirm the repetition have then confirmed the first attempt."""
    async with logs() as (log,):
        stream = NewStream(uuid4(), "ann", uuid4(), "f", b"question", AGENT)
        id_ = stream.stream_id
        await log.open(stream, "one")
        keys = log._keys
        names = [keys.meta(id_), keys.entries(id_), keys.question(id_), keys.journal(id_)]

        async def script(which: Script, *arguments: Any) -> None:
            await log._session().store.script(which, names, *arguments)

        for call in (
            lambda: log.append(id_, 1, 1, [b"1", b"2"]),
            lambda: log.append(id_, 1, 3, [], Notes(1, [b"a"])),
            lambda: log.append(id_, 1, 3, [b"3"], Notes(2, [b"b"])),
            lambda: script(_scripts.RELEASE, 1, "9.0", 77),
            lambda: log._session().store.script(
                _scripts.CLAIM, [names[0], names[2]], "9.5", "19.5", "a name", 99, "1", "0", "0", ""
            ),
            lambda: script(_scripts.APPEND, 99, 4, b"10.0 complete", b"", b"4"),
        ):
            await call()
            once, before = await log.meta(id_), writes()
            await call()
            assert writes() > before
            assert await log.meta(id_) == once
        ended = await log.meta(id_)
        assert (ended.outcome, ended.last_seq, ended.epoch) == ("complete", 4, 99)


# A position is a number and the epoch of its entry: on a store that can be cut back at will.


class Streams:
    """A stream of epoch 1 with three entries, and the state of the store then."""

    def __init__(self) -> None:
        self.store = CutBackStore(Clock(), 10.0)
        self.id = uuid4()

    async def open(self) -> "tuple[CutBackLog, Saved]":
        log = CutBackLog(self.store)
        await log.open(NewStream(self.id, "ann", uuid4(), "f"), "one")
        await log.append(self.id, 1, 1, [b"a1", b"a2", b"a3"])
        return log, self.store.save()

    async def claim(self, log: CutBackLog, epoch: int, name: str, last: int) -> int:
        """Claim the stream, and write entries up to a number."""
        claim = await log.claim_held(self.id, epoch, name)
        entries = [f"{name}{seq}".encode() for seq in range(claim.last_seq + 1, last + 1)]
        await log.append(self.id, claim.epoch, claim.last_seq + 1, entries)
        return claim.epoch


@aio
async def test_a_counted_epoch_would_fit_at_every_check() -> None:
    streams = Streams()
    log, state = await streams.open()
    lost = await streams.claim(log, 1, "b", 10)
    streams.store.cut_back(state)
    held = await streams.claim(log, 1, "c", 12)
    assert lost != held
    for seq in range(4, 14):
        with pytest.raises(PositionGone):
            await log.read(streams.id, seq, 10, 0, lost)
    assert list((await log.read(streams.id, 10, 10, 0, held)).entries) == [b"c11", b"c12"]


@pytest.mark.parametrize("last", [4, 5, 6, 9])
@aio
async def test_a_reader_that_waits_gets_nothing_of_a_run_that_passes_it(last: int) -> None:
    streams = Streams()
    log, state = await streams.open()
    await log.append(streams.id, 1, 4, [b"a4", b"a5"])
    with closing(log.follow(streams.id, 5)) as follower:
        reading = asyncio.ensure_future(follower.next(10, 60.0))
        await turns()
        streams.store.cut_back(state)
        await streams.claim(log, 1, "b", last)
        with pytest.raises(PositionGone):
            while not (await reading).entries:
                reading = asyncio.ensure_future(follower.next(10, 60.0))
        assert (follower.position, follower.epoch) == (5, 1)


@aio
async def test_a_reader_of_a_stale_state_waits_for_the_present_one() -> None:
    """It reads from an earlier state, while the producer writes to the present one."""
    streams = Streams()
    log, stale = await streams.open()
    await log.append(streams.id, 1, 4, [b"a4", b"a5"])
    with closing(log.follow(streams.id, 5)) as follower:
        present = streams.store.save()
        streams.store.cut_back(stale)
        assert list((await follower.next(10, 0)).entries) == []
        streams.store.cut_back(present)
        await log.append(streams.id, 1, 6, [b"a6"])
        assert list((await follower.next(10, 0)).entries) == [b"a6"]
