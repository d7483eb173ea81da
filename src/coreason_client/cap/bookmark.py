"""A request and how far its answer was read: all that another process needs to go on."""

from coreason_manifest.definitions._base import CoReasonBaseModel
from coreason_manifest.definitions.service import ServiceRequest

from .position import Position

__all__ = ["Bookmark"]


class Bookmark(CoReasonBaseModel):
    """Where to continue an answer, for `client.resume` and `client.resume_chat`.

    Save `bookmark.to_json()` and load it with `Bookmark.model_validate_json(saved)`, after a
    restart or on another machine. It holds the request because the server continues a stream only
    for the request that opened it. `position` is None if nothing had arrived yet: the request is
    then sent once more, and the server still treats it as the same request. If `complete` is true
    there is nothing left, and nothing is sent.
    """

    request: ServiceRequest
    position: Position | None = None
    complete: bool = False
