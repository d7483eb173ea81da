"""A position in a stream, and a request with the position of its answer.

Both can be saved as JSON and used in another process or on another machine.
"""

from uuid import UUID

from coreason_manifest.definitions._base import CoReasonBaseModel
from coreason_manifest.definitions.presentation import StreamError
from coreason_manifest.definitions.service import ServiceRequest

__all__ = ["Bookmark", "Position"]


class Position(CoReasonBaseModel):
    """The position after packet `seq` of the stream `stream_id`.

    `cursor` is the last SSE id that the server sent, None if it sends none.
    """

    stream_id: UUID
    seq: int
    cursor: str | None = None

    def __str__(self) -> str:
        return f"seq {self.seq} of stream {self.stream_id}"


class Bookmark(CoReasonBaseModel):
    """The point at which `client.resume` and `client.resume_chat` continue an answer.

    Save `bookmark.to_json()` and load it with `Bookmark.model_validate_json(saved)`, after a
    restart or on another machine. It contains the request because the server continues a stream
    only for the request that opened it. `position` is None if no packet had arrived: the request
    is then sent again, and the server treats it as the same request. If `complete` is true, the
    answer was read to its end, and nothing is sent. `error` is the fatal error that ended the
    stream: then nothing is sent either, and reading raises it again.
    """

    request: ServiceRequest
    position: Position | None = None
    complete: bool = False
    error: StreamError | None = None
