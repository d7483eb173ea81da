"""The encoded request for embeddings."""

import json

import pytest

from coreason_client.llm import LLMRequestError
from coreason_client.llm._embed import EmbedPlan, embed_format
from coreason_client.llm._route import Target
from coreason_client.llm.providers.embeddings import EmbedCall


def plan(model: str, dimensions: int | None = None, query: str = "", **extra: object) -> EmbedPlan:
    route = Target(f"http://127.0.0.1:9/v1{query}", "sk-key").route(model)
    return EmbedPlan(EmbedCall(route.model, ["Hi"], dimensions, extra), route, model)


def test_the_request_is_encoded() -> None:
    made = plan("m", 5, "?version=1")
    assert made.url == "http://127.0.0.1:9/v1/embeddings?version=1"
    assert json.loads(made.content) == {"model": "m", "input": ["Hi"], "dimensions": 5}
    assert made.estimated_tokens == -(-len(made.content) // 4)


def test_a_parameter_that_is_not_needed_can_be_dropped() -> None:
    made = plan("m", 5, user="u")
    assert made.drop_parameter("user")
    assert "user" not in json.loads(made.content)


@pytest.mark.parametrize("parameter", ["model", "input", "dimensions", "other"])
def test_other_parameters_stay(parameter: str) -> None:
    made = plan("m", 5)
    before = made.content
    assert not made.drop_parameter(parameter)
    assert made.content == before


def test_a_provider_without_embeddings() -> None:
    route = Target("http://127.0.0.1:9", "sk-key").route("anthropic/claude-sonnet-4-5")
    with pytest.raises(
        LLMRequestError, match="anthropic has no embeddings: use a model of"
    ) as caught:
        embed_format(route)
    assert (caught.value.provider, caught.value.model) == ("anthropic", "claude-sonnet-4-5")
