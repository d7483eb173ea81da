"""Exactly once and in order, or the typed error that the decisions name, whatever the network does.

Hypothesis draws a log of packets and a series of connections: what each replays, which line ends
and noise it uses, how its bytes are cut into chunks, and after which byte it breaks: inside an
event, inside a UTF-8 sequence, between CR and LF. An oracle that knows nothing of the machine says
what has to come out. Both shells must agree with it, and with each other.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from coreason_client._http._types import Request
from coreason_client.cap.errors import (
    CAPConnectionError,
    CAPError,
    CAPProtocolError,
    CAPRuntimeError,
    CAPStreamReset,
)
from tests.cap.scripted import SHELLS, Connection, Network, failure, machine_for
from tests.faults import Packet, block
from tests.fuzz.strategies import examples

STREAMS = ("0a0a0a0a-0000-4000-8000-00000000000a", "0b0b0b0b-0000-4000-8000-00000000000b")

REFILLS = {"DELTA", "EVENT", "CLOSE"}
NOISE = [
    b": comment",
    b"unknown: field",
    b"no colon",
    b"retry: 20",
    b"retry: soon",
    b"\xff\xfe",
    b":",
]


@dataclass(frozen=True)
class Plan:
    """The behaviour of one connection."""

    stream: int = 0
    overlap: int | None = 0  # how many packets before the cursor it repeats; None: all of them
    with_id: bool = True
    eol: bytes = b"\n"
    doubled: frozenset[int] = frozenset()  # numbers of packets that it sends twice
    noise: tuple[int, ...] = ()
    cut: int | None = None  # after how many bytes it ends, modulo their number
    broken: bool = True  # with a failure, or with a clean end of body
    pieces: tuple[int, ...] = (10**6,)  # sizes of the chunks, repeated


@dataclass(frozen=True)
class Log:
    """The logical stream: what kind of packet stands at each number from 1 on."""

    kinds: tuple[str, ...]

    def packets(self, stream: int) -> list[Packet]:
        return [_packet(STREAMS[stream], seq, kind) for seq, kind in enumerate(self.kinds, 1)]


def _packet(stream: str, seq: int, kind: str) -> Packet:
    if kind in ("FATAL", "TRANSIENT", "WARNING"):
        return Packet(stream, seq, "ERROR", {"code": "c", "message": "m", "severity": kind})
    payload: Any = f"wörd–{seq} 🙂" if kind == "DELTA" else {"n": seq}
    return Packet(stream, seq, kind, payload)


@dataclass
class Wire:
    """The bytes of one response, and after which byte each packet is complete."""

    data: bytes = b""
    complete: list[tuple[int, int]] = field(default_factory=list)  # (bytes, seq)
    retries: list[int] = field(default_factory=list)  # bytes up to the end of each retry line

    @property
    def asks_to_come_back(self) -> bool:
        return any(complete <= len(self.data) for complete in self.retries)


def respond(log: Log, plan: Plan, cursor: str | None) -> Wire:
    """Write what a server that behaves like this answers to this cursor."""
    stream, _, number = (cursor or "").partition(":")
    after = int(number) if number and stream == STREAMS[plan.stream] else 0
    start = 0 if plan.overlap is None else max(0, after - plan.overlap)
    wire = Wire()
    for packet in log.packets(plan.stream)[start:]:
        for _ in range(2 if packet.seq in plan.doubled else 1):
            if plan.noise:
                line = NOISE[plan.noise[packet.seq % len(plan.noise)]]
                if line == b"retry: 20":
                    wire.retries.append(len(wire.data) + len(line) + 1)
                wire.data += line + plan.eol + plan.eol
            event_id = packet.event_id if plan.with_id else None
            wire.data += block(packet.json(), event_id, eol=plan.eol)
            # An event is complete with the CR of its empty line, the LF behind it or not.
            complete = len(wire.data) - (1 if plan.eol == b"\r\n" else 0)
            wire.complete.append((complete, packet.seq))
    if plan.cut is not None:
        wire.data = wire.data[: plan.cut % (len(wire.data) + 1)]
    return wire


@dataclass
class Oracle:
    """Says what has to come out; it reads connections, and knows nothing of the machine."""

    log: Log
    max_retries: int
    seqs: list[int] = field(default_factory=list)
    error: type[CAPError] | None = None
    position: int = 0
    failures: int = 0
    drains: int = 0
    stream: int | None = None
    cursor: str | None = None
    done: bool = False

    def read(self, plan: Plan) -> None:
        wire = respond(self.log, plan, self.cursor)
        arrived = [seq for complete, seq in wire.complete if complete <= len(wire.data)]
        if arrived and self.stream not in (None, plan.stream):
            self._end(CAPStreamReset)
            return
        drains = not plan.broken and wire.asks_to_come_back
        for seq in arrived:
            self.stream = plan.stream
            if seq > self.position and not self._take(seq, plan):
                drains = False
                break
        if not self.done:
            self._lose(drains)

    def _lose(self, drains: bool) -> None:
        self.drains += drains
        if drains and self.max_retries and self.drains <= 10:
            return
        self.failures += 1
        if self.failures > self.max_retries:
            self._end(CAPConnectionError)

    def _take(self, seq: int, plan: Plan) -> bool:
        """Take a new packet; say whether this connection is read on."""
        kind = self.log.kinds[seq - 1]
        self.position = seq
        if plan.with_id:
            self.cursor = f"{STREAMS[plan.stream]}:{seq}"
        if kind == "FATAL":
            self._end(CAPRuntimeError)
        elif kind != "TRANSIENT":
            self.seqs.append(seq)
        if kind in REFILLS:
            self.failures = self.drains = 0
        if kind == "CLOSE":
            self._end(None)
        return not self.done and kind != "TRANSIENT"

    def _end(self, error: type[CAPError] | None) -> None:
        self.error = error
        self.done = True


def oracle(log: Log, plans: list[Plan], max_retries: int) -> Oracle:
    expected = Oracle(log, max_retries)
    for plan in plans:
        if not expected.done:
            expected.read(plan)
    assert expected.done, "the last plans are whole answers"
    return expected


def split(data: bytes, pieces: tuple[int, ...]) -> list[bytes]:
    chunks: list[bytes] = []
    position = 0
    while position < len(data):
        size = pieces[len(chunks) % len(pieces)]
        chunks.append(data[position : position + size])
        position += size
    return chunks


def network_for(log: Log, plans: list[Plan]) -> Network:
    left = iter(plans)

    def server(request: Request) -> Connection:
        plan = next(left)
        wire = respond(log, plan, request.headers.get("Last-Event-ID"))
        return Connection(split(wire.data, plan.pieces), failure() if plan.broken else None)

    return Network(server)


kinds = st.lists(
    st.sampled_from(["DELTA"] * 6 + ["EVENT", "WARNING", "TRANSIENT"]), min_size=1, max_size=9
)
logs = st.builds(
    lambda body, last: Log((*body, last)), kinds, st.sampled_from(["CLOSE"] * 5 + ["FATAL"])
)


def plans(*streams: int) -> st.SearchStrategy[Plan]:
    return st.builds(
        Plan,
        stream=st.sampled_from(streams or (0,)),
        overlap=st.sampled_from([0, 0, 1, 3, None]),
        with_id=st.booleans(),
        eol=st.sampled_from([b"\n", b"\r", b"\r\n"]),
        doubled=st.frozensets(st.integers(1, 9), max_size=3),
        noise=st.lists(st.integers(0, len(NOISE) - 1), max_size=3).map(tuple),
        cut=st.integers(0, 10**6),
        broken=st.booleans(),
        pieces=st.lists(st.integers(1, 60), min_size=1, max_size=4).map(tuple),
    )


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Thousands of reconnects would be thousands of lines."""
    logger = logging.getLogger("coreason_client")
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(logging.NOTSET)


