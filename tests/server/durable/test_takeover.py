"""Durable streams that lost their producer, continued by an application on the same SQLite file."""

import asyncio
import gc
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic_core import from_json

from coreason_client import ArgumentError
from coreason_client.server import (
    AgentApp,
    AgentStream,
    LogUnavailable,
    MemoryStreamLog,
    SQLiteStreamLog,
    StreamEnded,
    StreamLog,
    SyncAgentStream,
)
from coreason_client.server.durable import _slots
from coreason_client.server.durable._notes import (
    Begun,
    Note,
    Released,
    Started,
    dump_note,
    parse_note,
)
from coreason_client.server.durable._results import arguments_digest
from coreason_client.server.engine import _takeover
from coreason_client.server.engine._conversation import dump_request
from coreason_client.server.engine._packets import Frames
from coreason_client.server.log import AgentVersion, NewStream, Notes
from coreason_manifest.definitions.service import ServiceRequest

from ...soak.faults import until
from ..aio import aio
from ..faulty_log import runtime_of
from ..peer import LIMIT, envelope

AGENT = AgentVersion("writer", "1")
NO_ARGUMENTS = arguments_digest(print, ())


class Store:
    """A SQLite file, and what its dead or living processes have written to it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "log.db"
        self.id = uuid4()

    def app(self, agent: Any, **options: Any) -> AgentApp:
        log = SQLiteStreamLog(self.path)
        return AgentApp(agent, log=log, agent_id="writer", version="1", durable=True, **options)

    async def orphan(
        self,
        texts: Sequence[str] = (),
        notes: Sequence[Note | bytes] = (),
        question: bytes | None = None,
        damaged: bytes = b"",
    ) -> None:
        """Write what a process leaves behind that dies."""
        log = SQLiteStreamLog(self.path)
        await log.start("dead")
        request = ServiceRequest.model_validate(envelope("question"))
        stored = dump_request("p", request, {}) if question is None else question
        new = NewStream(self.id, "p", request.request_id, "print", stored, AGENT)
        await log.open(new, "dead")
        frames = Frames(self.id, durable=True)
        entries = [frames.delta(seq, text) for seq, text in enumerate(texts, 1)]
        entries += [damaged] if damaged else []
        written = [note if isinstance(note, bytes) else dump_note(note) for note in notes]
        journal = Notes(1, written) if written else None
        await log.append(self.id, 1, 1, entries, journal)
        await log.stop("dead")

    @asynccontextmanager
    async def serving(self, agent: Any, **options: Any) -> AsyncIterator[AgentApp]:
        app = self.app(agent, **options)
        async with app.lifespan():
            yield app


async def ended(app: AgentApp, stream_id: UUID) -> tuple[str, list[str]]:
    """Wait for the end of a stream; return its outcome and its texts."""
    packets = []
    with closing(app.log.follow(stream_id, 0)) as follower:
        ended = False
        while not ended:
            page = await follower.next(100, 10.0)
            packets += [from_json(entry.partition(b"\ndata: ")[2]) for entry in page.entries]
            ended = page.ended
    meta = await app.log.meta(stream_id)
    assert meta.outcome is not None
    return meta.outcome, [packet["p"] for packet in packets if packet["op"] == "DELTA"]


async def counting(request: ServiceRequest, stream: AgentStream) -> None:
    for number in range(5):
        await stream.write(f"{number} ")
    await stream.write(f"attempt {stream.attempt}" if stream.attempt > 9 else "end")


@aio
async def test_a_stream_is_continued_where_its_producer_died(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    store = Store(tmp_path)
    await store.orphan(["0 ", "1 "])
    async with store.serving(counting) as app:
        outcome, texts = await ended(app, store.id)
        assert (outcome, texts) == ("complete", ["0 ", "1 ", "2 ", "3 ", "4 ", "end"])
        page = await app.log.read(store.id, 0, 100, 0)
        ids = [entry.partition(b"\n")[0].decode().split(":", 3)[3] for entry in page.entries]
        epoch = (await app.log.meta(store.id)).epoch
        assert ids == ["1"] * 2 + [f"{epoch}:3"] * 5  # the epoch of each packet and its first one
    [line] = [r for r in caplog.records if getattr(r, "event", "") == "stream_restarted"]
    assert line.levelno == logging.WARNING
    assert (line.attempt, line.packets) == (2, 2)  # type: ignore[attr-defined]


@aio
async def test_a_damaged_packet_ends_the_stream_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(tmp_path)
    await store.orphan(["0 ", "1 "], damaged=b"no packet")
    async with store.serving(counting) as app:
        async with asyncio.timeout(LIMIT):
            while (meta := await app.log.meta(store.id)).outcome is None:
                await app.log.read(store.id, meta.last_seq, 1, 1.0)
        assert (meta.outcome, meta.last_seq) == ("producer_lost", 4)
    lines = [r for r in caplog.records if r.levelno >= logging.ERROR]
    assert [line.getMessage() for line in lines] == [
        f"stream {store.id} cannot be continued: entry 3 is not a packet"
    ]
    assert not any(record.exc_info for record in caplog.records)


@aio
async def test_a_note_of_a_later_release_ends_the_stream(tmp_path: Path) -> None:
    """What it means is not known, so nothing is done twice."""
    store = Store(tmp_path)
    await store.orphan(["0 "], [Started(2, 1), b'{"kind":"of a later release"}'])
    async with store.serving(counting) as app:
        assert await ended(app, store.id) == ("producer_lost", ["0 "])


@aio
async def test_an_agent_that_does_something_else_ends_the_stream(tmp_path: Path) -> None:
    store = Store(tmp_path)
    await store.orphan(["0 ", "one "])
    async with store.serving(counting) as app:
        assert await ended(app, store.id) == ("replay_diverged", ["0 ", "one "])


@aio
async def test_another_version_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(tmp_path)
    await store.orphan(["0 "])
    log = SQLiteStreamLog(store.path, lease=0.2)  # another version waits one lease longer
    app = AgentApp(counting, log=log, agent_id="writer", version="2", durable=True)
    async with app.lifespan():
        assert (await ended(app, store.id))[0] == "complete"
    [line] = [line for line in caplog.records if getattr(line, "event", "") == "other_version"]
    assert line.levelno == logging.WARNING
    assert "of version 1 is continued by version 2" in line.getMessage()


@aio
async def test_an_agent_that_does_less_ends_the_stream(tmp_path: Path) -> None:
    async def silent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("0 ")

    store = Store(tmp_path)
    await store.orphan(["0 ", "1 "])
    async with store.serving(silent) as app:
        assert (await ended(app, store.id))[0] == "replay_diverged"


@pytest.mark.proves("DUR-10-restarts")
@pytest.mark.parametrize(
    ("notes", "outcome"),
    [
        ([Started(number, 2) for number in (2, 3)], "complete"),
        ([Started(number, 2) for number in (2, 3, 4)], "producer_lost"),
        ([Started(number, 1) for number in (2, 3, 4)], "complete"),  # the last one made progress
        ([*(Started(number, 2) for number in (2, 3, 4)), Released()], "complete"),
    ],
)
@aio
async def test_restarts_without_progress_are_limited(
    notes: list[Note],
    outcome: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(_slots, "_FIRST_DELAY", 0.01)
    monkeypatch.setattr(_takeover, "_POLL_SECONDS", 0.01)
    store = Store(tmp_path)
    await store.orphan(["0 ", "1 "], notes)
    async with store.serving(counting) as app:
        assert (await ended(app, store.id))[0] == outcome
    reason = "is not restarted again (restarts in a row without progress: 3, in all: 3)"
    assert (reason in caplog.text) == (outcome == "producer_lost")


@pytest.mark.proves("DUR-10-restarts")
@pytest.mark.parametrize(("restarts", "outcome"), [(19, "complete"), (20, "producer_lost")])
@aio
async def test_restarts_with_progress_are_limited_too(
    restarts: int, outcome: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        for number in range(30):
            await stream.write(f"{number} ")

    store = Store(tmp_path)
    before = [f"{number} " for number in range(restarts + 1)]
    await store.orphan(before, [Started(number + 2, number) for number in range(restarts)])
    async with store.serving(agent) as app:
        assert (await ended(app, store.id))[0] == outcome
    reason = "is not restarted again (restarts in a row without progress: 0, in all: 20)"
    assert (reason in caplog.text) == (outcome == "producer_lost")


@aio
async def test_a_damaged_request_ends_the_stream(tmp_path: Path) -> None:
    store = Store(tmp_path)
    await store.orphan(["0 "], question=b'{"other": 1}')
    async with store.serving(counting) as app:
        assert (await ended(app, store.id))[0] == "producer_lost"


@pytest.mark.proves("DUR-8-claims")
@aio
async def test_a_cancel_is_carried_out_by_the_next_process(tmp_path: Path) -> None:
    store = Store(tmp_path)
    await store.orphan(["0 "])
    log = SQLiteStreamLog(store.path)
    await log.start("another")
    await log.request_cancel(store.id)
    await log.stop("another")
    async with store.serving(counting) as app:
        assert await ended(app, store.id) == ("cancelled", ["0 "])


# Hand-over.


@pytest.mark.proves("DUR-11-hand-over")
@pytest.mark.parametrize("kind", ["async", "generator", "plain"])
@aio
async def test_a_stopped_process_hands_its_streams_over(kind: str, tmp_path: Path) -> None:
    reached = asyncio.Event()
    loop = asyncio.get_running_loop()
    runs: list[int] = []

    async def wait_in_the_first_run(stream: AgentStream | SyncAgentStream) -> None:
        runs.append(stream.attempt)
        if len(runs) == 1:
            reached.set()
            await asyncio.sleep(60)

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await wait_in_the_first_run(stream)
        await stream.write("b")

    async def generator(request: ServiceRequest, stream: AgentStream) -> AsyncIterator[str]:
        yield "a"
        await wait_in_the_first_run(stream)
        yield "b"

    def plain(request: ServiceRequest, stream: SyncAgentStream) -> str:
        stream.write("a")
        runs.append(stream.attempt)
        if len(runs) == 1:
            loop.call_soon_threadsafe(reached.set)
            while not stream.cancelled:
                time.sleep(0.001)
        return "b"

    chosen = {"async": agent, "generator": generator, "plain": plain}[kind]
    store = Store(tmp_path)
    await store.orphan(["a"])
    async with store.serving(chosen, drain_timeout=0.0):
        await reached.wait()
    async with store.serving(chosen) as app:
        assert await ended(app, store.id) == ("complete", ["a", "b"])
    assert runs == [2, 3]


@pytest.mark.proves("DUR-11-hand-over")
@aio
async def test_from_the_shutdown_on_a_stream_is_handed_over_between_two_steps(
    tmp_path: Path,
) -> None:
    reached, go = asyncio.Event(), asyncio.Event()
    called: list[str] = []

    async def wait() -> None:
        called.append("wait")
        reached.set()
        await go.wait()

    async def next_step() -> None:
        called.append("next")

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.step("wait", wait, on_restart="fail")
        await stream.step("next", next_step)
        await stream.write("end")

    store = Store(tmp_path)
    await store.orphan()
    app = store.app(agent, drain_timeout=10.0)
    async with app.lifespan():
        await reached.wait()
        app.begin_shutdown()
        go.set()
    assert called == ["wait"]  # it ended, and the next one was not begun
    async with store.serving(agent) as again:
        assert await ended(again, store.id) == ("complete", ["end"])
    assert called == ["wait", "next"]


@aio
async def test_a_step_that_must_not_be_interrupted_has_more_time(tmp_path: Path) -> None:
    reached = asyncio.Event()

    async def pay() -> None:
        reached.set()
        await asyncio.sleep(0.2)

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.step("pay", pay, on_restart="fail")
        await stream.write("paid")

    store = Store(tmp_path)
    await store.orphan()
    async with store.serving(agent, drain_timeout=0.0, cancel_grace=10.0):
        await reached.wait()
    async with store.serving(agent) as app:
        assert await ended(app, store.id) == ("complete", ["paid"])


@pytest.mark.proves("DUR-11-hand-over")
@pytest.mark.parametrize("form", ["nested", "concurrent"])
@aio
async def test_another_step_does_not_interrupt_one_that_must_not_be_interrupted(
    form: str, tmp_path: Path
) -> None:
    reached, go, paid = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        async def pay() -> None:
            reached.set()
            await go.wait()
            if form == "nested":
                await stream.now()
            else:
                await paid.wait()

        async def other() -> None:
            await go.wait()
            asyncio.get_running_loop().call_later(0.1, paid.set)

        calls = [stream.step("pay", pay, on_restart="fail")]
        if form == "concurrent":
            calls.append(stream.step("other", other))
        await asyncio.gather(*calls)
        await stream.write("paid")

    store = Store(tmp_path)
    await store.orphan()
    app = store.app(agent, drain_timeout=10.0)
    async with app.lifespan():
        await reached.wait()
        app.begin_shutdown()
        go.set()
    async with store.serving(agent) as again:
        assert await ended(again, store.id) == ("complete", ["paid"])


@aio
async def test_a_log_that_has_lost_its_last_entries_is_not_read_forever(tmp_path: Path) -> None:
    """As after a failover of a store, between the claim and the replay."""
    store = Store(tmp_path)
    async with store.serving(counting) as app:
        await store_stream(app.log, store.id)
        meta = replace(await app.log.meta(store.id), last_seq=5)
        takeover = runtime_of(app).takeover
        assert takeover is not None
        async with asyncio.timeout(5):
            with pytest.raises(LogUnavailable, match="lost entries"):
                await takeover._load_packets(meta)


async def store_stream(log: StreamLog, stream_id: UUID) -> None:
    await log.open(NewStream(stream_id, "p", uuid4(), "print", b""), "owner")
    await log.append(stream_id, 1, 1, [Frames(stream_id).delta(1, "a")])


@aio
async def test_an_agent_that_catches_the_end_cannot_write_on(tmp_path: Path) -> None:
    reached = asyncio.Event()
    caught: list[BaseException] = []

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        if stream.attempt > 2:
            return
        reached.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            for _ in range(2):
                try:
                    await stream.write("b")
                except StreamEnded as error:
                    caught.append(error)

    store = Store(tmp_path)
    await store.orphan()
    async with store.serving(agent, drain_timeout=0.0):
        await reached.wait()
    assert len(caught) == 2
    async with store.serving(agent) as app:
        assert await ended(app, store.id) == ("complete", ["a"])


# The log lines of streams that a restarted agent could not continue.


async def _fails(request: ServiceRequest, stream: AgentStream) -> None:
    raise KeyError("a mistake in the new version")


async def _differs_in_a_step(request: ServiceRequest, stream: AgentStream) -> None:
    async def write() -> None:
        await stream.write("another text")

    await stream.step("story", write)


@pytest.mark.proves("DUR-15-observe")
@pytest.mark.parametrize(
    ("agent", "notes", "outcome", "problem"),
    [
        (counting, [], "replay_diverged", "packet 1 is another DELTA packet in the log"),
        (_fails, [], "replay_diverged", "packet 1 in the log was not written again"),
        (
            _differs_in_a_step,
            [Begun("story#1", "rerun", "_differs_in_a_step.<locals>.write", NO_ARGUMENTS, 1)],
            "producer_lost",
            "the restarted step story#1 wrote something else",
        ),
        (
            _differs_in_a_step,
            [Begun("story#1", "rerun", "another", NO_ARGUMENTS, 1)],
            "replay_diverged",
            "the step story#1 was called with another function",
        ),
    ],
)
@aio
async def test_the_log_line_says_why_a_restarted_agent_could_not_continue(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    agent: Any,
    notes: list[Note],
    outcome: str,
    problem: str,
) -> None:
    caplog.set_level(logging.INFO)
    store = Store(tmp_path)
    await store.orphan(["first"], notes)
    async with store.serving(agent) as app:
        assert (await ended(app, store.id))[0] == outcome
    gc.collect()  # an error that nobody has retrieved would be logged now
    assert not [r for r in caplog.records if r.name == "asyncio"]
    [line] = [r for r in caplog.records if getattr(r, "event", "") == "stream_ended"]
    assert (line.levelno, problem in line.getMessage()) == (logging.WARNING, True)
    failures = [r for r in caplog.records if "a mistake in the new version" in r.getMessage()]
    assert len(failures) == (agent is _fails)


# Refusals.


async def only_request(request: ServiceRequest) -> AsyncIterator[str]:
    yield "a"


def plain_only_request(request: ServiceRequest) -> Any:
    yield "a"


@pytest.mark.proves("DUR-14-refused")
@pytest.mark.parametrize("agent", [only_request, plain_only_request])
def test_a_generator_without_the_stream_cannot_be_durable(agent: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="durable needs an agent that takes `stream`"):
        Store(tmp_path).app(agent)


@pytest.mark.proves("DUR-14-refused")
@pytest.mark.parametrize("log", [None, MemoryStreamLog()])
def test_a_log_that_ends_with_the_process_cannot_be_durable(log: MemoryStreamLog | None) -> None:
    with pytest.raises(ArgumentError, match="durable needs a log that outlives the process"):
        AgentApp(counting, log=log, durable=True)


@pytest.mark.parametrize(
    ("count", "rule"),
    [(0, "greater than 0, got 0"), (-1, "greater than 0"), ("3", "a number, got")],
)
def test_max_restarts_is_a_count(count: Any, rule: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=f"max_restarts must be {rule}"):
        Store(tmp_path).app(counting, max_restarts=count)


class GatedLog(SQLiteStreamLog):
    """A log whose journals can only be read when the gate is open."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked, self.gate = asyncio.Event(), asyncio.Event()

    async def journal(self, stream_id: UUID, after: int = 0) -> Sequence[bytes]:
        self.asked.set()
        await self.gate.wait()
        return await super().journal(stream_id, after)


