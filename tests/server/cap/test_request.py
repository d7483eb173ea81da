"""The content of a body: its fingerprint; a large one is read as a small one is."""

import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server import AgentStream
from coreason_client.server._off_loop import LARGE_BODY
from coreason_client.server.http._body import fingerprint
from coreason_manifest.definitions.service import ServiceRequest


async def hello(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("hello")


numbers = st.integers() | st.floats(allow_nan=False) | st.integers(10**300, 10**301)
names = st.text(max_size=4)
documents = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=20,
)


def as_the_first_release(body: bytes) -> str:
    canonical = json.dumps(json.loads(body), sort_keys=True, separators=(",", ":"))
    return sha256(canonical.encode()).hexdigest()


def padded(body: bytes) -> bytes:
    """The same document, in more bytes than are parsed at once."""
    return body + b" " * LARGE_BODY


@given(document=documents, ascii_only=st.booleans())
def test_the_fingerprint_is_that_of_every_release_at_every_size(
    document: Any, ascii_only: bool
) -> None:
    """Streams that are in a store were opened with it."""
    body = json.dumps(document, ensure_ascii=ascii_only).encode()
    expected = as_the_first_release(body)
    assert fingerprint(body) == expected
    assert fingerprint(padded(body)) == expected


@pytest.mark.parametrize("pad", [lambda body: body, padded], ids=["small", "large"])
def test_order_and_white_space_do_not_count_and_everything_else_does(pad: Any) -> None:
    one = fingerprint(pad(b'{"a": [1, "\\u00e9"], "b": {"c": 2.50, "d": null}}'))
    same = '{"b":{"d":null,\n"c":2.5},"a":[1,"é"]}'.encode()
    assert fingerprint(pad(same)) == one
    assert one == "b2f0c7917b4193c69568ef461b45acf261b481604ae50cd9d1114a911857d9a0"
    for other in (b'{"a":["\\u00e9",1],"b":{"c":2.5,"d":null}}', b'{"a":[1,"e"],"b":{"c":2.5}}'):
        assert fingerprint(pad(other)) != one


@pytest.mark.parametrize("pad", [lambda body: body, padded], ids=["small", "large"])
def test_numbers_beyond_reason_are_compared_as_they_are_written(pad: Any) -> None:
    body = pad(b"[" + b"9" * 5000 + b"]")
    assert fingerprint(body) == sha256(body).hexdigest()
