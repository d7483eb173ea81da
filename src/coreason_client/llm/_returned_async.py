"""What the async client returns, as opposed to the sync client (`_returned_sync.py`)."""

from typing import TypeVar

from .._closing_async import AsyncClosing
from .types import Measured

__all__ = ["AsyncClientBase", "AsyncStreamBase", "returned"]

Returned = TypeVar("Returned", bound=Measured)


class AsyncClientBase(AsyncClosing):
    """The base class of the async client."""


class AsyncStreamBase(AsyncClosing):
    """The base class of the async streams."""


def returned(response: Returned) -> Returned:
    """Return a response as the client returns it."""
    return response
