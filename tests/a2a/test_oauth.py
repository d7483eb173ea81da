"""OAuth 2 client credentials: the machine with a clock of the test, and real servers."""

import asyncio
import base64
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs

import anyio
import httpx2
import pytest

from coreason_client import ArgumentError
from coreason_client._drive import Reply, Wait
from coreason_client._http._types import (
    FailureKind,
    Headers,
    Request,
    ResponseHead,
    TransportFailure,
)
from coreason_client.a2a import (
    A2AClient,
    A2AError,
    A2AHTTPError,
    A2ATokenError,
    AsyncA2AClient,
    ClientCredentials,
)
from coreason_client.a2a._auth import credentials
from coreason_client.a2a._oauth import TokenCache
from tests.a2a.loopback import Agent, Answer, Seen, as_json, serve

SECRET = "s3cret/of the+application"
URL = "https://login.example/token"
LIMIT = 20.0


def given(url: str = URL, **options: Any) -> ClientCredentials:
    return ClientCredentials(url, "my app", SECRET, **options)


# The token request


def request_of(**options: Any) -> tuple[Request, dict[str, list[str]]]:
    request = next(given(**options)._cache.fetch())
    assert isinstance(request, Request)
    return request, parse_qs(request.content.decode(), strict_parsing=True)


def test_the_secret_is_in_the_header() -> None:
    request, form = request_of()
    assert (request.method, request.url) == ("POST", URL)
    assert request.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert form == {"grant_type": ["client_credentials"]}
    scheme, _, pair = request.headers["Authorization"].partition(" ")
    # Form-encoded before Base64 (RFC 6749, section 2.3.1).
    expected = b"my+app:s3cret%2Fof+the%2Bapplication"
    assert (scheme, base64.b64decode(pair)) == ("Basic", expected)
    assert request.without_client_defaults  # nothing that is meant for the agent


def test_the_secret_can_be_in_the_body() -> None:
    request, form = request_of(send_in_body=True)
    assert "Authorization" not in request.headers
    assert form["client_id"] == ["my app"]
    assert form["client_secret"] == [SECRET]


@pytest.mark.parametrize("scope", ["read write", ["read", "write"]])
def test_scopes_and_parameters(scope: Any) -> None:
    _, form = request_of(scope=scope, parameters={"audience": "https://a.example"})
    assert form["scope"] == ["read write"]
    assert form["audience"] == ["https://a.example"]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("login.example", "id", SECRET), "token_url"),
        ((f"https://id:{SECRET}@login.example", "id", SECRET), "token_url"),
        ((URL, "", SECRET), "client_id"),
        ((URL, "id", ""), "client_secret"),
    ],
)
def test_wrong_arguments(arguments: Any, name: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        ClientCredentials(*arguments)
    assert caught.value.argument == name
    assert SECRET not in str(caught.value)


def test_a_secret_that_is_not_text_and_a_wrong_timeout() -> None:
    wrong: Any = 7
    with pytest.raises(TypeError, match="client_secret must be a string, got int"):
        ClientCredentials(URL, "id", wrong)
    with pytest.raises(ArgumentError, match="timeout"):
        given(timeout=0)


def test_the_secret_is_in_no_repr() -> None:
    source = given()
    next(source._cache.fetch())
    assert repr(source) == "ClientCredentials('https://login.example/token', 'my app', ***)"
    for thing in (source, source._cache, source._cache._request, credentials(source)):
        assert "s3cret" not in repr(thing)
        assert base64.b64encode(b"my+app:")[:8].decode() not in repr(thing)


# The cache


def reply(body: Any, status: int = 200, **headers: str) -> Reply:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Reply(ResponseHead(status, Headers(headers.items())), data)


def token(value: str = "token-1", **members: Any) -> Reply:
    return reply({"access_token": value, "token_type": "Bearer", **members})


def run(cache: TokenCache, *results: Any) -> list[Any]:
    """Run a token request with these results; return its steps."""
    flow, steps = cache.fetch(), []
    pending = iter(results)
    try:
        step = next(flow)
        while True:
            steps.append(step)
            step = flow.send(None if isinstance(step, Wait) else next(pending))
    except StopIteration:
        return steps


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("members", "usable", "unusable"),
    [
        ({"expires_in": 3600}, 3569.0, 3570.0),  # 30 seconds before the end
        ({"expires_in": "3600"}, 3569.0, 3570.0),
        ({"expires_in": 60}, 53.9, 54.0),  # a tenth of the lifetime
        ({"expires_in": 0}, None, 0.0),
        ({}, 1e9, None),  # until a 401
        ({"expires_in": None}, 1e9, None),
        ({"expires_in": "soon"}, 1e9, None),
        ({"expires_in": -5}, 1e9, None),
        ({"expires_in": True}, 1e9, None),
    ],
)
def test_a_token_is_used_until_shortly_before_it_expires(
    members: Any, usable: float | None, unusable: float | None
) -> None:
    cache, clock = given()._cache, Clock()
    cache.clock = clock
    assert not cache.is_usable(())
    run(cache, token(**members))
    assert cache.get() == cache.value == "token-1"
    for seconds, expected in ((usable, True), (unusable, False)):
        if seconds is not None:
            clock.now = 1000.0 + seconds
            assert cache.is_usable(()) is expected


