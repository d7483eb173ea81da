"""The limits of a run."""

from typing import Any

import pytest

from coreason_client.llm import LLMRequestError, RunOptions
from coreason_client.llm._answer import NO_USAGE
from coreason_client.llm.tools._run_machine import RunLimits
from coreason_client.llm.types import Usage


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_turns", 0),
        ("max_turns", True),
        ("max_turns", None),
        ("max_tokens_total", 0),
        ("max_tokens_total", 1.5),
        ("max_cost", 0),
        ("max_cost", float("nan")),
        ("timeout", -1),
        ("timeout", "5"),
        ("max_tool_errors", 0),
        ("max_parallel_calls", 0),
        ("max_result_chars", 0),
    ],
)
def test_a_wrong_limit_is_named(name: str, value: Any) -> None:
    with pytest.raises(LLMRequestError, match=f"^{name} must be") as caught:
        RunLimits(**{name: value})
    assert caught.value.argument_error is not None
    assert caught.value.argument_error.argument == name


def test_the_limits_are_removed_from_the_options() -> None:
    options = {"max_turns": 3, "stop": "x", "timeout": 5}
    assert RunLimits.taken_from(options) == RunLimits(max_turns=3, timeout=5)
    assert options == {"stop": "x"}


def test_every_limit_is_an_option_of_a_run() -> None:
    assert set(RunLimits.__dataclass_fields__) < set(RunOptions.__annotations__)


def test_without_a_limit_only_the_turns_count() -> None:
    limits = RunLimits()
    assert limits.exceeded(9, NO_USAGE, 1e6) is None
    assert limits.exceeded(10, NO_USAGE, 0) == ("max_turns", 10, 10)


def test_a_limit_that_is_reached_forbids_another_turn() -> None:
    limits = RunLimits(max_tokens_total=100, max_cost=0.5, timeout=60)

    def exceeded(tokens: int, cost: float | None, seconds: float) -> object:
        usage: Usage = {**NO_USAGE, "total_tokens": tokens, "cost_estimate": cost}
        return limits.exceeded(1, usage, seconds)

    assert exceeded(99, 0.49, 59.9) is None
    assert exceeded(100, 0.49, 59.9) == ("max_tokens_total", 100, 100)
    assert exceeded(99, 0.5, 59.9) == ("max_cost", 0.5, 0.5)
    assert exceeded(99, None, 59.9) == ("max_cost", 0.5, None)
    assert exceeded(99, 0.49, 60.0) == ("timeout", 60, 60.0)
