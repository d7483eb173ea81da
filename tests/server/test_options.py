"""The options of an application: the signature of `AgentApp` and what is checked of them."""

import inspect
from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from coreason_client.a2a.types import AgentCard
from coreason_client.errors import ArgumentError
from coreason_client.server import AGUI, AISDK, AgentApp
from coreason_client.server._options import Options, option_names
from coreason_client.server.a2a import A2A
from coreason_client.server.openai import OpenAIAPI
from coreason_manifest.definitions.service import ServiceRequest

# Arguments that are not options, or become one under another name.
OTHERS = {
    "_cuts",
    "_documents",
    "_keys_before",
    "a2a",
    "ag_ui",
    "agent",
    "ai_sdk",
    "allowed_hosts",
    "api_keys",
    "api_keys_file",
    "cors_origins",
    "log",
    "metrics",
    "metrics_key",
    "metrics_public",
    "openai",
    "page",
    "public_url",
    "ticket_secrets",
}
RENAMED = {"api_paths", "metrics_path", "serves_a2a"}


async def agent(request: ServiceRequest) -> str:
    return "hello"


def test_the_signature_and_the_options_have_the_same_names_and_types() -> None:
    parameters = set(inspect.signature(AgentApp).parameters)
    assert parameters - OTHERS == option_names() - RENAMED
    # The types of other protocols are imported only for type checkers.
    names = {"AgentCard": AgentCard, "A2A": A2A, "OpenAIAPI": OpenAIAPI}
    names |= {"AISDK": AISDK, "AGUI": AGUI}
    given = get_type_hints(AgentApp.__init__, localns=names)
    kept = get_type_hints(Options)
    for name in parameters - OTHERS - {"agent_id", "version"}:
        assert given[name] == kept[name], name


def test_every_argument_reaches_the_option_of_its_name() -> None:
    """Each option gets a value that no other one has."""
    values: dict[str, Any] = {
        "agent_id": "one",
        "version": "two",
        "on_abandoned": "cancel",
        "on_busy": "wait",
        "inbox": True,
        "final_retention": 10_000.0,
        "durable": False,
        "root_path": "/three",
    }
    numbers = sorted(option_names() - values.keys() - RENAMED)
    values |= {name: 10 + number for number, name in enumerate(numbers)}
    pages: dict[str, Any] = {"ai_sdk": True, "ag_ui": True}
    options = AgentApp(agent, metrics="/numbers", a2a=True, **pages, **values)._options
    values |= {"metrics_path": "/numbers", "serves_a2a": True}
    values |= {"api_paths": ("/ag-ui", "/api/chat")}
    assert {field.name: getattr(options, field.name) for field in fields(Options)} == values


@pytest.mark.parametrize(
    "name",
    sorted(
        option_names()
        - RENAMED
        - {"agent_id", "version", "on_abandoned", "on_busy", "inbox", "durable", "root_path"}
    ),
)
def test_numbers_out_of_range_are_refused_by_name(name: str) -> None:
    wrong: dict[str, Any] = {name: -1}
    with pytest.raises(ValueError, match=rf"{name} .*got -1"):
        AgentApp(agent, **wrong)


@pytest.mark.parametrize(
    ("zero_is", "names"),
    [
        ("allowed", {"abandon_grace", "drain_timeout", "cancel_grace", "retention"}),
        (
            "refused",
            {
                "body_timeout",
                "heartbeat",
                "max_body_bytes",
                "max_header_bytes",
                "max_json_values",
                "max_messages",
                "max_parts",
                "max_readers_per_key",
                "max_requests_per_minute",
                "max_streams_per_key",
                "send_timeout",
            },
        ),
    ],
)
def test_zero(zero_is: str, names: set[str]) -> None:
    for name in names:
        zero: dict[str, Any] = {name: 0}
        if zero_is == "allowed":
            AgentApp(agent, **zero)
        else:
            with pytest.raises(ValueError, match=rf"{name} .*got 0"):
                AgentApp(agent, **zero)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("agent_id", value) for value in ("", " ", 7)),
        *(("root_path", value) for value in ("agents", "/", "/a/", "/a//b", "/a b", "/a?", None)),
        *(("root_path", value) for value in ("/assist", "/streams/x", "/page", "/a2a", "/ready")),
    ],
)
def test_names_and_paths_that_cannot_be_used_are_refused_by_name(name: str, wrong: object) -> None:
    given: dict[str, Any] = {name: wrong}
    with pytest.raises(ValueError, match=rf"{name} must"):
        AgentApp(agent, **given)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"ai_sdk": True, "root_path": "/api/agents"}, "root_path"),
        ({"ai_sdk": AISDK(path="/chat"), "root_path": "/chat"}, "root_path"),
        ({"ag_ui": True, "root_path": "/ag-ui"}, "root_path"),
        ({"ai_sdk": AISDK(path="/x"), "ag_ui": AGUI(path="/x")}, "path"),
        ({"ai_sdk": True, "metrics": "/api/chat"}, "metrics"),
        ({"ai_sdk": True, "metrics": "/api/chat/x/stream"}, "metrics"),
        ({"ag_ui": True, "metrics": "/ag-ui/runs/r"}, "metrics"),
        ({"ai_sdk": "yes"}, "ai_sdk"),
        ({"ag_ui": "yes"}, "ag_ui"),
    ],
)
def test_the_paths_of_pages_are_not_ambiguous(options: dict[str, Any], argument: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        AgentApp(agent, **options)
    assert caught.value.argument == argument


@pytest.mark.parametrize("path", ["", "/", "chat", "/chat/", "/a b", "/v1/chat", "/assist", 1])
def test_a_path_of_pages_must_be_free(path: Any) -> None:
    for settings in (AISDK, AGUI):
        with pytest.raises(ArgumentError) as caught:
            settings(path=path)
        assert caught.value.argument == "path"


def test_a_prefix_may_begin_like_a_path_that_is_not_served() -> None:
    AgentApp(agent, root_path="/api/agents", ag_ui=True)
    AgentApp(agent, root_path="/api", ai_sdk=AISDK(path="/chat"), metrics="/api/chat")
