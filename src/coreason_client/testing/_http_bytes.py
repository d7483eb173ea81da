"""Reads the heads and bodies of HTTP/1.1 messages, with the boundaries of their chunks."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

__all__ = ["HTTPHead", "MalformedHTTP", "read_body", "read_head"]

_BLOCK = 64 * 1024
_MAX_DIGITS = 15  # of a length; more cannot be meant


class MalformedHTTP(Exception):
    """A message that is not HTTP/1.1."""


@dataclass(frozen=True, slots=True)
class HTTPHead:
    """The first line and the headers of a message; their names are in lower case."""

    start: str
    headers: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str:
        """Return the value of a header, empty if there is none."""
        return next((value for known, value in self.headers if known == name), "")

    @property
    def is_chunked(self) -> bool:
        """True if the body comes in chunks."""
        return self.get("transfer-encoding").lower() == "chunked"


async def read_head(reader: asyncio.StreamReader) -> HTTPHead | None:
    """Read the head of a message; None if the connection ended before it.

    Raises:
        MalformedHTTP: it is no head, or too long.
    """
    try:
        data = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise MalformedHTTP("the connection ended within the head of a message") from None
        return None
    except asyncio.LimitOverrunError:
        raise MalformedHTTP("the head of a message is too long") from None
    start, *lines = data[:-4].decode("latin-1").split("\r\n")
    pairs = [line.partition(":") for line in lines]
    return HTTPHead(start, tuple((name.lower(), value.strip()) for name, _, value in pairs))


async def read_body(
    reader: asyncio.StreamReader, head: HTTPHead, *, until_closed: bool = False
) -> AsyncIterator[bytes]:
    """Yield the body of a message as it arrives: each HTTP chunk, or each block that was read.

    `until_closed`: a body without a length lasts until the connection ends, as in responses.

    Raises:
        IncompleteReadError: the connection ended before the body did.
        MalformedHTTP: a length is not a number.
    """
    if head.is_chunked:
        async for chunk in _chunks(reader):
            yield chunk
    elif length := head.get("content-length"):
        left = _number(length, 10)
        while left:
            block = await reader.read(min(left, _BLOCK))
            if not block:
                raise asyncio.IncompleteReadError(b"", left)
            left -= len(block)
            yield block
    elif until_closed:
        while block := await reader.read(_BLOCK):
            yield block


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := _number((await _line(reader)).partition(";")[0], 16):
        yield await reader.readexactly(size)
        await _line(reader)
    while await _line(reader):  # trailers
        pass


async def _line(reader: asyncio.StreamReader) -> str:
    return (await reader.readuntil(b"\n"))[:-1].decode("latin-1").rstrip("\r")


def _number(text: str, base: int) -> int:
    digits = text.strip()
    if not digits.isascii() or not digits.isalnum() or len(digits) > _MAX_DIGITS:
        raise MalformedHTTP("the length of a body must be a number")
    try:
        return int(digits, base)
    except ValueError:
        raise MalformedHTTP("the length of a body must be a number") from None
