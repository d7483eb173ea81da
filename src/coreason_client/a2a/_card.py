"""How an agent's card is found, kept and read. Pure.

* `/.well-known/agent-card.json` under the base URL, then the older `/.well-known/agent.json` when
  the first is not there. An address that ends in `.json` is the card's own.
* The version header goes along: some servers choose the card by it.
* `Cache-Control` and `ETag` are honoured: fresh for `max-age`, then asked for with
  `If-None-Match`; `no-store` is not kept, `no-cache` is asked for every time.
* Redirects are followed, as a GET allows; the body is bounded.
* What is not JSON, or not a card, is an `A2AJSONError` that says so.
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from .._drive import BodyTooLarge, Flow, Reply
from .._http._checks import check_headers, shown
from .._http._redirect import MOST_REDIRECTS, redirected
from .._http._types import Request, Timeouts, TransportFailure, timeouts_from
from .._secret import header_secrets, redact, redact_chain
from .._version import __version__
from ._call import (
    check_url,
    connection_error,
    http_error,
    json_error,
)
from ._dialects import V10, card_from_v03, shaped
from ._wire import FROM_PYTHON, parse_json
from .errors import A2AError, A2AResponseTooLargeError
from .types import AgentCard

__all__ = ["WELL_KNOWN", "CardRules", "read_card"]

WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")
_NOT_THERE = frozenset({404, 405, 410})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_AGE = re.compile(r"max-age=\"?([0-9]{1,9})", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Kept:
    card: AgentCard
    etag: str | None
    fresh_until: float


@dataclass
class CardRules:
    """The rules, and the cards that were kept. `clock` is for tests to replace."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeouts: Timeouts = field(default_factory=lambda: timeouts_from(30.0))
    max_card_bytes: int = 1_000_000
    clock: Callable[[], float] = time.monotonic
    _kept: dict[str, _Kept] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_headers(self.headers)

    def resolve(self, base_url: str) -> Flow[AgentCard]:
        """Return the card of the agent at an address.

        Raises:
            A2AHTTPError: there is no card, or no answer, or it is too large.
            A2AJSONError: what is there is not a card.
        """
        try:
            return (yield from self._resolve(check_url(base_url).rstrip("/")))
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
        kept = self._kept.get(url)
        if kept is not None and self.clock() < kept.fresh_until:
            return kept.card
        request = self._request(url, kept)
        reply = yield from self._fetch(request)
        status = reply.head.status
        if status == 304 and kept is not None:
            self._keep(url, kept.card, reply.head.headers, kept.etag)
            return kept.card
        if status in _NOT_THERE and missing_ok:
            return None
        if status != 200:
            raise http_error(request, reply.head, reply.body, lambda *_, **__: None)
        card = read_card(reply.body, f"the card at {shown(url)}")
        self._keep(url, card, reply.head.headers, None)
        return card

    def _request(self, url: str, kept: _Kept | None) -> Request:
        headers = {
            "User-Agent": f"coreason-client/{__version__}",
            **self.headers,
            "Accept": "application/json",
            "A2A-Version": V10.version,
        }
        if kept is not None and kept.etag is not None:
            headers["If-None-Match"] = kept.etag
        return Request("GET", url, headers, b"", self.timeouts)

    def _fetch(self, request: Request) -> Flow[Reply]:
        redirects = 0
        while True:
            result = yield request
            if isinstance(result, BodyTooLarge):
                words = f"the card at {shown(request.url)}: {result}"
                raise A2AResponseTooLargeError(words, status=result.head.status)
            if isinstance(result, TransportFailure):
                raise connection_error(request, result, 1)
            assert result is not None  # noqa: S101 - a request, not a wait, was yielded
            location = result.head.headers.get("location")
            redirects += 1
            followed = result.head.status in _REDIRECTS and redirects <= MOST_REDIRECTS
            if location is None or not followed:
                return result
            try:
                request = redirected(request, location)
            except ValueError:
                return result

    def _keep(
        self, url: str, card: AgentCard, headers: Mapping[str, str], etag: str | None
    ) -> None:
        control = headers.get("cache-control", "").lower()
        if "no-store" in control:
            self._kept.pop(url, None)
            return
        age = _MAX_AGE.search(control)
        seconds = float(age[1]) if age and "no-cache" not in control else 0.0
        self._kept[url] = _Kept(card, headers.get("etag", etag), self.clock() + seconds)


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
