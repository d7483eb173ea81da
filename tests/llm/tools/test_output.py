"""Results and errors of tools as text."""

import dataclasses
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from coreason_client.llm import ToolAbort
from coreason_client.llm.tools._output import (
    ToolOutput,
    bounded,
    error_output,
    failure_output,
    output_of,
)


class Model(BaseModel):
    day: date


@dataclasses.dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain {text}", "plain {text}"),
        ("half \ud83d", "half ?"),
        (None, "null"),
        (True, "true"),
        (3, "3"),
        ({"a": [1, "é"]}, '{"a":[1,"é"]}'),
        (Model(day=date(2026, 1, 2)), '{"day":"2026-01-02"}'),
        ([Point(1), Point(2)], '[{"x":1},{"x":2}]'),
        (Decimal("1.50"), '"1.50"'),
        (ToolOutput("as it is", images=("i",)), "as it is"),
    ],
)
def test_a_value_becomes_text(value: Any, text: str) -> None:
    output = output_of(value)
    assert (output.text, output.is_error) == (text, False)


def test_a_value_that_is_not_json_is_an_error() -> None:
    output = output_of(object())
    assert output == error_output("the tool returned a object, which is neither text nor JSON")
    loop: list[Any] = []
    loop.append(loop)
    assert output_of(loop).is_error


def test_an_exception_is_shown_with_its_type_and_without_secrets() -> None:
    error = ValueError("bad key sk-123456789\nin line 3")
    output = failure_output(error, ["sk-123456789"])
    assert output.text == "Error: ValueError: bad key *** in line 3"
    assert output.is_error


def test_a_long_message_is_cut() -> None:
    assert len(failure_output(ValueError("x" * 10_000)).text) < 1100


def test_an_exception_without_a_message() -> None:
    assert failure_output(KeyError()).text == "Error: KeyError"


def test_an_abort_is_kept() -> None:
    abort = ToolAbort("stop it")
    output = failure_output(abort)
    assert (output.text, output.is_error, output.abort) == ("Error: stop it", True, abort)


def test_text_is_cut_only_above_the_limit() -> None:
    assert bounded("abc", 3) == "abc"
    assert bounded("abcd", 3) == "abc\n[truncated: the first 3 of 4 characters]"


@given(st.text(max_size=300), st.integers(0, 200), st.integers(0, 200))
def test_text_that_is_cut_twice_keeps_its_full_length(text: str, first: int, second: int) -> None:
    assert bounded(bounded(text, first), second) == bounded(text, min(first, second))
