"""Agents as data, and a log whose process dies at any append: for tests of durable streams."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from pydantic_core import from_json

from coreason_client.server.durable._journal import Journal
from coreason_client.server.durable._notes import Started, dump_note, parse_note
from coreason_client.server.durable._packets import logged_packets
from coreason_client.server.engine._durable_writer import DurableWriter, Origin
from coreason_client.server.engine._ending import AGENT_ERROR
from coreason_client.server.engine._steps import JournaledSteps
from coreason_client.server.errors import LogUnavailable, StepFailed
from coreason_client.server.log import MemoryStreamLog, NewStream
from coreason_client.server.log.base import AgentVersion, Notes
from coreason_manifest.definitions.presentation import StreamError, StreamOpCode
from coreason_manifest.definitions.service import ServiceRequest

from ..peer import envelope

AGENT = AgentVersion("agent", "1")
LEASE = 10.0
_LONGEST = 30.0


class MortalLog(MemoryStreamLog):
    """A log whose process dies at chosen appends: before one is stored, or after it."""

    def __init__(self, deaths: Sequence[tuple[int, bool]]) -> None:
        self.now = 0.0
        super().__init__(clock=lambda: self.now, lease=LEASE)
        self._deaths = list(deaths)
        self._until_death = self._deaths[0][0] if self._deaths else -1
        self.dead = False

    def _dies(self) -> bool | None:
        """Return None to live on, otherwise whether the append is stored before the death."""
        if self.dead:
            raise LogUnavailable("dead")
        if not self._deaths:
            return None
        self._until_death -= 1
        if self._until_death >= 0:
            return None
        _, stored = self._deaths.pop(0)
        self._until_death = self._deaths[0][0] if self._deaths else -1
        self.dead = True
        return stored

    def begin_append(
        self,
        stream_id: UUID,
        epoch: int,
        first_seq: int,
        entries: Sequence[bytes],
        notes: Notes | None = None,
    ) -> bool:
        stored = self._dies()
        if stored is None:
            return super()._begin_append(stream_id, epoch, first_seq, entries, notes)
        if stored:
            super()._begin_append(stream_id, epoch, first_seq, entries, notes)
        raise LogUnavailable("the process dies")

    async def close(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], outcome: str
    ) -> None:
        stored = self._dies()
        if stored is not False:
            await super().close(stream_id, epoch, first_seq, entries, outcome)
        if stored is not None:
            raise LogUnavailable("the process dies")


class SlowLog(MortalLog):
    """A log that answers after some turns of the event loop, so writers are cancelled meanwhile."""

    def __init__(self, deaths: Sequence[tuple[int, bool]], turns: int) -> None:
        super().__init__(deaths)
        self._turns = turns

    def begin_append(self, *arguments: Any) -> Any:
        async def append() -> bool:
            for _ in range(self._turns):
                await asyncio.sleep(0)
            return MortalLog.begin_append(self, *arguments)

        return asyncio.ensure_future(append())


# Agents.


@dataclass(frozen=True)
class Write:
    """Write one packet; its text is unique."""

    text: str


@dataclass(frozen=True)
class Event:
    """Write one event."""

    text: str


@dataclass(frozen=True)
class Step:
    """Run a step with this body; the flags say how its function behaves."""

    name: str
    policy: str = "rerun"
    body: tuple["Action", ...] = ()
    fails: bool = False
    random: bool = False
    starts_over: bool = False


@dataclass(frozen=True)
class Together:
    """Run steps concurrently."""

    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Cancel:
    """Run a step and cancel it after some turns of the event loop."""

    step: Step
    after: int


@dataclass(frozen=True)
class Hurry:
    """Run steps concurrently and go on at the first failure: the others are still running."""

    steps: tuple[Step, ...]


Action = Write | Event | Step | Together | Cancel | Hurry


@dataclass
class World:
    """What outlives a process: how often each step's function was called."""

    calls: Counter[str] = field(default_factory=Counter)
    results: list[Any] = field(default_factory=list)


