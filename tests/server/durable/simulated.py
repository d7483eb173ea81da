"""Agents as data, and processes that die at any append: for tests of durable streams.

A process is the runtime of a server without its sockets: the real producers, and the real takeover
with its slots, suspects and limits. Its log is that of all processes. Time passes only between
processes, and while nothing else happens.
"""

import asyncio
import contextlib
import functools
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

from pydantic_core import from_json
from starlette.datastructures import Headers

from coreason_client.server import AgentApp, AgentStream
from coreason_client.server._options import Options
from coreason_client.server.durable._notes import Note, parse_note
from coreason_client.server.engine import _takeover
from coreason_client.server.engine._conversation import dump_request
from coreason_client.server.engine._runtime import Runtime
from coreason_client.server.errors import LogError, LogUnavailable, StepFailed
from coreason_client.server.log import MemoryStreamLog, NewStream
from coreason_client.server.log.base import AgentVersion, DurableLog, Notes, StreamLog
from coreason_client.server.observe._metrics import NO_METRICS
from coreason_client.server.observe._spans import Tracing
from coreason_manifest.definitions.service import ServiceRequest

from ..peer import envelope

AGENT = AgentVersion("agent", "1")
LEASE = 10.0
_LONGEST = 30.0
_POLL = 0.5  # seconds between two looks for streams to continue
_MOST_POLLS = 1000
_MOST_STARTS = 20
_MOST_STARTED = 5  # at the same time: four, and one that is suspected
_CALLS = (StreamLog.__abstractmethods__ | DurableLog.__abstractmethods__ | {"add_turn"}) - {
    *("start", "stop", "wake_readers", "follow", "read", "append", "close")
}


class MortalLog(MemoryStreamLog):
    """A log whose process dies at chosen appends: before one is stored, or after it.

    With `everywhere`, the note of a restart is such an append too.
    """

    everywhere = False

    def __init__(self, deaths: Sequence[tuple[int, bool]]) -> None:
        self.now = 0.0
        self.dead = False
        self.changed: Callable[[], None] = lambda: None
        super().__init__(clock=lambda: self.now, lease=LEASE)
        self._deaths = list(deaths)
        self._until_death = self._deaths[0][0] if self._deaths else -1

    def __getattribute__(self, name: str) -> Any:
        if name in _CALLS and super().__getattribute__("dead"):
            raise LogUnavailable("dead")
        return super().__getattribute__(name)

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
        self.die()
        return stored

    def die(self) -> None:
        """Accept nothing more from this process."""
        self.dead = True
        self.changed()

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

    async def append(self, *arguments: Any, **named: Any) -> bool:
        """Append the note of a restart, which no producer does."""
        stored = self._dies() if self.everywhere else None
        if stored is not False:
            await super().append(*arguments, **named)
        if stored is not None:
            raise LogUnavailable("the process dies")
        return False

    async def close(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], outcome: str
    ) -> None:
        stored = self._dies()
        if stored is not False:
            await super().close(stream_id, epoch, first_seq, entries, outcome)
        if stored is not None:
            raise LogUnavailable("the process dies")

    def notes(self, stream_id: UUID) -> list[Note]:
        """Return the journal of a stream, also if the process is dead."""
        return list(map(parse_note, self._store.get(stream_id).journal))

    def packets(self, stream_id: UUID) -> list[tuple[str, Any]]:
        """Return the packets of a stream, also if the process is dead."""
        entries = self._store.get(stream_id).entries
        packets = [from_json(entry.partition(b"\ndata: ")[2]) for entry in entries]
        assert [packet["seq"] for packet in packets] == list(range(1, len(packets) + 1))
        return [(packet["op"], packet["p"]) for packet in packets]


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
    """Run a step with this body; the flags say how its function behaves.

    A step without a key has a number. One that fails and is not `caught` lets its caller fail.
    """

    name: str
    policy: str = "rerun"
    body: tuple["Action", ...] = ()
    fails: bool = False
    random: bool = False
    starts_over: bool = False
    keyed: bool = True
    caught: bool = True


@dataclass(frozen=True)
class Loop:
    """Run a body several times; a step, which has a number, says how often."""

    times: int
    body: tuple["Action", ...]


@dataclass(frozen=True)
class Raise:
    """Raise an error, in the body of the agent or of a step."""


@dataclass(frozen=True)
class Die:
    """Kill the process, whenever an agent comes here."""


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


