"""Reads answers of durable agents in the middle of which a process dies."""

from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic_core import from_json

from coreason_client import CAPClient, CAPRuntimeError
from coreason_client.cap.answer import Rewound
from coreason_client.cap.streams import ChatStream
from coreason_client.server.durable._packets import comparable
from coreason_manifest.definitions.presentation import Packet

from .durable_replica import HELD_AT, UNDISTURBED, WORDS

REWINDS = "rewinds"
Shown: TypeAlias = tuple[int, str, object]

A = "".join(f"A{number} " for number in range(WORDS))
B = "".join(f"B{number} " for number in range(WORDS))
EXPECTED = {"body": A, "table": A + B, "resume": f"{A}done"}
DISTURBED = ["body", "table", "resume", "fail", "differ", f"differ {REWINDS}"]


@dataclass(frozen=True, slots=True)
class Read:
    """One answer as a client got it; `packets` are those that a second reader got at the end."""

    stream_id: str
    pieces: list[str | Rewound]
    text: str
    error: str | None
    packets: list[Shown]


class Reader:
    """A client of one answer."""

    def __init__(self, client: CAPClient, question: str) -> None:
        self._client = client
        name, _, manner = question.partition(" ")
        words = f"{name} {manner}" if manner == UNDISTURBED else name
        self._stream: ChatStream[str | Rewound] = client.chat(words, rewinds=manner == REWINDS)
        self._pieces: list[str | Rewound] = []

    def until_held(self) -> None:
        """Read to the word after which the first run stops."""
        for piece in self._stream:
            self._pieces.append(piece)
            if str(piece).strip()[1:].partition("/")[0] == f"{HELD_AT}" and self._is_held:
                return
        raise AssertionError("the answer ended before its process was killed")

    @property
    def _is_held(self) -> bool:
        """True unless this is the first step of two."""
        first = self._stream.bookmark().request.payload.messages[0].text  # type: ignore[index]
        return first != "table" or any(str(piece).startswith("B") for piece in self._pieces)

    def rest(self) -> Read:
        """Read to the end."""
        error = None
        try:
            self._pieces += self._stream
        except CAPRuntimeError as failure:
            error = failure.stream_error.code if failure.stream_error else str(failure)
        request = self._stream.bookmark().request
        packets: list[Shown] = []
        try:
            packets += map(shown, self._client.assist(request))
        except CAPRuntimeError:
            assert error is not None
        return Read(stream_id(self._stream), self._pieces, self._stream.text, error, packets)


def stream_id(stream: ChatStream[Any]) -> str:
    """Return the id of a stream that has begun."""
    position = stream.bookmark().position
    assert position is not None
    return str(position.stream_id)


def shown(packet: Packet) -> Shown:
    """Return what is the same in every run of an agent."""
    return packet.seq, packet.op, comparable(packet.op, from_json(packet.to_json())["p"])
