"""The exceptions of the server kit.

::

    CoreasonError
    ├── StreamEnded           an agent wrote after the end of its stream
    ├── StreamCancelled       an agent in a thread used a stream that was cancelled
    ├── StepFailed            the function of a step raised an error
    └── LogError              any error of a stream log
        ├── Fenced            the producer is no longer the owner of its stream
        ├── OutOfSequence     an append would leave a gap or repeat a number
        ├── UnknownStream     the stream does not exist, or no longer (HTTP 404)
        ├── PositionGone      the packets after this position were deleted (HTTP 410)
        ├── RequestConflict   the request_id was used with another body (HTTP 409)
        └── LogUnavailable    the store of the log does not answer (HTTP 503)
"""

from typing import Any
from uuid import UUID

from ..errors import CoreasonError

__all__ = [
    "Fenced",
    "LogError",
    "LogUnavailable",
    "OutOfSequence",
    "PositionGone",
    "RequestConflict",
    "StepFailed",
    "StreamCancelled",
    "StreamEnded",
    "UnknownStream",
]


class _Portable(CoreasonError):
    """An error that can be pickled and copied whatever the parameters of its constructor."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, vars(self).copy())


def _restore(kind: type[_Portable], args: tuple[Any, ...], fields: dict[str, Any]) -> _Portable:
    error = kind.__new__(kind, *args)
    vars(error).update(fields)
    return error


class StreamEnded(_Portable):
    """An agent wrote after the end of its stream."""

    def __init__(self, stream_id: UUID) -> None:
        super().__init__(f"the stream {stream_id} has ended and accepts no more packets")
        self.stream_id = stream_id


class StepFailed(_Portable):
    """The function of a step raised an error; `type` and `message` are those of the error.

    It is raised in every run of the agent: the error itself exists only in the first one.
    """

    def __init__(self, step: str, type: str, message: str) -> None:  # noqa: A002
        super().__init__(f"the step {step} failed: {type}: {message}")
        self.step = step
        self.type = type
        self.message = message


class StreamCancelled(_Portable):
    """A plain `def` agent used its stream after the stream was cancelled."""

    def __init__(self, stream_id: UUID) -> None:
        super().__init__(f"the stream {stream_id} was cancelled: the agent should return now")
        self.stream_id = stream_id


class LogError(_Portable):
    """Any error of a stream log; `stream_id` is the stream that it is about, or None."""

    def __init__(self, message: str, stream_id: UUID | None = None) -> None:
        super().__init__(message)
        self.stream_id = stream_id


class Fenced(LogError):
    """The epoch of an append is over: the stream has another owner, or has ended."""

    def __init__(self, stream_id: UUID, epoch: int) -> None:
        super().__init__(f"epoch {epoch} of the stream {stream_id} is over", stream_id)
        self.epoch = epoch


class OutOfSequence(LogError):
    """An append does not start at the number after the last one."""

    def __init__(self, stream_id: UUID, first_seq: int, last_seq: int) -> None:
        super().__init__(
            f"an append to the stream {stream_id} must start at {last_seq + 1}, got {first_seq}",
            stream_id,
        )
        self.first_seq = first_seq
        self.last_seq = last_seq


class UnknownStream(LogError):
    """The stream does not exist, or has been deleted."""

    def __init__(self, stream_id: UUID) -> None:
        super().__init__(f"the stream {stream_id} does not exist", stream_id)


class PositionGone(LogError):
    """The packets after a position have been deleted; the stream itself is still known."""

    def __init__(self, stream_id: UUID, after_seq: int, *, replaced: bool = False) -> None:
        why = (
            f"the packet {after_seq} of the stream {stream_id} is no longer the one that was read: "
            "the store has lost it, and the answer may have been written anew"
        )
        if not replaced:
            why = f"the packets after {after_seq} of the stream {stream_id} have been deleted"
        super().__init__(why, stream_id)
        self.after_seq = after_seq
        self.replaced = replaced


class RequestConflict(LogError):
    """The request_id was used before with another body."""

    def __init__(self, request_id: UUID) -> None:
        super().__init__(
            f"the request_id {request_id} was used before with another body: use a new one for a "
            "new body"
        )
        self.request_id = request_id


class LogUnavailable(LogError):
    """The store of the log does not answer or refuses to work."""
