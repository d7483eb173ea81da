"""Log lines about streams, for operators.

Every line has the same facts in its text and in its fields (`extra`), so a formatter can write
JSON. Lines contain ids, principals and numbers, and never the content of a conversation.
"""

import logging
from uuid import UUID

from ..log.base import AgentVersion, StreamMeta
from ._line_limit import suppressed_suffix

__all__ = [
    "drained",
    "draining",
    "end_written",
    "logger",
    "other_version",
    "refused",
    "restarted",
    "restarts_used_up",
    "resumed",
    "stream_ended",
    "stream_started",
    "taken_over",
]

logger = logging.getLogger("coreason_client.server")


def stream_started(meta: StreamMeta) -> None:
    """Log that an agent was started."""
    if logger.isEnabledFor(logging.INFO):  # the fields cost more than the check
        logger.info(
            "stream %s started for %s (request %s)",
            *(meta.stream_id, meta.principal, meta.request_id),
            extra={"event": "stream_started", **_fields(meta)},
        )


def stream_ended(
    meta: StreamMeta, outcome: str, packets: int, seconds: float, problem: str = ""
) -> None:
    """Log that the last packet of a stream is in the log, or could not be written.

    `problem` says why a restarted agent could not continue the stream.
    """
    logger.log(
        logging.WARNING if problem else logging.INFO,
        "stream %s ended after %.3f s and %d packets: %s%s",
        *(meta.stream_id, seconds, packets, outcome),
        f": {problem}" if problem else "",
        extra={
            "event": "stream_ended",
            **_fields(meta),
            "outcome": outcome,
            "packets": packets,
            "seconds": round(seconds, 3),
            **({"problem": problem} if problem else {}),
        },
    )


def end_written(stream_id: UUID, outcome: str, packets: int) -> None:
    """Log that the last packet of a stream was written after earlier attempts had failed."""
    logger.info(
        "stream %s ended after %d packets: %s (earlier attempts to write the end had failed)",
        *(stream_id, packets, outcome),
        extra={
            "event": "stream_end_written",
            "stream_id": str(stream_id),
            "outcome": outcome,
            "packets": packets,
        },
    )


def resumed(meta: StreamMeta, after_seq: int) -> None:
    """Log that a reader resumes a stream."""
    logger.info(
        "stream %s resumed after packet %d by %s",
        *(meta.stream_id, after_seq, meta.principal),
        extra={"event": "stream_resumed", **_fields(meta), "after_seq": after_seq},
    )


def taken_over(stream_id: UUID, last_seq: int, seconds: float | None = None) -> None:
    """Log that this process ended an orphaned stream."""
    logger.warning(
        "stream %s lost its producer after packet %d",
        *(stream_id, last_seq),
        extra={
            "event": "stream_taken_over",
            "stream_id": str(stream_id),
            "packets": last_seq,
            "seconds": seconds,
        },
    )


def restarted(meta: StreamMeta, attempt: int, *, handed_over: bool) -> None:
    """Log that this process continues a durable stream of another one."""
    logger.log(
        logging.INFO if handed_over else logging.WARNING,
        "stream %s is continued after packet %d: attempt %d%s",
        *(meta.stream_id, meta.last_seq, attempt),
        ", it was handed over" if handed_over else ", its producer was lost",
        extra={
            "event": "stream_restarted",
            **_fields(meta),
            "packets": meta.last_seq,
            "attempt": attempt,
            "handed_over": handed_over,
        },
    )


def other_version(meta: StreamMeta, own: AgentVersion) -> None:
    """Log that this process continues a durable stream of another version of its agent."""
    version = "" if meta.agent is None else meta.agent.version
    logger.warning(
        "stream %s of version %s is continued by version %s: if this is another agent and not "
        "another release, give it an agent_id other than %r",
        *(meta.stream_id, version, own.version, own.agent_id),
        extra={"event": "other_version", **_fields(meta), "version": version},
    )


def restarts_used_up(meta: StreamMeta, failed: int, total: int) -> None:
    """Log that a durable stream is not restarted any more."""
    logger.warning(
        "stream %s is not restarted again (restarts in a row without progress: %d, in all: %d)",
        *(meta.stream_id, failed, total),
        extra={
            "event": "restarts_used_up",
            **_fields(meta),
            "packets": meta.last_seq,
            "failed": failed,
            "restarts": total,
        },
    )


def refused(
    status: int,
    problem: str,
    detail: str,
    principal: str | None,
    reason: str = "",
    suppressed: int = 0,
) -> None:
    """Log a refused request. `reason` is for the operator; the client gets only `detail`.

    `suppressed` is the number of lines about the same problem that were suppressed before.
    """
    logger.log(
        logging.WARNING if status >= 500 else logging.INFO,
        "request%s refused with %d %s: %s%s",
        *(f" of {principal}" if principal else "", status, problem, reason or detail),
        suppressed_suffix(suppressed),
        extra={
            "event": "refused",
            "status": status,
            "problem": problem,
            "principal": principal,
            "reason": reason or detail,
            "suppressed": suppressed,
        },
    )


def draining(streams: int, seconds: float) -> None:
    """Log that the server accepts no new requests and waits for its streams to end."""
    logger.info(
        "draining: %d streams, up to %g seconds",
        *(streams, seconds),
        extra={"event": "draining", "streams": streams, "seconds": seconds},
    )


def drained(seconds: float) -> None:
    """Log that every stream of this process has ended."""
    logger.info(
        "drained in %.3f seconds",
        seconds,
        extra={"event": "drained", "seconds": round(seconds, 3)},
    )


def _fields(meta: StreamMeta) -> dict[str, str]:
    return {
        "stream_id": str(meta.stream_id),
        "request_id": str(meta.request_id),
        "principal": meta.principal,
    }
