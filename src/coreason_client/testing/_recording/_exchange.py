"""The content of a recording: requests, and responses with the boundaries of their chunks."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["BASE", "End", "Exchange", "RecordedChunk", "Recording"]

BASE = "http://recording.invalid"
"""Stands for the origin of the service in a file; the client gets that of the replay."""

End: TypeAlias = Literal["complete", "disconnect", "client left"]
"""The end of a response: complete, cut off by the service, or left by the client."""

Headers: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RecordedChunk:
    """A chunk of a body; `at` is in seconds after the request, None if times are not recorded."""

    data: bytes
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its response; `status` is None if the service closed the connection instead.

    `target` is the path with its query. `chunked` is False if the response has a length.
    """

    method: str
    target: str
    headers: Headers
    body: bytes
    status: int | None = None
    response_headers: Headers = ()
    chunked: bool = False
    at: float | None = None
    chunks: tuple[RecordedChunk, ...] = ()
    end: End = "complete"


@dataclass(frozen=True, slots=True)
class Recording:
    """All exchanges, in the order in which they began; `base` is the path of the service's URL."""

    exchanges: tuple[Exchange, ...]
    base: str = ""
