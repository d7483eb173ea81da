"""Curl sends the credential of an agent where the client does."""

from typing import Any

import pytest

from coreason_client.a2a import AgentCard
from coreason_client.inspector._a2a_backend import curl_option

BEARER = ("-H", "Authorization: Bearer {key}")


def card(**schemes: Any) -> AgentCard:
    required: list[Any] = [{"schemes": {name: {"list": []}}} for name in schemes]
    return AgentCard.model_validate(
        {"name": "a", "securitySchemes": schemes, "securityRequirements": required}
    )


def api_key(location: str, name: str) -> dict[str, Any]:
    return {"apiKeySecurityScheme": {"location": location, "name": name}}


def http(scheme: str) -> dict[str, Any]:
    return {"httpAuthSecurityScheme": {"scheme": scheme}}


@pytest.mark.parametrize(
    ("scheme", "option"),
    [
        (api_key("header", "X-API-Key"), ("-H", "X-API-Key: {key}")),
        (api_key("query", "api key"), ("--url-query", "api key={key}")),
        (api_key("cookie", "session"), ("-H", "Cookie: session={key}")),
        (http("Bearer"), BEARER),
        (http("basic"), ("-u", "{key}")),
        (http("DPoP"), ("-H", "Authorization: DPoP {key}")),
    ],
)
def test_each_scheme_has_its_option(scheme: dict[str, Any], option: tuple[str, str]) -> None:
    assert curl_option(card(it=scheme)) == option


def test_without_a_scheme_it_is_a_bearer_token() -> None:
    assert curl_option(card()) == BEARER
    first = card(key=api_key("header", "X-API-Key"), http=http("Bearer"))
    assert curl_option(first) == ("-H", "X-API-Key: {key}")
