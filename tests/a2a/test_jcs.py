"""Canonical JSON: the examples of RFC 8785, and a second implementation."""

import json
import struct
from typing import Any

import pytest
from a2a.utils._jcs import CanonicalizationError, canonicalize
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.a2a._card_signatures import MAX_DEPTH, canonical_json

# RFC 8785, appendix B: the bits of a double, and its text.
NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "becbf647612f3696": "-0.0000033333333333333333",
}


@pytest.mark.parametrize("bits", NUMBERS)
def test_the_numbers_of_the_rfc(bits: str) -> None:
    [number] = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical_json(number).decode() == NUMBERS[bits]


@pytest.mark.parametrize("bits", ["7fffffffffffffff", "7ff0000000000000", "fff0000000000000"])
def test_numbers_that_are_not_finite_are_refused(bits: str) -> None:
    with pytest.raises(ValueError, match="not finite"):
        canonical_json(struct.unpack(">d", bytes.fromhex(bits))[0])


def test_members_are_sorted_by_their_utf_16_code_units() -> None:
    names = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    canonical = canonical_json(dict.fromkeys(names, 1))
    order = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    assert list(json.loads(canonical)) == order


def test_text_is_escaped_as_little_as_possible() -> None:
    text = '\u20ac$\u000f\nA\'B"\\\\"/\x7f\u2028'
    expected = '"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/\x7f\u2028"'
    assert canonical_json(text).decode() == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"b": [True, False, None], "a": {}}, '{"a":{},"b":[true,false,null]}'),
        ([1.0, -1.5, 10, 1e21, 100.0], "[1,-1.5,10,1e+21,100]"),
        (2**53 - 1, "9007199254740991"),
    ],
)
def test_values(value: Any, expected: str) -> None:
    assert canonical_json(value).decode() == expected


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("value", [2**53, -(2**53), "\ud800", {"\ud800": 1}, nested(MAX_DEPTH + 1)])
def test_values_without_a_canonical_form(value: Any) -> None:
    with pytest.raises(ValueError):
        canonical_json(value)


@pytest.mark.parametrize("value", [b"", {1: 1}, object(), {"a": {1, 2}}])
def test_values_that_are_not_json(value: Any) -> None:
    with pytest.raises(TypeError):
        canonical_json(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_it_agrees_with_another_implementation(value: Any) -> None:
    try:
        expected = canonicalize(value).encode()
    except CanonicalizationError:
        with pytest.raises(ValueError):
            canonical_json(value)
    else:
        assert canonical_json(value) == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_read_back_exactly(number: float) -> None:
    assert float(canonical_json(number)) == number
