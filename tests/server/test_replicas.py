"""Several applications on one store: any serves any stream, and none outlives its lease."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from coreason_client.server import AgentApp, AgentStream, StreamLog, ValkeyStreamLog
from coreason_client.server.engine._upkeep import RENEWALS_PER_LEASE
from coreason_client.server.log import PostgresStreamLog
from coreason_manifest.definitions.presentation import ErrorSeverity
from coreason_manifest.definitions.service import ServiceRequest
from tests.preloaded import WITH_STORES, PipedProcess

from .conftest import Serve
from .log import postgres_server
from .log.valkey_server import fresh_prefix, shared_server
from .peer import LIMIT, Gate, Peer, envelope

LEASE = 1.5  # so that a test need not wait for 10 s, and a busy machine does not lose a stream


class Fleet:
    """Replicas of one agent: one store and prefix, a log and an owner each."""

    def __init__(self, serve: Serve, kind: str) -> None:
        self.prefix = fresh_prefix()
        self.kind = kind
        self.url = (shared_server() if kind == "valkey" else postgres_server.shared_server()).url
        self._serve = serve

    def replica(self, agent: Any, lease: float = 10.0, **options: Any) -> Peer:
        log = log_at(self.url, self.prefix, lease)
        return self._serve(AgentApp(agent, log=log, agent_id="count", **options))

    def lease_and_epoch(self, stream_id: str) -> tuple[float, int]:
        """Return the end of the lease of a stream and its epoch, as the store has them."""
        if self.kind == "valkey":
            meta = f"{self.prefix}:{{{stream_id.replace('-', '')}}}:meta"
            until, epoch = shared_server().command("HMGET", meta, "lease", "epoch")
        else:
            ((until, epoch),) = postgres_server.shared_server().execute(
                f"SELECT until, l.epoch FROM {self.prefix}.leases l"
                f" JOIN {self.prefix}.streams USING (n) WHERE stream_id = $1",
                stream_id,
            )
        return float(until), int(epoch)


def log_at(url: str, prefix: str, lease: float = 10.0) -> StreamLog:
    """Return a log on a store."""
    if url.startswith("valkey"):
        return ValkeyStreamLog(url, prefix=prefix, lease=lease)
    return PostgresStreamLog(url, schema=prefix, lease=lease)


@pytest.fixture(params=["valkey", "postgres"])
def fleet(serve: Serve, request: pytest.FixtureRequest) -> Fleet:
    return Fleet(serve, request.param)


async def never(request: ServiceRequest, stream: AgentStream) -> None:
    raise AssertionError("a second generation")


@pytest.mark.proves("RES2-10a", "RES2-4e")
def test_any_replica_serves_any_resume(fleet: Fleet) -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        for number in range(5):
            await stream.progress("first", number)
        await gate.wait()
        for number in range(5):
            await stream.progress("second", number)

    one, two, three = fleet.replica(agent), fleet.replica(never), fleet.replica(never)
    body = envelope()
    with one.open(body) as answer:
        answer.until(3)
    cursor = answer.events[2].id
    with two.open(body, cursor) as resumed, three.open(body) as whole:
        resumed.until(2)
        whole.until(5)
        gate.open()  # the rest is written on one replica and awaited on two others
        resumed.rest()
        whole.rest()
    assert {resumed.stream_id, whole.stream_id} == {answer.stream_id}
    assert whole.seqs == list(range(1, 12))
    assert answer.packets[:3] + resumed.packets == whole.packets
    assert three.ask(body, whole.events[-1].id).status == 204


@pytest.mark.proves("RES2-10a")
def test_a_request_that_comes_to_all_replicas_at_once_is_answered_once(fleet: Fleet) -> None:
    runs: list[str] = []

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        runs.append(str(request.request_id))
        await stream.write("once")

    replicas = [fleet.replica(agent) for _ in range(3)]
    for _ in range(5):
        body = envelope()
        opened = [replica.open(body) for replica in replicas for _ in range(2)]
        answers = [context.__enter__() for context in opened]
        for answer, context in zip(answers, opened, strict=True):
            assert answer.rest().text == "once"
            context.__exit__(None, None, None)
        assert len({answer.stream_id for answer in answers}) == 1
    assert len(runs) == len(set(runs)) == 5


def test_a_cancel_on_one_replica_stops_the_agent_of_another(fleet: Fleet) -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("working")
        await gate.wait()

    one, two = fleet.replica(agent, LEASE), fleet.replica(never, LEASE)
    with one.open() as answer:
        answer.until(1)
        assert two.cancel(answer.stream_id) == 204
        answer.rest()
    assert answer.last.p.code == "cancelled"


def test_a_stream_belongs_to_its_principal_on_every_replica(fleet: Fleet) -> None:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("mine")

    keys = {"key-of-ann": "ann", "key-of-bob": "bob"}
    one, two = (fleet.replica(agent, api_keys=keys) for _ in "ab")
    body = envelope()
    headers = {"Authorization": "Bearer key-of-ann"}
    answer = one.ask(body, **headers)
    assert two.ask(body, answer.stream_id, **headers).text == "mine"
    assert two.ask(body, answer.stream_id, Authorization="Bearer key-of-bob").status == 404


@pytest.mark.proves("RES2-10b")
def test_the_lease_is_10_s_and_renewed_every_3(fleet: Fleet) -> None:
    log = ValkeyStreamLog if fleet.kind == "valkey" else PostgresStreamLog
    assert log(fleet.url).lease == 10
    assert log(fleet.url).lease / RENEWALS_PER_LEASE == pytest.approx(3)


@pytest.mark.proves("RES2-10b")
def test_a_producer_that_lives_keeps_its_stream_beyond_its_lease(fleet: Fleet) -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("slow")
        await gate.wait()
        await stream.write(" and steady")

    one, two = fleet.replica(agent, LEASE), fleet.replica(never, LEASE)
    body = envelope()
    with one.open(body) as answer:
        answer.until(1)
        first, _ = fleet.lease_and_epoch(answer.stream_id)
        deadline = time.monotonic() + LIMIT
        while (found := fleet.lease_and_epoch(answer.stream_id))[0] < first + 1.1 * LEASE:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert found[1] == 1
        gate.open()
        answer.rest()
    assert answer.text == "slow and steady"
    assert two.ask(body, answer.stream_id).packets == answer.packets


# A separate process, that can be killed and frozen. It never ends a stream.
PROGRAM = """
import asyncio, sys
from coreason_client.server import AgentApp, LogError, running
from tests.server.test_replicas import log_at

