"""Errors for invalid arguments: the message and the fields."""

import copy
import json
import pickle
from typing import Any

import pytest

from coreason_client import ArgumentError, LLMClient
from coreason_client.llm import LLMRequestError, ResponseCache
from coreason_client.llm._argument_errors import invalid, quoted
from coreason_client.testing import fake_model


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


QUESTION = [{"role": "user", "content": "Say hello."}]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("stream", "call stream() or stream_sync() in place of generate() to get a stream"),
        (
            "max_completion_tokens",
            "use max_tokens, which is sent under the name that the model expects",
        ),
        ("n", "an answer is one choice, so call once for each"),
        ("timeout", "it is an argument of the client: LLMClient(timeout=…)"),
    ],
)
def test_an_argument_of_another_library_is_an_error_that_names_ours(name: str, hint: str) -> None:
    options: dict[str, Any] = {name: 1}
    with LLMClient("a-key") as client:
        for call in (client.generate, client.stream):
            with pytest.raises(TypeError) as caught:
                call(QUESTION, **options)
            assert str(caught.value) == f"there is no option '{name}'; {hint}"


def test_any_other_argument_is_an_error_that_names_extra_and_lists_the_options() -> None:
    options: dict[str, Any] = {"top_k": 1}
    message = r"go into extra={'top_k': …}, and the options are budget_key, cache, ext"
    with LLMClient("a-key") as client:
        for call in (client.generate, client.stream, client.run):
            with pytest.raises(TypeError, match=message):
                call(QUESTION, **options)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("choices", ': it is a dictionary, use response["data"]'),
        ("output_text", ': it is a dictionary, use response["data"]["content"]'),
        ("usage", ': it is a dictionary, use response["usage"]'),
        ("colour", ""),
    ],
)
def test_a_response_says_how_it_is_read(name: str, hint: str) -> None:
    with fake_model(["hello", "hello"]) as model, LLMClient("a-key", model.url) as client:
        with client.stream(QUESTION) as stream:
            streamed = stream.result()
        for response in (client.generate(QUESTION), streamed):
            with pytest.raises(AttributeError) as caught:
                getattr(response, name)
            assert str(caught.value) == f"a response has no attribute '{name}'{hint}"


def test_a_response_from_a_cache_says_it_too_and_can_be_copied_as_any_dictionary() -> None:
    cache = ResponseCache()
    with fake_model("hello") as model, LLMClient("a-key", model.url, cache=cache) as client:
        client.generate(QUESTION)
        response: Any = client.generate(QUESTION)
    assert response["cached"]
    with pytest.raises(AttributeError, match="it is a dictionary"):
        _ = response.choices
    assert response == copy.deepcopy(response) == pickle.loads(pickle.dumps(response))
    assert json.loads(json.dumps(response)) == response
    assert repr(response) == repr(dict(response))
