"""Credentials stay at the origin that the caller named: the rule as a table, and over sockets."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client._http._types import origin
from coreason_client.a2a import (
    A2AClient,
    A2AConnectionError,
    A2ANoSupportedInterfaceError,
    A2AOriginError,
    AgentCard,
    AgentCardResolver,
    AgentInterface,
    AsyncA2AClient,
    AsyncAgentCardResolver,
    CallInfo,
)
from coreason_client.a2a._route import Origins, origin_of
from tests.a2a.loopback import Agent, Answer, serve

SECRET = "tell-no-one"


@pytest.fixture
def agent() -> Iterator[Agent]:
    with serve() as agent:
        yield agent


@pytest.fixture
def other() -> Iterator[Agent]:
    """An agent at another port, which is another origin."""
    with serve() as other:
        yield other


def interfaces(*urls: str) -> list[dict[str, str]]:
    return [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"} for url in urls]


def connect(
    way: str, url: str, use: Any = lambda client: client.send_message("say"), **options: Any
) -> Any:
    """Connect, do something and close."""
    if way == "sync":
        with A2AClient.connect(url, **options) as client:
            return use(client)

    async def main() -> Any:
        async with await AsyncA2AClient.connect(url, **options) as client:
            return await use(client)

    return asyncio.run(main(), debug=True)


WAYS = pytest.mark.parametrize("way", ["sync", "async"])

# The rule.


@pytest.mark.parametrize(
    ("named", "found", "same"),
    [
        ("https://a.example", "https://a.example/rpc", True),
        ("https://a.example", "https://A.example:443/other", True),
        ("https://a.example", "https://a.example:8443", False),
        ("https://a.example", "https://b.example", False),
        ("https://a.example", "https://x.a.example", False),
        ("https://a.example", "http://a.example", False),
        ("https://a.example:80", "https://a.example:443", False),
        # Up to https at the same host is no other agent.
        ("http://a.example", "https://a.example", True),
        ("http://a.example", "https://b.example", False),
        ("http://a.example:8080", "https://a.example", False),
        ("http://a.example", "https://a.example:8443", False),
        # The names of this machine.
        ("http://localhost:9999", "http://127.0.0.1:9999/rpc", True),
        ("http://127.0.0.1:9999", "http://0.0.0.0:9999", True),
        ("http://127.0.0.1:9999", "http://[::1]:9999", True),
        ("http://127.0.0.1:9999", "http://localhost:9998", False),
        ("https://localhost:9999", "http://localhost:9999", False),
        ("http://a.example:9999", "http://localhost:9999", False),
    ],
)
def test_which_origins_are_the_same(named: str, found: str, same: bool) -> None:
    assert Origins.from_options(named, [], has_secrets=True).is_trusted(found) is same
    assert Origins.from_options(named, [], has_secrets=True).may_call(found) is same
    is_downgrade = named.startswith("https") and found.startswith("http:")
    assert Origins.from_options(named, [], has_secrets=False).may_call(found) is not is_downgrade
    for has_secrets in (True, False):
        listed = Origins.from_options(named, [found], has_secrets=has_secrets)
        assert listed.is_trusted(found)
        assert listed.may_call(found)


hosts = st.sampled_from(["a.example", "b.example", "localhost", "127.0.0.1"])
urls = st.builds(
    "{}://{}:{}/x".format, st.sampled_from(["http", "https"]), hosts, st.sampled_from([80, 443, 9])
)


@given(urls, urls, st.lists(urls, max_size=2))
def test_secrets_never_go_to_a_host_that_nobody_named(
    named: str, found: str, allowed: list[str]
) -> None:
    if Origins.from_options(named, allowed, has_secrets=True).may_call(found):
        this_machine = {"localhost", "127.0.0.1"}
        hosts = {origin(url)[1] for url in (named, *allowed)}
        hosts |= this_machine if hosts & this_machine else set()
        assert origin(found)[1] in hosts
        if origin(found)[0] == "http":
            assert "http" in {origin(url)[0] for url in (named, *allowed)}


def test_origins_are_shown_without_what_they_have_by_default() -> None:
    assert origin_of("https://A.example:443/path?key=1") == "https://a.example"
    assert origin_of("http://[::1]:8000/") == "http://[::1]:8000"


@pytest.mark.parametrize(
    "odd", ["https://a.example", ["a.example"], ["https://u:p@a.example"], [7]]
)
def test_what_is_no_list_of_origins_is_refused_before_anything_is_sent(odd: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        A2AClient.connect("http://127.0.0.1:9", interface_origins=odd)


# Over sockets.


@pytest.mark.proves("R39a")
@WAYS
@pytest.mark.parametrize(
    "secret",
    [{"auth": SECRET}, {"headers": {"X-Key": SECRET}}, {"auth": lambda: SECRET}],
    ids=["auth", "headers", "callable"],
)
def test_a_card_that_points_elsewhere_gets_nothing(
    agent: Agent, other: Agent, way: str, secret: dict[str, Any]
) -> None:
    agent.card_extra = {"supportedInterfaces": interfaces(f"{other.url}/rpc")}
    with pytest.raises(A2AOriginError) as caught:
        connect(way, agent.url, **secret)
    error = caught.value
    assert (error.named, error.found) == (agent.url, (other.url,))
    for part in (agent.url, other.url, "interface_origins"):
        assert part in str(error)
    assert isinstance(error, A2ANoSupportedInterfaceError)
    assert other.seen == []
    assert SECRET not in str(error)


@pytest.mark.proves("R39a")
@WAYS
def test_an_origin_that_the_caller_allows_gets_credentials(
    agent: Agent, other: Agent, way: str
) -> None:
    agent.card_extra = {"supportedInterfaces": interfaces(f"{other.url}/rpc")}
    options: Any = {"auth": SECRET, "headers": {"X-Key": "blue"}, "interface_origins": [other.url]}
    assert connect(way, agent.url, **options).text == "Said."
    [seen] = other.seen
    assert seen.headers["authorization"] == f"Bearer {SECRET}"
    assert seen.headers["x-key"] == "blue"


@WAYS
def test_the_interface_at_home_is_used_where_there_is_one(
    agent: Agent, other: Agent, way: str
) -> None:
    urls = (f"{other.url}/rpc", f"{agent.url}/rpc")
    agent.card_extra = {"supportedInterfaces": interfaces(*urls)}
    assert connect(way, agent.url, auth=SECRET).text == "Said."
    assert other.seen == []


@WAYS
def test_who_gives_no_secrets_may_be_sent_elsewhere_without_an_identity(
    agent: Agent, other: Agent, way: str
) -> None:
    agent.card_extra = {"supportedInterfaces": interfaces(f"{other.url}/rpc")}
    secrets: Any = {"headers": {"X-Key": SECRET}, "auth": ("user", SECRET)}
    if way == "sync":
        with (
            httpx2.Client(**secrets, cookies={"id": SECRET}) as own,
            A2AClient.connect(agent.url, http_client=own) as client,
        ):
            assert client.send_message("say").text == "Said."
    else:

        async def main() -> None:
            async with (
                httpx2.AsyncClient(**secrets, cookies={"id": SECRET}) as own,
                await AsyncA2AClient.connect(agent.url, http_client=own) as client,
            ):
                assert (await client.send_message("say")).text == "Said."

        asyncio.run(main())
    assert agent.seen[0].headers["x-key"] == SECRET
    [seen] = other.seen
    assert SECRET not in str(seen.headers)
    assert {"authorization", "cookie", "x-key"}.isdisjoint(seen.headers)
    assert seen.headers["a2a-version"] == "1.0"


@WAYS
def test_headers_of_a_call_do_not_go_elsewhere_either(agent: Agent, other: Agent, way: str) -> None:
    agent.card_extra = {"supportedInterfaces": interfaces(f"{other.url}/rpc")}
    with pytest.raises(A2AOriginError, match="headers are not sent there"):
        connect(way, agent.url, lambda c: c.send_message("say", headers={"X-Key": SECRET}))

    def add(call: CallInfo) -> None:
        call.headers["X-Key"] = SECRET

    with pytest.raises(A2AOriginError, match="interface_origins"):
        connect(way, agent.url, on_request=add)
    assert other.seen == []


@WAYS
def test_a_resolved_card_remembers_where_it_came_from(agent: Agent, other: Agent, way: str) -> None:
    agent.card_extra = {"supportedInterfaces": interfaces(f"{other.url}/rpc")}
    if way == "sync":
        with AgentCardResolver() as resolver:
            card = resolver.resolve(agent.url)
    else:

        async def main() -> AgentCard:
            async with AsyncAgentCardResolver() as resolver:
                return await resolver.resolve(agent.url)

        card = asyncio.run(main())
    kind: Any = A2AClient if way == "sync" else AsyncA2AClient
    with pytest.raises(A2AOriginError):
        kind.from_agent_card(card, auth=SECRET)
    with pytest.raises(A2AOriginError):
        kind.from_agent_card(card.model_copy(update={"name": "changed"}), auth=SECRET)


def test_a_redirect_of_the_card_names_no_other_origin(agent: Agent, other: Agent) -> None:
    agent.rules.append(lambda seen: Answer(302, {"location": f"{other.url}{seen.path}"}))
    with pytest.raises(A2AOriginError) as caught:
        A2AClient.connect(agent.url, auth=SECRET, headers={"X-Key": SECRET})
    assert caught.value.named == agent.url
    assert [seen.path for seen in other.seen] == ["/.well-known/agent-card.json"]
    assert SECRET not in str(other.seen[0].headers)


def test_the_first_interface_of_a_card_of_the_callers_own_is_the_named_origin(
    agent: Agent, other: Agent
) -> None:
    found = [
        AgentInterface(url=f"{url}/rpc", protocol_binding="JSONRPC", protocol_version="1.0")
        for url in ("http://127.0.0.1:9", other.url)
    ]
    card = AgentCard(name="x", supported_interfaces=found)
    with (
        A2AClient.from_agent_card(card, auth=SECRET, max_retries=0) as client,
        pytest.raises(A2AConnectionError, match=r"127\.0\.0\.1:9"),
    ):
        client.send_message("say")
    assert other.seen == []
    allowed: Any = {"interface_origins": [other.url]}
    with A2AClient.from_agent_card(card, auth=SECRET, max_retries=0, **allowed) as client:
        assert client.send_message("say").text == "Said."


@pytest.mark.proves("R39b")
def test_https_does_not_lead_to_http() -> None:
    card = AgentCard.model_validate(
        {"name": "x", "supportedInterfaces": interfaces("http://agent.example/rpc")}
    )
    card._fetched_from = "https://agent.example"
    with pytest.raises(A2AOriginError, match="an https address is not called over http"):
        A2AClient.from_agent_card(card)
    with A2AClient.from_agent_card(card, interface_origins=["http://agent.example"]) as client:
        assert client.card is card


def test_other_names_of_this_machine(agent: Agent) -> None:
    named = agent.url.replace("127.0.0.1", "localhost")
    with A2AClient.connect(named, auth=SECRET) as client:
        assert client.card is not None
        assert client.card.supported_interfaces[0].url == f"{agent.url}/rpc"
        assert client.send_message("say").text == "Said."
    assert agent.seen[-1].headers["authorization"] == f"Bearer {SECRET}"
