"""Decodes the vectors of embeddings: lists of JSON numbers, or base64. Pure."""

import binascii
import math
import sys
from array import array
from typing import Any

from ._fault import Malformed

__all__ = ["vector_of"]


def vector_of(value: Any) -> list[float]:
    """Return a vector that a provider sent: a list of numbers, or their base64.

    The base64 is that of 32-bit numbers, the least significant byte first.

    Raises:
        Malformed: it is not a vector of finite numbers.
    """
    vector = _decoded(value) if isinstance(value, str) else _listed(value)
    # One pass in C. The sum of finite numbers of embeddings is finite, any other sum is not.
    if not vector or not math.isfinite(sum(vector)):
        raise Malformed("an embedding must be a list of finite numbers")
    return vector


def _listed(value: Any) -> list[float]:
    try:
        return array("d", value if isinstance(value, list) else []).tolist()
    except (TypeError, OverflowError):
        raise Malformed("an embedding must be a list of finite numbers") from None


def _decoded(text: str) -> list[float]:
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
        numbers = array("f", data)
    except ValueError:
        raise Malformed("an embedding must be base64 of 32-bit numbers") from None
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()
