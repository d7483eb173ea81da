"""The check of numbers."""

import pytest

from coreason_client.llm._argument_errors import is_number


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, True), (0.5, True), (True, False), ("1", False), (None, False), (float("nan"), False)],
)
def test_numbers(value: object, expected: bool) -> None:
    assert is_number(value) is expected
