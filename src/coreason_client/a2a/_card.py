"""Finding, fetching and parsing the card of an agent. Pure.

* `/.well-known/agent-card.json` under the base URL, then the older `/.well-known/agent.json` if
  the first does not exist. A URL that ends in `.json` is that of the card itself.
* The version header is sent, because some servers choose the card by it.
* Cards are cached as their servers allow (`_card_cache`).
* After a 401 or 403 the card is requested once more with the credential, if there is one. A card
  that was fetched with a credential is not put into the shared cache.
* Transient failures are retried within the budget, after the delay that the server asks for: a
  retryable status, a broken connection, and a refused one, because a server may be starting.
* Redirects are followed; the size of the body is limited.
* A body that is not JSON, or not a card, raises `A2AJSONError`.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, TypeAlias

from pydantic import ValidationError

from .._clock import monotonic
from .._drive import BodyTooLarge, Flow, Reply, Wait
from .._http._checks import check_headers, merged_headers, shown
from .._http._redirect import FOLLOWED_FOR_GET, follow_redirects
from .._http._types import FailureKind, Request, Timeouts, TransportFailure, timeouts_from
from .._retry import RETRIED_STATUSES, Backoff, retry_after
from .._version import __version__
from ._auth import ChallengedRequest
from ._call import checked_url, connection_error, http_error, json_error
from ._card_cache import CONDITIONS, CachedCard, CardCache, cached_card
from ._dialects import V10, card_from_v03, convert_checked
from ._wire import FROM_PYTHON, parse_json
from .errors import A2AError, A2AHTTPError, A2AResponseTooLargeError
from .types import AgentCard

__all__ = [
    "WELL_KNOWN",
    "CardKeys",
    "CardRules",
    "fetched_from",
    "read_card",
]

CardKeys: TypeAlias = str | bytes | Mapping[str, Any] | Sequence[str | bytes | Mapping[str, Any]]
"""Public keys for the signatures of cards: a JWK, a JWK set, PEM, or a list of these."""

WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")
_MISSING = frozenset({404, 405, 410})
_UNAUTHORIZED = frozenset({401, 403})
_TRANSIENT_FAILURES = frozenset({FailureKind.BROKEN, FailureKind.CONNECT})


@dataclass
class CardRules:
    """Fetches cards with these settings and a cache; tests replace `clock` and `jitter`."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeouts: Timeouts = field(default_factory=lambda: timeouts_from(30.0))
    max_card_bytes: int = 1_000_000
    clock: Callable[[], float] = monotonic
    max_retries: int = 3
    backoff: Backoff = field(default_factory=Backoff)
    has_credential: bool = False
    cache: CardCache = field(default_factory=CardCache)
    jitter: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        check_headers(self.headers)
        sent = sorted((name.lower(), str(value)) for name, value in self.headers.items())
        self._digest = sha256(repr(sent).encode()).digest()  # the values may be secrets

    def resolve(self, base_url: str) -> Flow[AgentCard]:
        """Return the card of the agent at a base URL.

        Raises:
            A2AHTTPError: there is no card, or no response, or it is too large.
            A2AJSONError: the body is not a card.
        """
        base = checked_url(base_url, "base_url").rstrip("/")
        urls = [base] if base.endswith(".json") else [base + path for path in WELL_KNOWN]
        for url in urls[:-1]:
            card = yield from self._get(url, missing_ok=True)
            if card is not None:
                return card
        card = yield from self._get(urls[-1], missing_ok=False)
        assert card is not None  # noqa: S101 - a missing card was raised
        return card

    def _get(self, url: str, *, missing_ok: bool) -> Flow[AgentCard | None]:
        cached = self.cache.get((url, self._digest))
        if cached is not None and self.clock() < cached.fresh_until:
            return cached.card
        request = self._request(url, cached)
        reply = yield from self._fetch(request)
        is_private = reply.head.status in _UNAUTHORIZED and self.has_credential
        if is_private:
            reply = yield from self._fetch(_with_challenge(request, reply.head.headers))
        status = reply.head.status
        if status == 304 and cached is not None:
            self._cache_card(url, cached.card, reply, cached)
            return cached.card
        if status in _MISSING and missing_ok:
            return None
        if status != 200:
            raise _refused_error(request, reply)
        card = read_card(reply.body, f"the card at {shown(url)}")
        card._fetched_from = url
        if not is_private or not self.cache.is_shared:
            self._cache_card(url, card, reply)
        return card

    def _request(self, url: str, cached: CachedCard | None) -> Request:
        protocol_headers = {"Accept": "application/json", "A2A-Version": V10.version}
        if cached is not None:
            protocol_headers |= cached.condition
        agent = {"User-Agent": f"coreason-client/{__version__}"}
        headers = merged_headers(agent, self.headers, protocol_headers)
        return Request("GET", url, headers, b"", self.timeouts)

    def _fetch(self, request: Request) -> Flow[Reply]:
        """Send the request, with retries, until there is a response that is not transient.

        Raises:
            A2AHTTPError: there is no response.
        """
        failures = 0
        while True:
            result = yield from follow_redirects(request, FOLLOWED_FOR_GET)
            failures += 1
            delay = self._retry_delay(result, failures)
            if delay is not None:
                yield Wait(delay)
            elif isinstance(result, Reply):
                return result
            else:
                raise _no_card_error(request, result, failures)

    def _retry_delay(self, result: Reply | TransportFailure, failures: int) -> float | None:
        """Return the seconds before the next attempt, None if there is no further attempt."""
        if failures > self.max_retries:
            return None
        if isinstance(result, TransportFailure):
            is_transient = result.kind in _TRANSIENT_FAILURES
            return self.backoff.delay(failures, self.jitter) if is_transient else None
        if result.head.status not in RETRIED_STATUSES:
            return None
        server_delay = retry_after(result.head.headers, time.time)
        return self.backoff.retry_delay(failures, server_delay, self.jitter)

    def _cache_card(
        self, url: str, card: AgentCard, reply: Reply, before: CachedCard | None = None
    ) -> None:
        entry = cached_card(card, reply.head.headers, self.clock(), before)
        self.cache.put((url, self._digest), entry)


