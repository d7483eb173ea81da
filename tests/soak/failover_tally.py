"""Judges what readers received of streams whose store failed over. No I/O.

The text of an answer is a sequence of words, each with its number and the run of the agent that
wrote it. So the text of a reader shows whether it is from one run, and whether it is whole.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from uuid import UUID

from coreason_client import CAPConnectionError, CAPError, CAPStreamReset, Rewound
from coreason_manifest.definitions.presentation import (
    ClosePacket,
    DeltaPacket,
    ErrorPacket,
    ErrorSeverity,
    EventPacket,
    Packet,
)
from coreason_manifest.definitions.rewind import rewound_to

from .content import Order
from .readers import TRANSIENT
from .tally import COMPLETE, HUNG, Row, plain, some, zero

Reader: TypeAlias = Literal["raw", "async", "sync"]

SAME = "same"  # the run in the words that are the same in each run
GONE = "410"
RESET = "reset"  # the server sent another stream
# The ends that a failover may have: the code of a server's error, a status, or a reset.
TYPED = (COMPLETE, HUNG, RESET, GONE, "404", "producer_lost", "server_stopped")

_SHOWN = 40  # characters of an error in the table


def word(index: int, run: str) -> str:
    return f"{index}.{run} "


@dataclass(slots=True)
class Reading:
    """One answer as one reader has it."""

    order: Order
    reader: Reader
    durable: bool
    away: float = 0.0  # seconds for which the reader disconnects at the failover; 0: it stays
    text: str = ""  # what the reader shows
    rewinds: int = 0
    end: str | None = None  # COMPLETE, HUNG, the code of an error, or a description of a violation

    @property
    def words(self) -> list[tuple[int, str]]:
        """The number and the run of each word."""
        parts = [part.partition(".") for part in self.text.split()]
        return [(int(index), run) for index, _, run in parts]

    @property
    def mixed(self) -> bool:
        """True if the text has words of two runs."""
        return len({run for _, run in self.words} - {SAME}) > 1

    @property
    def doubled(self) -> bool:
        """True if a word is there twice, in a text that is from one run."""
        return not self.mixed and max(Counter(self.words).values(), default=0) > 1

    @property
    def lost(self) -> bool:
        """True if words are missing before the last one, or the answer counts as complete."""
        numbers = sorted({index for index, _ in self.words})
        whole = numbers == list(range(1, len(numbers) + 1))
        return not whole or (self.end == COMPLETE and len(numbers) != self.order.packets)

    @property
    def untyped(self) -> bool:
        """True if the reader got an end that a failover must not have."""
        return self.end not in TYPED

    @property
    def summary(self) -> str:
        """One line about a reading that failed."""
        kind = "durable" if self.durable else "plain"
        runs = Counter(run for _, run in self.words)
        return (
            f"{kind} {self.order.name}, {self.reader}, {'away' if self.away else 'stays'}, "
            f"{self.rewinds} rewinds, words of {dict(runs)}, ended with {self.end}"
        )


@dataclass(slots=True)
class ChatText:
    """The text of a reading that a client's chat stream gives in pieces.

    A new one begins with each stream that is resumed, after the text so far.
    """

    reading: Reading
    before: str

    def take(self, piece: str | Rewound) -> None:
        """Add a piece, or show the text that is still valid."""
        if isinstance(piece, str):
            self.reading.text += piece
            return
        self.reading.rewinds += 1
        self.reading.text = piece.text if piece.whole else self.before + piece.text


def end_of(error: CAPError) -> str | None:
    """Return the end that an error means for a reader, None if it may retry from its position."""
    if error.stream_error is not None:
        return error.stream_error.code
    if isinstance(error, CAPStreamReset):
        return RESET
    if isinstance(error, CAPConnectionError) or error.status_code in TRANSIENT:
        return None
    return str(error.status_code or f"{type(error).__name__}: {error}")


@dataclass(slots=True)
class RawText:
    """The text of a reading from the events of the wire.

    It is strict about streams and numbers, and knows nothing of epochs: the server alone must
    prevent that two runs are mixed. `seams` counts epochs that do not follow each other, where the
    ids of packets tell it.
    """

    reading: Reading
    cursor: str | None = None
    seams: int = 0
    _stream: UUID | None = None
    _seq: int = 0
    _epoch: int = 1
    _pieces: list[tuple[int, str]] = field(default_factory=list)

    def take(self, packet: Packet, id_: str) -> None:
        """Take one packet and its id; sets the end of the reading if it is the last one."""
        if self._stream not in (None, packet.stream_id):
            self.reading.end = RESET
        elif packet.seq != self._seq + 1:
            self.reading.end = f"packet {packet.seq} after {self._seq}"
        elif not f"{id_}:".startswith(f"{packet.stream_id}:{packet.seq}:"):
            self.reading.end = f"packet {packet.seq} with the id {id_}"
        else:
            self.cursor, self._stream, self._seq = id_, packet.stream_id, packet.seq
            self._follow_epoch(id_)
            self._show(packet)

    def _follow_epoch(self, id_: str) -> None:
        """Check `<stream>:<seq>:<epoch>:<first number of the epoch>`; the opener has no epoch."""
        match id_.split(":"):
            case [_, seq, epoch, first]:
                self.seams += int(epoch) != self._epoch and seq != first
                self._epoch = int(epoch)
            case [_, _, epoch]:  # it does not tell where the epoch began
                self._epoch = int(epoch)
            case _:
                self.seams += self._epoch != 1
                self._epoch = 1

    def _show(self, packet: Packet) -> None:
        reading = self.reading
        if isinstance(packet, DeltaPacket):
            self._pieces.append((packet.seq, packet.p))
        elif isinstance(packet, EventPacket):
            to_seq = rewound_to(packet.p)
            if to_seq is not None:
                reading.rewinds += 1
                self._pieces = [piece for piece in self._pieces if piece[0] <= to_seq]
                if not reading.order.rewinds:
                    reading.end = "REWIND for a reader without it"
        elif isinstance(packet, ErrorPacket) and packet.p.severity is ErrorSeverity.FATAL:
            reading.end = packet.p.code
        elif isinstance(packet, ClosePacket):
            reading.end = COMPLETE
        reading.text = "".join(text for _, text in self._pieces)


def judge(readings: Sequence[Reading], seams: int, *, confirmed: bool) -> list[Row]:
    """Return the table of one failover.

    If each write was confirmed by the promoted store, no reader may be ahead of it.
    """
    ends = Counter(str(reading.end) for reading in readings)
    others = {end: number for end, number in ends.items() if end in TYPED[2:]}
    gone = others.pop(GONE, 0)
    untyped = Counter(str(reading.end)[:_SHOWN] for reading in readings if reading.untyped)
    return [
        plain("readers", len(readings)),
        some("complete", ends[COMPLETE]),
        plain("rewound", sum(reading.rewinds > 0 for reading in readings)),
        zero("mixed: text of two runs", sum(reading.mixed for reading in readings)),
        zero("mixed: epochs that do not follow", seams),
        zero("lost: complete without all words", sum(reading.lost for reading in readings)),
        zero("doubled", sum(reading.doubled for reading in readings)),
        zero("hung", ends[HUNG]),
        zero("untyped errors", untyped.total()),
        *(plain(f"of these {end}", number) for end, number in sorted(untyped.items())),
        (zero if confirmed else plain)("ended with 410", gone),
        *(plain(f"ended with {end}", number) for end, number in sorted(others.items())),
    ]
