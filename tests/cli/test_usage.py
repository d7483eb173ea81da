"""The tokens and the cost of an answer as a line of text."""

from typing import Any

import pytest

from coreason_client.cli._text import usage_event_line, usage_line

COUNTS = {"prompt_tokens": 1, "completion_tokens": 2}


@pytest.mark.parametrize(
    ("usage", "line"),
    [
        ({}, "m: 1 + 2 tokens"),
        ({"cost_estimate": None}, "m: 1 + 2 tokens"),
        ({"cost_estimate": 0.25}, "m: 1 + 2 tokens, $0.250000"),
        ({"cost_estimate": 0}, "m: 1 + 2 tokens, $0.000000"),
        ({"cost_estimate": 0.0000004}, "m: 1 + 2 tokens, $0.000000"),
        ({"cost_estimate": "0.25"}, "m: 1 + 2 tokens"),
        ({"estimated": True}, "m: about 1 + 2 tokens"),
        ({"estimated": False, "cost_estimate": 3}, "m: 1 + 2 tokens, $3.000000"),
    ],
)
def test_the_line_has_the_tokens_and_the_cost_if_it_is_known(
    usage: dict[str, Any], line: str
) -> None:
    assert usage_line("m", {**COUNTS, **usage}) == line
    assert usage_event_line({"type": "USAGE", "data": {"model": "m", **COUNTS, **usage}}) == line


@pytest.mark.parametrize("model", [{}, {"model": None}, {"model": ""}, {"model": 5}])
def test_an_agent_may_leave_out_the_model(model: dict[str, Any]) -> None:
    assert usage_event_line({"type": "USAGE", "data": {**COUNTS, **model}}) == "1 + 2 tokens"


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {"model": "m"},
        {**COUNTS, "model": "m", "prompt_tokens": "1"},
        {**COUNTS, "model": "m", "completion_tokens": None},
    ],
)
def test_an_incomplete_event_has_no_line(data: Any) -> None:
    assert usage_event_line({"type": "USAGE", "data": data}) is None


@pytest.mark.parametrize("event", [{}, {"type": "OTHER"}, {"type": None}])
def test_any_other_event_has_no_line(event: dict[str, Any]) -> None:
    assert usage_event_line({**event, "data": {"model": "m", **COUNTS}}) is None