async def idle(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("0 ")
    await asyncio.Event().wait()


@pytest.mark.proves("DUR-11-hand-over")
@aio
async def test_a_stream_that_is_claimed_in_the_last_moment_is_handed_over(tmp_path: Path) -> None:
    store, log = Store(tmp_path), GatedLog(tmp_path / "log.db")
    await store.orphan(["0 "])
    options = {"agent_id": "writer", "version": "1", "durable": True, "drain_timeout": 0.0}
    app = AgentApp(idle, log=log, **options)  # type: ignore[arg-type]
    async with app.lifespan():
        await log.asked.wait()
        drain = asyncio.create_task(runtime_of(app).drain())
        await asyncio.sleep(0.01)
        log.gate.set()
        await drain
        assert [claim.stream_id for claim in await log.claim_durable("b", AGENT, 9)] == [store.id]


@pytest.mark.proves("DUR-11-hand-over")
@aio
async def test_a_stream_whose_restart_waits_can_be_claimed_at_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    await store.orphan(["0 "], [Started(number, 1) for number in (2, 3)])
    async with store.serving(idle, drain_timeout=0.0) as app:
        runtime = runtime_of(app)
        assert await until(lambda: store.id in runtime.producers.waiting)
        await runtime.drain()
        assert runtime.producers.waiting == {}
        [claim] = await app.log.claim_durable("b", AGENT, 9)  # type: ignore[attr-defined]
        assert claim.stream_id == store.id
        # It was not started, so it still counts as a stream whose restarts made no progress.
        notes = await app.log.journal(store.id)  # type: ignore[attr-defined]
        assert [parse_note(note) for note in notes] == [Started(2, 1), Started(3, 1)]
