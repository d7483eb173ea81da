"""The arguments of routers and deployments."""

from typing import Any

import pytest

from coreason_client.errors import ArgumentError
from coreason_client.llm import Deployment, Router

SECRET = "sk-a-secret-key"


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"model": ""}, "model"),
        ({"model": 7}, "model"),
        ({"weight": -1}, "weight"),
        ({"weight": True}, "weight"),
        ({"weight": float("nan")}, "weight"),
        ({"base_url": "ftp://x"}, "base_url"),
        ({"provider": "nobody"}, "provider"),
        ({"provider": "openai"}, "provider"),
        ({"headers": {"x": "y"}}, "headers"),
        ({"api_key": "a\nb"}, "api_key"),
        ({"requests_per_minute": 0}, "requests_per_minute"),
        ({"tokens_per_minute": 1.5}, "tokens_per_minute"),
        ({"tags": "eu"}, "tags"),
        ({"tags": [""]}, "tags"),
    ],
)
def test_a_wrong_argument_of_a_deployment(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        Deployment(**{"model": "m", **arguments})
    assert caught.value.argument == name


@pytest.mark.parametrize(
    ("deployments", "options", "name"),
    [
        ({}, {}, "deployments"),
        (["m"], {}, "deployments"),
        ({"a": ["m"]}, {"fallbacks": ["b"]}, "fallbacks"),
        ({"a": []}, {}, "deployments['a']"),
        ({"a": "m"}, {}, "deployments['a']"),
        ({"a": [7]}, {}, "deployments['a']"),
        ({"a": ["m", "m"]}, {}, "deployments['a']"),
        ({"": ["m"]}, {}, "each name in deployments"),
        ({"a": ["m"]}, {"fallbacks": {"a": "b"}}, "fallbacks['a']"),
        ({"a": ["m"]}, {"context_fallbacks": {"a": [7]}}, "context_fallbacks['a']"),
        ({"a": ["m"]}, {"cooldown": -1}, "cooldown"),
    ],
)
def test_a_wrong_argument_of_a_router(deployments: Any, options: Any, name: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        Router(deployments, **options)
    assert caught.value.argument == name


def test_the_key_is_never_shown() -> None:
    deployment = Deployment("m", base_url="http://a.test", api_key=SECRET, headers={"x": SECRET})
    router = Router({"fast": [deployment]})
    assert SECRET not in f"{deployment!r} {router!r} {deployment.id}"


def test_deployments_are_told_apart_by_model_url_and_key() -> None:
    base = {"model": "m", "base_url": "http://a.test", "api_key": SECRET}
    others: list[dict[str, Any]] = [
        base,
        {**base, "model": "n"},
        {**base, "base_url": "http://b.test"},
        {**base, "api_key": "other"},
    ]
    ids = {Deployment(**one).id for one in others}
    assert len(ids) == 4
    assert Deployment(**{**base, "weight": 2.0}).id in ids  # type: ignore[arg-type]
    assert Deployment("m", name="east").id == "east"


def test_a_model_name_stands_for_a_deployment() -> None:
    router = Router({"fast": ["openai/gpt-4o"]}, fallbacks={"fast": ["plain"]})
    assert router.deployments == {"fast": (Deployment("openai/gpt-4o"),)}
    assert list(router.models()) == ["plain"]
