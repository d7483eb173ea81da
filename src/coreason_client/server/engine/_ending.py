"""Whether and how one stream has ended: kept here, and nowhere else. Pure.

The writer of the stream, its appender and its producer share one `Ending` and ask it.
"""

from uuid import UUID

from ..errors import Fenced, StreamEnded

__all__ = ["Ending"]


class Ending:
    """The end of one stream.

    `begun`: the last packet was accepted, so no other is. `outcome`: how the stream ended, once its
    last packet is in the log. `error`: why the log takes no more packets. `given_up`: the stream
    was left to another process.
    """

    __slots__ = ("_stream_id", "begun", "error", "given_up", "outcome")

    def __init__(self, stream_id: UUID) -> None:
        self._stream_id = stream_id
        self.begun = False
        self.outcome: str | None = None
        self.error: Exception | None = None
        self.given_up = False

    @property
    def ended(self) -> bool:
        """Return True if no packet is accepted any more."""
        return self.begun or self.given_up

    @property
    def broken(self) -> bool:
        """Return True if the log refused a packet, so that it takes no more of this stream."""
        return self.error is not None

    @property
    def taken_over(self) -> bool:
        """Return True if another process owns the stream."""
        return self.given_up or isinstance(self.error, Fenced)

    def fail(self, error: Exception) -> None:
        """Record why the log takes no more packets; the first error counts."""
        if self.error is None:
            self.error = error

    def raise_error(self) -> None:
        """Raise the error of the log, if there was one."""
        if self.error is not None:
            raise self.error

    def check_open(self) -> None:
        """Raise if no packet is accepted any more.

        Raises:
            LogError: the log takes no more packets of this stream.
            StreamEnded: the stream has ended.
        """
        if self.error is not None:
            raise self.error
        if self.begun:
            raise StreamEnded(self._stream_id)
