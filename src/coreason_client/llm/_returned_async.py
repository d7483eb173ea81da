"""What the async client returns, as opposed to the sync client (`_returned_sync.py`)."""

from .._closing_async import AsyncClosing
from .types import Response

__all__ = ["AsyncClientBase", "AsyncStreamBase", "returned"]


class AsyncClientBase(AsyncClosing):
    """The base class of the async client."""


class AsyncStreamBase(AsyncClosing):
    """The base class of the async streams."""


def returned(response: Response) -> Response:
    """Return a response as the client returns it."""
    return response
