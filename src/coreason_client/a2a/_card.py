"""Finding, fetching and parsing the card of an agent. Pure.

* `/.well-known/agent-card.json` under the base URL, then the older `/.well-known/agent.json` if
  the first does not exist. A URL that ends in `.json` is that of the card itself.
* The version header is sent, because some servers choose the card by it.
* Cards are cached as their servers allow (`CardCache`).
* After a 401 or 403 the card is requested once more with the credential, if there is one. A card
  that was fetched with a credential is not put into the shared cache.
* Transient failures are retried within the budget, after the delay that the server asks for: a
  retryable status, a broken connection, and a refused one, because a server may be starting.
* Redirects are followed; the size of the body is limited.
* A body that is not JSON, or not a card, raises `A2AJSONError`.
"""

import random
import re
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
from .._retry import RETRIED_STATUSES, Backoff, parse_seconds, retry_after
from .._version import __version__
from ._auth import ChallengedRequest
from ._call import checked_url, connection_error, http_error, json_error
from ._dialects import V10, convert_checked
from ._v03._shapes import card_from_v03
from ._wire import FROM_PYTHON, parse_json
from .errors import A2AError, A2AHTTPError, A2AResponseTooLargeError
from .types import AgentCard

# The cache of cards, with the rules of HTTP caching (RFC 9111).
#
# * A card is fresh for `max-age`, minus the `Age` that it had in another cache. After that it is
#   revalidated with its `ETag`, or with its `Last-Modified` date if it has none.
# * With `no-store` it is not cached. With `no-cache` or `Vary: *` it is revalidated every time.
# * A 304 replaces only the headers that it has, so the other rules of the card stay valid.
# * Any other `Vary` is respected by the key: it contains the URL and all headers of the caller, and
#   the remaining headers, such as `A2A-Version`, are the same in every request.

Key: TypeAlias = tuple[str, bytes]

CONDITIONS = {"If-None-Match": "etag", "If-Modified-Since": "last-modified"}
"""The headers of a conditional request, and those of the response that they come from."""

_STORED = ("cache-control", "etag", "last-modified", "vary")
_MAX_CARDS = 256
_MAX_AGE = re.compile(r"max-age=\"?([0-9]{1,9})", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CachedCard:
    """A card, the headers of its response that matter, and the time until which it is fresh."""

    card: AgentCard
    headers: Mapping[str, str]
    fresh_until: float

    @property
    def condition(self) -> dict[str, str]:
        """The header that asks whether the card has changed; empty if that cannot be asked."""
        for name, source in CONDITIONS.items():
            if self.headers.get(source):
                return {name: self.headers[source]}
        return {}


def cached_card(
    card: AgentCard, headers: Mapping[str, str], now: float, before: CachedCard | None = None
) -> CachedCard | None:
    """Return the entry for a card, None if it must not be cached.

    `before` is the entry that a 304 with these headers has confirmed.
    """
    stored = dict(before.headers) if before is not None else {}
    stored |= {name: headers[name] for name in _STORED if name in headers}
    control = stored.get("cache-control", "").lower()
    if "no-store" in control:
        return None
    age = parse_seconds(headers.get("age")) or 0.0
    return CachedCard(card, stored, now + _lifetime(control, stored.get("vary", "")) - age)


def _lifetime(control: str, vary: str) -> float:
    found = _MAX_AGE.search(control)
    must_revalidate = "no-cache" in control or vary.strip() == "*"
    return float(found[1]) if found and not must_revalidate else 0.0


class CardCache:
    """A bounded cache of cards, by URL and request headers.

    `is_shared` means that callers with different credentials use it.
    """

    def __init__(self, *, is_shared: bool = False) -> None:
        self.is_shared = is_shared
        self._cards: dict[Key, CachedCard] = {}

    def get(self, key: Key) -> CachedCard | None:
        """Return a cached card, None if there is none."""
        return self._cards.get(key)

    def put(self, key: Key, cached: CachedCard | None) -> None:
        """Cache a card, or remove it (None); the oldest are dropped if there are too many."""
        self._cards.pop(key, None)
        if cached is None:
            return
        self._cards[key] = cached
        for oldest in list(self._cards)[:-_MAX_CARDS]:
            self._cards.pop(oldest, None)

    def clear(self) -> None:
        """Remove all cards."""
        self._cards.clear()


SHARED_CACHE = CardCache(is_shared=True)
"""The cards that `connect` of both clients has fetched."""


# Fetching

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
