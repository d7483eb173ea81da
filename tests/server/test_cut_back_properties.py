"""Whatever a store loses, and whenever: a reader has one text, or knows that it does not.

Two processes serve an agent on one store, which shows an earlier state of itself at any moment.
Readers follow, leave and resume by the ids of their packets.
"""

import asyncio
import itertools
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coreason_client.server import AgentApp, AgentStream
from coreason_client.server.engine import _appender, _takeover
from coreason_client.sse import SSEDecoder
from coreason_manifest.definitions.presentation import StreamPacket, parse_packet
from coreason_manifest.definitions.rewind import REWIND
from coreason_manifest.definitions.service import ServiceRequest
from tests.fuzz.strategies import examples

from .cut_back import CutBackLog, CutBackStore, Saved
from .peer import envelope
from .virtual import Call, virtual, virtual_loop

LEASE = 2.0
PACE = 0.1  # seconds from word to word
WORDS = 4  # of each part of an answer
TICK = 0.1
SETTLED = 600  # ticks after which every reader must have come to an end


@pytest.fixture(autouse=True, scope="module")
def _simulated() -> Iterator[None]:
    """Let all time be that of the loop, and let durable agents use the simulated store."""

    def now() -> float:
        return asyncio.get_running_loop().time()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_appender, "monotonic", now)
        patch.setattr(_takeover, "monotonic", now)
        patch.setattr("coreason_client.server.app._check_durable", lambda *_: None)
        yield


# Agents: the tokens of an answer are those of the body, and those of the two steps.

BODY, FIRST, SECOND = "body", "first", "second"
PARTS = (BODY, FIRST, BODY, SECOND, BODY)


def same_words(part: int, run: int) -> list[str]:
    return [f"{part}.{number} " for number in range(WORDS)]


def new_words(part: int, run: int) -> list[str]:
    """Return words that no other run has, except for the body, which must be the same."""
    if PARTS[part] == BODY:
        return same_words(part, run)
    return [f"{part}.{number}~{run} " for number in range(WORDS)]


@dataclass
class Kind:
    """A kind of agent: does another process continue it, and does it write the same again."""

    durable: bool
    reproduces: bool = True

    def agent(self) -> Any:
        runs = itertools.count(1)
        words = same_words if self.reproduces else new_words

        async def agent(request: ServiceRequest, stream: AgentStream) -> None:
            run = next(runs)

            async def write(part: int) -> str:
                for word in words(part, run):
                    await stream.write(word)
                    await asyncio.sleep(PACE)
                return "done"

            for part, name in enumerate(PARTS):
                if name == BODY:
                    await write(part)
                else:
                    await stream.step(name, write, part)

        return agent

    def check(self, text: str, *, complete: bool) -> None:
        """Check that a text is a prefix of one run; each step may be of its own run."""
        tokens = text.split()
        runs: dict[str, str] = {}
        expected = [word.strip() for part in range(len(PARTS)) for word in same_words(part, 0)]
        plain = []
        for token in tokens:
            word, _, run = token.partition("~")
            plain.append(word)
            if run:
                assert runs.setdefault(word[0], run) == run, f"two texts in {text!r}"
        assert plain == expected[: len(plain)], text
        if complete:
            assert plain == expected


PLAIN, REPRODUCING, RANDOM = Kind(False), Kind(True), Kind(True, False)


@dataclass
class Packet:
    """A packet, and what its id says."""

    packet: StreamPacket
    id: str
    epoch: int
    first: int

    @property
    def end(self) -> str | None:
        """The outcome, if it is the last packet."""
        if self.packet.op == "CLOSE":
            return "complete"
        if self.packet.op == "ERROR" and self.packet.p.severity == "FATAL":
            return str(self.packet.p.code)
        return None


def packets_of(raw: bytes) -> list[Packet]:
    found = []
    for event in SSEDecoder().feed(raw):
        if event.id:
            packet = parse_packet(event.data_bytes)
            stream_id, seq, *rest = event.id.split(":")
            assert (stream_id, int(seq)) == (str(packet.stream_id), packet.seq)
            epoch, first = map(int, (*rest, "1", "1")[:2]) if len(rest) != 1 else (int(rest[0]), 1)
            found.append(Packet(packet, event.id, epoch, first))
    return found


