"""The time in which a stream has sent no event, only keep-alives. Pure.

Keep-alives are bytes, so a read timeout does not detect a stream that sends nothing else. They
arrive as chunks, so checking the clock with each chunk is enough: no timer is needed.
"""

from collections.abc import Callable

from ..sse import ServerSentEvent

__all__ = ["Silence", "is_keep_alive"]

_KEEP_ALIVE_NAMES = frozenset({b"ping", b"heartbeat", b"keepalive", b"keep-alive"})


def is_keep_alive(event: ServerSentEvent) -> bool:
    """Return True if an event that is not part of the protocol is a keep-alive."""
    return event.event_bytes in _KEEP_ALIVE_NAMES or event.data_bytes.strip() == b"[DONE]"


def _is_comment(chunk: bytes) -> bool:
    return all(not line or line[:1] == b":" for line in chunk.splitlines())


class Silence:
    """Measures the time in which only keep-alives came.

    It starts with the first keep-alive, so events do not have to read the clock.
    """

    def __init__(self, limit: float | None, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._clock = clock
        self._since: float | None = None

    def reset(self) -> None:
        """Restart the measurement after an event or a new connection."""
        self._since = None

    def lasts_too_long(self, chunk: bytes, *, keep_alives: bool) -> bool:
        """Return True if the limit has passed; then the measurement restarts.

        `chunk` has completed no event; `keep_alives` means that it has completed keep-alives.
        """
        if not keep_alives and not _is_comment(chunk):
            return False  # part of an incomplete event
        if self._limit is None:
            return False
        now = self._clock()
        if self._since is None or now - self._since < self._limit:
            self._since = now if self._since is None else self._since
            return False
        self._since = now
        return True
