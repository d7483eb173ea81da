"""The errors with which the server ends streams."""

from coreason_manifest.definitions.presentation import ErrorSeverity, StreamError

__all__ = [
    "ABANDONED",
    "AGENT_ERROR",
    "CANCELLED",
    "PRODUCER_LOST",
    "SERVER_STOPPED",
    "fatal",
    "replay_diverged",
    "rewind_refused",
    "step_uncertain",
]


def fatal(code: str, message: str) -> StreamError:
    """Return an error that ends a stream."""
    return StreamError(code=code, message=message, severity=ErrorSeverity.FATAL)


CANCELLED = fatal("cancelled", "The stream was cancelled.")
ABANDONED = fatal("abandoned", "The stream was stopped because it had no readers.")
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
