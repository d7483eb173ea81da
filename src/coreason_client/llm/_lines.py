"""Lines of NDJSON out of chunks; bounded, and linear whatever the chunking."""

__all__ = ["LineDecoder", "LineTooLong"]


class LineTooLong(Exception):
    """A line passed the limit."""


class LineDecoder:
    """Decodes one stream of lines; empty ones are left out."""

    __slots__ = ("_limit", "_pending", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take bytes and return the lines that are complete now.

        Raises:
            LineTooLong: one of them, or what has no end yet, is longer than the limit.
        """
        end = chunk.rfind(b"\n")
        if end < 0:
            self._keep(chunk)
            return []
        self._keep(chunk[:end])
        lines = b"".join(self._pending).split(b"\n")
        if max(map(len, lines)) > self._limit:
            raise LineTooLong
        self._pending.clear()
        self._size = 0
        self._keep(chunk[end + 1 :])
        return [line for line in map(_stripped, lines) if line]

    def flush(self) -> list[bytes]:
        """Return the last line, which may have no end."""
        rest = _stripped(b"".join(self._pending))
        self._pending.clear()
        self._size = 0
        return [rest] if rest else []

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._pending.append(piece)
            self._size += len(piece)
            if self._size > self._limit and b"\n" not in piece:
                raise LineTooLong


def _stripped(line: bytes) -> bytes:
    return line.strip(b"\r ")
