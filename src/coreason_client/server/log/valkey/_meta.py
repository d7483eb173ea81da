"""The hash of a stream in the store: its fields, and parsing them."""

from collections.abc import Sequence
from uuid import UUID

from ..base import AgentVersion, NewStream, StreamMeta
from ._errors import ForeignValue

__all__ = ["FIELDS", "new_meta", "parse_meta", "text"]

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
    "starts",
)


def text(value: str) -> bytes:
    """Encode a string for the store; lone surrogates are allowed."""
    return value.encode("utf-8", "surrogatepass")


def new_meta(stream: NewStream, now: float) -> StreamMeta:
    """Return the description of a new stream."""
    return StreamMeta(
        stream_id=stream.stream_id,
        principal=stream.principal,
        request_id=stream.request_id,
        fingerprint=stream.fingerprint,
        epoch=1,
        last_seq=0,
        opened_at=now,
        outcome=None,
        ended_at=None,
        cancel_requested=False,
        body_gone=False,
        agent=stream.agent,
    )


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
    agent, version, starts = values[10:]
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
        epoch_starts=() if starts is None else tuple(map(int, starts.split())),
    )


def _string(value: bytes) -> str:
    return value.decode("utf-8", "surrogatepass")
