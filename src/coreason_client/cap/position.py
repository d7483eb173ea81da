"""A place in a stream that survives JSON, a restart and another machine."""

from uuid import UUID

from coreason_manifest.definitions._base import CoReasonBaseModel

__all__ = ["Position"]


class Position(CoReasonBaseModel):
    """How far a stream has been read: everything up to `seq` of `stream_id`, inclusive.

    `cursor` is the last SSE id of the server, where it writes any.
    """

    stream_id: UUID
    seq: int
    cursor: str | None = None

    def __str__(self) -> str:
        return f"seq {self.seq} of stream {self.stream_id}"
