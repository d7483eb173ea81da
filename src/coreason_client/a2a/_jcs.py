"""Canonical JSON (RFC 8785, JCS). Pure.

It is written here because it is shorter than what a further dependency (`rfc8785`, `jcs`) would
need in pins and checks, and because cards come from strangers: the depth must be limited. The tests
compare it with the examples of the RFC and with a second implementation.
"""

import json
from decimal import Decimal
from math import isfinite
from typing import Any, Final

__all__ = ["canonical_json"]

MAX_DEPTH: Final = 128
_MAX_SAFE_INTEGER: Final = 2**53 - 1  # a larger integer is not exact in an IEEE double
_MAX_PLAIN_EXPONENT: Final = 21  # ECMAScript writes numbers from 1e21 with an exponent
_MIN_PLAIN_EXPONENT: Final = -6  # and numbers below 1e-6


def canonical_json(value: Any) -> bytes:
    """Return the canonical form of a JSON value, in UTF-8.

    Raises:
        ValueError: it has none: a number that is not exact, a lone surrogate, too much nesting.
        TypeError: it is not a JSON value.
    """
    return _text(value, 0).encode()


def _text(value: Any, depth: int) -> str:
    if depth > MAX_DEPTH:
        raise ValueError(f"the value is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        names = sorted(value, key=_utf_16)
        members = (f"{_quoted(name)}:{_text(value[name], depth + 1)}" for name in names)
        return f"{{{','.join(members)}}}"
    if isinstance(value, list):
        return f"[{','.join(_text(item, depth + 1) for item in value)}]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, int):
        if abs(value) > _MAX_SAFE_INTEGER:
            raise ValueError("an integer has more than 53 bits")
        return str(value)
    if isinstance(value, float):
        return _number(value)
    raise TypeError(f"a value of type {type(value).__name__} is not JSON")


def _utf_16(name: Any) -> bytes:
    """Return the sort key of a member: RFC 8785 sorts by UTF-16 code units."""
    if not isinstance(name, str):
        raise TypeError(f"a member name must be text, got {type(name).__name__}")
    return name.encode("utf-16-be")


def _quoted(text: str) -> str:
    # `json` escapes the same characters in the same form as RFC 8785 if it keeps non-ASCII text.
    return json.dumps(text, ensure_ascii=False)


def _number(value: float) -> str:
    """Return a number as ECMAScript writes it; `repr` has the same digits in another format."""
    if not isfinite(value):
        raise ValueError("a number is not finite")
    if value == 0:
        return "0"
    parts = Decimal(repr(abs(value))).normalize().as_tuple()
    digits = "".join(map(str, parts.digits))
    point = len(digits) + int(parts.exponent)  # the position of the decimal point in the digits
    sign = "-" if value < 0 else ""
    if len(digits) <= point <= _MAX_PLAIN_EXPONENT:
        return f"{sign}{digits.ljust(point, '0')}"
    if 0 < point <= _MAX_PLAIN_EXPONENT:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if _MIN_PLAIN_EXPONENT < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    mantissa = f"{digits[0]}.{digits[1:]}" if len(digits) > 1 else digits
    return f"{sign}{mantissa}e{point - 1:+d}"
