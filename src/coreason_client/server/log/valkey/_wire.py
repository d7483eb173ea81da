"""The wire format of the store, RESP2: commands to bytes and bytes to replies, without I/O.

hiredis reads the replies where it is installed, which costs less CPU.
"""

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, Protocol, TypeAlias

from redis.exceptions import InvalidResponse

from ._errors import reply_error

__all__ = ["MORE", "Argument", "Command", "Replies", "ReplyReader", "make_reader", "pack"]

Argument: TypeAlias = bytes | str | int
Command: TypeAlias = Sequence[Argument]


class _More:
    """The type of `MORE`."""


MORE = _More()
"""Returned when the bytes so far hold no further complete reply."""


def pack(commands: Iterable[Command]) -> bytes:
    """Return the bytes that send these commands."""
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
    """A reader of replies: `feed` it bytes, and `gets` one reply after the other."""

    def feed(self, data: bytes, /) -> None:
        """Add bytes as they came."""

    def gets(self) -> Any:
        """Return the next reply, an error as an exception object, or `MORE`."""


class ReplyReader:
    """Replies from bytes in pieces of any size; nothing is read twice."""

    __slots__ = ("_at", "_buffer", "_open")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = 0
        self._open: list[tuple[list[Any], int]] = []  # arrays that are not complete, and their size

    def feed(self, data: bytes) -> None:
        """Add bytes as they came."""
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
                if value is not items:  # an array that was just opened is no item of itself
                    items.append(value)
                if len(items) < size:
                    break
                self._open.pop()
                value = items
            else:
                return value
        return MORE

    def _next(self) -> Any:
        """Read one value; an array is returned, and opened, when its size is known."""
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
        raise InvalidResponse(f"a reply starts with {bytes(kind)!r}")

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
        raise InvalidResponse(f"a reply has {line[:40]!r} in the place of a number")
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