class Run:
    """One run of an agent on a stream."""

    def __init__(self, writer: DurableWriter, world: World) -> None:
        self.writer = writer
        self.steps = JournaledSteps(writer)
        self.world = world

    async def body(self, actions: Sequence[Action], prefix: str = "", done: int = 0) -> None:
        for number, action in list(enumerate(actions))[done:]:
            here = f"{prefix}{number}"
            await asyncio.sleep(0)
            match action:
                case Write(text):
                    await self.writer.write(f"<{here}:{text}>")
                case Event(text):
                    await self.writer.write_packet(StreamOpCode.EVENT, {"shown": f"{here}:{text}"})
                case Step():
                    await self.step(action, here)
                case Together(steps):
                    calls = [self.step(one, f"{here}.{at}") for at, one in enumerate(steps)]
                    await asyncio.gather(*calls)
                case Cancel(one, after):
                    await self._cancelled(asyncio.ensure_future(self.step(one, here)), after)
                case Hurry(steps):
                    calls = [
                        self.step(one, f"{here}.{at}", caught=False) for at, one in enumerate(steps)
                    ]
                    with contextlib.suppress(StepFailed):
                        await asyncio.gather(*calls)

    async def _cancelled(self, step: "asyncio.Future[None]", after: int) -> None:
        step.add_done_callback(lambda done: done.cancelled() or done.exception())  # retrieve it
        for _ in range(after):
            await asyncio.sleep(0)
        step.cancel()
        await asyncio.wait({step})
        if not step.cancelled():
            await step

    def step(self, step: Step, here: str, *, caught: bool = True) -> Any:
        async def function(_: str) -> str:
            self.world.calls[here] += 1
            count = self.world.calls[here]
            done = 0
            open_step = self.steps.current
            assert open_step is not None
            if open_step.resumed is not None and step.starts_over:
                self.steps.start_over()
            elif open_step.resumed is not None:
                done = len(open_step.resumed.packets)
            if step.random and count > 1:
                await self.writer.write(f"<{here}/run:{count}>")
            await self.body(step.body, f"{here}/", done)
            if step.fails:
                raise ValueError(here)
            return f"result of {here}"

        return self._checked(step, here, function, caught)

    async def _checked(self, step: Step, here: str, function: Any, caught: bool) -> None:
        key = here.replace("/", "_")
        try:
            call = self.steps.run(step.name, function, [here], policy=step.policy, key=key)  # type: ignore[arg-type]
            assert await call == f"result of {here}"
        except StepFailed as error:
            if not caught or (error.type, error.message) != ("ValueError", here):
                raise


@dataclass
class Answer:
    """What a reader of the finished stream has."""

    outcome: str | None
    packets: list[tuple[str, Any]]
    restarts: int
    world: World


async def answer(
    actions: Sequence[Action],
    deaths: Sequence[tuple[int, bool]],
    *,
    rewinds: bool = False,
    log: MortalLog | None = None,
) -> Answer:
    """Run an agent, and again after each death, until its stream has ended."""
    world = World()
    body = envelope("question")
    if rewinds:
        body["payload"] |= {"capabilities": {"supported_events": ["REWIND"]}}
    request = ServiceRequest.model_validate(body)

    async def start(writer: DurableWriter) -> None:
        await Run(writer, world).body(actions)

    async with asyncio.timeout(_LONGEST):  # no death may leave a writer waiting forever
        got = await survive(start, request, deaths, log=log)
    return Answer(got.outcome, got.packets, got.restarts, world)


Start = Callable[[DurableWriter], Coroutine[Any, Any, None]]


async def survive(
    start: Start,
    request: ServiceRequest,
    deaths: Sequence[tuple[int, bool]],
    *,
    log: MortalLog | None = None,
) -> Answer:
    """Run what `start` returns, and again after each death, until the stream has ended."""
    log = MortalLog(deaths) if log is None else log
    new = NewStream(uuid4(), "p", request.request_id, "print", b"q", AGENT)
    meta = (await log.open(new, "owner")).meta
    origin = Origin(Journal(), ())
    restarts = 0
    while True:
        await _run_once(log, request, meta, origin, start)
        meta = await log.meta(new.stream_id)
        if meta.outcome is not None:
            break
        restarts += 1
        assert restarts <= len(deaths) + 1
        log.dead = False
        log.now += LEASE
        [claim] = await log.claim_durable("another", AGENT, 1)
        meta = await log.meta(new.stream_id)
        journal = Journal(map(parse_note, await log.journal(new.stream_id)))
        started = Started(journal.attempt + 1, meta.last_seq)
        notes = Notes(journal.count + 1, [dump_note(started)])
        await MemoryStreamLog.append(log, new.stream_id, claim.epoch, meta.last_seq + 1, [], notes)
        journal.add(started)
        page = await log.read(new.stream_id, 0, 100_000, 0)
        origin = Origin(journal, tuple(logged_packets(1, page.entries)))
    page = await log.read(new.stream_id, 0, 100_000, 0)
    packets = [from_json(entry.partition(b"\ndata: ")[2]) for entry in page.entries]
    assert [packet["seq"] for packet in packets] == list(range(1, len(packets) + 1))
    return Answer(meta.outcome, [(p["op"], p["p"]) for p in packets], restarts, World())


async def _run_once(
    log: MortalLog, request: ServiceRequest, meta: Any, origin: Origin, start: Start
) -> None:
    """Do what a producer does, until the end of the stream or the death of the process."""
    stop: list[StreamError] = []
    agent: asyncio.Task[None] | None = None
    before = asyncio.all_tasks()

    def on_stop(error: StreamError) -> None:
        stop.append(error)
        writer.cancelled = True
        if agent is not None:
            agent.cancel()

    writer = DurableWriter(request, meta, log, origin, on_stop=on_stop)

    agent = writer.agent = asyncio.create_task(start(writer))
    [result] = await asyncio.gather(agent, return_exceptions=True)
    others = asyncio.all_tasks() - before
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    try:
        if stop:
            await writer.end_with(stop[0])
        elif (missing := writer.missing()) is not None:
            await writer.end_with(missing)
        elif isinstance(result, BaseException):
            await writer.end_with(AGENT_ERROR)
        else:
            await writer.complete()
    except LogUnavailable:
        assert log.dead
