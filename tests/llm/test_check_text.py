"""Text that can be sent."""

from typing import Any

import pytest

from coreason_client.llm._argument_errors import check_text, is_encodable

from .calls import HALF, rejection


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "system must be text, got None"),
        (b"x", "system must be text"),
        (HALF, "system must be valid Unicode, got half of a surrogate pair"),
    ],
)
def test_the_error_for_wrong_text_names_its_argument(value: Any, words: str) -> None:
    assert rejection(check_text, "system", value).startswith(words)


@pytest.mark.parametrize("text", ["", "a", "ä", "\N{GRINNING FACE}"])
def test_other_text_is_taken(text: str) -> None:
    assert is_encodable(text)
    check_text("system", text)
