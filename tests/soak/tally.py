"""Counts errors in what was read against what was acknowledged. No I/O."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self
from uuid import UUID

from coreason_manifest.definitions.presentation import Packet, StreamError
from coreason_manifest.definitions.service import ServiceRequest

from .content import Order

COMPLETE = "complete"
HUNG = "hung"
MOST_SILENCE = 35.0  # longest time in seconds that a reader may wait for a packet or the end


@dataclass(slots=True)
class Reading:
    """One stream as one reader received it."""

    order: Order
    request: ServiceRequest
    asked_at: float = 0.0
    seen_at: float = 0.0
    stream_id: UUID | None = None
    last_seq: int = 0
    delivered: set[int] = field(default_factory=set)
    doubled: int = 0
    out_of_order: int = 0
    spliced: int = 0
    wrong: int = 0
    longest_silence: float = 0.0
    first_after: float | None = None
    reconnects: int = 0
    asked_again: int = 0
    end: str | None = None  # COMPLETE, HUNG, or the code of an error
    at_its_end: bool = False  # the last packet of the stream was read
    error: StreamError | None = None  # with which the stream ended
    hung_after: float = 45.0  # seconds without a packet

    @classmethod
    def of(cls, order: Order) -> Self:
        return cls(order, order.request())

    def begin(self, now: float) -> None:
        self.asked_at = self.seen_at = now

    def take(self, packet: Packet, now: float) -> None:
        """Count one packet that the client delivered."""
        self.progress(now)
        if self.first_after is None:
            self.first_after = now - self.asked_at
        if self.stream_id is None:
            self.stream_id = packet.stream_id
        self.spliced += packet.stream_id != self.stream_id
        self.doubled += packet.seq in self.delivered
        self.out_of_order += packet.seq < self.last_seq
        self.wrong += not self.order.is_right(packet)
        self.delivered.add(packet.seq)
        self.last_seq = packet.seq

    def progress(self, now: float) -> None:
        self.longest_silence = max(self.longest_silence, now - self.seen_at)
        self.seen_at = now

    def complete(self) -> None:
        """Record that the iteration ended, which is correct only after all packets."""
        self.end, self.at_its_end = COMPLETE, True

    def ended_with(self, code: str, stream_id: UUID, seq: int, now: float) -> None:
        """Record that the stream ended with an error, which is a numbered packet itself."""
        self.progress(now)
        self.stream_id = self.stream_id or stream_id
        self.spliced += stream_id != self.stream_id
        self.delivered.add(seq)
        self.end, self.at_its_end = code, True

    @property
    def too_short(self) -> bool:
        """True if the stream counts as complete although packets are missing."""
        return self.end == COMPLETE and len(self.delivered) != self.order.packets + 1

    @property
    def summary(self) -> str:
        """One line about a reading that failed."""
        return (
            f"{self.order.name}, stream {self.stream_id}, after packet {self.last_seq}, "
            f"{self.reconnects} reconnects, asked again {self.asked_again} times"
        )

    @property
    def holes(self) -> int:
        """The number of packets below the last one that never arrived."""
        return max(self.delivered, default=0) - len(self.delivered)


@dataclass(slots=True)
class Notes:
    """The records of all replicas."""

    acknowledged: dict[UUID, set[int]] = field(default_factory=dict)
    begun: dict[UUID, list[UUID]] = field(default_factory=dict)  # streams by request
    takeovers: int = 0
    fenced: set[UUID] = field(default_factory=set)
    unfenced: int = 0
    restarts: int = 0  # of durable agents
    released: dict[UUID, list[tuple[int, float]]] = field(default_factory=dict)
    continued: dict[UUID, list[tuple[int, float]]] = field(default_factory=dict)

    @classmethod
    def parse(cls, lines: Iterable[str]) -> "Notes":
        notes = cls()
        for line in lines:
            kind, stream, *rest = line.split()
            notes._take(kind, UUID(stream), rest)
        return notes

    def _take(self, kind: str, stream_id: UUID, rest: Sequence[str]) -> None:
        match kind:
            case "ack":
                _, first, number = map(int, rest)
                seqs = self.acknowledged.setdefault(stream_id, set())
                seqs.update(range(first, first + number))
            case "begin":
                self.begun.setdefault(UUID(rest[0]), []).append(stream_id)
            case "takeover":
                self.takeovers += 1
            case "restart":
                self.restarts += 1
            case "released" | "continued":
                times = self.released if kind == "released" else self.continued
                times.setdefault(stream_id, []).append((int(rest[0]), float(rest[1])))
            case "fenced":
                self.fenced.add(stream_id)
            case "unfenced":
                self.unfenced += 1
            case _:
                raise ValueError(f"unknown kind of note: {kind}")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; `right` is None if any value is correct."""

    name: str
    value: str
    right: bool | None = None


