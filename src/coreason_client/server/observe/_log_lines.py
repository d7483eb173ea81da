"""Log lines about streams, for operators.

Every line has the same facts in its text and in its fields (`extra`), so a formatter can write
JSON. Lines contain ids, principals and numbers, and never the content of a conversation.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from uuid import UUID

from ...errors import ArgumentError
from ..log.base import AgentVersion, StreamMeta

# The access log of uvicorn without the values of queries.
#
# The server reads no credentials from a query, but clients put them there by mistake, under any
# name.

_MASK = "***"
_PATH_AT = 2  # client, method, path with query, HTTP version, status


def without_query_values(target: str) -> str:
    """Return a path with only the names of its query's parameters."""
    path, mark, query = target.partition("?")
    if not query:
        return target
    names = (part.partition("=")[:2] for part in query.split("&"))
    return path + mark + "&".join(f"{name}={_MASK}" if equals else _MASK for name, equals in names)


class _WithoutQueryValues(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        arguments = record.args
        if isinstance(arguments, tuple) and len(arguments) > _PATH_AT:
            target = without_query_values(str(arguments[_PATH_AT]))
            record.args = (*arguments[:_PATH_AT], target, *arguments[_PATH_AT + 1 :])
        return True


def redacted_access_lines() -> AbstractContextManager[None]:
    """Redact the access log while the block runs."""
    return _filtered("uvicorn.access", _WithoutQueryValues())


@contextmanager
def _filtered(name: str, lines: logging.Filter) -> Iterator[None]:
    logger = logging.getLogger(name)
    logger.addFilter(lines)
    try:
        yield
    finally:
        logger.removeFilter(lines)


# Log lines that clients can cause at will: one in ten seconds, with a count of the others.

_SECONDS = 10.0
# uvicorn logs these for every such request of any client.
_HTTP_LINES = (
    "Invalid HTTP request received.",
    "Unsupported upgrade request.",
    "No supported WebSocket library detected.",
)


class ThrottledLine:
    """One kind of log line, written at most once in ten seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._limit = LineLimit(1, _SECONDS)

    def suffix(self) -> str | None:
        """Return the end of the line, None if the line must not be written now."""
        suppressed = self._limit.allow(self._clock())
        return None if suppressed is None else suppressed_suffix(suppressed)


class _HttpLines(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._lines = {line: ThrottledLine() for line in _HTTP_LINES}

    def filter(self, record: logging.LogRecord) -> bool:
        message = str(record.msg)
        limited = next(
            (self._lines[line] for line in _HTTP_LINES if message.startswith(line)), None
        )
        if limited is None:
            return True
        suffix = limited.suffix()
        if suffix is None:
            return False
        record.msg = message + suffix
        return True


def throttled_http_lines() -> AbstractContextManager[None]:
    """Limit uvicorn's lines about malformed requests and upgrades while the block runs."""
    return _filtered("uvicorn.error", _HttpLines())


# A limit on how often one kind of log line is written. Pure: the caller has the clock.
#
# Clients can cause any number of refusals. Without a limit the log lines would fill the disk, and
# writing them would cost more than the refusals.


class LineLimit:
    """Allows `lines` lines in each period of `seconds`, and counts the others.

    A period begins with the first line after the end of the previous period, so rare lines are all
    written.
    """

    __slots__ = ("_left", "_lines", "_period_ends", "_seconds", "_suppressed")

    def __init__(self, lines: int, seconds: float = 1.0) -> None:
        if lines < 1:
            raise ArgumentError("lines", "must be at least 1", lines)
        self._lines = lines
        self._seconds = seconds
        self._left = 0
        self._period_ends = float("-inf")
        self._suppressed = 0

    def allow(self, now: float) -> int | None:
        """Return the number of lines suppressed before this one, or None to suppress this one too.

        `now` is in seconds of a monotonic clock.
        """
        if now >= self._period_ends:
            self._left = self._lines
            self._period_ends = now + self._seconds
        if not self._left:
            self._suppressed += 1
            return None
        self._left -= 1
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed


def suppressed_suffix(count: int) -> str:
    """Return the end of a log line that gives the number of suppressed lines."""
    return f" ({count} more like this were not logged)" if count else ""


logger = logging.getLogger("coreason_client.server")


def stream_started(meta: StreamMeta) -> None:
    """Log that an agent was started."""
    if logger.isEnabledFor(logging.INFO):  # the fields cost more than the check
        logger.info(
            "stream %s started for %s (request %s)",
            *(meta.stream_id, meta.principal, meta.request_id),
            extra={"event": "stream_started", **_fields(meta)},
        )


def agent_failed_transiently(meta: StreamMeta, code: str, delay: float) -> None:
    """Log that a durable agent has returned after a TRANSIENT error."""
    logger.warning(
        "the agent of stream %s failed with the TRANSIENT error %s; it is started again in %.1f s",
        *(meta.stream_id, code, delay),
        extra={"event": "agent_failed_transiently", **_fields(meta), "code": code},
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