def check(log: Log, connections: list[Plan], max_retries: int) -> Oracle:
    # At the end stand as many whole answers as it takes, so that the script always suffices.
    script = connections + [Plan(overlap=None)] * (len(log.kinds) + 1)
    expected = oracle(log, script, max_retries)
    outcomes = [
        run(machine_for(max_retries=max_retries), network_for(log, script))
        for run in SHELLS.values()
    ]
    for outcome in outcomes:
        assert outcome.seqs == expected.seqs
        assert (type(outcome.error) if outcome.error else None) is expected.error
        if outcome.error is not None and expected.position:
            assert outcome.error.position is not None
            assert outcome.error.position.seq == expected.position
    first, second = outcomes
    assert first.summary == second.summary
    return expected


@pytest.mark.proves("RES1-loss-mid-event", "RES1-clean-end", "RES1-replay", "RES1-duplicates")
@given(log=logs, connections=st.lists(plans(), max_size=6))
@example(log=Log(("DELTA", "DELTA", "CLOSE")), connections=[Plan(cut=180, eol=b"\r\n")])
@examples(250)
def test_with_patience_everything_arrives_once_and_in_order(
    log: Log, connections: list[Plan]
) -> None:
    expected = check(log, connections, max_retries=1000)
    event(f"connections: {len(connections)}")
    yielded = [seq for seq, kind in enumerate(log.kinds, 1) if kind not in ("TRANSIENT", "FATAL")]
    assert expected.seqs == yielded


