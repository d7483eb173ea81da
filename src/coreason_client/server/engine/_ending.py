"""The end of a stream: whether and how it has ended. Pure.

The state is stored only here. The writer, the appender and the producer share one `Ending`.
"""

from uuid import UUID

from coreason_manifest.definitions.presentation import ErrorSeverity, StreamError

from ..errors import Fenced, StreamEnded

__all__ = [
    "ABANDONED",
    "AGENT_ERROR",
    "CANCELLED",
    "CONVERSATION_BUSY",
    "PRODUCER_LOST",
    "SERVER_STOPPED",
    "Ending",
    "fatal",
    "replay_diverged",
    "rewind_refused",
    "step_uncertain",
]

# The errors with which the server ends streams.


def fatal(code: str, message: str) -> StreamError:
    """Return an error that ends a stream."""
    return StreamError(code=code, message=message, severity=ErrorSeverity.FATAL)


CANCELLED = fatal("cancelled", "The stream was cancelled.")
ABANDONED = fatal("abandoned", "The stream was stopped because it had no readers.")
CONVERSATION_BUSY = fatal(
    "conversation_busy",
    "An earlier message of this conversation is being answered: wait for its end, or cancel it.",
)
SERVER_STOPPED = fatal("server_stopped", "The server stopped before the answer was finished.")
# True for a dead process and for one that was blocked or could not reach the log.
PRODUCER_LOST = fatal(
    "producer_lost", "The producer of this stream stopped writing before the answer was finished."
)
# The text of an exception may contain secrets, so readers do not get it.
AGENT_ERROR = fatal("agent_error", "The agent failed with an internal error.")


def replay_diverged(difference: object) -> StreamError:
    """Return the error for a restarted agent that did something else than before."""
    return fatal(
        "replay_diverged", f"The restarted agent differs from its first run: {difference}."
    )


def rewind_refused(step: object) -> StreamError:
    """Return the error for a step that wrote something else, to a reader without rewinds."""
    return fatal(
        "producer_lost",
        f"The producer of this stream was lost, and the restarted step {step} wrote something "
        "else. The text so far cannot be corrected, because the client does not support REWIND "
        "events.",
    )


def step_uncertain(step: object) -> StreamError:
    """Return the error for an interrupted step that must not run again."""
    return fatal(
        "step_uncertain", f"The step {step} was interrupted, and it must not run a second time."
    )


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
