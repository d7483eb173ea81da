"""The senders treat credentials alike, sync and async."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from coreason_client._http._types import Headers, Request, ResponseHead
from coreason_client.a2a._auth import Auth, CardCredential, ChallengedRequest, credentials
from coreason_client.a2a._transport_async import AsyncAuthSender, AsyncCardSender
from coreason_client.a2a._transport_sync import SyncAuthSender, SyncCardSender

REQUEST = Request("POST", "https://a.example/x", {"X-Api-Key": "key-of-header"})
WAYS = ["sync", "async"]


@dataclass
class Response:
    """A response with nothing but a status."""

    status: int
    closed: bool = False

    @property
    def head(self) -> ResponseHead:
        return ResponseHead(self.status, Headers())

    def close(self) -> None:
        self.closed = True

    async def aclose(self) -> None:
        self.closed = True


@dataclass
class Network:
    """Answers requests with these statuses, and keeps both."""

    statuses: list[int]
    sent: list[Request] = field(default_factory=list)
    responses: list[Response] = field(default_factory=list)

    def answer(self, request: Request) -> Any:
        self.sent.append(request)
        self.responses.append(Response(self.statuses.pop(0)))
        return self.responses[-1]

    @property
    def authorizations(self) -> list[str | None]:
        return [request.headers.get("Authorization") for request in self.sent]


class SyncNetwork:
    """A sync sender."""

    def __init__(self, network: Network) -> None:
        self.open = network.answer

    def sleep(self, seconds: float) -> None: ...


class AsyncNetwork:
    """An async sender."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def open(self, request: Request) -> Any:
        return self._network.answer(request)

    async def sleep(self, seconds: float) -> None: ...


def sender(way: str, network: Network, auth: Auth | None) -> tuple[Any, Callable[[Request], Any]]:
    """Return a sender with credentials, and what opens a request with it."""
    given = credentials(auth)
    if way == "sync":
        plain = SyncAuthSender(SyncNetwork(network), given)
        return plain, plain.open
    later = AsyncAuthSender(AsyncNetwork(network), given)
    return later, lambda request: asyncio.run(later.open(request))


def card_sender(way: str, network: Network, auth: Auth) -> tuple[Any, Callable[[Request], Any]]:
    given = CardCredential(auth)
    if way == "sync":
        plain = SyncCardSender(SyncNetwork(network), given)
        return plain, plain.open
    later = AsyncCardSender(AsyncNetwork(network), given)
    return later, lambda request: asyncio.run(later.open(request))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([200], ["Bearer one"]),
        ([403], ["Bearer one"]),
        ([401, 200], ["Bearer one", "Bearer two"]),
        ([401, 401], ["Bearer one", "Bearer two"]),  # once
    ],
)
def test_a_401_refreshes_the_credential_once(
    way: str, statuses: list[int], expected: list[str]
) -> None:
    network, values = Network(list(statuses)), iter(["one", "two", "three"])
    _, send = sender(way, network, lambda: next(values))
    response = send(REQUEST)
    assert network.authorizations == expected
    assert response is network.responses[-1]
    assert [one.closed for one in network.responses] == [True] * (len(expected) - 1) + [False]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("auth", ["fixed", None])
def test_what_cannot_be_refreshed_is_sent_once(way: str, auth: Auth | None) -> None:
    network = Network([401])
    assert sender(way, network, auth)[1](REQUEST).status == 401
    assert len(network.sent) == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_sender_remembers_the_tokens_of_both_attempts(way: str) -> None:
    tokens = iter(["first-token", "second-token"])
    made, send = sender(way, Network([401, 200]), lambda: next(tokens))
    send(REQUEST)
    assert made.redact("first-token, second-token, key-of-header") == "***, ***, ***"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("challenge", "expected"),
    [
        ("Bearer", "Bearer me:pw-of-card"),
        ("", "Bearer me:pw-of-card"),
        ('Basic realm="x"', "Basic bWU6cHctb2YtY2FyZA=="),
    ],
)
def test_a_card_gets_the_credential_after_a_challenge(
    way: str, challenge: str, expected: str
) -> None:
    network = Network([200, 200])
    made, send = card_sender(way, network, "me:pw-of-card")
    send(REQUEST)
    send(ChallengedRequest("GET", REQUEST.url, {}, challenge=challenge))
    assert network.authorizations == [None, expected]
    assert made.redact("pw me:pw-of-card key-of-header") == "pw *** ***"
