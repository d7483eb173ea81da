"""The end of a stream: whether and how it has ended. Pure.

The state is stored only here. The writer, the appender and the producer share one `Ending`.
"""

from uuid import UUID

from ..errors import Fenced, StreamEnded

__all__ = ["Ending"]


class Ending:
    """The end of one stream.

    `begun`: the last packet was accepted, and no more are. `outcome`: how the stream ended; set
    when the last packet is in the log. `error`: why the log accepts no more packets. `given_up`:
    another process owns the stream. `sealed`: the agent must not write any more, because the
    stream will be ended or handed over without it.
    """

    __slots__ = ("_stream_id", "begun", "error", "given_up", "outcome", "sealed")

    def __init__(self, stream_id: UUID) -> None:
        self._stream_id = stream_id
        self.begun = False
        self.outcome: str | None = None
        self.error: Exception | None = None
        self.given_up = False
        self.sealed = False

    @property
    def ended(self) -> bool:
        """True if no more packets are accepted."""
        return self.begun or self.given_up

    @property
    def broken(self) -> bool:
        """True if the log refused a packet; it accepts no more of this stream."""
        return self.error is not None

    @property
    def taken_over(self) -> bool:
        """True if another process owns the stream."""
        return self.given_up or isinstance(self.error, Fenced)

    def fail(self, error: Exception) -> None:
        """Record why the log accepts no more packets; only the first error is kept."""
        if self.error is None:
            self.error = error

    def raise_error(self) -> None:
        """Raise the error of the log, if there is one."""
        if self.error is not None:
            raise self.error

    def check_open(self) -> None:
        """Raise an error if no more packets are accepted.

        Raises:
            LogError: the log accepts no more packets of this stream.
            StreamEnded: the stream has ended, or is sealed.
        """
        if self.error is not None:
            raise self.error
        if self.begun or self.sealed:
            raise StreamEnded(self._stream_id)
