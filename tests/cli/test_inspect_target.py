"""The protocol of the agent of `coreason inspect`, and the error if it speaks none."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from coreason_client import ArgumentError, CoreasonError
from coreason_client.a2a import client as a2a_client
from coreason_client.cli._inspect_target import InspectOptions, Protocol, find_target
from coreason_client.cli.a2a._agent import AgentOptions
from coreason_client.cli.exits import ExitCode, Failure, exit_code_of
from coreason_client.inspector import A2ATarget, CAPTarget
from coreason_client.server import AgentApp, running
from tests.a2a.loopback import Agent, Answer, as_json, serve
from tests.a2a.serving import serving


async def hello(request: object) -> str:
    return "Hello"


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    """A web server that knows neither protocol; every path is the same page."""
    if scope["type"] == "http":
        headers = [(b"content-type", b"text/html")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"<p>Welcome"})


@pytest.fixture(scope="module")
def cap() -> Iterator[str]:
    app = AgentApp(hello, api_keys=["key-1234"], agent_id="greeter", version="3")
    with running(app, log_config=None) as server:
        yield server.url


@pytest.fixture(scope="module")
def both() -> Iterator[str]:
    with running(AgentApp(hello, a2a=True, agent_id="greeter"), log_config=None) as server:
        yield server.url


@pytest.fixture(scope="module")
def a2a() -> Iterator[Agent]:
    with serve() as agent:
        yield agent


@pytest.fixture(scope="module")
def closed() -> str:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        return f"http://127.0.0.1:{nobody.getsockname()[1]}"


def options(url: str, key: str | None = None, **more: Any) -> InspectOptions:
    return InspectOptions(AgentOptions(url, **more), key, "--api-key")


def test_an_agent_with_a_card_speaks_a2a(a2a: Agent) -> None:
    target = find_target(options(a2a.url, token="token-of-the-agent"), None)
    assert isinstance(target, A2ATarget)
    assert target.card.name == "Counter"
    assert target.redact("a token-of-the-agent") == "a ***"
    assert target.has_token


@pytest.mark.parametrize("path", ["", "/", "/assist"])
def test_an_agent_with_a_health_report_speaks_cap(cap: str, path: str) -> None:
    target = find_target(options(cap + path, "key-1234", timeout=7.0), None)
    assert isinstance(target, CAPTarget)
    assert (target.agent_id, target.version, target.timeout) == ("greeter", "3", 7.0)
    assert target.base_url == cap


def test_an_agent_that_speaks_both_is_asked_over_a2a_unless_told(both: str) -> None:
    assert isinstance(find_target(options(both), None), A2ATarget)
    assert isinstance(find_target(options(both), "cap"), CAPTarget)


def test_a_credential_of_the_other_protocol_is_refused(both: str) -> None:
    with pytest.raises(Failure, match=r"--api-key is for CAP agents, .*: use --token, or --proto"):
        find_target(options(both, "key-1234"), None)
    with pytest.raises(Failure, match=r"--token is for A2A agents, .*: use --api-key"):
        find_target(options(both, token="t"), "cap")
    # Those of the environment may be for other agents, and who gives both covers both protocols.
    from_environment = InspectOptions(AgentOptions(both), "key-1234", "COREASON_API_KEY")
    assert isinstance(find_target(from_environment, None), A2ATarget)
    ignored = options(both, token="t", token_from_option=False)
    assert isinstance(find_target(ignored, "cap"), CAPTarget)
    assert isinstance(find_target(options(both, "key-1234", token="t"), None), A2ATarget)
    assert isinstance(find_target(options(both, "key-1234", token="t"), "cap"), CAPTarget)


def test_a_server_that_speaks_neither_is_named_with_both_reasons() -> None:
    with serving(nothing) as url, pytest.raises(Failure) as caught:
        find_target(options(url), None)
    assert caught.value.code is ExitCode.PROTOCOL
    message = str(caught.value)
    assert message.startswith(f"{url} is neither an A2A agent (")
    assert "nor a CAP agent (" in message
    assert "--protocol" in message


def test_a_server_that_does_not_answer_is_a_lost_connection(
    closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(a2a_client, "Backoff", lambda **_: _Impatient())
    protocols: list[Protocol | None] = [None, "a2a"]
    for protocol in protocols:
        with pytest.raises(CoreasonError) as caught:
            find_target(options(closed), protocol)
        assert exit_code_of(caught.value) is ExitCode.CONNECTION


class _Impatient:
    def delay(self, *_: object) -> float:
        return 0.0


def test_a_named_cap_agent_may_start_later(closed: str) -> None:
    target = find_target(options(closed), "cap")
    assert isinstance(target, CAPTarget)
    assert target.agent_id is None


def test_a_named_a2a_agent_needs_its_card(cap: str) -> None:
    with pytest.raises(CoreasonError, match=r"agent\.json was answered with HTTP 404"):
        find_target(options(cap), "a2a")


@pytest.mark.parametrize(
    ("key", "more", "words"),
    [
        ("with space", {}, "--api-key must be"),
        ("key-1234", {"headers": {"Authorization": "x"}}, "--header must not be Authorization"),
    ],
)
def test_a_wrong_option_is_named(cap: str, key: str, more: dict[str, Any], words: str) -> None:
    with pytest.raises((Failure, ArgumentError), match=words) as caught:
        find_target(options(cap, key, **more), "cap")
    assert exit_code_of(caught.value) is ExitCode.USAGE


def test_a_card_behind_a_login_does_not_hide_a_cap_agent() -> None:
    report = {"status": "ok", "agent_id": "x", "version": "1", "uptime_seconds": 1}
    with serve() as agent:
        agent.rules.append(lambda seen: as_json(report) if seen.path == "/health" else Answer(401))
        target = find_target(options(agent.url), None)
    assert isinstance(target, CAPTarget)
    assert target.agent_id == "x"
