"""The agent behind an inspector."""

from typing import Any

import pytest

from coreason_client import ArgumentError
from coreason_client.inspector import CAPTarget

SECRET = "key-of-the-agent"


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"url": "ftp://agent.example"}, "url"),
        ({"url": "http://user:password@agent.example"}, "url"),
        ({"api_key": ""}, "api_key"),
        ({"api_key": "with space"}, "api_key"),
        ({"headers": {"a b": "c"}}, "headers"),
        ({"timeout": 0}, "timeout"),
    ],
)
def test_what_cannot_be_used_is_refused(changes: dict[str, Any], argument: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        CAPTarget(**{"url": "http://agent.example", **changes})
    assert caught.value.argument == argument
    assert "password" not in str(caught.value).replace("user or password", "")


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://agent.example", "http://agent.example"),
        ("http://agent.example/a/", "http://agent.example/a"),
        ("http://agent.example/a/assist", "http://agent.example/a"),
    ],
)
def test_the_url_may_be_that_of_the_route(url: str, base: str) -> None:
    assert CAPTarget(url).base_url == base


def test_a_name_is_the_id_of_the_agent_or_its_host() -> None:
    assert CAPTarget("http://agent.example:81/a").name == "agent.example:81"
    assert CAPTarget("http://agent.example", agent_id="guide").name == "guide"


def test_secrets_are_redacted() -> None:
    target = CAPTarget("http://agent.example/?q=1", SECRET, {"X-Token": "secret-of-the-tenant"})
    assert target.redact(f"a {SECRET} b secret-of-the-tenant") == "a *** b ***"
    assert target.shown_url == "http://agent.example/"
    assert SECRET not in repr(target)
    assert "secret-of-the-tenant" not in repr(target)
