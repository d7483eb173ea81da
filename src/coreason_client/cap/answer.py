"""The answer of an agent: what was read of it so far, and the complete one that `ask` returns.

The state of a stream is shared by sync and async: position, completeness and text so far.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self
from uuid import UUID

from coreason_manifest.definitions._base import utc_now
from coreason_manifest.definitions.presentation import (
    DeltaPacket,
    ErrorPacket,
    EventPacket,
    Packet,
    PresentationEvent,
    PresentationEventType,
    StreamOpCode,
)
from coreason_manifest.definitions.request import ClientCapabilities
from coreason_manifest.definitions.rewind import REWIND, rewound_to
from coreason_manifest.definitions.service import ServiceRequest

from .._drive import Reading
from ._resume import ResumeMachine
from .errors import CAPConnectionError, CAPRuntimeError
from .position import Bookmark, Position

__all__ = [
    "WITH_REWINDS",
    "Answer",
    "ChatProgress",
    "ChatRecord",
    "PacketProgress",
    "Rewound",
    "accepts_rewinds",
    "failed_packet",
    "starts_over",
]


class Answer(str):
    """The text of a complete answer: a string with the conversation id and the events.

    Attributes:
        conversation_id: pass it to the next `ask` or `chat` to continue the conversation.
        events: the events that came with the text: citations, progress, media and the like.
    """

    __slots__ = ("conversation_id", "events")

    conversation_id: str
    events: list[PresentationEvent | dict[str, object]]

    def __new__(
        cls,
        text: str,
        *,
        conversation_id: str,
        events: list[PresentationEvent | dict[str, object]],
    ) -> Self:
        """Create an answer from its text."""
        answer = super().__new__(cls, text)
        answer.conversation_id = conversation_id
        answer.events = events
        return answer

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, object]]:
        """Return the arguments that `copy` and `pickle` need."""
        return (str(self),), {"conversation_id": self.conversation_id, "events": self.events}


# The mark in a chat stream that a part of the text is no longer valid.

WITH_REWINDS = ClientCapabilities(supported_events=[*PresentationEventType, REWIND])
"""The capabilities of a client that understands REWIND events: all other events too."""


@dataclass(frozen=True, slots=True)
class Rewound:
    """A part of the text is void, because the agent was restarted and writes it anew.

    A chat stream with `rewinds=True` yields it between the pieces of text.

    Attributes:
        text: the text that is still valid; show it instead of what was shown so far.
        to_seq: the number of the last packet that is still valid.
        whole: the stream is read again from its start, because it was resumed after that packet,
            or because the server has lost packets. Text from before this stream was resumed is
            void too: from here on, `text` is all that is valid.
    """

    text: str
    to_seq: int
    whole: bool = False


def accepts_rewinds(request: ServiceRequest) -> bool:
    """Return True if a request says that its client understands REWIND events."""
    capabilities = request.payload.capabilities
    return capabilities is not None and REWIND in capabilities.supported_events


def starts_over(packet: Packet) -> bool:
    """Return True if a packet is an event of `rewind_to_start`."""
    if packet.seq or not isinstance(packet, EventPacket):
        return False
    return rewound_to(packet.p) == 0


# The text and the events that a chat stream has received so far. Pure.


class ChatRecord:
    """Collects the text and the events of a stream that starts after packet `start`."""

    def __init__(self, start: int = 0) -> None:
        self._start = start
        self._seq = start
        self._pieces: list[tuple[int, str]] = []
        self._events: list[tuple[int, PresentationEvent | dict[str, object]]] = []
        self._whole = False
        self.exhausted = False
        self.reads_again = False
        """True if the last packet rewinds to before `start`, so the stream has to be read again."""

    @property
    def text(self) -> str:
        return "".join([piece for _, piece in self._pieces])

    @property
    def events(self) -> list[PresentationEvent | dict[str, object]]:
        return [event for _, event in self._events]

    def add(self, piece: "str | Rewound") -> None:
        """Record a piece that is handed out; a rewind drops the pieces that are void."""
        if not isinstance(piece, Rewound):
            self._pieces.append((self._seq, piece))
            return
        if piece.whole and not piece.to_seq:
            self._start = self._seq = 0
        self._pieces = [kept for kept in self._pieces if kept[0] <= piece.to_seq]
        self._events = [kept for kept in self._events if kept[0] <= piece.to_seq]

    def piece_of(self, packet: Packet) -> "str | Rewound | None":
        """Return what a packet is in a chat stream, None if it is not handed out."""
        self._seq = packet.seq
        if isinstance(packet, DeltaPacket):
            return packet.p
        if isinstance(packet, EventPacket):
            to_seq = rewound_to(packet.p)
            if to_seq is not None:
                return self._rewound(to_seq, whole=starts_over(packet))
            self._events.append((packet.seq, packet.p))
        return None

    def _rewound(self, to_seq: int, *, whole: bool) -> Rewound:
        self.reads_again = not whole and to_seq < self._start
        if whole or self.reads_again:
            self._whole = True
            return Rewound("", 0, whole=True)
        valid = "".join([piece for seq, piece in self._pieces if seq <= to_seq])
        return Rewound(valid, to_seq, self._whole)


class PacketProgress:
    """The read position of a stream of packets, and the number of its connections."""

    def __init__(self, machine: ResumeMachine, request: ServiceRequest | None) -> None:
        self._machine = machine
        self._request = request  # None for an answer of a conversation that is followed
        self._reading = Reading(", and continue the answer with resume() and its bookmark()")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} for request {self.request.request_id}: {self._state()}>"

    @property
    def _closed(self) -> bool:
        return self._reading.stopped

    def _state(self) -> str:
        """Describe for `repr` whether the request was sent and how far the answer was read."""
        if not (self._machine.started or self._closed):
            return "not sent yet, iterate to send it"
        state = "complete" if self.complete else "closed" if self._closed else "not complete"
        return f"{state}, read up to {self.position or 'no packet'}"

    def _check_complete(self) -> None:
        """Raise if the stream was closed or has failed, so that this does not look like its end."""
        if not self._machine.complete:
            if not self._closed:
                self._reading.check_loop()
            raise self._machine.ended_early(
                "the stream was closed before its end"
                if self._closed
                else "the stream has failed before its end"
            )

    @property
    def complete(self) -> bool:
        """True if the answer was read to its end."""
        return self._machine.complete

    def bookmark(self) -> Bookmark:
        """Return the request and the position, for `resume` in this process or another."""
        machine = self._machine
        return Bookmark(
            request=self.request,
            position=machine.position,
            complete=machine.complete,
            error=machine.stream_error,
        )

    @property
    def request(self) -> ServiceRequest:
        """The request that this stream answers."""
        assert self._request is not None  # noqa: S101 - the caller has given it
        return self._request

    @property
    def position(self) -> Position | None:
        """The position after the last packet; None before the first. `bookmark()` contains it."""
        return self._machine.position

    @property
    def stream_id(self) -> UUID | None:
        """The id of the stream, for `cancel`; None before the first packet."""
        position = self._machine.position
        return None if position is None else position.stream_id

    @property
    def reconnects(self) -> int:
        """The number of connections after the first."""
        return self._machine.reconnects

    @property
    def response_headers(self) -> Mapping[str, str]:
        """The headers of the last response; empty before the first one."""
        head = self._machine.response_head
        return {} if head is None else head.headers


def failed_packet(position: Position | None, error: CAPRuntimeError) -> ErrorPacket:
    """Return the packet that ended an answer with an error; other errors are raised again."""
    if error.stream_error is None or position is None:
        raise error
    return ErrorPacket(
        stream_id=position.stream_id,
        seq=position.seq,
        op=StreamOpCode.ERROR,
        t=utc_now(),
        p=error.stream_error,
    )


class ChatProgress:
    """The properties that both chat streams offer beside the text."""

    _packets: PacketProgress | None
    _record: ChatRecord
    conversation_id: str

    def __repr__(self) -> str:
        state = "made without a client" if self._packets is None else self._packets._state()
        return f"<{type(self).__name__} of conversation {self.conversation_id}: {state}>"

    def _check_complete(self) -> None:
        if self._packets is None:
            self._record.exhausted = True
        else:
            self._packets._check_complete()

    def _answer(self) -> Answer:
        return Answer(self.text, conversation_id=self.conversation_id, events=self.events)

    @property
    def complete(self) -> bool:
        """True if the answer was read to its end."""
        return self._record.exhausted if self._packets is None else self._packets.complete

    def bookmark(self) -> Bookmark:
        """Return the request and the position, for `resume_chat` in this process or another.

        Raises:
            CAPConnectionError: the stream was made without a client, so there is no request.
        """
        if self._packets is None:
            raise CAPConnectionError("a stream that was made without a client has no bookmark")
        return self._packets.bookmark()

    @property
    def text(self) -> str:
        """The text so far, without text that became void."""
        return self._record.text

    @property
    def events(self) -> list[PresentationEvent | dict[str, object]]:
        """The events so far: citations, progress, media and the like."""
        return self._record.events

    @property
    def request(self) -> ServiceRequest | None:
        """The request that this stream answers; None if the stream was made without a client."""
        return None if self._packets is None else self._packets.request

    @property
    def position(self) -> Position | None:
        """The position after the last packet; None before the first. `bookmark()` contains it."""
        return None if self._packets is None else self._packets.position

    @property
    def stream_id(self) -> UUID | None:
        """The id of the stream, for `cancel`; None before the first packet."""
        return None if self._packets is None else self._packets.stream_id

    @property
    def reconnects(self) -> int:
        """The number of connections after the first."""
        return 0 if self._packets is None else self._packets.reconnects

    @property
    def response_headers(self) -> Mapping[str, str]:
        """The headers of the last response; empty before the first one."""
        return {} if self._packets is None else self._packets.response_headers
