"""The attributes of requests and responses."""

from types import SimpleNamespace
from typing import Any

import pytest

from coreason_client.llm._check_call import check_call
from coreason_client.llm._plan import CallPlan
from coreason_client.llm._route import Target
from coreason_client.llm.observe._attributes import (
    Identity,
    identity_attributes,
    metric_attributes,
    operation_of,
    request_attributes,
    response_attributes,
    target_attributes,
    usage_attributes,
)

from .collect import KEY, MESSAGES


def plan(model: str = "m", base: str | None = "https://llm.example", **options: Any) -> CallPlan:
    keys = {"gemini": KEY, "mistral": KEY, "anthropic": KEY}
    route = Target(base, KEY if base else None, keys).route(model)
    call = check_call(MESSAGES, route.model, None, 0.5, 9, **options)
    return CallPlan(call, route, model)


def embedding(**call: Any) -> Any:
    """A request for embeddings, as the attributes see it."""
    made = plan()
    named = SimpleNamespace(texts=["a"], dimensions=None, **call)
    return SimpleNamespace(call=named, route=made.route, url=made.url)


@pytest.mark.parametrize(
    ("model", "base", "provider", "address", "port"),
    [
        ("m", "https://llm.example", "openai-compatible", "llm.example", 443),
        ("m", "http://llm.example", "openai-compatible", "llm.example", 80),
        ("m", "http://[::1]:8080/v1", "openai-compatible", "::1", 8080),
        ("gemini/g", None, "gcp.gemini", "generativelanguage.googleapis.com", 443),
        ("mistral/m", None, "mistral_ai", "api.mistral.ai", 443),
        ("anthropic/c", None, "anthropic", "api.anthropic.com", 443),
    ],
)
def test_the_target(model: str, base: str | None, provider: str, address: str, port: int) -> None:
    assert target_attributes(plan(model, base)) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model.rpartition("/")[2],
        "server.address": address,
        "server.port": port,
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {}),
        ({"stream": True}, {"gen_ai.request.stream": True}),
        ({"stop": "END"}, {"gen_ai.request.stop_sequences": ["END"]}),
        ({"response_format": {"type": "json_object"}}, {"gen_ai.output.type": "json"}),
        ({"extra": {"top_k": 3}}, {"gen_ai.request.top_k": 3}),
        ({"extra": {"reasoning_effort": "low"}}, {"gen_ai.request.reasoning.level": "low"}),
        ({"seed": 4, "service_tier": "flex"}, {"gen_ai.request.seed": 4}),
        ({"extra": {"seed": [1], "top_p": None, "user": "ann", "top_k": True}}, {}),
    ],
)
def test_the_parameters_of_a_request(options: Any, expected: dict[str, Any]) -> None:
    always = {"gen_ai.request.max_tokens": 9, "gen_ai.request.temperature": 0.5}
    assert request_attributes(plan(**options)) == always | expected


def test_embeddings_are_an_operation_of_their_own() -> None:
    found = embedding()
    assert operation_of(found) == target_attributes(found)["gen_ai.operation.name"] == "embeddings"
    assert request_attributes(found) == {}
    found.call.dimensions = 256
    assert request_attributes(found) == {"gen_ai.embeddings.dimension.count": 256}


def test_other_requests_are_not_covered() -> None:
    assert operation_of(SimpleNamespace(route=plan().route)) is None


def usage(**more: Any) -> Any:
    return {"prompt_tokens": 3, "completion_tokens": 2, "cost_estimate": None, **more}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (usage(), {"gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 2}),
        (usage(estimated=True), {}),
        (usage(estimated=True, cost_estimate=0.5), {"coreason.cost_estimate": 0.5}),
        (
            usage(cached_tokens=1, cache_write_tokens=2, reasoning_tokens=0),
            {
                "gen_ai.usage.input_tokens": 3,
                "gen_ai.usage.output_tokens": 2,
                "gen_ai.usage.cache_read.input_tokens": 1,
                "gen_ai.usage.cache_write.input_tokens": 2,
                "gen_ai.usage.reasoning.output_tokens": 0,
            },
        ),
    ],
)
def test_the_usage(given: Any, expected: dict[str, Any]) -> None:
    assert usage_attributes(given, given) == expected


def test_the_cost_is_that_of_all_attempts() -> None:
    found = usage_attributes(usage(), usage(prompt_tokens=9, cost_estimate=0.5))
    assert (found["coreason.cost_estimate"], found["gen_ai.usage.input_tokens"]) == (0.5, 3)
    assert usage_attributes(None, None) == {}


def test_a_filtered_answer_has_the_finish_reason_of_the_conventions() -> None:
    data = {"finish_reason": "stop", "filtered": True}
    found = response_attributes(plan().route, {"data": data})
    assert found["gen_ai.response.finish_reasons"] == ["content_filter"]


def test_what_a_provider_chooses_is_short_and_has_no_secret() -> None:
    route = plan().route
    found = identity_attributes(route, Identity(KEY, "m" * 1000))
    assert found == {"gen_ai.response.id": "***", "gen_ai.response.model": "m" * 256}
    assert identity_attributes(route, Identity()) == {}
    response = {"data": {}, "request_id": f"id of {KEY}"}
    found = response_attributes(route, response)
    assert found["coreason.provider_request_id"] == "id of ***"


def test_the_attributes_of_a_metric() -> None:
    identity = {"gen_ai.response.id": "1", "gen_ai.response.model": "m"}
    assert metric_attributes({"a": 1}, identity, KeyError()) == {
        "a": 1,
        "gen_ai.response.model": "m",
        "error.type": "KeyError",
    }
    assert metric_attributes({"a": 1}, {}, None) == {"a": 1}