def test_a_rejected_token_is_not_used_but_a_newer_one_is() -> None:
    cache = given()._cache
    run(cache, token("first"))
    assert not cache.is_usable(("first",))
    run(cache, token("second"))
    assert cache.is_usable(("first",))


REFUSED: dict[str, tuple[Reply, str | None, str]] = {
    "an OAuth error": (
        reply({"error": "invalid_client", "error_description": f"{SECRET}?"}, 401),
        "invalid_client",
        "HTTP 401, invalid_client: ***?",
    ),
    "no JSON": (reply(b"<html>", 403), None, "HTTP 403"),
    "a redirect": (reply(b"", 307, location="https://evil.example"), None, "HTTP 307"),
    "odd members": (reply({"error": 7, "error_description": []}, 400), None, "HTTP 400"),
    "a list": (reply([], 400), None, "HTTP 400"),
    "no token": (reply({}), None, "no valid access_token"),
    "an empty token": (token(""), None, "no valid access_token"),
    "a token in two lines": (token("a\r\nX-Evil: 1"), None, "no valid access_token"),
    "a token that is not ASCII": (token("ü"), None, "no valid access_token"),
    "a number": (token(7), None, "no valid access_token"),  # type: ignore[arg-type]
    "another type": (token(token_type="mac"), None, "not of type Bearer"),
    "not JSON": (reply(b"access_token=x"), None, "no valid access_token"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_an_error_without_secrets(name: str) -> None:
    answer, code, words = REFUSED[name]
    cache = given()._cache
    with pytest.raises(A2ATokenError) as caught:
        run(cache, answer)
    assert str(caught.value).startswith(f"no token was issued by {URL}: ")
    assert words in str(caught.value)
    assert (caught.value.status, caught.value.code) == (answer.head.status, code)
    assert SECRET not in str(caught.value)
    assert cache.value is None


def test_a_long_explanation_is_shortened() -> None:
    with pytest.raises(A2ATokenError) as caught:
        run(given()._cache, reply({"error": "x", "error_description": "y" * 5000}, 400))
    assert len(str(caught.value)) < 500


def test_the_encoded_secret_is_redacted_too() -> None:
    cache = given()._cache
    header = cache._request.headers["Authorization"]
    text = f"{header} and {cache._request.content.decode()} and s3cret%2Fof+the%2Bapplication"
    with pytest.raises(A2ATokenError) as caught:
        run(cache, reply({"error": "x", "error_description": text}, 400))
    assert "s3cret" not in str(caught.value)
    assert header.split()[1] not in str(caught.value)


def test_transient_failures_are_retried() -> None:
    cache = given()._cache
    cache.jitter = lambda: 0.0
    broken = TransportFailure(FailureKind.BROKEN, "broken")
    steps = run(cache, broken, reply(b"", 503, **{"retry-after": "7"}), token())
    assert [step.seconds for step in steps if isinstance(step, Wait)] == [0.5, 7.0]
    assert cache.value == "token-1"


def test_retries_are_limited() -> None:
    cache = given()._cache
    with pytest.raises(A2ATokenError, match="HTTP 503"):
        run(cache, *[reply(b"", 503)] * 3)
    failure = TransportFailure(FailureKind.CONNECT, "nobody listens")
    with pytest.raises(A2ATokenError, match="nobody listens") as caught:
        run(cache, *[failure] * 3)
    assert caught.value.status is None
    with pytest.raises(A2ATokenError, match="certificate"):
        run(cache, TransportFailure(FailureKind.CERTIFICATE, "certificate"))
    assert cache.attempts == 3


def test_a_failure_is_shared_with_the_calls_that_waited_for_it() -> None:
    cache = given()._cache
    before = cache.attempts
    with pytest.raises(A2ATokenError) as first:
        run(cache, reply({"error": "invalid_client"}, 401))
    with pytest.raises(A2ATokenError) as second:
        cache.raise_failure_since(before)
    assert second.value is not first.value
    assert (str(second.value), second.value.code) == (str(first.value), "invalid_client")
    cache.raise_failure_since(cache.attempts)  # a call that came later tries again
    run(cache, token())
    cache.raise_failure_since(before)


# Real servers


class Login:
    """A token endpoint on an agent: issues numbered tokens, of which it accepts the last."""

    def __init__(self, agent: Agent) -> None:
        self.issued = 0
        self.requests: list[Seen] = []
        self.answer: Callable[[], Answer | None] = lambda: None
        self.card_is_protected = False
        agent.rules.append(self.rule)
        self._lock = threading.Lock()

    def rule(self, seen: Seen) -> Answer | None:
        if seen.path == "/token":
            with self._lock:
                self.requests.append(seen)
                refused = self.answer()
                if refused is not None:
                    return refused
                self.issued += 1
                body = {"access_token": f"token-{self.issued}", "token_type": "bearer"}
                return as_json({**body, "expires_in": 3600})
        is_open = "well-known" in seen.path and not self.card_is_protected
        if is_open or seen.headers.get("authorization") == f"Bearer token-{self.issued}":
            return None
        return Answer(401, {"www-authenticate": "Basic"}, b"")


@pytest.fixture
def agent() -> Iterator[Agent]:
    with serve() as agent:
        yield agent


def source_of(agent: Agent) -> ClientCredentials:
    return given(f"{agent.url}/token")


def say(way: str, agent: Agent, auth: Any, times: int = 1, between: Any = None) -> list[str]:
    """Connect, and send messages one after the other."""
    texts = []
    if way == "sync":
        with A2AClient.connect(agent.url, auth=auth) as client:
            for _ in range(times):
                texts.append(client.send_message("say").text)
                if between is not None:
                    between()
        return texts

    async def main() -> None:
        async with await AsyncA2AClient.connect(agent.url, auth=auth) as client:
            for _ in range(times):
                texts.append((await client.send_message("say")).text)
                if between is not None:
                    between()

    anyio.run(main, backend=way)
    return texts


WAYS = ["sync", "asyncio", "trio"]


@pytest.mark.parametrize("way", WAYS)
def test_a_token_is_requested_once_and_shared_by_clients(agent: Agent, way: str) -> None:
    login, source = Login(agent), source_of(agent)
    assert say(way, agent, source, times=3) == ["Said."] * 3
    assert say(way, agent, source) == ["Said."]
    assert len(login.requests) == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_401_leads_to_one_new_token(agent: Agent, way: str) -> None:
    login = Login(agent)

    def revoke() -> None:
        login.issued += 1  # the token that the client has is not the last one any more

    assert say(way, agent, source_of(agent), times=2, between=revoke) == ["Said."] * 2
    assert len(login.requests) == 2


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_that_rejects_every_token_is_an_error(agent: Agent, way: str) -> None:
    login = Login(agent)
    agent.rules.insert(0, lambda seen: Answer(401) if seen.path == "/rpc" else None)
    with pytest.raises(A2AHTTPError) as caught:
        say(way, agent, source_of(agent))
    assert caught.value.status == 401
    assert len(login.requests) == 2


@pytest.mark.parametrize("way", WAYS)
def test_a_refused_application_is_an_error_without_the_secret(agent: Agent, way: str) -> None:
    login = Login(agent)
    body = {"error": "invalid_client", "error_description": f"not {SECRET}"}
    login.answer = lambda: as_json(body, 401)
    with pytest.raises(A2ATokenError, match=r"invalid_client: not \*\*\*") as caught:
        say(way, agent, source_of(agent))
    assert caught.value.code == "invalid_client"
    assert [seen.path for seen in agent.seen] == ["/.well-known/agent-card.json", "/token"]


@pytest.mark.parametrize("way", WAYS)
def test_a_card_that_requires_a_token_gets_it_as_a_bearer_token(agent: Agent, way: str) -> None:
    login = Login(agent)
    login.card_is_protected = True  # and its challenge names Basic
    assert say(way, agent, source_of(agent)) == ["Said."]
    assert len(login.requests) == 1


@pytest.mark.parametrize("way", WAYS)
def test_it_is_the_credential_of_a_scheme(agent: Agent, way: str) -> None:
    login = Login(agent)
    flows = {"clientCredentials": {"tokenUrl": "https://evil.example/token", "scopes": {}}}
    agent.card_extra = {
        "securitySchemes": {
            "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
            "login": {"oauth2SecurityScheme": {"flows": flows}},
        },
        "securityRequirements": [{"schemes": {"key": {}, "login": {"list": ["read"]}}}],
    }
    assert say(way, agent, {"key": "the-key", "login": source_of(agent)}) == ["Said."]
    assert agent.seen[-1].headers["x-key"] == "the-key"
    assert len(login.requests) == 1  # at the caller's address, not at that of the card


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_uses_the_token(agent: Agent, way: str) -> None:
    login, source = Login(agent), source_of(agent)
    if way == "sync":
        with A2AClient(f"{agent.url}/rpc", auth=source) as client:
            text = "".join(event.text for event in client.send_message_stream("count"))
    else:

        async def main() -> str:
            async with AsyncA2AClient(f"{agent.url}/rpc", auth=source) as client:
                events = client.send_message_stream("count")
                return "".join([event.text async for event in events])

        text = anyio.run(main, backend=way)
    assert text == "1\u20282\u20283\u20284\u2028"
    assert len(login.requests) == 1


def test_only_the_token_request_itself_is_sent_to_the_token_url(agent: Agent) -> None:
    login = Login(agent)
    with (
        httpx2.Client(headers={"X-Of-Client": "1"}, cookies={"a": "b"}) as own,
        A2AClient(
            f"{agent.url}/rpc", auth=source_of(agent), http_client=own, headers={"X-Own": "1"}
        ) as client,
    ):
        assert client.send_message("say").text == "Said."
    [seen] = login.requests
    assert not {"x-of-client", "x-own", "cookie", "a2a-version"} & seen.headers.keys()
    assert seen.headers["authorization"].startswith("Basic ")
    assert {"x-of-client", "x-own", "cookie"} < agent.seen[-1].headers.keys()


CALLS = 8


def test_threads_share_one_token_request(agent: Agent) -> None:
    login, barrier = Login(agent), threading.Barrier(CALLS)
    with A2AClient(f"{agent.url}/rpc", auth=source_of(agent)) as client:

        def call(_: int) -> str:
            barrier.wait(LIMIT)
            return client.send_message("say").text

        with ThreadPoolExecutor(CALLS) as pool:
            assert list(pool.map(call, range(CALLS), timeout=LIMIT)) == ["Said."] * CALLS
            assert len(login.requests) == 1
            login.issued += 1  # all of them get a 401
            assert list(pool.map(call, range(CALLS), timeout=LIMIT)) == ["Said."] * CALLS
    assert len(login.requests) == 2


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_tasks_share_one_token_request(agent: Agent, backend: str) -> None:
    login = Login(agent)

    async def main() -> None:
        async with AsyncA2AClient(f"{agent.url}/rpc", auth=source_of(agent)) as client:
            for expected in (1, 2):
                with anyio.fail_after(LIMIT):
                    async with anyio.create_task_group() as group:
                        for _ in range(CALLS):
                            group.start_soon(client.send_message, "say")
                assert len(login.requests) == expected
                login.issued += 1  # all of them get a 401

    anyio.run(main, backend=backend)


def test_tasks_share_one_failure(agent: Agent) -> None:
    login = Login(agent)
    login.answer = lambda: as_json({"error": "invalid_client"}, 401)

    async def main() -> list[Any]:
        async with AsyncA2AClient(f"{agent.url}/rpc", auth=source_of(agent)) as client:
            calls = (client.send_message("say") for _ in range(CALLS))
            return await asyncio.gather(*calls, return_exceptions=True)

    errors = asyncio.run(asyncio.wait_for(main(), LIMIT))
    assert [type(error) for error in errors] == [A2ATokenError] * CALLS
    assert len(login.requests) == 1


def test_a_cancelled_request_does_not_block_the_next(agent: Agent) -> None:
    login, started, go_on = Login(agent), threading.Event(), threading.Event()
    first = [True]

    def slow() -> None:
        if first.pop() if first else False:
            started.set()
            assert go_on.wait(LIMIT)

    login.answer = slow

    async def main() -> str:
        async with AsyncA2AClient(f"{agent.url}/rpc", auth=source_of(agent)) as client:
            task = asyncio.create_task(client.send_message("say"))
            assert await asyncio.to_thread(started.wait, LIMIT)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            go_on.set()
            return (await client.send_message("say")).text

    assert asyncio.run(asyncio.wait_for(main(), LIMIT)) == "Said."


def test_one_object_works_on_one_event_loop_after_another_and_in_threads(agent: Agent) -> None:
    login, source = Login(agent), source_of(agent)
    for way in ("asyncio", "sync", "trio", "asyncio"):
        login.issued += 1  # a new token is needed each time
        assert say(way, agent, source) == ["Said."]
    assert len(login.requests) == 4


@pytest.mark.parametrize("way", WAYS)
def test_the_token_is_in_no_error_of_a_call(agent: Agent, way: str) -> None:
    Login(agent)

    def echo(seen: Seen) -> Answer | None:
        sent = seen.headers.get("authorization")
        return as_json({"detail": f"bad {sent}"}, 400) if seen.path == "/rpc" else None

    agent.rules.insert(0, echo)
    with pytest.raises(A2AError) as caught:
        say(way, agent, source_of(agent))
    assert "bad" in str(caught.value)
    assert "token-1" not in str(caught.value)