class Reader:
    """A client that reads to the end, and resumes by the id of its last packet."""

    def __init__(self, apps: list[AgentApp], body: dict[str, Any], first_app: int = 0) -> None:
        self._apps = itertools.cycle(apps[first_app:] + apps[:first_app])
        self._body = body
        self.call: Call | None = None
        self.packets: list[Packet] = []
        self.end: str | None = None
        self.rewound = False

    def step(self) -> None:
        """Connect, if there is no connection and no end; take what a closed one has brought."""
        if self.end is not None:
            return
        if self.call is None:
            cursor = self.packets[-1].id if self.packets else None
            self.call = Call(next(self._apps), self._body, cursor)
        elif self.call.task.done():
            self.call.task.result()
            self._take(self.call)
            self.call = None

    def _take(self, call: Call) -> None:
        if call.status in (404, 410):
            self.end = {404: "unknown", 410: "gone"}[call.status]
        elif call.status == 204:
            self.end = call.headers[b"x-stream-outcome"].decode()
            # Nothing follows, so the reader must have had the end.
            assert self.packets[-1].end == self.end
        elif call.status == 200:
            new = packets_of(call.raw)
            assert not (new and self.packets and self.packets[-1].end), "something after the end"
            self.packets += new
            if self.packets:
                self.end = self.packets[-1].end
        else:
            assert call.status == 503, (call.status, call.raw)

    def leave(self) -> None:
        if self.call is not None:
            self.call._left.set()

    def come_again(self) -> None:
        """Ask once more what follows the end that was read."""
        if self.packets and self.end == self.packets[-1].end:
            self.end = None

    @property
    def text(self) -> str:
        """The text that the reader shows, without the packets that a REWIND has taken back."""
        shown: list[tuple[int, str]] = []
        for found in self.packets:
            packet = found.packet
            if packet.op == "DELTA":
                shown.append((packet.seq, packet.p))
            elif packet.op == "EVENT" and packet.p.get("type") == REWIND:
                shown = [one for one in shown if one[0] <= packet.p["data"]["to_seq"]]
        return "".join(text for _, text in shown)

    def check(self, kind: Kind) -> None:
        assert self.end is not None, "a reader hangs"
        before = None
        for seq, found in enumerate(self.packets, 1):
            assert found.packet.seq == seq
            if before is not None and found.epoch != before.epoch:
                assert found.first == seq, f"{before.id} is followed by {found.id}"
                assert found.epoch > before.epoch
            before = found
        kind.check(self.text, complete=self.end == "complete")


@dataclass
class World:
    """Two processes, their store and its earlier states, and the readers."""

    kind: Kind
    rewinds: bool
    replies: list[int]
    lease: float = LEASE
    states: list[Saved] = field(default_factory=list)
    readers: list[Reader] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = CutBackStore(virtual_loop().time, self.lease)
        self.logs = [CutBackLog(self.store) for _ in range(2)]
        agent = self.kind.agent()
        self.apps = [
            AgentApp(
                *(agent,),
                log=log,
                agent_id="writer",
                version="1",
                durable=self.kind.durable,
                heartbeat=1.0,
                cancel_grace=0.1,
                drain_timeout=0.0,
            )
            for log in self.logs
        ]
        self.body = envelope("question")
        if self.rewinds:
            self.body["payload"]["capabilities"] = {"supported_events": [REWIND]}

    def join(self, app: int = 0) -> None:
        self.readers.append(Reader(self.apps, self.body, app))

    async def tick(self) -> None:
        for reader in self.readers:
            reader.step()
        await virtual_loop().forward(TICK)
        self.states.append(self.store.save())

    async def settle(self) -> None:
        """Let time pass until every reader has come to its end."""
        for _ in range(SETTLED):
            if all(reader.end is not None for reader in self.readers):
                break
            for reader in self.readers:
                reader.step()
            await virtual_loop().forward(TICK)

    async def do(self, action: str, number: int) -> None:
        match action:
            case "pass":
                for _ in range(number):
                    await self.tick()
            case "cut":
                self.store.cut_back(self.states[-1 - number % len(self.states)])
            case "join":
                self.join(number % 2)
            case "leave":
                self.readers[number % len(self.readers)].leave()
            case "away":
                log = self.logs[number % 2]
                log.away = not log.away

    async def play(self, script: list[tuple[str, int]]) -> None:
        async with self.apps[0].lifespan(), self.apps[1].lifespan():
            self.join()
            self.store.replies = itertools.cycle(self.replies) if self.replies else iter(())
            for action, number in script:
                await self.do(action, number)
            self.store.replies = iter(())
            for log in self.logs:
                log.away = False
            await self.settle()
            for reader in self.readers:
                reader.come_again()
            self.join()  # one that comes late
            await self.settle()
            for reader in self.readers:
                reader.leave()

    def check(self) -> None:
        assert self.store.doubled == []
        for reader in self.readers:
            reader.check(self.kind)


