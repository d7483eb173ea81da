"""The cache of cards, with the rules of HTTP caching (RFC 9111). Pure.

* A card is fresh for `max-age`, minus the `Age` that it had in another cache. After that it is
  revalidated with its `ETag`, or with its `Last-Modified` date if it has none.
* With `no-store` it is not cached. With `no-cache` or `Vary: *` it is revalidated every time.
* A 304 replaces only the headers that it has, so the other rules of the card stay valid.
* Any other `Vary` is respected by the key: it contains the URL and all headers of the caller, and
  the remaining headers, such as `A2A-Version`, are the same in every request.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from .._retry import parse_seconds
from .types import AgentCard

__all__ = ["CONDITIONS", "SHARED_CACHE", "CachedCard", "CardCache", "cached_card"]

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
