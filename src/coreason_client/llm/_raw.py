"""The events of a stream as the provider sent them. Pure."""

from collections.abc import Iterable, Iterator
from typing import Any

from ..sse import ServerSentEvent
from ._json import parse_or_none

__all__ = ["RawEvents"]


class RawEvents:
    """Collects the JSON values of the events of one stream; events without JSON are left out."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: list[Any] = []

    def collect(self, events: Iterable[ServerSentEvent]) -> Iterator[ServerSentEvent]:
        """Yield events unchanged, and add their values; a list counts as several events."""
        for event in events:
            value = parse_or_none(event.data_bytes)
            if isinstance(value, list):
                self.values += value
            elif value is not None:
                self.values.append(value)
            yield event
