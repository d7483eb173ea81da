"""`Last-Event-ID` is the id of a stream or of a packet, or it is refused."""

import re
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coreason_client.server.engine._packets import Frames
from coreason_client.server.http._cursor import (
    MAX_CURSOR_LENGTH,
    Cursor,
    parse_cursor,
    stream_in_path,
)
from coreason_client.server.http._problems import Problem

ID = "123e4567-e89b-12d3-a456-426614174000"
FORM = re.compile(
    r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"(:(0|[1-9][0-9]{0,17})(:[1-9][0-9]{0,17}){0,2})?"
)
NUMBERS = st.integers(1, 10**18 - 1)


@pytest.mark.proves("RES2-2b", "R13f")
@given(st.uuids(), st.integers(0, 10**18 - 1), NUMBERS, NUMBERS)
def test_an_id_without_an_epoch_is_of_the_first_one(
    stream_id: UUID, seq: int, epoch: int, first: int
) -> None:
    assert parse_cursor(f"{stream_id}") == Cursor(stream_id, 0, 1)
    assert parse_cursor(f"{stream_id}:{seq}") == Cursor(stream_id, seq, 1)
    assert parse_cursor(f"{stream_id}:{seq}:{epoch}") == Cursor(stream_id, seq, epoch)
    assert parse_cursor(f"{stream_id}:{seq}:{epoch}:{first}") == Cursor(stream_id, seq, epoch)


@given(st.uuids(), NUMBERS, NUMBERS, NUMBERS, st.booleans())
def test_the_id_of_every_packet_is_a_position(
    stream_id: UUID, seq: int, epoch: int, first: int, durable: bool
) -> None:
    for of in (1, epoch):
        frame = Frames(stream_id, epoch=of, first_seq=first, durable=durable).delta(seq, "x")
        line = frame.split(b"\n")[0].decode()
        assert parse_cursor(line.removeprefix("id: ")) == Cursor(stream_id, seq, of)


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
        ID + ":1:2:",
        ID + ":1:2:0",
        ID + ":1:2:03",
        ID + ":1::3",
        ID + ":1:2:3:4",
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


@given(st.text(alphabet="0123456789abcdefABCDEF-:_+ {}\n١", max_size=100) | st.text())
@example(ID)
@example(ID.upper() + ":0")
@example(ID + ":0:1:1")
@example(ID + ":1:2:3")
def test_accepts_these_forms_and_nothing_else(value: str) -> None:
    fits = FORM.fullmatch(value) is not None
    try:
        cursor = parse_cursor(value)
    except ValueError:
        assert not fits
    else:
        assert fits
        assert len(value) <= MAX_CURSOR_LENGTH
        assert value[:36].lower() == str(cursor.stream_id)
        numbers = [int(number) for number in value.split(":")[1:3]]
        assert [cursor.seq, cursor.epoch][: len(numbers)] == numbers


def test_a_cursor_is_as_long_as_it_can_get() -> None:
    longest = f"{ID}{3 * (':' + '9' * 18)}"
    assert len(longest) == MAX_CURSOR_LENGTH
    assert parse_cursor(longest).epoch == 10**18 - 1


# The id of a stream in a path.


def test_the_id_of_a_stream_is_a_uuid_in_any_case() -> None:
    assert stream_in_path(ID) == stream_in_path(ID.upper()) == UUID(ID)


@pytest.mark.parametrize(
    "text", ["", "x", f"{ID}:0", f"{ID}:", f"{{{ID}}}", UUID(ID).hex, f" {ID}"]
)
def test_another_text_names_no_stream(text: str) -> None:
    with pytest.raises(Problem) as caught:
        stream_in_path(text)
    assert (caught.value.status, caught.value.slug) == (404, "stream-not-found")
