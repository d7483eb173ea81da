"""The JSON value of an answer while it is being received. Pure.

Parsing the whole text after every piece would take quadratic time. So a text is parsed again only
after it has grown by a fraction of its length, and at the end.
"""

from typing import Any

from pydantic_core import from_json

from .types import Delta, Restarted, TextDelta

__all__ = ["GrowingValue"]

_FRACTION = 64  # the text must grow by 1/64 before it is parsed again
_NOTHING = object()


class GrowingValue:
    """Adds up the text of deltas and parses the part that was received."""

    def __init__(self) -> None:
        self._text = ""
        self._new: list[str] = []
        self._new_length = 0
        self._value: Any = _NOTHING

    @property
    def value(self) -> Any:
        """The value as far as it was received."""
        return self._value

    def add(self, delta: Delta) -> bool:
        """Add a delta; return True if the value has changed."""
        if isinstance(delta, Restarted):
            self.__init__()  # type: ignore[misc]
            return False
        if not isinstance(delta, TextDelta):
            return False
        self._new.append(delta.text)
        self._new_length += len(delta.text)
        if self._new_length * _FRACTION < len(self._text):
            return False
        return self._parse()

    def finish(self) -> bool:
        """Parse the rest at the end of the answer; return True if the value has changed."""
        return bool(self._new) and self._parse()

    def _parse(self) -> bool:
        self._text += "".join(self._new)
        self._new, self._new_length = [], 0
        try:
            value = from_json(self._text, allow_partial="trailing-strings")
        except (ValueError, TypeError):  # not JSON yet, or not at all
            return False
        if value == self._value:
            return False
        self._value = value
        return True
