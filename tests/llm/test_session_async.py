"""Response headers of aiohttp behave like our own."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from coreason_client._http._types import Headers
from coreason_client.llm._session_async import AsyncHTTPSession, ReceivedHeaders

PAIRS = st.lists(st.tuples(st.sampled_from(["A", "a", "B", "Set-Cookie"]), st.text(max_size=3)))


@given(PAIRS)
def test_received_headers_equal_headers_of_the_same_pairs(pairs: list[tuple[str, str]]) -> None:
    expected = Headers(pairs)
    received = ReceivedHeaders(CIMultiDictProxy(CIMultiDict(pairs)))
    assert dict(received) == dict(expected)
    assert (len(received), repr(received)) == (len(expected), repr(expected))
    for name in ("a", "A", "set-cookie", "missing"):
        assert received.get(name) == expected.get(name)
        assert (name in received) is (name in expected)


def test_headers_are_converted_once_for_each_mapping() -> None:
    async def go() -> None:
        session = AsyncHTTPSession(None)
        try:
            given = {"Authorization": "one"}
            assert session.headers(given) is session.headers(given)
            for number in range(300):  # mappings that are created for one request
                assert session.headers({"a": str(number)}) == CIMultiDict({"a": str(number)})
            assert len(session._headers) <= 101
        finally:
            await session.close()

    asyncio.run(go())


def test_a_missing_header_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        ReceivedHeaders(CIMultiDictProxy(CIMultiDict()))["a"]
