"""The state of one stream of the Responses API, apart from its tool calls. Pure."""

from collections.abc import Mapping
from typing import Any, Literal

from .._json import count, text
from ._responses_items import reasoning_text

__all__ = ["EventSequence", "ItemText", "Thoughts", "item_key"]

_PARAGRAPH = "\n\n"


def item_key(value: Mapping[str, Any]) -> Any:
    """Return the identity of the item of an event: its index, which never changes, or its id."""
    index = count(value.get("output_index"))
    return index if index is not None else text(value.get("item_id") or value.get("id"))


class ItemText:
    """The text of the current item, which finds out what a complete item adds to its deltas."""

    __slots__ = ("_complete", "_key", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._key: Any = None
        self._complete = False

    def begin(self) -> None:
        """Begin another item."""
        self._pieces = []
        self._complete = False

    def add(self, piece: str) -> None:
        """Add a delta."""
        if self._complete:
            self.begin()
        self._pieces.append(piece)

    def missing(self, key: Any, whole: str) -> str:
        """Return what the whole text of the item `key` has beyond the deltas.

        Empty if the deltas are not the beginning of it: what was delivered stays.
        """
        if self._complete and key != self._key:
            self.begin()
        received = "".join(self._pieces)
        self._complete, self._key = True, key
        rest = whole[len(received) :] if whole.startswith(received) else ""
        self._pieces.append(rest)
        return rest


class Thoughts:
    """The reasoning of a stream: its parts are separated as paragraphs."""

    __slots__ = ("_is_new", "_part", "_started", "_text")

    def __init__(self) -> None:
        self._text = ItemText()
        self._part: tuple[Any, ...] | None = None  # the item and the index of the latest part
        self._is_new = False
        self._started = False  # some reasoning was delivered

    def begin(self) -> None:
        """Begin another item."""
        self._is_new = True

    def add(self, event: Mapping[str, Any], piece: str) -> str:
        """Add a delta, and return it with the separator before it."""
        part = (item_key(event), event.get("summary_index"), event.get("content_index"))
        separator = self._separator(part)
        self._text.add(piece if self._enter(part) else separator + piece)
        self._started = True
        return separator + piece

    def missing(self, key: Any, item: Mapping[str, Any]) -> str:
        """Return what a complete item has beyond the deltas, with the separator before it."""
        part = self._part if self._part and self._part[0] == key else (key,)
        separator = self._separator(part)
        is_new = self._enter(part)
        rest = self._text.missing(key, reasoning_text(item))
        if not rest:
            return ""
        self._started = True
        return separator + rest if is_new else rest

    def _separator(self, part: tuple[Any, ...]) -> str:
        """Return the separator between the latest part and this one."""
        same = part == self._part and not self._is_new
        return _PARAGRAPH if self._started and not same else ""

    def _enter(self, part: tuple[Any, ...]) -> bool:
        """Make this part the latest one, and return True if its item is new."""
        is_new = self._is_new or self._part is None or self._part[0] != part[0]
        if is_new:
            self._text.begin()
        self._part, self._is_new = part, False
        return is_new


class EventSequence:
    """Recognises by their numbers events that are repeated, and events that are missing."""

    __slots__ = ("_increasing", "_unusable", "last")

    def __init__(self) -> None:
        self.last: int | None = None
        self._increasing = False
        self._unusable = False

    def place(self, number: Any) -> Literal["repeated", "skipping"] | None:
        """Record the number of an event; return None if it is the next one, or has no number.

        "repeated": the event was read before. "skipping": events before it are missing, and the
        number is not recorded.
        """
        number = count(number)
        if number is None or self._unusable:
            return None
        if self.last is None or number == self.last + 1:
            self._increasing = self.last is not None
            self.last = number
            return None
        if number > self.last:
            return "skipping"
        if not self._increasing:  # a server that gives all events the same number
            self._unusable, self.last = True, None
        return "repeated" if self._increasing else None