Action = Write | Event | Step | Loop | Raise | Die | Together | Cancel | Hurry


@dataclass
class World:
    """The memory that outlives a process: how often each step's function was called."""

    calls: Counter[str] = field(default_factory=Counter)
    die: Callable[[], None] = lambda: None
    problems: list[str] = field(default_factory=list)


class Run:
    """One run of an agent on a stream."""

    def __init__(self, stream: AgentStream, world: World) -> None:
        self.stream = stream
        self.world = world

    async def body(self, actions: Sequence[Action], prefix: str = "", done: int = 0) -> None:
        for number, action in list(enumerate(actions))[done:]:
            here = f"{prefix}{number}"
            await asyncio.sleep(0)
            match action:
                case Write(text):
                    await self.stream.write(f"<{here}:{text}>")
                case Event(text):
                    await self.stream.write_packet("EVENT", {"shown": f"{here}:{text}"})
                case Step():
                    await self.step(action, here)
                case Loop(times, body):
                    for turn in range(await self.stream.step("times", _same, times)):
                        await self.body(body, f"{here}~{turn}~")
                case Raise():
                    raise ValueError(here)
                case Die():
                    self.world.die()
                    await asyncio.Event().wait()
                case _:
                    await self._concurrent(action, here)

    async def _concurrent(self, action: Together | Cancel | Hurry, here: str) -> None:
        match action:
            case Together(steps):
                calls = [self.step(one, f"{here}.{at}") for at, one in enumerate(steps)]
                await asyncio.gather(*calls)
            case Cancel(one, after):
                await self._cancelled(asyncio.ensure_future(self.step(one, here)), after)
            case Hurry(steps):
                hasty = [replace(one, caught=False) for one in steps]
                calls = [self.step(one, f"{here}.{at}") for at, one in enumerate(hasty)]
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

    def step(self, step: Step, here: str) -> Any:
        async def function(_: str) -> str:
            self.world.calls[here] += 1
            count = self.world.calls[here]
            done = 0
            resumed = self.stream.resumed
            if resumed is not None and step.starts_over:
                self.stream.start_over()
            elif resumed is not None:
                done = len(resumed.packets)
            if step.random and count > 1:
                await self.stream.write(f"<{here}/run:{count}>")
            await self.body(step.body, f"{here}/", done)
            if step.fails:
                raise ValueError(here)
            return result_of(here)

        return self._checked(step, here, function)

    async def _checked(self, step: Step, here: str, function: Any) -> None:
        key = here.replace("/", "_") if step.keyed else None
        policy: Any = step.policy
        try:
            got = await self.stream.step(step.name, function, here, on_restart=policy, key=key)
        except StepFailed as error:
            if error.type == "ValueError" and not f"{error.message}/".startswith(f"{here}/"):
                self.world.problems.append(f"the error of {here} is {error.message}")
            if not step.caught:
                raise
        else:
            if got != result_of(here):
                self.world.problems.append(f"the result of {here} is {got!r}")


async def _same(value: int) -> int:
    return value


def result_of(here: str) -> str:
    return f"result of {here}"


# Processes.


@dataclass(frozen=True)
class Remains:
    """The log of a running stream when its process dies."""

    packets: list[tuple[str, Any]]
    notes: list[Note]


@dataclass
class Answer:
    """The finished stream as a reader has it; `remains` are those of each death before it."""

    outcome: str | None
    packets: list[tuple[str, Any]]
    restarts: int
    world: World
    remains: list[Remains] = field(default_factory=list)


Agent = Callable[[ServiceRequest, AgentStream], Coroutine[Any, Any, None]]


@functools.cache
def _options(max_restarts: int) -> Options:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None: ...

    identity: dict[str, Any] = {"agent_id": AGENT.agent_id, "version": AGENT.version}
    app = AgentApp(agent, max_restarts=max_restarts, cancel_grace=1.0, **identity)
    return replace(app._options, durable=True, inbox=True)


