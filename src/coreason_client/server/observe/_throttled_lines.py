"""Log lines that clients can cause at will: one in ten seconds, with a count of the others."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ._line_limit import LineLimit, suppressed_suffix

__all__ = ["ThrottledLine", "throttled_http_lines"]

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


@contextmanager
def throttled_http_lines() -> Iterator[None]:
    """Limit uvicorn's lines about malformed requests and upgrades while the block runs."""
    logger, lines = logging.getLogger("uvicorn.error"), _HttpLines()
    logger.addFilter(lines)
    try:
        yield
    finally:
        logger.removeFilter(lines)
