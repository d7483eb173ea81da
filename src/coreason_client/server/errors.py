"""What the server kit raises, and what each error means.

::

    CoreasonError
    ├── StreamEnded           an agent writes after the end of its stream
    ├── StreamCancelled       an agent in a thread writes to a stream that was cancelled
    └── LogError              anything that a stream log raises
        ├── Fenced            the producer is no longer the owner of its stream
        ├── OutOfSequence     an append that would leave a gap or write a number twice
        ├── UnknownStream     no such stream, or none any more
        ├── PositionGone      the packets after this position have been dropped (HTTP 410)
        ├── RequestConflict   a known request_id with another body (HTTP 409)
        └── LogUnavailable    the store behind the log does not answer (HTTP 503)
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
    "StreamCancelled",
    "StreamEnded",
    "UnknownStream",
]


class _Portable(CoreasonError):
    """An error that can be pickled and copied, whatever its constructor takes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, vars(self).copy())


def _restore(kind: type[_Portable], args: tuple[Any, ...], fields: dict[str, Any]) -> _Portable:
    error = kind.__new__(kind, *args)
    vars(error).update(fields)
    return error


class StreamEnded(_Portable):
    """An agent writes after the end of its stream."""

    def __init__(self, stream_id: UUID) -> None:
        super().__init__(f"the stream {stream_id} has ended and takes no more packets")
        self.stream_id = stream_id


class StreamCancelled(_Portable):
    """A plain `def` agent uses its stream after the stream was cancelled."""

    def __init__(self, stream_id: UUID) -> None:
        super().__init__(f"the stream {stream_id} was cancelled: the agent should return now")
        self.stream_id = stream_id


class LogError(_Portable):
    """Anything that a stream log raises; `stream_id` names the stream where there is one."""

    def __init__(self, message: str, stream_id: UUID | None = None) -> None:
        super().__init__(message)
        self.stream_id = stream_id


class Fenced(LogError):
    """The epoch of an append is over: another owner has the stream, or it has ended."""

    def __init__(self, stream_id: UUID, epoch: int) -> None:
        super().__init__(f"epoch {epoch} of the stream {stream_id} is over", stream_id)
        self.epoch = epoch


class OutOfSequence(LogError):
    """An append does not start at the number that follows the last one."""

    def __init__(self, stream_id: UUID, first_seq: int, last_seq: int) -> None:
        super().__init__(
            f"the stream {stream_id} is at {last_seq}, so an append cannot start at {first_seq}",
            stream_id,
        )
        self.first_seq = first_seq
        self.last_seq = last_seq


class UnknownStream(LogError):
    """The log does not know the stream, or has forgotten it."""

    def __init__(self, stream_id: UUID) -> None:
        super().__init__(f"there is no stream {stream_id}", stream_id)


class PositionGone(LogError):
    """The packets after a position have been dropped; the stream itself is still known."""

    def __init__(self, stream_id: UUID, after_seq: int) -> None:
        super().__init__(
            f"the packets after {after_seq} of the stream {stream_id} are no longer kept",
            stream_id,
        )
        self.after_seq = after_seq


class RequestConflict(LogError):
    """A request_id is known, but came with another body."""

    def __init__(self, request_id: UUID) -> None:
        super().__init__(
            f"the request {request_id} was made before with another body: send a new request_id "
            "with a new body"
        )
        self.request_id = request_id


class LogUnavailable(LogError):
    """The store behind the log does not answer or refuses to work."""
