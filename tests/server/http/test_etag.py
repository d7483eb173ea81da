"""Entity tags: the tag of a body, and the lists in which clients send it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.http._cursor import etag_of, is_known

TAG = etag_of(b"body")


@given(st.binary(), st.binary())
def test_two_bodies_have_the_same_tag_only_if_they_are_equal(one: bytes, other: bytes) -> None:
    assert (etag_of(one) == etag_of(other)) == (one == other)


@pytest.mark.parametrize(
    ("header", "known"),
    [
        *((TAG, True), (f"W/{TAG}", True), (f'"x" , {TAG}', True), ("*", True)),
        *((None, False), ("", False), ('"x"', False), (TAG.strip('"'), False)),
    ],
)
def test_a_tag_is_found_in_a_list(header: str | None, known: bool) -> None:
    assert is_known(TAG, header) is known
