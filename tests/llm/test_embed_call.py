"""The arguments of `embed`: any value gives a call, or an error that names the argument."""

from typing import Any

import pytest

from coreason_client.llm._embed import check_embed
from coreason_client.llm.providers.embeddings import EmbedCall

from .calls import HALF, HUGE, rejection

NO_FIELDS: list[Any] = [[], "x", {5: 1}]


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (("Hi", "m"), EmbedCall("m", ["Hi"])),
        ((["a", "b"], "m"), EmbedCall("m", ["a", "b"])),
        ((("a",), "m", 256), EmbedCall("m", ["a"], 256)),
        (("Hi", "m", None, {"user": "u"}), EmbedCall("m", ["Hi"], None, {"user": "u"})),
    ],
)
def test_a_valid_call_is_taken(arguments: Any, call: EmbedCall) -> None:
    assert check_embed(*arguments) == call


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        *((("Hi", model), "model must be the name of a model") for model in (None, "", " ", 5)),
        *(
            ((texts, "m"), "input must be text or a list of texts")
            for texts in (None, 5, {"a"}, {"a": 1}, b"Hi")
        ),
        (([], "m"), "input must have at least one text, got an empty list"),
        (("", "m"), "input must not be empty"),
        ((["a", ""], "m"), "input[1] must not be empty"),
        ((["a", 5], "m"), "input[1] must be text, got 5"),
        ((["a", HALF], "m"), "input[1] must be valid Unicode"),
        *(
            (("Hi", "m", number), "dimensions must be a whole number from 1 to 1048576, or None")
            for number in (0, -1, True, 1.5, "5", HUGE)
        ),
        *(
            (("Hi", "m", None, extra), "extra must be an object of fields for the provider")
            for extra in NO_FIELDS
        ),
    ],
)
def test_the_error_for_a_wrong_argument_names_it(arguments: Any, words: str) -> None:
    assert words in rejection(check_embed, *arguments)
