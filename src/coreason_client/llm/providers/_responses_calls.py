"""Assigns the pieces of tool calls in a stream of the Responses API to calls. Pure.

Servers differ in how they identify a call: OpenAI by `output_index` and the id of the item, both in
every event; llama.cpp has no index and no id of the item, but its `call_id`; some gateways give
every call the index 0, and others change the id of the item from event to event. The `call_id` is
reliable, but only items have it.
"""

from collections.abc import Mapping
from typing import Any

from .._json import count, text

__all__ = ["CallNumbers"]


class CallNumbers:
    """The numbers of the calls of one stream, in the order in which they began."""

    __slots__ = ("_by_call_id", "_by_index", "_by_item_id", "_count", "_open")

    def __init__(self) -> None:
        self._by_call_id: dict[str, int] = {}
        self._by_item_id: dict[str, int] = {}
        self._by_index: dict[int, int] = {}
        self._count = 0
        self._open: int | None = None  # the latest call, if it is not complete

    def of_item(self, item: Mapping[str, Any], index: int | None) -> int:
        """Return the number of the call in an item, which may be a new one."""
        call_id, item_id = text(item.get("call_id")), text(item.get("id"))
        number = self._by_call_id.get(call_id)
        if number is None:
            number = self._known(item_id, index)
            if call_id and number in self._by_call_id.values():
                number = None  # another call at the same index
        if number is None and not call_id and not item_id and index is None:
            number = self._open
        return self._recorded(number, call_id, item_id, index)

    def of_event(self, event: Mapping[str, Any]) -> int:
        """Return the number of the call that an event with arguments belongs to."""
        item_id, index = text(event.get("item_id")), count(event.get("output_index"))
        number = self._known(item_id, index)
        return self._recorded(self._open if number is None else number, "", item_id, index)

    def of_final(self, item: Mapping[str, Any], position: int) -> int:
        """Return the number of the call at a position among the calls of the complete answer."""
        call_id, item_id = text(item.get("call_id")), text(item.get("id"))
        number = self._by_call_id.get(call_id)
        if number is None:
            number = self._by_item_id.get(item_id)
        if number is None and position < self._count:
            number = position
        if call_id and call_id not in self._by_call_id and number in self._by_call_id.values():
            number = None  # that is another call
        return self._recorded(number, call_id, item_id, None)

    def close(self, number: int) -> None:
        """Record that a call is complete."""
        if self._open == number:
            self._open = None

    def _known(self, item_id: str, index: int | None) -> int | None:
        number = self._by_item_id.get(item_id)
        return self._by_index.get(-1 if index is None else index) if number is None else number

    def _recorded(self, number: int | None, call_id: str, item_id: str, index: int | None) -> int:
        if number is None:
            number = self._open = self._count
            self._count += 1
        if call_id:
            self._by_call_id.setdefault(call_id, number)
            self._by_item_id.setdefault(call_id, number)  # llama.cpp has only this id
        if item_id:
            self._by_item_id.setdefault(item_id, number)
        if index is not None:
            self._by_index[index] = number
        return number
