"""Two runs of an agent are never joined, whatever a store forgets and wherever a reader reconnects.

Hypothesis draws what happens to the log of a stream while it is read: packets are written, another
process takes the stream over, the store goes back to an earlier state of itself and another run
continues from there, connections are lost, the reader stops and resumes elsewhere. Epochs and their
first numbers are those of a correct server. All that was handed out since the last rewind must be
the beginning of what the log was at one time.
"""

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from coreason_client._drive_sync import drive
from coreason_client._http._types import Request
from coreason_client.cap.answer import starts_over
from coreason_client.cap.errors import (
    CAPConnectionError,
    CAPError,
    CAPRuntimeError,
    CAPStreamReset,
)
from coreason_client.cap.position import Position
from coreason_manifest.definitions.presentation import ClosePacket
from coreason_manifest.definitions.presentation import Packet as Received
from tests.cap.lost_packets import GONE, STREAM
from tests.cap.scripted import Connection, Network, SyncPaper, machine_for, status
from tests.faults import Packet, block
from tests.fuzz.strategies import examples

Step = tuple[str, int]


@dataclass(frozen=True)
class Entry:
    """A packet in the log; its text is that of its epoch alone."""

    seq: int
    epoch: int
    first: int
    op: str = "DELTA"

    @property
    def text(self) -> str:
        return f"{self.epoch}.{self.seq} "

    @property
    def event(self) -> bytes:
        fatal = {"code": "agent_error", "message": "m", "severity": "FATAL"}
        payload: Any = {"DELTA": self.text, "CLOSE": {"run": self.text}, "ERROR": fatal}[self.op]
        later = "" if self.epoch == 1 else f":{self.epoch}:{self.first}"
        return block(
            Packet(STREAM, self.seq, self.op, payload).json(), f"{STREAM}:{self.seq}{later}"
        )


@dataclass
class Log:
    """A log that can go back to an earlier state; `past` are the states that it had before."""

    entries: list[Entry] = field(default_factory=list)
    past: list[list[Entry]] = field(default_factory=list)
    epoch: int = 1
    first: int = 1

    @property
    def ended(self) -> bool:
        return bool(self.entries) and self.entries[-1].op != "DELTA"

    def write(self, op: str = "DELTA") -> None:
        if not self.ended:
            self.entries.append(Entry(len(self.entries) + 1, self.epoch, self.first, op))

    def hand_over(self) -> None:
        """Another process writes from here on: its epoch is a number that was never used."""
        self.epoch += 3
        self.first = len(self.entries) + 1

    def cut_back(self, kept: int) -> None:
        self.past.append(list(self.entries))
        del self.entries[kept:]
        self.hand_over()

    def fits(self, seq: int, epoch: int) -> bool:
        return seq == 0 or (seq <= len(self.entries) and self.entries[seq - 1].epoch == epoch)


@dataclass
class LossyServer:
    """Serves a log to which the steps happen meanwhile.

    A `checks` server ends responses and refuses positions that do not fit the log, as ours does.
    Any other goes on at the number, as a response does that nobody ends.
    """

    steps: Iterator[Step]
    checks: bool
    log: Log = field(default_factory=Log)

    def __call__(self, request: Request) -> Connection:
        seq, epoch = self._position(request.headers.get("Last-Event-ID"))
        if self.checks and not self.log.fits(seq, epoch):
            body = json.dumps(GONE).encode()
            return status(410, body, content_type="application/problem+json")
        if self.checks and self.log.ended and seq == len(self.log.entries):
            outcome = "complete" if self.log.entries[-1].op == "CLOSE" else "agent_error"
            return status(204, x_stream_outcome=outcome)
        return Connection(self._respond(seq, epoch))

    @staticmethod
    def _position(cursor: str | None) -> tuple[int, int]:
        _, seq, epoch, *_ = f"{cursor or ''}::1".split(":")
        return int(seq or 0), int(epoch or 1)

    def _respond(self, seq: int, epoch: int) -> Iterator[bytes]:
        while True:
            step, number = next(self.steps, ("finish", 0))
            if step == "lose":
                return
            self._happen(step, number)
            if self.checks and not self.log.fits(seq, epoch):
                return
            if step in ("send", "finish"):
                for entry in self.log.entries[seq : seq + (number or 10**6)]:
                    yield entry.event
                    seq, epoch = entry.seq, entry.epoch
            if step == "finish" or (seq == len(self.log.entries) and self.log.ended):
                return

    def _happen(self, step: str, number: int) -> None:
        if step == "write":
            for _ in range(number):
                self.log.write()
        elif step == "hand over":
            self.log.hand_over()
        elif step == "cut":
            self.log.cut_back(max(len(self.log.entries) - number, 0))
        elif step in ("end", "finish"):
            self.log.write("ERROR" if number == 1 else "CLOSE")


