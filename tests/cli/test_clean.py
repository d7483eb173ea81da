"""No text of an agent controls a terminal, however its escape sequences are cut."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.cli.output._lines import Cleaner, clean, escaped_json

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
ALPHABET = "\x1b\x1b\x1b[]()P^_X\\\x07\x9b\x9c\x9d\x90;?0123mHJhABé \n\t\r\x00\u202a\u2066"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mred\x1b[0m", "ared"),
        ("\x1b[2J\x1b[1;1Hx", "x"),
        ("\x1b[?1049h\x1b[>4;2mx", "x"),
        ("\x9b2Jx", "x"),
        ("\x1b]0;owned\x07x", "x"),
        ("\x1b]8;;http://example.com\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9d52;c;c2VjcmV0\x9cx", "x"),
        ("\x1bP1$r0m\x1b\\x", "x"),
        ("\x1b(Bx", "x"),
        ("lone \x1bescape", "lone escape"),
        ("\x1b]0;no end\nnext line", "]0;no end\nnext line"),
        ("tab\tline\nreturn\r\nbell\x07", "tab\tline\nreturn\nbell"),
        ("right\u202eleft", "rightleft"),
        ("half \ud83d of it", "half  of it"),
        ("plain [31m text", "plain [31m text"),
    ],
)
def test_sequences_and_control_characters_are_removed(text: str, shown: str) -> None:
    assert clean(text) == shown


@pytest.mark.parametrize("code", [*range(0x202A, 0x202F), *range(0x2066, 0x206A)], ids=hex)
def test_no_character_changes_the_direction_of_the_text(code: int) -> None:
    text = f"pay {chr(code)}100"
    assert clean(text) == in_pieces([text[:5], text[5:]]) == "pay 100"
    assert escaped_json(json.dumps(text, ensure_ascii=False)) == f'"pay \\u{code:04x}100"'


def in_pieces(pieces: list[str]) -> str:
    cleaner = Cleaner()
    return "".join([*(cleaner.feed(piece) for piece in pieces), cleaner.finish()])


@given(st.lists(st.text(ALPHABET, max_size=12), max_size=8))
def test_where_a_text_is_cut_changes_nothing(pieces: list[str]) -> None:
    assert in_pieces(pieces) == clean("".join(pieces))


@given(st.lists(st.text(ALPHABET, max_size=12), max_size=8))
def test_nothing_that_controls_comes_through(pieces: list[str]) -> None:
    assert not CONTROL.search(in_pieces(pieces))


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\u202a")))
def test_a_text_without_control_characters_is_kept(text: str) -> None:
    wanted = re.sub("[\u202a-\u202e\u2066-\u2069]", "", text)
    assert in_pieces(list(text)) == wanted


def test_a_string_without_an_end_is_not_held_back_for_ever() -> None:
    cleaner = Cleaner()
    shown = cleaner.feed("\x1b]0;") + "".join(cleaner.feed("word ") for _ in range(400))
    assert shown.startswith("]0;word word")


@given(st.text(st.one_of(st.sampled_from(ALPHABET), st.characters(exclude_categories=["Cs"]))))
def test_json_stays_the_same_and_controls_nothing(text: str) -> None:
    line = escaped_json(json.dumps({"text": text}, ensure_ascii=False))
    assert json.loads(line) == {"text": text}
    assert not CONTROL.search(line)
