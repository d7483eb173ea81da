"""A request with the read position of its answer, for continuing in another process."""

from coreason_manifest.definitions._base import CoReasonBaseModel
from coreason_manifest.definitions.presentation import StreamError
from coreason_manifest.definitions.service import ServiceRequest

from .position import Position

__all__ = ["Bookmark"]


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
