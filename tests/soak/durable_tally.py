"""Counts errors in what was read of durable agents, and shows them."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from coreason_manifest.definitions.presentation import ClosePacket, EventPacket, Packet

from .content import REWIND, Order, ends_burst, shown
from .tally import COMPLETE, Notes, Reading, Row, bounded, plain, some, zero

LOST = "producer_lost"


@dataclass(slots=True)
class DifferingReading(Reading):
    """The part of one reader of an answer of which one step differs in each run."""

    valid: list[Packet] = field(default_factory=list)
    rewinds: int = 0

    def take(self, packet: Packet, now: float) -> None:
        """Count one packet; a REWIND makes those before it void."""
        # Whether the content is right is known at the end.
        wrong = self.wrong
        Reading.take(self, packet, now)
        self.wrong = wrong
        to_seq = rewound_to(packet)
        if to_seq is None:
            self.valid.append(packet)
            return
        self.rewinds += 1
        self.wrong += not self.order.rewinds or not 0 <= to_seq < packet.seq
        self.valid = [one for one in self.valid if one.seq <= to_seq]

    def complete(self) -> None:
        """Record that the iteration ended, and count the packets with wrong content."""
        Reading.complete(self)
        self._check_content()

    def ended_with(self, code: str, stream_id: UUID, seq: int, now: float) -> None:
        """Record the error at the end, and count the packets before it with wrong content."""
        Reading.ended_with(self, code, stream_id, seq, now)
        self._check_content()

    def _check_content(self) -> None:
        wrong = wrong_packets(self.order, self.valid)
        if wrong:
            self.wrong += wrong
            runs = [runs_of(self.order, packet, at) for at, packet in enumerate(self.valid, 1)]
            print(f"  wrong content, {self.end}: {self.summary}: runs {runs}", file=sys.stderr)

    @property
    def too_short(self) -> bool:
        """True if the stream counts as complete although valid packets are missing."""
        return self.end == COMPLETE and len(self.valid) != self.order.packets + 1


def rewound_to(packet: Packet) -> int | None:
    """Return the last valid number of a REWIND packet, None for any other packet."""
    if isinstance(packet, EventPacket) and isinstance(packet.p, dict):
        event = packet.p
        if event.get("type") == REWIND:
            return int(event["data"]["to_seq"])
    return None


def wrong_packets(order: Order, packets: Sequence[Packet]) -> int:
    """Count the packets that do not belong to one and the same run.

    The number of that run is the one with the fewest wrong packets.
    """
    runs = range(1, 22)  # an agent is restarted at most 20 times
    return min(
        sum(not _is_right(order, packet, index, run) for index, packet in enumerate(packets, 1))
        for run in runs
    )


def runs_of(order: Order, packet: Packet, index: int) -> str:
    """Return the runs that a packet may be of, as text: `-` for none, `*` for any."""
    runs = [run for run in range(1, 22) if _is_right(order, packet, index, run)]
    return "*" if len(runs) > 1 else str(runs[0]) if runs else f"- {packet.seq}"


def _is_right(order: Order, packet: Packet, index: int, run: int) -> bool:
    if index == order.packets + 1:
        return isinstance(packet, ClosePacket)
    return shown(packet) == (ends_burst(index), order.text_of(index, run))


def differing_rows(readings: Sequence[DifferingReading], *, long: bool = True) -> list[Row]:
    """Return the ends of streams whose step differs, by what their clients understand.

    In a `long` run, some are interrupted in that step.
    """
    happens = some if long else plain
    able = [reading for reading in readings if reading.order.rewinds]
    unable = [reading for reading in readings if not reading.order.rewinds]
    lost = sum(reading.end == LOST for reading in unable)
    complete = sum(reading.end == COMPLETE for reading in unable)
    return [
        plain("with rewinds", len(able)),
        zero("of these not complete", sum(reading.end != COMPLETE for reading in able)),
        happens("of these rewound", sum(reading.rewinds > 0 for reading in able)),
        plain("without rewinds", len(unable)),
        plain("complete, without rewinds", complete),
        happens(f"{LOST}, without rewinds", lost),
        zero("ended otherwise, without rewinds", len(unable) - lost - complete),
    ]


def hand_over_rows(readings: Sequence[Reading], notes: Notes, most: float) -> list[Row]:
    """Return how long streams that were handed over had no producer."""
    gaps = hand_over_times(notes)
    asked_again = sum(reading.asked_again for reading in readings)
    return [
        zero("streams not complete", sum(reading.end != COMPLETE for reading in readings)),
        zero("errors that a reader got", asked_again),
        some("hand-overs", len(gaps)),
        bounded("longest time without a producer", max(gaps, default=0.0), most),
    ]


def hand_over_times(notes: Notes) -> list[float]:
    """Return the seconds from each hand-over to the next packet of the stream."""
    gaps = []
    for stream_id, released in notes.released.items():
        for epoch, at in released:
            later = [time for after, time in notes.continued.get(stream_id, []) if after > epoch]
            if later:
                gaps.append(min(later) - at)
    return gaps