class Process:
    """A process that starts agents, and continues the streams of dead processes."""

    def __init__(self, log: MortalLog, runner: Agent, max_restarts: int) -> None:
        self._before = asyncio.all_tasks()
        self._log = log
        options = _options(max_restarts)
        self._runtime = Runtime(runner, log, options, str(uuid4()), NO_METRICS, Tracing())
        self._runtime.upkeep.postpones_claims = False
        self.producers = self._runtime.producers
        self._dead = asyncio.get_running_loop().create_future()
        log.dead = False
        log.changed = lambda: None if self._dead.done() else self._dead.set_result(None)

    async def run(self, running: Callable[[], bool]) -> None:
        """Run all agents to their ends, until nothing is `running` or the process dies."""
        for _ in range(_MOST_POLLS):
            while len(self.producers) and not self._log.dead:
                tasks = {producer.task for producer in self.producers}
                await asyncio.wait({*tasks, self._dead}, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.sleep(0)  # a producer is removed when its task is done
            if self._log.dead or not running():
                return
            self._log.now += _POLL
            await self._take_over()
            assert sum(not producer.settled for producer in self.producers) <= _MOST_STARTED
        raise AssertionError("streams are not continued")

    async def _take_over(self) -> None:
        assert self._runtime.takeover is not None
        try:
            await self._runtime.takeover.once()
        except LogError:
            assert self._log.dead

    async def end(self) -> None:
        """End everything that the process does."""
        self._dead.cancel()
        while others := asyncio.all_tasks() - self._before:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)


async def survive(
    agent: Agent,
    request: ServiceRequest,
    deaths: Sequence[tuple[int, bool]],
    *,
    log: MortalLog | None = None,
) -> Answer:
    """Run an agent, and again after each death, until its stream has ended."""
    [got] = await survive_all(agent, [request], deaths, log=log)
    return got


async def survive_all(
    agent: Agent,
    requests: Sequence[ServiceRequest],
    deaths: Sequence[tuple[int, bool]],
    *,
    log: MortalLog | None = None,
    max_restarts: int = 20,
) -> list[Answer]:
    """Run an agent for several requests in one process, and in others after each death."""
    log = MortalLog(deaths) if log is None else log
    answers = {uuid4(): Answer(None, [], 0, World()) for _ in requests}
    processes = 0

    def running() -> list[UUID]:
        return [id_ for id_ in answers if log._store.get(id_).outcome is None]

    with patch.object(_takeover, "monotonic", lambda: log.now), _quiet():
        process = Process(log, agent, max_restarts)
        for stream_id, request in zip(answers, requests, strict=True):
            stored = dump_request("p", request, {})
            new = NewStream(stream_id, "p", request.request_id, "print", stored, AGENT)
            meta = (await log.open(new, "process")).meta
            process.producers.start(request, meta, Headers({}), 0.0)
        while True:
            await process.run(lambda: bool(running()))
            await process.end()
            left = running()
            if not left:
                break
            processes += 1
            assert processes <= len(deaths) + _MOST_STARTS * len(requests)
            for stream_id in left:
                answers[stream_id].remains.append(
                    Remains(log.packets(stream_id), log.notes(stream_id))
                )
            log.now += LEASE
            process = Process(log, agent, max_restarts)
    for stream_id, answer in answers.items():
        answer.outcome, answer.packets = (
            log._store.get(stream_id).outcome,
            log.packets(stream_id),
        )
        answer.restarts = len(answer.remains)
    return list(answers.values())


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Log no lines of streams that are restarted or cannot be ended, which is the usual thing."""
    logger = logging.getLogger("coreason_client.server")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


async def answer(
    actions: Sequence[Action],
    deaths: Sequence[tuple[int, bool]],
    *,
    rewinds: bool = False,
    log: MortalLog | None = None,
) -> Answer:
    """Run an agent, and again after each death, until its stream has ended."""
    [got] = await answers([actions], deaths, rewinds=rewinds, log=log)
    return got


async def answers(
    agents: Sequence[Sequence[Action]],
    deaths: Sequence[tuple[int, bool]],
    *,
    rewinds: bool = False,
    log: MortalLog | None = None,
    max_restarts: int = 20,
) -> list[Answer]:
    """Run several agents in one process, as `answer` does with one."""
    log = MortalLog(deaths) if log is None else log
    worlds = [World(die=log.die) for _ in agents]
    requests = []
    for number in range(len(agents)):
        body = envelope(str(number))
        if rewinds:
            body["payload"] |= {"capabilities": {"supported_events": ["REWIND"]}}
        requests.append(ServiceRequest.model_validate(body))

    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        number = int(stream.question)
        await Run(stream, worlds[number]).body(agents[number])

    async with asyncio.timeout(_LONGEST):  # no death may leave a writer waiting forever
        got = await survive_all(agent, requests, deaths, log=log, max_restarts=max_restarts)
    for answer, world in zip(got, worlds, strict=True):
        assert world.problems == []
        answer.world = world
    return got
