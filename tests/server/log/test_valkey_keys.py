"""The names of the keys: what they are made of, and what is not taken for one."""

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.log._rules import digest
from coreason_client.server.log.valkey._errors import ForeignValue
from coreason_client.server.log.valkey._keys import (
    SHARDS,
    KeyNames,
    ended_member,
    parse_name,
    parse_stream_id,
    shard,
    split_member,
)

ID = UUID("00112233445566778899aabbccddeeff")
HEX = "00112233445566778899aabbccddeeff"


def test_the_names_that_releases_share() -> None:
    """Another release on the same store must find the same keys."""
    keys = KeyNames("app")
    assert [keys.meta(ID), keys.entries(ID), keys.question(ID), keys.channel(ID)] == [
        f"app:{{{HEX}}}:meta",
        f"app:{{{HEX}}}:entries",
        f"app:{{{HEX}}}:question",
        f"app:{{{HEX}}}:wake",
    ]
    assert [keys.request("d"), keys.turns("d"), keys.order("d"), keys.idle_channel()] == [
        "app:{d}:request",
        "app:{d}:turns",
        "app:{d}:order",
        "app:hello",
    ]
    assert keys.leases == tuple(f"app:{{leases-{number}}}" for number in range(4))
    assert keys.lease_index(ID) == "app:{leases-3}"  # 0xff modulo 4
    assert digest("ann", b"talk") == "fa395c0149ac1767708dc22602c13d6429898aa1"


@pytest.mark.parametrize("prefix", ["", "a b", "{a}", "a}", "ä", "a\n", "a\x7f"])
def test_prefixes_that_would_break_a_key_are_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match="prefix"):
        KeyNames(prefix)


@given(st.tuples(st.text(), st.binary()), st.tuples(st.text(), st.binary()))
def test_two_requests_have_two_names(first: tuple[str, bytes], second: tuple[str, bytes]) -> None:
    assert (digest(*first) == digest(*second)) is (first == second)
    assert len(digest(*first)) == 40


@given(st.uuids(), st.text("0123456789abcdef", min_size=40, max_size=40))
def test_a_member_of_an_index_is_read_as_it_was_written(stream_id: UUID, request: str) -> None:
    assert split_member(ended_member(stream_id, request).encode()) == (stream_id, request)
    assert 0 <= shard(stream_id.hex) < SHARDS


@pytest.mark.parametrize("name", [b"", b"x y", b"\xff", b"a:b", b"-"])
def test_other_names_are_foreign(name: bytes) -> None:
    with pytest.raises(ForeignValue):
        parse_name(name)


@pytest.mark.parametrize("name", [b"", b"zz", HEX.encode()[:-1], HEX.encode() + b"0", b"g" * 32])
def test_other_streams_are_foreign(name: bytes) -> None:
    with pytest.raises(ForeignValue):
        parse_stream_id(name)


def test_the_load_is_spread_over_all_shards() -> None:
    assert {shard(uuid4().hex) for _ in range(500)} == set(range(SHARDS))
