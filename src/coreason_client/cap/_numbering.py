"""The read position of one request: the current stream, its numbers and the cursor. Pure.

The numbers are kept per stream, since a server may send several streams in turn. A number that is
not the next one is a duplicate, a late packet that was skipped before, or the end of a gap; which
of them is decided here, and `_resume` acts on it.
"""

from uuid import UUID

from .._connections import header_cursor
from ._sequence import SequenceNumbers
from .errors import CAPStreamReset
from .position import Position

__all__ = ["Numbering"]


class Numbering:
    """The position in the current stream, and the last numbers of all others.

    `start` is the position in a stream that was begun elsewhere. The resume machine sets `seq` and
    `last_event_id` itself, because a method call for every packet would cost too much.

    Attributes:
        stream_id: the current stream, None before the first packet.
        stream: its id as an integer, which is faster to compare.
        seq: the number of the last packet that was handed out.
        last_event_id: the SSE id that belongs to it.
    """

    __slots__ = (
        "_numbers",
        "_other_streams",
        "_resumed",
        "_retried_gap",
        "_start",
        "last_event_id",
        "seq",
        "stream",
        "stream_id",
    )

    def __init__(self, start: Position | None = None) -> None:
        self._start = start
        self._numbers = SequenceNumbers(0)
        # By stream id; the int is the last number.
        self._other_streams: dict[int, tuple[int, SequenceNumbers]] = {}
        self._resumed = False  # packets arrived before this connection
        self._retried_gap: tuple[int | None, int] | None = None  # stream and number before it
        self.stream_id: UUID | None = None
        self.stream: int | None = None
        self.seq = -1
        self.last_event_id = b""
        if start is not None:
            self.stream_id, self.stream = start.stream_id, start.stream_id.int
            self.seq = start.seq
            self.last_event_id = (start.cursor or "").encode()

    @property
    def position(self) -> Position | None:
        """The position after the last packet that was handed out; None before the first one."""
        if self.stream_id is None:
            return None
        cursor = self.last_event_id.decode("utf-8", "replace") or None
        return Position(stream_id=self.stream_id, seq=self.seq, cursor=cursor)

    @property
    def cursor(self) -> str | None:
        """The Last-Event-ID of the next request: the last SSE id, else the stream id."""
        cursor = header_cursor(self.last_event_id)
        if cursor is None and self.stream_id is not None:
            return str(self.stream_id)
        return cursor

    @property
    def is_at_start(self) -> bool:
        """Whether a stream that was begun elsewhere is still at its start position."""
        return self._start is not None and self.seq == self._start.seq

    def connect(self) -> None:
        """Record a new connection; if packets have arrived before, it may bring no new stream."""
        self._resumed = self.stream_id is not None

    def switch_stream(self, stream_id: UUID, seq: int) -> None:
        """Switch to another stream; `seq` is the number of its first packet here.

        Raises:
            CAPStreamReset: a reconnect brings a stream that was not seen before.
        """
        known = self._other_streams.get(stream_id.int)
        if self.stream_id is not None and self.stream is not None:
            if known is None and self._resumed:
                raise CAPStreamReset(self.stream_id, stream_id, position=self.position)
            self._other_streams[self.stream] = self.seq, self._numbers
        self.stream_id, self.stream = stream_id, stream_id.int
        if known is None:  # a stream may start anywhere
            known = seq - 1, SequenceNumbers(seq)
        self.seq, self._numbers = known

    def has_arrived(self, seq: int) -> bool:
        """Return True if `seq`, which is not above the last number, has arrived before."""
        return self._numbers.arrived(seq)

    def skip_to(self, seq: int) -> None:
        """Record that the numbers between the last one and `seq` did not arrive."""
        self._numbers.skip(self.seq, seq)

    @property
    def gap_was_retried(self) -> bool:
        """Whether a gap after the last number has already caused a reconnect."""
        return self._retried_gap == (self.stream, self.seq)

    def record_gap_retry(self) -> None:
        """Record that a gap after the last number has caused a reconnect."""
        self._retried_gap = (self.stream, self.seq)