def _with_challenge(request: Request, headers: Mapping[str, str]) -> ChallengedRequest:
    without = {n: v for n, v in request.headers.items() if n.title() not in CONDITIONS}
    challenge = headers.get("www-authenticate", "")
    return ChallengedRequest(
        request.method, request.url, without, b"", request.timeouts, challenge=challenge
    )


def _no_card_error(request: Request, failure: TransportFailure, attempts: int) -> A2AError:
    if isinstance(failure, BodyTooLarge):
        message = f"the card at {shown(request.url)}: {failure}"
        return A2AResponseTooLargeError(message, status=failure.head.status)
    return connection_error(request, failure, attempts)


def _refused_error(request: Request, reply: Reply) -> A2AError:
    error = http_error(request, reply.head, reply.body, lambda *_, **__: None)
    if reply.head.status not in _MISSING:
        return error
    return A2AHTTPError(
        f"there is no agent card at this address: {error}",
        status=error.status,
        headers=error.headers,
        body=error.body,
    )


def fetched_from(card: AgentCard) -> str | None:
    """Return the URL that a resolver fetched a card from, None if no resolver fetched it."""
    return card._fetched_from


def read_card(body: bytes | Mapping[str, Any], what: str = "the card") -> AgentCard:
    """Parse a card of either version from JSON bytes or a JSON object.

    Raises:
        A2AJSONError: it is not a card.
    """
    raw = body if isinstance(body, bytes) else repr(body).encode()
    try:
        value = parse_json(body) if isinstance(body, bytes) else body
        if not isinstance(value, Mapping):
            raise ValueError("it is not a JSON object")
        card: AgentCard = FROM_PYTHON["card"](convert_checked(card_from_v03, dict(value)))
    except (ValidationError, ValueError) as error:
        raise json_error(what, raw, error) from None
    if value.get("signatures"):
        card._document = value
    return card
