"""The freshness of a card, and its revalidation: the rules, and a real server."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from coreason_client.a2a import AgentCard, AgentCardResolver, AsyncAgentCardResolver
from coreason_client.a2a._card import CachedCard, CardCache, cached_card
from tests.a2a.loopback import Agent, Answer, Seen, as_json, serve

CARD = AgentCard(name="x")
DATE = "Mon, 05 Oct 2026 10:00:00 GMT"
LATER = "Mon, 05 Oct 2026 11:00:00 GMT"


def entry(now: float = 0.0, before: CachedCard | None = None, **headers: str) -> CachedCard:
    found = cached_card(CARD, _named(headers), now, before)
    assert found is not None
    return found


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, {}),
        ({"etag": '"1"'}, {"If-None-Match": '"1"'}),
        ({"last_modified": DATE}, {"If-Modified-Since": DATE}),
        ({"etag": 'W/"1"', "last_modified": DATE}, {"If-None-Match": 'W/"1"'}),
        ({"etag": "", "last_modified": DATE}, {"If-Modified-Since": DATE}),
    ],
)
def test_the_condition_is_the_etag_or_else_the_date(headers: Any, expected: Any) -> None:
    assert entry(**headers).condition == expected


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0),
        ({"cache_control": "max-age=60"}, 60),
        ({"cache_control": 'public, Max-Age="60"'}, 60),
        ({"cache_control": "s-maxage=60"}, 0),
        ({"cache_control": "max-age=60", "age": "45"}, 15),
        ({"cache_control": "max-age=60", "age": "soon"}, 60),
        ({"cache_control": "max-age=60", "age": "90"}, -30),
        ({"cache_control": "no-cache, max-age=60"}, 0),
        ({"cache_control": "max-age=60", "vary": "*"}, 0),
        ({"cache_control": "max-age=60", "vary": "A2A-Version, Accept"}, 60),
    ],
)
def test_how_long_a_card_is_fresh(headers: Any, seconds: float) -> None:
    assert entry(now=100.0, **headers).fresh_until == 100.0 + seconds


def test_a_304_replaces_only_the_headers_that_it_has() -> None:
    first = entry(cache_control="max-age=60", etag='"1"', last_modified=DATE)
    second = entry(100.0, first)
    assert (second.fresh_until, second.headers) == (160.0, first.headers)
    third = entry(200.0, second, cache_control="max-age=5", etag='"2"')
    assert third.fresh_until == 205.0
    assert third.condition == {"If-None-Match": '"2"'}
    assert third.headers["last-modified"] == DATE


def test_no_store_removes_the_card() -> None:
    cache, key = CardCache(), ("https://a.example", b"")
    cache.put(key, entry())
    assert cache.get(key) is not None
    cache.put(key, cached_card(CARD, {"cache-control": "No-Store"}, 0.0))
    assert cache.get(key) is None


# A real server


@pytest.fixture
def agent() -> Iterator[Agent]:
    with serve() as agent:
        yield agent


def resolve_twice(way: str, url: str, between: Any = None, **options: Any) -> list[str]:
    names = []
    if way == "sync":
        with AgentCardResolver(**options) as resolver:
            names.append(resolver.resolve(url).name)
            if between is not None:
                between()
            names.append(resolver.resolve(url).name)
        return names

    async def main() -> None:
        async with AsyncAgentCardResolver(**options) as resolver:
            names.append((await resolver.resolve(url)).name)
            if between is not None:
                between()
            names.append((await resolver.resolve(url)).name)

    asyncio.run(main(), debug=True)
    return names


WAYS = pytest.mark.parametrize("way", ["sync", "async"])


def dated(agent: Agent, state: dict[str, str]) -> None:
    """Serve the card with a date only, and a 304 to those who know that date."""

    def rule(seen: Seen) -> Answer:
        assert seen.headers["a2a-version"] == "1.0"
        if seen.headers.get("if-modified-since") == state["date"]:
            return Answer(304, {"last-modified": state["date"]})
        card = {**agent.card(), "name": state["name"]}
        return as_json(card, last_modified=state["date"], vary="A2A-Version")

    agent.rules.append(rule)


@WAYS
def test_a_card_without_an_etag_is_revalidated_with_its_date(agent: Agent, way: str) -> None:
    state = {"date": DATE, "name": "First"}
    dated(agent, state)
    assert resolve_twice(way, agent.url) == ["First", "First"]
    sent = [seen.headers.get("if-modified-since") for seen in agent.seen]
    assert sent == [None, DATE]
    assert all("if-none-match" not in seen.headers for seen in agent.seen)


@WAYS
def test_a_changed_card_is_fetched(agent: Agent, way: str) -> None:
    state = {"date": DATE, "name": "First"}
    dated(agent, state)
    changed = {"date": LATER, "name": "Second"}
    assert resolve_twice(way, agent.url, lambda: state.update(changed)) == ["First", "Second"]


@WAYS
def test_a_challenged_request_has_no_condition(agent: Agent, way: str) -> None:
    """A server may answer the condition before it checks the credential of the second request."""
    calls: list[dict[str, str]] = []

    def rule(seen: Seen) -> Answer:
        calls.append(seen.headers)
        if "authorization" not in seen.headers:
            return Answer(401, {"www-authenticate": "Bearer"})
        return as_json(agent.card(), last_modified=DATE)

    agent.rules.append(rule)
    assert resolve_twice(way, agent.url, auth="a-token") == ["Counter"] * 2
    sent = [("authorization" in c, c.get("if-modified-since")) for c in calls]
    assert sent == [(False, None), (True, None), (False, DATE), (True, None)]
