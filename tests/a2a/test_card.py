"""The card: where it is looked for, how long it is kept, and what is not a card."""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from coreason_client._drive import Flow, Reply, Wait
from coreason_client._http._types import (
    FailureKind,
    Headers,
    Request,
    ResponseHead,
    TransportFailure,
)
from coreason_client._retry import Backoff
from coreason_client.a2a import (
    A2AClient,
    A2AConnectionError,
    A2AError,
    A2AHTTPError,
    A2AJSONError,
    A2AResponseTooLargeError,
    AgentCard,
    AgentCardResolver,
    AsyncA2AClient,
    AsyncAgentCardResolver,
    aclient,
    client,
    default_async_resolver,
    default_resolver,
)
from coreason_client.a2a._card import WELL_KNOWN, CardCache, CardRules, read_card
from coreason_client.testing import virtual_clock
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
    "nowhere": (Answer(404), A2AHTTPError, "there is no agent card at this address: GET"),
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
    with virtual_clock(), pytest.raises(A2AConnectionError, match="no answer to GET"):
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


# Cards that need a credential.

SECRET = "tell-no-one"


def guarded(agent: Agent, expected: str, challenge: str = "Bearer", status: int = 401) -> None:
    """Show the card to those who send this `Authorization`."""

    def rule(seen: Any) -> Answer | None:
        if seen.path != NEW or seen.headers.get("authorization") == expected:
            return None
        return Answer(status, {"www-authenticate": challenge}, b"no " + SECRET.encode())

    agent.rules.append(rule)


def connect(way: str, url: str, **options: Any) -> AgentCard:
    async def main() -> AgentCard:
        async with await AsyncA2AClient.connect(url, **options) as client:
            assert client.card is not None
            return client.card

    if way == "async":
        return asyncio.run(main(), debug=True)
    with A2AClient.connect(url, **options) as client:
        assert client.card is not None
        return client.card


WAYS = pytest.mark.parametrize("way", ["sync", "async"])


@WAYS
@pytest.mark.parametrize(
    ("auth", "challenge", "expected", "status"),
    [
        (SECRET, "Bearer realm=x", f"Bearer {SECRET}", 401),
        (SECRET, "", f"Bearer {SECRET}", 403),
        (lambda: SECRET, "Bearer", f"Bearer {SECRET}", 401),
        ("user:pass", 'Basic realm="x"', "Basic dXNlcjpwYXNz", 401),
    ],
)
def test_a_card_that_needs_a_credential_gets_it(
    agent: Agent, way: str, auth: Any, challenge: str, expected: str, status: int
) -> None:
    guarded(agent, expected, challenge, status)
    assert connect(way, agent.url, auth=auth, headers={"X-Team": "blue"}).name == "Counter"
    assert resolve(way, agent.url, auth=auth, headers={"X-Team": "blue"}).name == "Counter"
    assert [seen.headers.get("authorization") for seen in agent.seen] == [None, expected] * 2
    assert {seen.headers["x-team"] for seen in agent.seen} == {"blue"}


@WAYS
def test_a_mapping_of_one_credential_is_enough(agent: Agent, way: str) -> None:
    guarded(agent, f"Bearer {SECRET}")
    agent.card_extra = {
        "securitySchemes": {"n": {"type": "http", "scheme": "bearer"}},
        "security": [{"n": []}],
    }
    assert connect(way, agent.url, auth={"n": SECRET}).name == "Counter"


@WAYS
def test_a_card_that_anybody_may_see_is_asked_for_without_the_credential(
    agent: Agent, way: str
) -> None:
    connect(way, agent.url, auth=SECRET)
    [seen] = agent.seen
    assert "authorization" not in seen.headers


@WAYS
def test_a_card_that_is_refused_for_good(agent: Agent, way: str) -> None:
    guarded(agent, "Bearer other")
    for options, requests in (({"auth": SECRET}, 2), ({}, 1)):
        del agent.seen[:]
        with pytest.raises(A2AHTTPError) as caught:
            connect(way, agent.url, **options)
        assert caught.value.status == 401
        assert SECRET not in str(caught.value)
        assert len(agent.seen) == requests


@pytest.mark.parametrize("way", ["sync", "async"])
def test_an_error_of_a_card_quotes_neither_the_credential_nor_a_secret_header(
    agent: Agent, way: str
) -> None:
    agent.rules.append(lambda seen: as_json({"detail": f"{SECRET} key-of-header no"}, 403))
    with pytest.raises(A2AHTTPError, match=r"HTTP 403: \*\*\* \*\*\* no$"):
        resolve(way, agent.url, auth=SECRET, headers={"X-Api-Key": "key-of-header"})


@WAYS
def test_the_credential_of_a_card_stays_at_its_origin(agent: Agent, way: str) -> None:
    with serve() as other:
        guarded(other, f"Bearer {SECRET}")
        agent.rules.append(lambda seen: Answer(302, {"location": f"{other.url}{seen.path}"}))
        with pytest.raises(A2AHTTPError):
            connect(way, agent.url, auth=SECRET, headers={"X-Key": SECRET})
        assert other.seen
        for seen in other.seen:
            assert SECRET not in str(seen.headers)


