"""Decodes NDJSON lines from chunks, with bounded memory and in linear time."""

from collections.abc import Iterator, Sequence
from itertools import takewhile

__all__ = ["LineDecoder", "LineTooLong"]


class LineTooLong(Exception):
    """A line exceeds the limit; `lines` were completed before it by the same call."""

    def __init__(self, lines: list[bytes]) -> None:
        super().__init__("a line is longer than the limit")
        self.lines = lines


class LineDecoder:
    """Decodes one stream of lines; blank lines are skipped."""

    __slots__ = ("_limit", "_pending", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending: list[bytes] = []
        self._size = 0

    def lines(self, chunk: bytes) -> Iterator[bytes]:
        """Decode bytes and yield the lines that are now complete.

        Like `feed`, but the lines before an error are yielded first.

        Raises:
            LineTooLong: while iterating.
        """
        try:
            yield from self.feed(chunk)
        except LineTooLong as error:
            yield from error.lines
            raise

    def feed(self, chunk: bytes) -> list[bytes]:
        """Decode bytes and return the lines that are now complete.

        Raises:
            LineTooLong: a line, complete or not, exceeds the limit.
        """
        end = chunk.rfind(b"\n")
        if end < 0:
            self._keep(chunk)
            return []
        self._pending.append(chunk[:end])
        lines = b"".join(self._pending).split(b"\n")
        if max(map(len, lines)) > self._limit:
            raise LineTooLong(_without_blank(self._before_too_long(lines)))
        self._pending.clear()
        self._size = 0
        complete = _without_blank(lines)
        self._keep(chunk[end + 1 :], complete)
        return complete

    def flush(self) -> list[bytes]:
        """Return the last line, which may lack a line end."""
        rest = _stripped(b"".join(self._pending))
        self._pending.clear()
        self._size = 0
        return [rest] if rest else []

    def _before_too_long(self, lines: list[bytes]) -> list[bytes]:
        return list(takewhile(lambda line: len(line) <= self._limit, lines))

    def _keep(self, piece: bytes, complete: Sequence[bytes] = ()) -> None:
        """Store a piece of an incomplete line."""
        self._pending.append(piece)
        self._size += len(piece)
        if self._size > self._limit:
            raise LineTooLong(list(complete))


def _without_blank(lines: list[bytes]) -> list[bytes]:
    return [line for line in map(_stripped, lines) if line]


def _stripped(line: bytes) -> bytes:
    return line.strip(b"\r ")
