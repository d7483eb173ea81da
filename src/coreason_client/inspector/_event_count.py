"""Finds the end of an event in the bytes of a stream of server-sent events. Pure."""

import re
from typing import Final

__all__ = ["EventCount"]

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_DATA: Final = b"data:"


class EventCount:
    """Counts events that have data; comments and fields without data are not packets."""

    __slots__ = ("_after_cr", "_has_data", "_line", "count")

    def __init__(self) -> None:
        self.count = 0
        self._line = b""  # the first bytes of a line that has not ended
        self._has_data = False
        self._after_cr = False  # a line feed at the start belongs to the line before

    def feed(self, chunk: bytes, most: int | None = None) -> int:
        """Count the events that end in a chunk, and return its length.

        If that would be more than `most` events, the length up to the end of the last of them is
        returned, and the rest of the chunk is ignored.
        """
        last = None if most is None else self.count + most
        start = 1 if self._after_cr and chunk[:1] == b"\n" else 0
        if chunk:
            self._after_cr = chunk[-1:] == b"\r"
        for match in _LINE_END.finditer(chunk, start):
            line = self._line + chunk[start : match.start()]
            self._line, start = b"", match.end()
            if line:
                self._has_data = self._has_data or line.startswith(_DATA)
            elif self._has_data:
                self._has_data = False
                self.count += 1
                if self.count == last:
                    return start
        self._line = (self._line + chunk[start : start + len(_DATA)])[: len(_DATA)]
        return len(chunk)
