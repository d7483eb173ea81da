"""The order of deployments, the tags, and the names that come after a failure."""

from collections import Counter
from random import Random

import pytest

from coreason_client.llm import (
    Deployment,
    LLMContextLengthError,
    LLMFilteredError,
    LLMRequestError,
    LLMServerError,
    Router,
)
from coreason_client.llm.router.deployments import Fallbacks, select, weighted_order

A, B, SPARE = Deployment("a", 3), Deployment("b", 1), Deployment("spare", 0)


def test_the_first_deployment_is_chosen_by_weight() -> None:
    random = Random(7).random
    first = Counter(weighted_order([A, B, SPARE], random)[0].model for _ in range(4000))
    assert set(first) == {"a", "b"}
    assert 2850 < first["a"] < 3150


def test_a_deployment_without_weight_is_last() -> None:
    random = Random(7).random
    assert {weighted_order([SPARE, A, B], random)[-1].model for _ in range(50)} == {"spare"}


def test_a_deployment_needs_all_tags() -> None:
    both, one = Deployment("c", tags=["eu", "gpu"]), Deployment("d", tags=["eu"])
    assert select("fast", [A, one, both], ["gpu", "eu"]) == [both]
    assert select("fast", [A, one, both], ["eu"]) == [one, both]
    assert select("fast", [A, both], ()) == [A, both]
    with pytest.raises(LLMRequestError, match="no deployment of 'fast' has all of these tags: x"):
        select("fast", [A, both], ["x"])


ROUTER = Router(
    {"a": ["m"], "b": ["m"], "c": ["m"]},
    fallbacks={"a": ["b", "plain"], "b": ["c"], "c": ["a"]},
    context_fallbacks={"a": ["c"]},
    filter_fallbacks={"a": []},
)
GENERAL, LONG, FILTERED = LLMServerError("x"), LLMContextLengthError("x"), LLMFilteredError("x")


def names(fallbacks: Fallbacks, *errors: Exception) -> list[str | None]:
    return [fallbacks.next(error) for error in errors]  # type: ignore[arg-type]


def test_the_fallbacks_of_a_fallback_come_before_the_rest() -> None:
    fallbacks = Fallbacks("a", ROUTER, ())
    assert fallbacks.reachable() == 4
    assert names(fallbacks, *[GENERAL] * 4) == ["b", "c", "plain", None]


def test_a_list_for_the_kind_of_failure_replaces_the_general_one() -> None:
    assert names(Fallbacks("a", ROUTER, ()), LONG) == ["c"]
    assert names(Fallbacks("a", ROUTER, ()), FILTERED) == [None]
    assert names(Fallbacks("b", ROUTER, ()), LONG) == ["c"]


def test_the_fallbacks_of_the_call_replace_the_general_ones_of_its_model() -> None:
    fallbacks = Fallbacks("a", ROUTER, ["plain"])
    assert fallbacks.exist(GENERAL)
    assert names(fallbacks, GENERAL, GENERAL) == ["plain", None]
    assert not fallbacks.exist(GENERAL)


def test_a_name_that_the_call_may_not_use_is_passed_over() -> None:
    fallbacks = Fallbacks("a", ROUTER, (), usable=lambda name: name == "c")
    assert fallbacks.exist(LONG)
    assert not fallbacks.exist(GENERAL)  # that of `b` is behind it
    assert names(fallbacks, GENERAL) == [None]


def test_without_a_router_there_are_only_the_fallbacks_of_the_call() -> None:
    fallbacks = Fallbacks("m", None, ["n", "m", "n", "o"])
    assert fallbacks.reachable() == 3
    assert names(fallbacks, GENERAL, LONG, GENERAL) == ["n", "o", None]