@WAYS
def test_a_card_fetched_with_a_credential_is_not_kept_for_others(agent: Agent, way: str) -> None:
    guarded(agent, f"Bearer {SECRET}")
    agent_card = agent.card

    def rule(seen: Any) -> Answer:
        return as_json(agent_card(), cache_control="max-age=60", etag='"v1"')

    agent.rules.append(rule)
    connect(way, agent.url, auth=SECRET)
    with pytest.raises(A2AHTTPError):
        connect(way, agent.url)


# Failures in passing.


class Clockwork:
    """Runs a flow against answers on paper, and records the waits."""

    def __init__(self, *answers: Reply | TransportFailure) -> None:
        self.answers = list(answers)
        self.waits: list[float] = []
        self.requests = 0

    def run(self, rules: CardRules) -> AgentCard:
        flow = rules.resolve("https://agent.example")
        answer: Reply | TransportFailure | None = None
        try:
            while True:
                step = flow.send(answer)
                if isinstance(step, Wait):
                    self.waits.append(step.seconds)
                    answer = None
                else:
                    self.requests += 1
                    answer = self.answers.pop(0)
        except StopIteration as done:
            card: AgentCard = done.value
            return card


def reply(status: int, body: bytes = b'{"name": "x"}', **headers: str) -> Reply:
    pairs = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return Reply(ResponseHead(status, Headers(pairs)), body)


BROKEN = TransportFailure(FailureKind.BROKEN, "cut")
REFUSED = TransportFailure(FailureKind.CONNECT, "connection refused")


def rules(**options: Any) -> CardRules:
    return CardRules(jitter=lambda: 0.0, **options)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_passing_statuses_are_tried_again(status: int) -> None:
    work = Clockwork(reply(status), reply(status, retry_after="7"), BROKEN, reply(200))
    assert work.run(rules()).name == "x"
    assert work.waits == [0.5, 7.0, 2.0]


def test_the_budget_and_the_longest_wait() -> None:
    work = Clockwork(*[reply(503)] * 9)
    with pytest.raises(A2AHTTPError) as caught:
        work.run(rules(max_retries=2))
    assert (caught.value.status, work.requests) == (503, 3)
    work = Clockwork(reply(503, retry_after="61"))
    with pytest.raises(A2AHTTPError) as caught:
        work.run(rules())
    assert (caught.value.retry_after, work.waits) == (61.0, [])


@pytest.mark.parametrize("failure", [BROKEN, REFUSED], ids=["broken", "refused"])
def test_failures_of_a_connection_are_retried_within_the_budget(failure: TransportFailure) -> None:
    work = Clockwork(failure, failure, failure, reply(200))
    assert work.run(rules()).name == "x"
    assert work.waits == [0.5, 1.0, 2.0]
    work = Clockwork(*[failure] * 3)
    with pytest.raises(A2AConnectionError) as caught:
        work.run(rules(max_retries=2))
    assert caught.value.attempts == 3
    work = Clockwork(failure)
    with pytest.raises(A2AConnectionError):
        work.run(rules(max_retries=0))
    assert work.waits == []


@pytest.mark.parametrize(
    "kind",
    [kind for kind in FailureKind if kind not in (BROKEN.kind, REFUSED.kind)],
    ids=str,
)
def test_other_failures_are_final(kind: FailureKind) -> None:
    work = Clockwork(TransportFailure(kind, "no"))
    with pytest.raises(A2AConnectionError):
        work.run(rules())
    assert work.requests == 1


@WAYS
def test_connecting_survives_a_server_that_is_starting(
    agent: Agent, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([Answer(503, {"retry-after-ms": "1"}), Answer(429, {"retry-after-ms": "1"})])
    agent.rules.append(lambda seen: next(answers, None))
    for module in (client, aclient):
        monkeypatch.setattr(module, "Backoff", lambda **given: Backoff(0.01, 0.02, **given))
    assert connect(way, agent.url).name == "Counter"
    assert len(agent.seen) == 3


@WAYS
def test_connecting_survives_connections_that_are_refused(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        reserved = stack.enter_context(socket.socket())
        reserved.bind(("127.0.0.1", 0))  # not listening: it refuses connections
        port = reserved.getsockname()[1]
        started: list[Agent] = []

        class StartingServer(Backoff):
            """The server starts to listen after some refusals, more than the default budget."""

            def delay(self, failures: int, jitter: Callable[[], float]) -> float:
                if failures == 5:
                    reserved.close()
                    started.append(stack.enter_context(serve(port)))
                return 0.0

        for module in (client, aclient):
            monkeypatch.setattr(module, "Backoff", StartingServer)
        url = f"http://127.0.0.1:{port}"
        assert connect(way, url, max_retries=30).name == "Counter"
        assert len(started) == len(started[0].seen) == 1


def test_the_cache_is_bounded() -> None:
    cache = CardCache()
    for number in range(1000):
        answers = Clockwork(reply(200, cache_control="max-age=60"))
        answers.run(rules(cache=cache, headers={"X-N": str(number)}))
    assert len(cache._cards) == 256
    newest = Clockwork()
    assert newest.run(rules(cache=cache, headers={"x-n": "999"})).name == "x"
    assert newest.requests == 0
    assert "X-N" not in repr(cache._cards)
