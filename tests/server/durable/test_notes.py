"""The notes of a journal, as they are stored."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.durable._notes import (
    Begun,
    Checkpoint,
    Done,
    Failed,
    FirstPacket,
    Note,
    Released,
    Rewound,
    Started,
    dump_note,
    parse_note,
)

numbers = st.integers(0, 10**12)
names = st.text(min_size=1, max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
policies = st.sampled_from(["rerun", "fail", "resume"])
notes: st.SearchStrategy[Any] = st.one_of(
    st.builds(Started, numbers, numbers),
    st.builds(Released),
    st.builds(Failed, st.integers(), st.integers()),
    st.builds(Begun, names, policies, names, names, st.none() | numbers),
    st.builds(FirstPacket, names, numbers),
    st.builds(
        Done,
        names,
        st.sampled_from(["result", "error", "cancelled"]),
        values,
        st.none() | numbers,
    ),
    st.builds(Checkpoint, names, values),
    st.builds(Rewound, names, numbers, numbers),
)


@given(notes)
def test_a_note_is_parsed_as_it_was_written(note: Note) -> None:
    assert parse_note(dump_note(note)) == note


def test_keys_of_a_later_release_are_ignored() -> None:
    stored = b'{"kind":"started","attempt":2,"last_seq":7,"reason":"new"}'
    assert parse_note(stored) == Started(2, 7)


@pytest.mark.parametrize(
    "stored", [b"", b"{}", b"[]", b"3", b'{"kind":"other"}', b'{"kind":"started"}', b"\xff"]
)
def test_anything_else_is_refused(stored: bytes) -> None:
    with pytest.raises(ValueError, match=r"journal|JSON|EOF|expected|invalid"):
        parse_note(stored)
