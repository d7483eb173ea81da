"""JSON as providers send it: nothing that can be read is refused, and nothing else is read."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm._json import (
    count,
    is_finite,
    items,
    mapping,
    parse,
    text,
    without_lone_surrogates,
)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, st.booleans(), st.booleans())
def test_json_is_itself(value: Any, mark: bool, ascii_only: bool) -> None:
    written = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert parse(b"\xef\xbb\xbf" + written if mark else written) == value


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'"a\xffb"', "a\ufffdb"),
        (b'"\\ud83d"', "\ufffd"),
        (b'"\\ud83d\\ude00 \\ude00"', "\U0001f600 \ufffd"),
        (b'{"\\ud83d": ["\\ud83d"]}', {"\ufffd": ["\ufffd"]}),
        (b'"a\x0fb"', "a\x0fb"),
    ],
)
def test_what_a_strict_parser_refuses(data: bytes, value: Any) -> None:
    assert parse(data) == value


def test_halves_are_kept_where_the_other_half_may_follow() -> None:
    assert parse(b'"a\\ud83d"', keep_edge_surrogates=True) == "a\ud83d"


@pytest.mark.parametrize("data", [b"", b"<html>", b'{"a":', b"'a'", b"[" * 100_000])
def test_what_is_not_json(data: bytes) -> None:
    with pytest.raises(ValueError):
        parse(data)


@given(st.binary())
def test_any_bytes_are_json_or_a_value_error(data: bytes) -> None:
    with suppress(ValueError):
        json.dumps(parse(data)).encode()


@given(st.text(st.characters()))
def test_a_text_without_halves_can_be_written(text: str) -> None:
    without_lone_surrogates(text).encode()
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert without_lone_surrogates(text) == text


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_does_not_have(number: float) -> None:
    assert not is_finite(number)
    assert not is_finite({"a": [1.5, {"b": number}]})
    assert is_finite({"a": [1.5, {"b": "NaN"}], "c": None})


@given(VALUES)
def test_a_value_of_another_type_is_empty(value: Any) -> None:
    assert mapping(value) == (value if isinstance(value, dict) else {})
    assert items(value) == (value if isinstance(value, list) else [])
    assert text(value) == (value if isinstance(value, str) else "")


@pytest.mark.parametrize(
    ("value", "number"),
    [
        *((0, 0), (7, 7), (7.0, 7), (7.9, 7), (2**53 - 1, 2**53 - 1)),
        *((-1, None), (2**53, None), (10**400, None), (True, None), (None, None), ("7", None)),
        *((float("nan"), None), (float("inf"), None), ([7], None)),
    ],
)
def test_counts(value: Any, number: int | None) -> None:
    assert count(value) == number
