"""A position in a stream, which can be saved as JSON and used on another machine."""

from uuid import UUID

from coreason_manifest.definitions._base import CoReasonBaseModel

__all__ = ["Position"]


class Position(CoReasonBaseModel):
    """The position after packet `seq` of the stream `stream_id`.

    `cursor` is the last SSE id that the server sent, None if it sends none.
    """

    stream_id: UUID
    seq: int
    cursor: str | None = None

    def __str__(self) -> str:
        return f"seq {self.seq} of stream {self.stream_id}"
