"""RESP2, the wire format of the store: commands to bytes, and bytes to replies. No I/O.

If hiredis is installed, it parses the replies, which takes less CPU time.
"""

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, Protocol, TypeAlias

from redis.exceptions import InvalidResponse

from ._errors import reply_error

Argument: TypeAlias = bytes | str | int
Command: TypeAlias = Sequence[Argument]


class _More:
    """The type of `MORE`."""


MORE = _More()
"""Returned if more bytes are needed for the next reply."""


def pack(commands: Iterable[Command]) -> bytes:
    """Return commands in the wire format."""
    parts: list[bytes] = []
    for command in commands:
        parts.append(b"*%d\r\n" % len(command))
        for argument in command:
            if isinstance(argument, bytes):
                data = argument
            elif isinstance(argument, str):
                data = argument.encode()
            else:
                data = b"%d" % argument
            parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


class Replies(Protocol):
    """A parser of replies: `feed` adds bytes, `gets` returns one reply after the other."""

    def feed(self, data: bytes, /) -> None:
        """Add received bytes."""

    def gets(self) -> Any:
        """Return the next reply, an error as an exception object, or `MORE`."""


class ReplyReader:
    """Parses replies from chunks of any size; no byte is parsed twice."""

    __slots__ = ("_at", "_buffer", "_open")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = 0
        self._open: list[tuple[list[Any], int]] = []  # incomplete arrays and their sizes

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        if self._at:
            del self._buffer[: self._at]
            self._at = 0
        self._buffer += data

    def gets(self) -> Any:
        """Return the next reply, an error as an exception object, or `MORE`.

        Raises:
            InvalidResponse: the bytes are not RESP2.
        """
        while (value := self._next()) is not MORE:
            while self._open:
                items, size = self._open[-1]
                if value is not items:  # an array is not an item of itself
                    items.append(value)
                if len(items) < size:
                    break
                self._open.pop()
                value = items
            else:
                return value
        return MORE

    def _next(self) -> Any:
        """Parse one value; an array is returned, still empty, after its size was read."""
        end = self._buffer.find(b"\r\n", self._at)
        if end < 0:
            return MORE
        kind, line = self._buffer[self._at : self._at + 1], bytes(self._buffer[self._at + 1 : end])
        if kind == b"$":
            return self._bulk(_number(line), end + 2)
        self._at = end + 2
        if kind == b"+":
            return line
        if kind == b":":
            return _number(line)
        if kind == b"-":
            return reply_error(line.decode("utf-8", "replace"))
        if kind == b"*":
            return self._array(_number(line))
        raise InvalidResponse(f"a reply must start with one of +-:$*, got {bytes(kind)!r}")

    def _bulk(self, size: int, start: int) -> Any:
        if size < 0:
            self._at = start
            return None
        if len(self._buffer) < start + size + 2:
            return MORE
        self._at = start + size + 2
        return bytes(memoryview(self._buffer)[start : start + size])

    def _array(self, size: int) -> Any:
        if size < 0:
            return None
        items: list[Any] = []
        if size:
            self._open.append((items, size))
        return items


def _number(line: bytes) -> int:
    digits = line.removeprefix(b"-")
    if not digits.isdigit():
        raise InvalidResponse(f"a reply must have a number here, got {line[:40]!r}")
    return int(line)


def make_reader() -> Replies:
    """Return a reader for a new connection."""
    try:
        hiredis = import_module("hiredis")
    except ImportError:
        return ReplyReader()
    reader: Replies = hiredis.Reader(
        protocolError=InvalidResponse, replyError=reply_error, notEnoughData=MORE
    )
    return reader
