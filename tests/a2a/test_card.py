"""The card: where it is looked for, how long it is kept, and what is not a card."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from coreason_client._drive import Flow, Reply
from coreason_client._http._types import Headers, Request, ResponseHead, TransportFailure
from coreason_client.a2a import (
    A2AConnectionError,
    A2AError,
    A2AHTTPError,
    A2AJSONError,
    A2AResponseTooLargeError,
    AgentCard,
    AgentCardResolver,
    AsyncAgentCardResolver,
    default_async_resolver,
    default_resolver,
)
from coreason_client.a2a._card import WELL_KNOWN, CardRules, read_card
from tests.a2a.loopback import Agent, Answer, as_json, serve

NEW, OLD = WELL_KNOWN


@pytest.fixture
def agent() -> Iterator[Agent]:
    with serve() as agent:
        yield agent


def resolve(way: str, url: str, **options: Any) -> AgentCard:
    if way == "sync":
        with AgentCardResolver(**options) as resolver:
            return resolver.resolve(url)

    async def main() -> AgentCard:
        async with AsyncAgentCardResolver(**options) as resolver:
            return await resolver.resolve(url)

    return asyncio.run(main(), debug=True)


@pytest.mark.proves("A2A-card-url", "A2A-card-parse", "A2A-plan-card")
@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("way", ["sync", "async"])
def test_the_card_is_at_its_well_known_place(agent: Agent, way: str, slash: str) -> None:
    card = resolve(way, agent.url + slash, headers={"X-Team": "blue"})
    assert card.name == "Counter"
    [seen] = agent.seen
    assert (seen.method, seen.path) == ("GET", NEW)
    assert seen.headers["a2a-version"] == "1.0"
    assert seen.headers["x-team"] == "blue"


@pytest.mark.parametrize("way", ["sync", "async"])
def test_the_older_place_comes_second(agent: Agent, way: str) -> None:
    old = {"name": "Old", "url": f"{agent.url}/rpc", "protocolVersion": "0.2.6"}
    agent.rules.append(lambda seen: as_json(old) if seen.path == OLD else Answer(404))
    card = resolve(way, agent.url)
    assert card.supported_interfaces[0].protocol_version == "0.2.6"
    assert [seen.path for seen in agent.seen] == [NEW, OLD]


def test_an_address_of_a_card_is_taken_as_it_is(agent: Agent) -> None:
    agent.rules.append(lambda seen: as_json({"name": "Here"}))
    assert resolve("sync", f"{agent.url}/cards/mine.json").name == "Here"
    assert [seen.path for seen in agent.seen] == ["/cards/mine.json"]


@pytest.mark.proves("A2A-card-default")
def test_there_is_a_shared_resolver(agent: Agent) -> None:
    from coreason_client import a2a

    assert a2a.default_resolver is default_resolver
    assert default_resolver.resolve(agent.url).name == "Counter"

    async def main() -> None:
        assert (await default_async_resolver.resolve(agent.url)).name == "Counter"

    for _ in range(2):  # on one event loop after another
        asyncio.run(main(), debug=True)


PROBLEMS: dict[str, tuple[Answer, type[A2AError], str]] = {
    "not JSON": (Answer(200, {}, b"<html>"), A2AJSONError, "the card at http"),
    "a list": (as_json([]), A2AJSONError, "not a JSON object"),
    "not a card": (as_json({"nom": "x"}), A2AJSONError, "name: Field required"),
    "an odd card": (as_json({"name": "x", "skills": 7}), A2AJSONError, "skills"),
    "odd interfaces": (as_json({"name": "x", "additionalInterfaces": [7]}), A2AJSONError, "card"),
    "too large": (Answer(200, {}, b" " * 5000), A2AResponseTooLargeError, "larger than 4000"),
    "refused": (as_json({"detail": "Who?"}, 403), A2AHTTPError, "HTTP 403: Who?"),
    "nowhere": (Answer(404), A2AHTTPError, "agent.json was answered with HTTP 404"),
}


@pytest.mark.parametrize("what", PROBLEMS)
@pytest.mark.parametrize("way", ["sync", "async"])
def test_what_is_no_card_is_a_clear_error(agent: Agent, way: str, what: str) -> None:
    answer, kind, words = PROBLEMS[what]
    agent.rules.append(lambda seen: answer)
    with pytest.raises(A2AError, match=words.replace("?", r"\?")) as caught:
        resolve(way, agent.url, max_card_bytes=4000)
    assert type(caught.value) is kind


@pytest.mark.parametrize("way", ["sync", "async"])
def test_nobody_there(way: str) -> None:
    with pytest.raises(A2AConnectionError, match="no answer to GET"):
        resolve(way, "http://127.0.0.1:9")
    for odd in ("agent.example", "ftp://a.example", "http://a:b@c.example", "http://a b"):
        with pytest.raises(ValueError):
            resolve(way, odd)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(agent: Agent, status: int) -> None:
    with serve() as other:
        agent.rules.append(lambda seen: Answer(status, {"location": other.url + NEW}))
        assert resolve("sync", agent.url, headers={"X-Key": "secret"}).name == "Counter"
        assert "x-key" not in other.seen[0].headers
        other.rules.append(lambda seen: Answer(status, {"location": other.url + NEW}))
        with pytest.raises(A2AHTTPError, match=f"HTTP {status}"):
            resolve("sync", agent.url)
        agent.rules[:] = [lambda seen: Answer(status, {"location": "ftp://x"})]
        with pytest.raises(A2AHTTPError, match=f"HTTP {status}"):
            resolve("sync", agent.url)


# How long a card is kept


class Server:
    """Answers on paper, with the time in our hands."""

    def __init__(self, **headers: str) -> None:
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.requests: list[Request] = []
        self.now = 0.0
        self.rules = CardRules(clock=lambda: self.now)
        self.name = "First"

    def get(self) -> str:
        flow: Flow[AgentCard] = self.rules.resolve("https://a.example")
        result: Reply | TransportFailure | None = None
        while True:
            try:
                step = flow.send(result)
            except StopIteration as done:
                card: AgentCard = done.value
                return card.name
            assert isinstance(step, Request)
            self.requests.append(step)
            unchanged = step.headers.get("If-None-Match") == self.headers.get("etag", "none")
            head = ResponseHead(304 if unchanged else 200, Headers(self.headers.items()))
            result = Reply(head, b"" if unchanged else json.dumps({"name": self.name}).encode())


def test_a_fresh_card_is_not_asked_for() -> None:
    server = Server(cache_control="public, max-age=60", etag='W/"1"')
    assert [server.get(), server.get()] == ["First", "First"]
    assert len(server.requests) == 1
    server.now = 61
    assert server.get() == "First"
    assert server.requests[1].headers["If-None-Match"] == 'W/"1"'
    assert server.get() == "First"  # fresh again, by the 304
    assert len(server.requests) == 2
    server.now, server.name, server.headers["etag"] = 200, "Second", 'W/"2"'
    assert server.get() == "Second"


@pytest.mark.parametrize("control", ["", "no-cache", "no-cache, max-age=60", "max-age=0"])
def test_other_cards_are_asked_for_every_time(control: str) -> None:
    server = Server(cache_control=control, etag='"1"')
    assert [server.get(), server.get()] == ["First", "First"]
    assert [r.headers.get("If-None-Match") for r in server.requests] == [None, '"1"']


def test_a_card_that_is_not_to_be_kept_is_not() -> None:
    server = Server(cache_control="no-store, max-age=60", etag='"1"')
    assert [server.get(), server.get()] == ["First", "First"]
    assert [r.headers.get("If-None-Match") for r in server.requests] == [None, None]


def test_a_card_from_an_object() -> None:
    assert read_card({"name": "x"}).name == "x"
    with pytest.raises(A2AJSONError):
        read_card({"name": 7})
