import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.testing._loopback import HTTPHead, MalformedHTTP, read_body, read_head
from tests.each import each


def fed(data: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=1000)
    reader.feed_data(data)
    reader.feed_eof()
    return reader


async def message(data: bytes, *, until_closed: bool = False) -> tuple[HTTPHead, list[bytes]]:
    reader = fed(data)
    head = await read_head(reader)
    assert head is not None
    return head, [chunk async for chunk in read_body(reader, head, until_closed=until_closed)]


CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"


@given(st.lists(st.binary(min_size=1), max_size=5))
def test_the_boundaries_of_chunks_are_kept(chunks: list[bytes]) -> None:
    framed = b"".join(b"%X;ext=1\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    data = CHUNKED + framed + b"0\r\nTrailer: x\r\n\r\n"
    assert asyncio.run(message(data))[1] == chunks


def test_a_body_has_its_length_or_lasts_until_the_end() -> None:
    head, body = asyncio.run(message(b"GET / HTTP/1.1\r\nContent-Length: 3\r\nX: y \r\n\r\nabcdef"))
    assert (head.start, head.get("x"), head.get("none"), body) == (
        "GET / HTTP/1.1",
        "y",
        "",
        [b"abc"],
    )
    assert asyncio.run(message(b"HTTP/1.1 200 OK\r\n\r\nabc"))[1] == []
    assert asyncio.run(message(b"HTTP/1.1 200 OK\r\n\r\nabc", until_closed=True))[1] == [b"abc"]


@each(
    "data",
    [
        b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1_0\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 9999999999999999\r\n\r\n",
        CHUNKED + b"zz\r\n",
        b"GET / HTTP/1.1\r\nX:",
        b"X" * 2000 + b"\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedHTTP):
        asyncio.run(message(data))


@each("data", [b"GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab", CHUNKED + b"3\r\nab"])
def test_a_body_that_breaks_off_is_noticed(data: bytes) -> None:
    with pytest.raises(asyncio.IncompleteReadError):
        asyncio.run(message(data))


def test_a_connection_may_end_between_messages() -> None:
    async def read() -> HTTPHead | None:
        return await read_head(fed(b""))

    assert asyncio.run(read()) is None