@pytest.mark.proves("R07a", "R07b", "R07c", "R07d")
@given(log=logs, connections=st.lists(plans(), max_size=6), max_retries=st.integers(0, 3))
@examples(250)
def test_with_a_budget_it_is_everything_or_a_typed_error(
    log: Log, connections: list[Plan], max_retries: int
) -> None:
    expected = check(log, connections, max_retries)
    event(f"ends with {expected.error.__name__ if expected.error else 'CLOSE'}")
    assert expected.seqs == sorted(set(expected.seqs))


@pytest.mark.proves("R11a", "RES1-other-stream")
@given(log=logs, connections=st.lists(plans(0, 0, 1), min_size=1, max_size=5))
@examples(300)
def test_a_change_of_streams_is_never_a_splice(log: Log, connections: list[Plan]) -> None:
    expected = check(log, connections, max_retries=1000)
    event(f"ends with {expected.error.__name__ if expected.error else 'CLOSE'}")


@pytest.mark.proves("RFC004-2.2-transparency")
@pytest.mark.parametrize("eol", [b"\n", b"\r", b"\r\n"])
def test_a_cut_after_every_single_byte_is_healed(eol: bytes) -> None:
    log = Log(("DELTA", "EVENT", "DELTA", "CLOSE"))
    size = len(respond(log, Plan(eol=eol), None).data)
    for cut in range(size):
        expected = check(log, [Plan(eol=eol, cut=cut)], max_retries=1)
        assert expected.seqs == [1, 2, 3, 4]


@pytest.mark.proves("R34a", "R34b", "RES1-duplicates")
@given(numbers=st.lists(st.integers(0, 12), min_size=1, max_size=12), cut=st.integers(1, 12))
@examples(250)
def test_whatever_the_numbers_nothing_new_is_dropped(numbers: list[int], cut: int) -> None:
    """A server may send any numbers: each is delivered, a true duplicate, or an error."""
    blocks = [block(_packet(STREAMS[0], seq, "DELTA").json()) for seq in numbers]
    end = block(_packet(STREAMS[0], 5, "CLOSE").json())

    def server(request: Request) -> Connection:
        first = "Last-Event-ID" not in request.headers
        return Connection(blocks[:cut] if first else [*blocks, end])

    outcomes = [run(machine_for(max_retries=50), Network(server)) for run in SHELLS.values()]
    for outcome in outcomes:
        delivered = [packet.seq for packet in outcome.packets if packet.op == "DELTA"]
        assert delivered == sorted(set(delivered))
        if outcome.error is None:
            assert set(delivered) == set(numbers)
            assert outcome.packets[-1].op == "CLOSE"
        else:
            assert type(outcome.error) is CAPProtocolError
            assert numbers != sorted(numbers)
    assert outcomes[0].summary == outcomes[1].summary
