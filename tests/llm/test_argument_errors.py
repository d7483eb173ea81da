"""Errors for invalid arguments: the message and the fields."""

from typing import Any

import pytest

from coreason_client import ArgumentError
from coreason_client.llm import LLMRequestError
from coreason_client.llm._argument_errors import invalid, quoted


def test_an_invalid_argument_is_an_error_of_the_request_with_the_fields_of_an_argument_error() -> (
    None
):
    error = invalid("max_tokens", "must be a whole number", -1)
    assert isinstance(error, LLMRequestError)
    assert str(error) == "max_tokens must be a whole number, got -1"
    cause = error.argument_error
    assert isinstance(cause, ArgumentError)
    assert (cause.argument, cause.rule, cause.value) == ("max_tokens", "must be a whole number", -1)


def test_nothing_was_sent_for_an_invalid_argument() -> None:
    error = invalid("model", "must be text", None)
    assert (error.attempts, error.status, error.provider) == (0, None, None)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (["b", "a"], "'a' and 'b'"),
        (["b", 5, None], "'b' and 5 and None"),
        ([("x",)], "a value of type tuple"),
        (["x" * 200], f"'{'x' * 78}…"),
        ([], ""),
    ],
)
def test_keys_are_listed_in_the_same_order_each_time(keys: list[Any], text: str) -> None:
    assert quoted(keys) == quoted(reversed(keys)) == text
