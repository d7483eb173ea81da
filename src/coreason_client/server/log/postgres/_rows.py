"""Streams as arguments and rows of the functions."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

from ...errors import RequestConflict
from .._rules import digest, text
from ..base import AgentVersion, Claim, Conversation, EpochStart, NewStream, Opened, StreamMeta
from ._session import Session

__all__ = [
    "conversation_digest",
    "handle_opening",
    "opening_arguments",
    "owner_digest",
    "parse_claim",
    "parse_epochs",
    "parse_meta",
    "parse_text",
    "request_digest",
]


def parse_text(value: bytes) -> str:
    """Return a string that was stored with `text`."""
    return value.decode("utf-8", "surrogatepass")


def request_digest(principal: str, request_id: UUID) -> bytes:
    """Return the key of a request."""
    return bytes.fromhex(digest(principal, request_id.bytes))


def conversation_digest(conversation: Conversation) -> bytes:
    """Return the key of a conversation."""
    return bytes.fromhex(digest(conversation.principal, text(conversation.session_id)))


def owner_digest(principal: str) -> bytes:
    """Return the key of a principal."""
    return bytes.fromhex(digest(principal, b""))


def opening_arguments(
    session: Session, lease: float, stream: NewStream, replaces: UUID | None = None
) -> tuple[Any, ...]:
    """Return the arguments of the function `open`."""
    agent = stream.agent
    return (
        session.store.now(),
        lease,
        stream.stream_id,
        request_digest(stream.principal, stream.request_id),
        text(stream.principal),
        stream.request_id,
        text(stream.fingerprint),
        uuid4(),
        None if agent is None else text(agent.agent_id),
        None if agent is None else text(agent.version),
        stream.question,
        replaces,
    )


_OPENING = 7  # the place of the unique name among the arguments


def handle_opening(
    session: Session, stream: NewStream, arguments: Sequence[Any], row: Any, owned_until: float
) -> Opened:
    """Return the stream that the function `open` has found or created.

    Raises:
        RequestConflict: the request is known with another fingerprint.
    """
    meta = parse_meta(row)
    created = row["opening"] == arguments[_OPENING]
    if created:
        session.owned.own_new(stream.stream_id, owned_until)
    elif meta.fingerprint != stream.fingerprint:
        raise RequestConflict(stream.request_id)
    return Opened(meta, created=created)


def parse_meta(row: Any) -> StreamMeta:
    """Return the description of a stream."""
    agent_id, version, outcome = row["agent_id"], row["version"], row["outcome"]
    return StreamMeta(
        stream_id=row["stream_id"],
        principal=parse_text(row["principal"]),
        request_id=row["request_id"],
        fingerprint=parse_text(row["fingerprint"]),
        epoch=row["epoch"],
        last_seq=row["last_seq"],
        opened_at=row["opened_at"],
        outcome=None if outcome is None else parse_text(outcome),
        ended_at=row["ended_at"],
        cancel_requested=row["cancel_requested"],
        body_gone=row["body_gone"],
        agent=None if agent_id is None else AgentVersion(parse_text(agent_id), parse_text(version)),
        epochs=parse_epochs(row["epochs"]),
    )


def parse_epochs(numbers: Sequence[int]) -> tuple[EpochStart, ...]:
    """Return the later epochs of a stream: the column has two numbers of each."""
    return tuple(map(EpochStart, numbers[::2], numbers[1::2]))


def parse_claim(row: Any) -> Claim:
    """Return a stream that was taken over."""
    return Claim(row["stream_id"], row["epoch"], row["last"], row["question"])