kinds = st.sampled_from([PLAIN, REPRODUCING, RANDOM])
actions = (
    st.tuples(st.just("pass"), st.integers(1, 12))
    | st.tuples(st.just("cut"), st.integers(0, 30))
    | st.tuples(st.sampled_from(["join", "leave", "away"]), st.integers(0, 3))
)
# At least one cut, after some words.
scripts = st.tuples(
    st.tuples(st.just("pass"), st.integers(2, 20)),
    st.tuples(st.just("cut"), st.integers(0, 20)),
).flatmap(lambda begin: st.lists(actions, max_size=14).map(lambda rest: [*begin, *rest]))
replies = st.lists(st.integers(0, 3) | st.just(0) | st.sampled_from([-1, -3, -40]), max_size=8)


# How long, and how many bytes, a producer keeps of what the store has acknowledged.
KEPT = [(10.0, 1 << 20), (10.0, 1 << 20), (0.35, 1 << 20), (10.0, 500), (10.0, 0)]


@pytest.fixture
def unexpected() -> Iterator[list[str]]:
    """The errors that nobody expects, such as a bug in the upkeep."""
    found: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "unexpectedly" in record.msg or "could not be continued" in record.msg:
                found.append(self.format(record))

    handler = Handler(logging.WARNING)
    logger = logging.getLogger("coreason_client.server")
    logger.addHandler(handler)
    yield found
    logger.removeHandler(handler)


@pytest.mark.proves("DUR-9-epochs")
@settings(examples(300), suppress_health_check=list(HealthCheck))
@given(kinds, st.booleans(), scripts, replies, st.sampled_from(KEPT))
def test_no_reader_has_a_mixture_of_two_texts(
    unexpected: list[str],
    kind: Kind,
    rewinds: bool,
    script: list[tuple[str, int]],
    answers: list[int],
    kept: tuple[float, int],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_appender, "KEEP_SECONDS", kept[0])
        patch.setattr(_appender, "KEEP_BYTES", kept[1])
        run(World, kind, rewinds, answers, script=script)
    assert unexpected == []


class Living(World):
    """No process is cut off, and the store loses only what the producer still has."""

    async def do(self, action: str, number: int) -> None:
        if action == "cut":
            # While the agent runs, to any state in which it ran.
            states = [state for state in self.states if state.running]
            if states and self.store.state.running:
                self.store.cut_back(states[-1 - number % len(states)])
        else:
            await super().do(action, number)

    def check(self) -> None:
        super().check()
        assert {reader.end for reader in self.readers} == {"complete"}
        for reader in self.readers:
            assert not any(found.packet.op == "EVENT" for found in reader.packets)
            assert {found.epoch for found in reader.packets} == {1}


@settings(examples(300), suppress_health_check=list(HealthCheck))
@given(kinds, scripts, st.lists(st.integers(0, 3), max_size=8))
def test_with_a_living_producer_nothing_is_lost(
    unexpected: list[str], kind: Kind, script: list[tuple[str, int]], answers: list[int]
) -> None:
    script = [(action, number) for action, number in script if action != "away"]
    run(Living, kind, False, answers, 60.0, script=script)
    assert unexpected == []


@virtual
async def run(world_type: Any, *arguments: Any, script: list[tuple[str, int]]) -> None:
    world = world_type(*arguments)
    await world.play(script)
    world.check()
