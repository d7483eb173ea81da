"""The JSON body of a request."""

import json
from typing import Any

import pytest

from coreason_client.llm import LLMRequestError
from coreason_client.llm._json import encode_body, with_extra, with_query


@pytest.mark.parametrize("value", ["NaN", "Infinity", {"a": [1, 2.5, None, "ä"]}])
def test_a_body_is_json(value: Any) -> None:
    assert json.loads(encode_body({"a": value}, "m")) == {"a": value}


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), object()])
def test_other_values_are_an_error_that_names_the_model(value: Any) -> None:
    with pytest.raises(LLMRequestError, match="the request cannot be encoded as JSON") as caught:
        encode_body({"a": value}, "m")
    assert caught.value.model == "m"


def test_extra_objects_are_merged_and_other_values_replaced() -> None:
    body = {"a": {"b": 1, "c": 2}, "d": [1]}
    assert with_extra(body, {"a": {"c": 3}, "d": [2], "e": 4}) == {
        "a": {"b": 1, "c": 3},
        "d": [2],
        "e": 4,
    }


def test_a_query_is_added() -> None:
    assert with_query("http://a/b", "") == "http://a/b"
    assert with_query("http://a/b", "c=1") == "http://a/b?c=1"
    assert with_query("http://a/b?x=2", "c=1") == "http://a/b?x=2&c=1"
