"""The valid text and errors of a stream: what is left of its packets after rewinds. No I/O."""

from coreason_manifest.definitions.presentation import ErrorSeverity, StreamError

from ._replay import Logged

__all__ = ["REWIND", "ValidErrors", "ValidText"]

REWIND = "REWIND"
"""The type of the event that makes earlier packets void."""


class ValidText:
    """Collects the text of packets, and drops what a rewind makes void."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        # By the number of their packet. A list of pairs would be a new object for each packet,
        # which the garbage collector would have to visit.
        self._pieces: dict[int, str] = {}

    def __str__(self) -> str:
        return "".join(self._pieces.values())

    def add(self, seq: int, text: str) -> None:
        """Add the text of a packet."""
        self._pieces[seq] = text

    def rewind(self, to_seq: int) -> None:
        """Drop the text of the packets after a number."""
        self._pieces = {seq: text for seq, text in self._pieces.items() if seq <= to_seq}

    def follow(self, packet: Logged) -> None:
        """Add a packet of the log, or rewind."""
        if packet.op == "DELTA":
            self.add(packet.seq, packet.content)
        elif packet.op == "EVENT" and packet.content.get("type") == REWIND:
            data = packet.content.get("data")
            to_seq = data.get("to_seq") if isinstance(data, dict) else None
            if type(to_seq) is int and to_seq >= 0:  # an agent may use the name for something else
                self.rewind(to_seq)


class ValidErrors:
    """Collects the TRANSIENT errors of packets, and drops what a rewind makes void."""

    __slots__ = ("_errors",)

    def __init__(self) -> None:
        self._errors: dict[int, StreamError] = {}  # by the number of their packet

    @property
    def transient(self) -> StreamError | None:
        """The last TRANSIENT error, None if there is none."""
        return next(reversed(self._errors.values()), None)

    def add(self, seq: int, error: StreamError) -> None:
        """Add the error of a packet."""
        if error.severity is ErrorSeverity.TRANSIENT:
            self._errors[seq] = error

    def rewind(self, to_seq: int) -> None:
        """Drop the errors of the packets after a number."""
        self._errors = {seq: error for seq, error in self._errors.items() if seq <= to_seq}
