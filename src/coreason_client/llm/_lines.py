"""Lines of NDJSON out of chunks; bounded, and linear whatever the chunking."""

from collections.abc import Iterator, Sequence
from itertools import takewhile

__all__ = ["LineDecoder", "LineTooLong"]


class LineTooLong(Exception):
    """A line passed the limit; `lines` are those that the same call had completed before it."""

    def __init__(self, lines: list[bytes]) -> None:
        super().__init__("a line is longer than the limit")
        self.lines = lines


class LineDecoder:
    """Decodes one stream of lines; empty ones are left out."""

    __slots__ = ("_limit", "_pending", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending: list[bytes] = []
        self._size = 0

    def lines(self, chunk: bytes) -> Iterator[bytes]:
        """Take bytes and iterate over the lines that are complete now.

        The same as `feed`, but the error comes after the lines that were complete before it.

        Raises:
            LineTooLong: while iterating.
        """
        try:
            yield from self.feed(chunk)
        except LineTooLong as error:
            yield from error.lines
            raise

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take bytes and return the lines that are complete now.

        Raises:
            LineTooLong: one of them, or what has no end yet, is longer than the limit.
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
        """Return the last line, which may have no end."""
        rest = _stripped(b"".join(self._pending))
        self._pending.clear()
        self._size = 0
        return [rest] if rest else []

    def _before_too_long(self, lines: list[bytes]) -> list[bytes]:
        return list(takewhile(lambda line: len(line) <= self._limit, lines))

    def _keep(self, piece: bytes, complete: Sequence[bytes] = ()) -> None:
        """Keep a piece of a line that has no end yet."""
        self._pending.append(piece)
        self._size += len(piece)
        if self._size > self._limit:
            raise LineTooLong(list(complete))


def _without_blank(lines: list[bytes]) -> list[bytes]:
    return [line for line in map(_stripped, lines) if line]


def _stripped(line: bytes) -> bytes:
    return line.strip(b"\r ")