url, prefix, lease, notes = sys.argv[1:]

async def count(request, stream):
    number = 0
    try:
        while True:
            number += 1
            await stream.progress("counting", number)
            with open(notes, "a") as acknowledged:
                acknowledged.write(f"{number}\\n")
            await asyncio.sleep(0.001)
    finally:
        tasks.append(asyncio.ensure_future(late(stream.stream_id, number + 1)))

async def late(stream_id, seq):  # once more, past everything that would hold it back
    try:
        await log.append(stream_id, 1, seq, [b"late"])
    except LogError as error:
        print(type(error).__name__, flush=True)

tasks = []

log = log_at(url, prefix, float(lease))
with running(AgentApp(count, log=log, agent_id="count", drain_timeout=0)) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


class Process:
    """A replica in a separate process."""

    def __init__(self, fleet: Fleet, notes: Path) -> None:
        self._process = PipedProcess(
            ["-c", PROGRAM, fleet.url, fleet.prefix, str(LEASE), str(notes)],
            libraries=WITH_STORES,
        )
        self.peer = Peer(self.line())
        self._notes = notes

    @property
    def acknowledged(self) -> int:
        """The last number whose append was acknowledged to the agent."""
        return int(self._notes.read_text().split("\n")[-2])

    def line(self) -> str:
        return self._process.line()

    def signal(self, number: int) -> None:
        os.kill(self._process.pid, number)

    def close(self) -> None:
        self.peer.close()
        self._process.close(LIMIT)


@contextmanager
def process(fleet: Fleet, notes: Path) -> Iterator[Process]:
    made = Process(fleet, notes)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.proves("RES2-10c", "RES2-promise-crash")
def test_a_producer_that_is_killed_ends_as_lost(fleet: Fleet, tmp_path: Path) -> None:
    """The time that it takes is measured with the default lease in test_schedule.py."""

    async def fresh(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a new attempt")

    others = [fleet.replica(fresh, LEASE) for _ in range(2)]
    body = envelope()
    with process(fleet, tmp_path / "notes") as dying:
        with pytest.raises(httpx2.TransportError), dying.peer.open(body) as answer:
            answer.until(50)
            dying.signal(signal.SIGKILL)
            answer.rest()
        cursor = answer.events[-1].id
        resumed = others[0].ask(body, cursor)  # it waits there for the end
        acknowledged = dying.acknowledged
    packets = answer.packets + resumed.packets
    assert [packet.seq for packet in packets] == list(range(1, len(packets) + 1))
    assert len(packets) - 1 >= acknowledged
    assert packets[-1].p.code == "producer_lost"
    assert packets[-1].p.severity is ErrorSeverity.FATAL
    assert sum(packet.op == "ERROR" for packet in packets) == 1
    for replica in others:
        assert replica.ask(body).packets == packets
    again = others[1].ask(envelope())
    assert again.text == "a new attempt"
    assert again.stream_id != answer.stream_id


@pytest.mark.proves("RES2-10d", "RES2-10c")
def test_a_producer_that_wakes_up_too_late_is_fenced(fleet: Fleet, tmp_path: Path) -> None:
    other = fleet.replica(never, LEASE)
    body = envelope()
    with process(fleet, tmp_path / "notes") as frozen:
        with frozen.peer.open(body) as answer:
            answer.until(20)
            frozen.signal(signal.SIGSTOP)
            ended = other.ask(body, answer.stream_id)
            frozen.signal(signal.SIGCONT)
            assert frozen.line() == "Fenced"
            answer.rest()  # its readers see the same end
        assert ended.last.p.code == "producer_lost"
        assert answer.packets == ended.packets
        assert other.ask(body).packets == ended.packets
        assert frozen.acknowledged < len(ended.packets)
