"""The hash of a stream in the store: its fields, and parsing them."""

from collections.abc import Sequence
from itertools import zip_longest
from uuid import UUID

from .._rules import begin_epoch
from ..base import AgentVersion, EpochStart, StreamMeta
from ._errors import ForeignValue

__all__ = ["FIELDS", "parse_epochs", "parse_meta", "text"]

FIELDS = (
    "principal",
    "request",
    "print",
    "epoch",
    "last",
    "opened",
    "outcome",
    "ended",
    "cancel",
    "gone",
    "agent",
    "version",
    "base",
    "starts",
    "epochs",
)


def text(value: str) -> bytes:
    """Encode a string for the store; lone surrogates are allowed."""
    return value.encode("utf-8", "surrogatepass")


def parse_meta(stream_id: UUID, values: Sequence[bytes | None]) -> StreamMeta | None:
    """Parse the values of `FIELDS`; return None if there are none.

    Raises:
        ForeignValue: the log did not write them.
    """
    if not any(value is not None for value in values):
        return None
    try:
        return _meta(stream_id, values)
    except (ValueError, TypeError):
        raise ForeignValue from None


def _meta(stream_id: UUID, values: Sequence[bytes | None]) -> StreamMeta:
    principal, request, fingerprint, epoch, last, opened, outcome, ended, cancel, gone = values[:10]
    agent, version, base, starts, epochs = values[10:]
    if not (request and epoch and last and opened) or principal is None or fingerprint is None:
        raise ValueError("a field is missing")
    return StreamMeta(
        stream_id=stream_id,
        principal=_string(principal),
        request_id=UUID(request.decode("ascii")),
        fingerprint=_string(fingerprint),
        epoch=int(epoch),
        last_seq=int(last),
        opened_at=float(opened),
        outcome=None if outcome is None else _string(outcome),
        ended_at=None if ended is None else float(ended),
        cancel_requested=cancel is not None,
        body_gone=gone is not None,
        agent=None if agent is None else AgentVersion(_string(agent), _string(version or b"")),
        epochs=parse_epochs(int(epoch), base, starts, epochs),
    )


def parse_epochs(
    epoch: int, base: bytes | None, starts: bytes | None, epochs: bytes | None
) -> tuple[EpochStart, ...]:
    """Parse the later epochs of a stream, as `_EPOCHS` in `_scripts` does.

    An earlier release counted epochs: it adds to `starts` only, and for a plain stream to neither.
    """
    firsts, numbers = (list(map(int, (field or b"").split())) for field in (starts, epochs))
    found: tuple[EpochStart, ...] = ()
    for first, number in zip_longest(firsts, numbers[: len(firsts)], fillvalue=0):
        found = begin_epoch(found, first - 1, number)
    if epoch != (found[-1].epoch if found else 1):
        found = (*found, EpochStart(int(base or b"0") + 1, epoch))
    return found


def _string(value: bytes) -> str:
    return value.decode("utf-8", "surrogatepass")
