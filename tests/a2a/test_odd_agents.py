"""Agents that are a little off: what they send is read, skipped or refused, and never a crash."""

from typing import Any

import pytest

from coreason_client.a2a import (
    A2AClient,
    A2AEmptyResultError,
    A2AError,
    A2ANoSupportedInterfaceError,
)
from coreason_client.a2a._dialects import push_from_v03
from tests.a2a.loopback import Answer, Seen, as_json, serve, stream_of

BAD_ADDRESSES = ["http://[", "https://", "ftp://agent.example", "http://a b", "http://x:port", ""]


def card(*urls: str) -> dict[str, Any]:
    interfaces = [
        {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"} for url in urls
    ]
    return {
        "name": "odd",
        "description": "",
        "version": "1",
        "supportedInterfaces": interfaces,
        "capabilities": {},
        "defaultInputModes": [],
        "defaultOutputModes": [],
        "skills": [],
    }


@pytest.mark.parametrize("url", BAD_ADDRESSES)
def test_an_interface_that_cannot_be_called_is_skipped(url: str) -> None:
    with pytest.raises(A2ANoSupportedInterfaceError):
        A2AClient.from_agent_card(card(url))
    with serve() as agent, A2AClient.from_agent_card(card(url, f"{agent.url}/rpc")) as client:
        assert client.send_message("say hello").text


def test_schemes_that_are_one_string_are_one_scheme() -> None:
    config = {"url": "https://hook.example", "authentication": {"schemes": "Bearer"}}
    read = push_from_v03({"taskId": "t", "pushNotificationConfig": config})
    assert read["authentication"]["scheme"] == "Bearer"


def test_an_empty_event_over_rest_is_an_error() -> None:
    def empty(seen: Seen) -> Answer | None:
        if not seen.path.endswith("message:stream"):
            return None
        return Answer(headers={"content-type": "text/event-stream"}, pieces=[b"data: {}\n\n"])

    rest = card()
    with serve() as agent:
        agent.rules.append(empty)
        rest["supportedInterfaces"] = [
            {"url": f"{agent.url}/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
        ]
        with (
            A2AClient.from_agent_card(rest) as client,
            pytest.raises(A2AEmptyResultError, match="empty"),
        ):
            list(client.send_message_stream("count"))


SECRET = "sk_top_secret"


@pytest.mark.parametrize("how", ["refused", "error", "stream"])
def test_a_credential_that_an_agent_repeats_is_not_shown(how: str) -> None:
    def repeat(seen: Seen) -> Answer | None:
        if not seen.path.endswith("/rpc"):
            return None
        assert SECRET in seen.headers["authorization"]
        words = f"Bearer {SECRET} is not welcome"
        if how == "refused":
            return as_json({"error": {"message": words}}, 403)
        problem = {"jsonrpc": "2.0", "id": seen.json["id"], "error": {"code": -1, "message": words}}
        if how == "error":
            return as_json(problem)
        return stream_of([problem])

    with serve() as agent:
        agent.rules.append(repeat)
        with (
            A2AClient(f"{agent.url}/rpc", auth=SECRET) as client,
            pytest.raises(A2AError, match="is not welcome") as caught,
        ):
            if how == "stream":
                list(client.send_message_stream("count"))
            else:
                client.send_message("count")
    assert SECRET not in str(caught.value) + repr(caught.value)
