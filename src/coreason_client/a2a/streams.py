"""The streams that the clients return, sync and async."""

from ._streams_async import AsyncEventStream
from ._streams_sync import EventStream

__all__ = ["AsyncEventStream", "EventStream"]
