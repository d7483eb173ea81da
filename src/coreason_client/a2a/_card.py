"""How an agent's card is found, kept and read. Pure.

* `/.well-known/agent-card.json` under the base URL, then the older `/.well-known/agent.json` when
  the first is not there. An address that ends in `.json` is the card's own.
* The version header goes along: some servers choose the card by it.
* `Cache-Control` and `ETag` are honoured: fresh for `max-age`, then asked for with
  `If-None-Match`; `no-store` is not kept, `no-cache` is asked for every time.
* A card that is refused with 401 or 403 is asked for once more, with the credential if there is
  one. What was fetched with a credential is not kept for others.
* Passing failures, by status or by a broken connection, are tried again within the budget, after
  the delay that the server asks for.
* Redirects are followed, as a GET allows; the body is bounded.
* What is not JSON, or not a card, is an `A2AJSONError` that says so.
"""

import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from pydantic import ValidationError

from .._drive import BodyTooLarge, Flow, Reply, Wait
from .._http._checks import check_headers, merged_headers, shown
from .._http._redirect import FOLLOWED_FOR_GET, follow_redirects
from .._http._types import FailureKind, Request, Timeouts, TransportFailure, timeouts_from
from .._retry import RETRIED_STATUSES, Backoff, retry_after
from .._secret import header_secrets, redact, redact_chain
from .._version import __version__
from ._auth import ChallengedRequest
from ._call import checked_url, connection_error, http_error, json_error
from ._dialects import V10, card_from_v03, shaped
from ._wire import FROM_PYTHON, parse_json
from .errors import A2AError, A2AResponseTooLargeError
from .types import AgentCard

__all__ = ["SHARED_CACHE", "WELL_KNOWN", "CardCache", "CardRules", "fetched_from", "read_card"]

WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")
_NOT_THERE = frozenset({404, 405, 410})
_REFUSED = frozenset({401, 403})
_MOST_KEPT = 256
_MAX_AGE = re.compile(r"max-age=\"?([0-9]{1,9})", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Kept:
    card: AgentCard
    etag: str | None
    fresh_until: float


class CardCache:
    """Cards by address and by the headers that they were asked for with; bounded.

    `is_shared` means that callers with different credentials use it.
    """

    def __init__(self, *, is_shared: bool = False) -> None:
        self.is_shared = is_shared
        self._cards: dict[tuple[str, bytes], _Kept] = {}

    def get(self, key: tuple[str, bytes]) -> _Kept | None:
        """Return a card that was kept."""
        return self._cards.get(key)

    def put(self, key: tuple[str, bytes], kept: _Kept) -> None:
        """Keep a card; the oldest one goes when there are too many."""
        self._cards.pop(key, None)
        self._cards[key] = kept
        for oldest in list(self._cards)[:-_MOST_KEPT]:
            self._cards.pop(oldest, None)

    def drop(self, key: tuple[str, bytes]) -> None:
        """Forget a card."""
        self._cards.pop(key, None)

    def clear(self) -> None:
        """Forget all cards."""
        self._cards.clear()


SHARED_CACHE = CardCache(is_shared=True)
"""The cards that `connect` of either client has fetched."""


@dataclass
class CardRules:
    """The rules, and the cards that were kept. `clock` and `jitter` are for tests to replace."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeouts: Timeouts = field(default_factory=lambda: timeouts_from(30.0))
    max_card_bytes: int = 1_000_000
    clock: Callable[[], float] = time.monotonic
    max_retries: int = 3
    backoff: Backoff = field(default_factory=Backoff)
    has_credential: bool = False
    cache: CardCache = field(default_factory=CardCache)
    jitter: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        check_headers(self.headers)
        sent = sorted((name.lower(), str(value)) for name, value in self.headers.items())
        self._digest = sha256(repr(sent).encode()).digest()  # not the values: they may be secrets

    def resolve(self, base_url: str) -> Flow[AgentCard]:
        """Return the card of the agent at an address.

        Raises:
            A2AHTTPError: there is no card, or no answer, or it is too large.
            A2AJSONError: what is there is not a card.
        """
        try:
            return (yield from self._resolve(checked_url(base_url, "base_url").rstrip("/")))
        except A2AError as error:
            redact_chain(error, lambda text: redact(text, header_secrets(self.headers)))
            raise

    def _resolve(self, base: str) -> Flow[AgentCard]:
        urls = [base] if base.endswith(".json") else [base + path for path in WELL_KNOWN]
        for url in urls[:-1]:
            card = yield from self._get(url, missing_ok=True)
            if card is not None:
                return card
        card = yield from self._get(urls[-1], missing_ok=False)
        assert card is not None  # noqa: S101 - a missing one was raised
        return card

    def _get(self, url: str, *, missing_ok: bool) -> Flow[AgentCard | None]:
        kept = self.cache.get((url, self._digest))
        if kept is not None and self.clock() < kept.fresh_until:
            return kept.card
        request = self._request(url, kept)
        reply = yield from self._fetch(request)
        is_private = reply.head.status in _REFUSED and self.has_credential
        if is_private:
            reply = yield from self._fetch(_challenged(request, reply.head.headers))
        status = reply.head.status
        if status == 304 and kept is not None:
            self._keep(url, kept.card, reply.head.headers, kept.etag)
            return kept.card
        if status in _NOT_THERE and missing_ok:
            return None
        if status != 200:
            raise http_error(request, reply.head, reply.body, lambda *_, **__: None)
        card = read_card(reply.body, f"the card at {shown(url)}")
        card._fetched_from = url
        if not is_private or not self.cache.is_shared:
            self._keep(url, card, reply.head.headers, None)
        return card

    def _request(self, url: str, kept: _Kept | None) -> Request:
        own = {"Accept": "application/json", "A2A-Version": V10.version}
        if kept is not None and kept.etag is not None:
            own["If-None-Match"] = kept.etag
        agent = {"User-Agent": f"coreason-client/{__version__}"}
        return Request("GET", url, merged_headers(agent, self.headers, own), b"", self.timeouts)

    def _fetch(self, request: Request) -> Flow[Reply]:
        """Ask until there is an answer that counts.

        Raises:
            A2AHTTPError: there is none.
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
                raise _no_card(request, result, failures)

    def _retry_delay(self, result: Reply | TransportFailure, failures: int) -> float | None:
        """Return the seconds before the next attempt, None if there is none."""
        if failures > self.max_retries:
            return None
        if isinstance(result, TransportFailure):
            is_broken = result.kind is FailureKind.BROKEN
            return self.backoff.delay(failures, self.jitter) if is_broken else None
        if result.head.status not in RETRIED_STATUSES:
            return None
        server_delay = retry_after(result.head.headers, time.time)
        return self.backoff.retry_delay(failures, server_delay, self.jitter)

    def _keep(
        self, url: str, card: AgentCard, headers: Mapping[str, str], etag: str | None
    ) -> None:
        key = (url, self._digest)
        control = headers.get("cache-control", "").lower()
        if "no-store" in control:
            self.cache.drop(key)
            return
        age = _MAX_AGE.search(control)
        seconds = float(age[1]) if age and "no-cache" not in control else 0.0
        self.cache.put(key, _Kept(card, headers.get("etag", etag), self.clock() + seconds))


def _challenged(request: Request, headers: Mapping[str, str]) -> ChallengedRequest:
    without = {n: v for n, v in request.headers.items() if n.lower() != "if-none-match"}
    challenge = headers.get("www-authenticate", "")
    return ChallengedRequest(
        request.method, request.url, without, b"", request.timeouts, challenge=challenge
    )


def _no_card(request: Request, failure: TransportFailure, attempts: int) -> A2AError:
    if isinstance(failure, BodyTooLarge):
        words = f"the card at {shown(request.url)}: {failure}"
        return A2AResponseTooLargeError(words, status=failure.head.status)
    return connection_error(request, failure, attempts)


def fetched_from(card: AgentCard) -> str | None:
    """Return the address that a resolver was given for a card, None where none fetched it."""
    return card._fetched_from


def read_card(body: bytes | Mapping[str, Any], what: str = "the card") -> AgentCard:
    """Return the card in JSON bytes or a JSON object, of either version.

    Raises:
        A2AJSONError: it is not a card.
    """
    raw = body if isinstance(body, bytes) else repr(body).encode()
    try:
        value = parse_json(body) if isinstance(body, bytes) else body
        if not isinstance(value, Mapping):
            raise ValueError("it is not a JSON object")
        card: AgentCard = FROM_PYTHON["card"](shaped(card_from_v03, dict(value)))
    except (ValidationError, ValueError) as error:
        raise json_error(what, raw, error) from None
    return card
