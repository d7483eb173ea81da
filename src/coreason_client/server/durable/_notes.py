"""The notes of a stream's journal. No I/O.

The journal is a numbered list of notes, kept by the log beside the packets until the stream ends.
A note is a JSON object; `kind` names its class. Unknown keys are ignored, so a later release may
add some.
"""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pydantic_core import from_json, to_json

Policy: TypeAlias = Literal["rerun", "fail", "resume"]
Outcome: TypeAlias = Literal["result", "error", "cancelled"]


@dataclass(frozen=True, slots=True)
class Started:
    """The agent was started again after a takeover, when the stream had `last_seq` packets."""

    attempt: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class Traced:
    """The span of the run that writes now, as a `traceparent` header."""

    span: str


@dataclass(frozen=True, slots=True)
class Released:
    """The producer handed the stream over; the next start is not a restart after a failure."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The agent returned after a TRANSIENT error, when the stream had `last_seq` packets.

    `errors` of them are the TRANSIENT errors of this run: they are not progress.
    """

    last_seq: int
    errors: int


@dataclass(frozen=True, slots=True)
class Begun:
    """A step has begun. `first_seq` is the number of its first packet, if that is known."""

    path: str
    policy: Policy
    function: str
    arguments: str
    first_seq: int | None = None


@dataclass(frozen=True, slots=True)
class FirstPacket:
    """The number of the first packet of a step whose beginning was journaled before it."""

    path: str
    first_seq: int


@dataclass(frozen=True, slots=True)
class Done:
    """A step has ended; `last_seq` is the number of its last packet, None if it wrote none.

    `outcome` is the kind of its end. `value` is the result, or the type and message of an error.
    """

    path: str
    outcome: Outcome
    value: Any = None
    last_seq: int | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state from which a step with the policy "resume" continues after its packets so far.

    `seq` is the number of the packet that it was stored with, None if it was stored alone.
    """

    path: str
    value: Any
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class Rewound:
    """A step wrote a REWIND packet with the number `seq`: packets after `to_seq` are void."""

    path: str
    to_seq: int
    seq: int


Note: TypeAlias = (
    Started | Traced | Released | Failed | Begun | FirstPacket | Done | Checkpoint | Rewound
)

_KINDS: dict[str, type[Any]] = {
    "started": Started,
    "traced": Traced,
    "released": Released,
    "failed": Failed,
    "begun": Begun,
    "first_packet": FirstPacket,
    "done": Done,
    "checkpoint": Checkpoint,
    "rewound": Rewound,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def dump_note(note: Note) -> bytes:
    """Return a note as it is stored."""
    values = {name: getattr(note, name) for name in type(note).__slots__}
    return to_json({"kind": _NAMES[type(note)], **values})


def parse_note(stored: bytes) -> Note:
    """Parse the result of `dump_note`.

    Raises:
        ValueError: the bytes are something else.
    """
    value = from_json(stored)
    try:
        kind = _KINDS[value.pop("kind")]
        note: Note = kind(**{name: value[name] for name in kind.__slots__ if name in value})
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not a note of a journal: {type(error).__name__}") from None
    return note
