"""What an operator reads about streams: one log line for each thing that happens to one.

Every line says the same in words and in fields (`extra`), so that a formatter can write JSON. Lines
name ids, principals and numbers, and never what was said.
"""

import logging
from uuid import UUID

from ..log.base import StreamMeta
from ._line_limit import left_out

__all__ = [
    "drained",
    "draining",
    "end_written",
    "logger",
    "refused",
    "resumed",
    "stream_ended",
    "stream_started",
    "taken_over",
]

logger = logging.getLogger("coreason_client.server")


def stream_started(meta: StreamMeta) -> None:
    """An agent was set to work."""
    logger.info(
        "stream %s started for %s (request %s)",
        *(meta.stream_id, meta.principal, meta.request_id),
        extra={"event": "stream_started", **_fields(meta)},
    )


def stream_ended(meta: StreamMeta, outcome: str, packets: int, seconds: float) -> None:
    """The last packet of a stream is in the log, or could not be written."""
    logger.info(
        "stream %s ended after %.3f s and %d packets: %s",
        *(meta.stream_id, seconds, packets, outcome),
        extra={
            "event": "stream_ended",
            **_fields(meta),
            "outcome": outcome,
            "packets": packets,
            "seconds": round(seconds, 3),
        },
    )


def end_written(stream_id: UUID, outcome: str, packets: int) -> None:
    """The last packet of a stream, which could not be written before, is in the log."""
    logger.info(
        "the end of stream %s is in the log now, after %d packets: %s",
        *(stream_id, packets, outcome),
        extra={
            "event": "stream_end_written",
            "stream_id": str(stream_id),
            "outcome": outcome,
            "packets": packets,
        },
    )


def resumed(meta: StreamMeta, after_seq: int) -> None:
    """A reader continues a stream."""
    logger.info(
        "stream %s resumed after packet %d by %s",
        *(meta.stream_id, after_seq, meta.principal),
        extra={"event": "stream_resumed", **_fields(meta), "after_seq": after_seq},
    )


def taken_over(stream_id: UUID, last_seq: int, seconds: float | None = None) -> None:
    """A stream without a producer was ended by this process."""
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


def refused(
    status: int,
    problem: str,
    detail: str,
    principal: str | None,
    reason: str = "",
    suppressed: int = 0,
) -> None:
    """A request was refused. `reason` is for the operator; a client sees only `detail`.

    `suppressed` is how many lines about the same problem were left out before this one.
    """
    logger.log(
        logging.WARNING if status >= 500 else logging.INFO,
        "refused %s with %d %s: %s%s",
        *(principal or "a request", status, problem, reason or detail),
        left_out(suppressed),
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
    """The server takes no new requests, and its streams have some time to end."""
    logger.info(
        "draining: %d streams, up to %g seconds",
        *(streams, seconds),
        extra={"event": "draining", "streams": streams, "seconds": seconds},
    )


def drained(seconds: float) -> None:
    """Every stream of this process has ended after the start of a drain."""
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