@dataclass
class Reader:
    """Reads with one machine after the other, each from the position of the last one."""

    network: Network
    rewinds: bool
    runs: list[list[Received]] = field(default_factory=lambda: [[]])
    position: Position | None = None
    error: CAPError | None = None
    complete: bool = False

    def read(self, count: int | None) -> None:
        machine = machine_for(max_retries=4, rewinds=self.rewinds, position=self.position)
        packets = drive(machine, SyncPaper(self.network))
        try:
            for packet in islice(packets, count):
                if starts_over(packet):
                    self.runs.append([])
                else:
                    self.runs[-1].append(packet)
        except CAPError as error:
            self.error = error
        packets.close()
        self.position, self.complete = machine.position, machine.complete


def texts_of(run: list[Received]) -> list[Any]:
    return [packet.p["run"] if isinstance(packet, ClosePacket) else packet.p for packet in run]


def check(server: LossyServer, *, rewinds: bool, stops: list[int]) -> Reader:
    reader = Reader(Network(server), rewinds)
    for count in [*stops, None]:
        if reader.error is None and not reader.complete:
            reader.read(count)
    states = [[entry.text for entry in state] for state in (*server.log.past, server.log.entries)]
    for run in reader.runs:
        assert [packet.seq for packet in run] == list(range(1, len(run) + 1))
        texts = texts_of(run)
        assert any(state[: len(texts)] == texts for state in states), f"{texts} was never the log"
    if reader.complete:
        assert texts_of(reader.runs[-1]) in states
        assert reader.runs[-1][-1].op == "CLOSE"
    else:
        kinds = (CAPStreamReset, CAPRuntimeError, CAPConnectionError)
        assert type(reader.error) in kinds, repr(reader.error)
    return reader


def rounds(*events: st.SearchStrategy[Step]) -> st.SearchStrategy[list[Step]]:
    """Return lists of steps: in each round something is written and sent, and something happens."""
    written = st.tuples(st.just("write"), st.integers(1, 5))
    sent = st.tuples(st.just("send"), st.integers(1, 6))
    happened = st.lists(st.one_of(lose, lose, *events), max_size=2)
    one_round = st.tuples(written, sent, happened).map(lambda r: [r[0], r[1], *r[2]])
    return st.lists(one_round, max_size=5).map(lambda drawn: list(chain(*drawn)))


lose: st.SearchStrategy[Step] = st.tuples(st.just("lose"), st.just(0))
end: st.SearchStrategy[Step] = st.tuples(st.just("end"), st.integers(0, 1))
hand_over: st.SearchStrategy[Step] = st.tuples(st.just("hand over"), st.just(0))
cut: st.SearchStrategy[Step] = st.tuples(st.just("cut"), st.integers(1, 6))
stops = st.lists(st.integers(0, 6), max_size=3)


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Thousands of reconnects would be thousands of lines."""
    logger = logging.getLogger("coreason_client")
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(logging.NOTSET)


@pytest.mark.proves("R11c", "R11e", "R11f")
@given(
    steps=rounds(hand_over, end, cut, cut, cut),
    rewinds=st.booleans(),
    stops=stops,
)
@examples(500)
def test_any_number_of_losses_on_a_server_that_checks_positions(
    steps: list[Step], rewinds: bool, stops: list[int]
) -> None:
    reader = check(LossyServer(iter(steps), checks=True), rewinds=rewinds, stops=stops)
    event(f"rewinds: {len(reader.runs) - 1}")
    event(f"ends with {type(reader.error).__name__ if reader.error else 'CLOSE'}")


@pytest.mark.proves("R11c", "R11e", "R11f")
@given(
    before=rounds(hand_over),
    lost=st.integers(1, 6),
    after=rounds(end),
    rewinds=st.booleans(),
    stops=stops,
)
@example(before=[("write", 6), ("send", 6)], lost=3, after=[("write", 6)], rewinds=False, stops=[])
@examples(500)
def test_one_loss_on_a_server_that_does_not_notice_it(
    before: list[Step], lost: int, after: list[Step], rewinds: bool, stops: list[int]
) -> None:
    """The ids alone must be enough: so a response that nobody ends is not joined either."""
    steps = [*before, ("cut", lost), *after]
    reader = check(LossyServer(iter(steps), checks=False), rewinds=rewinds, stops=stops)
    event(f"rewinds: {len(reader.runs) - 1}")
    event(f"ends with {type(reader.error).__name__ if reader.error else 'CLOSE'}")
