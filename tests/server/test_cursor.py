"""`Last-Event-ID` is one of two forms, or it is refused."""

import re
from uuid import UUID, uuid4

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coreason_client.server.cap._cursor import MAX_CURSOR_LENGTH, Cursor, parse_cursor

ID = "123e4567-e89b-12d3-a456-426614174000"
FORM = re.compile(
    r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"(:(0|[1-9][0-9]{0,17})(:[1-9][0-9]{0,17})?)?"
)


@pytest.mark.proves("RES2-2b", "R13f")
@given(st.uuids(), st.integers(0, 10**18 - 1), st.integers(1, 10**18 - 1))
def test_reads_what_it_writes(stream_id: UUID, seq: int, epoch: int) -> None:
    assert parse_cursor(str(Cursor(stream_id, seq))) == Cursor(stream_id, seq)
    assert parse_cursor(str(Cursor(stream_id, seq, epoch))) == Cursor(stream_id, seq, epoch)
    assert parse_cursor(str(stream_id)) == Cursor(stream_id, 0)


@pytest.mark.proves("RES2-2d")
@pytest.mark.parametrize(
    "value",
    [
        "",
        "7",
        ID[:-1],
        ID + ":",
        ID + ":-1",
        ID + ":+1",
        ID + ":01",
        ID + ":1_000",
        ID + ":١",
        ID + ":1 ",
        " " + ID,
        ID + "\n",
        ID + ":1\n",
        ID + ":1:",
        ID + ":1:0",
        ID + ":1:02",
        ID + ":1:2:3",
        ID + "::1",
        ID + ",",
        ID.replace("-", ""),
        "{" + ID + "}",
        "urn:uuid:" + ID,
        ID + ":" + "9" * 19,
        ID + ":" + "9" * 100_000,
        "\0" * 36,
    ],
)
def test_refuses_everything_else(value: str) -> None:
    with pytest.raises(ValueError, match="Last-Event-ID must be"):
        parse_cursor(value)


@given(st.text(alphabet="0123456789abcdefABCDEF-:_+ {}\n١", max_size=70) | st.text())
@example(ID)
@example(ID.upper() + ":0")
def test_accepts_the_two_forms_and_nothing_else(value: str) -> None:
    fits = FORM.fullmatch(value) is not None
    try:
        cursor = parse_cursor(value)
    except ValueError:
        assert not fits
    else:
        assert fits
        assert len(value) <= MAX_CURSOR_LENGTH
        assert value.lower() in {str(cursor), str(cursor.stream_id)}


def test_a_cursor_is_as_long_as_it_can_get() -> None:
    assert len(str(Cursor(uuid4(), 10**18 - 1, 10**18 - 1))) == MAX_CURSOR_LENGTH
