"""How long a stream has brought no event, whatever else came on its connection. Pure.

Keep-alives are bytes, so no read timeout ends a stream that has nothing but them. They arrive as
chunks, so looking at the clock with each chunk is enough: no timer is needed.
"""

from collections.abc import Callable

from ..sse import ServerSentEvent

__all__ = ["Silence", "is_keep_alive"]

_KEEP_ALIVE_NAMES = frozenset({b"ping", b"heartbeat", b"keepalive", b"keep-alive"})


def is_keep_alive(event: ServerSentEvent) -> bool:
    """Return True if an event that is none of the protocol's means nothing."""
    return event.event_bytes in _KEEP_ALIVE_NAMES or event.data_bytes.strip() == b"[DONE]"


def _is_comment(chunk: bytes) -> bool:
    return all(not line or line[:1] == b":" for line in chunk.splitlines())


class Silence:
    """Measures the time in which keep-alives came, and nothing else.

    It begins with the first keep-alive, so that events cost no look at the clock.
    """

    def __init__(self, limit: float | None, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._clock = clock
        self._since: float | None = None

    def end(self) -> None:
        """Record that an event came, or a connection ended."""
        self._since = None

    def lasts_too_long(self, chunk: bytes, *, keep_alives: bool) -> bool:
        """Return True if the limit has passed; then the time starts anew.

        `chunk` completed no event, or `keep_alives` alone.
        """
        if not keep_alives and not _is_comment(chunk):
            return False  # a piece of an event that is still arriving
        if self._limit is None:
            return False
        now = self._clock()
        if self._since is None or now - self._since < self._limit:
            self._since = now if self._since is None else self._since
            return False
        self._since = now
        return True