def count(readings: Sequence[Reading], notes: Notes, stored: Mapping[UUID, int]) -> list[Row]:
    """Return the table; `stored` has the last number of each stream in the store."""
    ends = Counter(reading.end for reading in readings)
    errors = {str(end): n for end, n in ends.items() if end not in (COMPLETE, HUNG)}
    read = {reading.stream_id: reading for reading in readings if reading.at_its_end}
    known = {reading.stream_id for reading in readings}
    acknowledged = [seqs for id_, seqs in notes.acknowledged.items() if id_ in known]
    return [
        plain("streams", len(readings)),
        plain("packets acknowledged", sum(len(seqs) for seqs in acknowledged)),
        plain("packets delivered", sum(len(reading.delivered) for reading in readings)),
        zero("lost: acknowledged and not delivered", sum(_lost(r, notes) for r in read.values())),
        zero("lost: acknowledged and not in the store", _not_stored(notes, stored)),
        zero("lost: in the store and not delivered", _unread(read, stored)),
        zero("lost: holes in the numbers", sum(reading.holes for reading in readings)),
        zero("doubled", sum(reading.doubled for reading in readings)),
        zero("out of order", sum(reading.out_of_order for reading in readings)),
        zero("spliced", sum(reading.spliced for reading in readings)),
        zero("wrong content", sum(reading.wrong for reading in readings)),
        zero("complete without all packets", sum(reading.too_short for reading in readings)),
        zero("requests generated twice", sum(len(ids) > 1 for ids in notes.begun.values())),
        plain("streams complete", ends[COMPLETE]),
        plain("streams ended with a typed error", sum(errors.values())),
        *(plain(f"of these {code}", number) for code, number in sorted(errors.items())),
        zero("streams not read to their end", sum(not reading.at_its_end for reading in readings)),
        zero("streams that hung", ends[HUNG]),
        bounded("longest silence", longest_silence(readings), MOST_SILENCE),
        plain("reconnects of clients", sum(reading.reconnects for reading in readings)),
        plain("asked again after a refusal", sum(reading.asked_again for reading in readings)),
        plain("takeovers", notes.takeovers),
        plain("streams with a fenced producer", len(notes.fenced)),
        zero("late appends that got through", notes.unfenced),
    ]


def _lost(reading: Reading, notes: Notes) -> int:
    assert reading.stream_id is not None
    return len(notes.acknowledged.get(reading.stream_id, set()) - reading.delivered)


def _not_stored(notes: Notes, stored: Mapping[UUID, int]) -> int:
    """Count the packets that were acknowledged but are not in the store."""
    return sum(
        sum(seq > stored[stream_id] for seq in seqs)
        for stream_id, seqs in notes.acknowledged.items()
        if stream_id in stored
    )


def _unread(read: Mapping[UUID | None, Reading], stored: Mapping[UUID, int]) -> int:
    return sum(
        last != len(read[stream_id].delivered)
        for stream_id, last in stored.items()
        if stream_id in read
    )


def longest_silence(readings: Sequence[Reading]) -> float:
    """Return the longest time that one of these readers received nothing."""
    return max((reading.longest_silence for reading in readings), default=0.0)


def plain(name: str, value: object) -> Row:
    """Return a row in which any value is correct."""
    return Row(name, str(value))


def zero(name: str, value: int) -> Row:
    """Return a row that must be zero."""
    return Row(name, str(value), value == 0)


def some(name: str, value: int) -> Row:
    """Return a row that must not be zero, or the run would prove nothing."""
    return Row(name, str(value), value > 0)


def titled(title: str, rows: Iterable[Row]) -> list[Row]:
    """Return rows whose names begin with a title."""
    return [Row(f"{title}: {row.name}", row.value, row.right) for row in rows]


def bounded(name: str, seconds: float, most: float) -> Row:
    """Return a row for a time with a limit, which is added to its name."""
    return Row(f"{name} (at most {most:g} s)", f"{seconds:.1f} s", seconds <= most)
