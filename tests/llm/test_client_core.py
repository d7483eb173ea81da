"""The common part of both clients: arguments, routes and the default model."""

from typing import Any

import pytest

from coreason_client.llm import AsyncLLMClient, LLMClient, LLMRequestError
from coreason_client.llm._client_core import ClientCore

MESSAGES = [{"role": "user", "content": "Hi"}]
KINDS = pytest.mark.parametrize("kind", [LLMClient, AsyncLLMClient])


@KINDS
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0}, "timeout must be a number greater than 0"),
        ({"max_retries": -1}, "max_retries must be a whole number, 0 or more"),
        ({"max_concurrency": 0}, "max_concurrency must be a whole number, 1 or more"),
        ({"default_model": " "}, "default_model must be the name of a model"),
        ({"tokens_per_minute": 0}, "tokens_per_minute must be a number greater than 0"),
    ],
)
def test_arguments_are_checked(kind: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind("a-key-for-tests", **options)


def test_fallbacks_are_tried_in_order() -> None:
    core = ClientCore("a-key-for-tests", default_model="one")
    options = {"fallbacks": ["two", "three"]}
    attempts = core._attempts(MESSAGES, "one", None, 0.5, 10, options)
    assert attempts.plan.requested_model == "one"
    with pytest.raises(LLMRequestError, match="fallbacks must be a list of model names"):
        core._attempts(MESSAGES, "one", None, 0.5, 10, {"fallbacks": "two"})


@KINDS
def test_an_unknown_option_is_a_type_error(kind: Any) -> None:
    with pytest.raises(TypeError, match="no option 'temprature'"):
        kind("a-key-for-tests").stream(MESSAGES, temprature=1)


def test_the_routes_that_are_kept_are_bounded() -> None:
    core = ClientCore("a-key-for-tests")
    for number in range(300):
        core._route(f"model-{number}")
    assert len(core._routes) <= 256


@pytest.mark.parametrize("value", ["no", 1, None])
def test_cache_must_be_true_or_false(value: Any) -> None:
    with (
        LLMClient("k", "http://127.0.0.1:9", "m") as ours,
        pytest.raises(LLMRequestError, match=r"^cache must be True or False, got "),
    ):
        ours.generate(MESSAGES, cache=value)
