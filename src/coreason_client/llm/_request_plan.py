"""`RequestPlan`: what the retry rules and the prices need to know about a request. Pure."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Self, TypeAlias

from ._answer import Tokens
from ._key_fetch import FetchKey, KeyFetcher
from ._route import Route
from ._token_estimate import estimate_bytes
from .errors import LLMError

__all__ = ["Pricing", "RequestPlan", "estimated_prompt"]

Pricing: TypeAlias = Callable[[str | None, str, Tokens], float | None]
"""Returns the price of tokens, given the provider in the price table and the model."""


class RequestPlan(ABC):
    """An encoded request for one model.

    Attributes:
        method: the HTTP method.
        free: True if the request costs nothing, and so counts for no limit and no budget.
        route: the provider, its base URL and key.
        requested_model: the name that the caller used for the model.
        pricing: the function that returns prices.
        url: the URL of the request.
        content: the body of the request.
    """

    __slots__ = ("_fetcher", "content", "pricing", "requested_model", "route", "url")

    method: ClassVar[str] = "POST"
    free: ClassVar[bool] = False
    route: Route
    requested_model: str
    pricing: Pricing
    url: str
    content: bytes
    _fetcher: KeyFetcher | None

    def key_step(self, seconds: float) -> FetchKey | None:
        """Return the action that fetches the key within so many seconds, None if there is one.

        Raises:
            LLMError: the callable failed, or did not return a key.
        """
        if self.route.key_provider is None:
            return None
        if self._fetcher is None:
            self._fetcher = KeyFetcher(self.route, self.route.key_provider)
        step = self._fetcher.next_step(seconds)
        self.route = self._fetcher.route
        return step

    def refresh_key(self, error: LLMError) -> bool:
        """Return True if the key was rejected and a new one will be fetched."""
        if self._fetcher is None or not self._fetcher.refresh(error):
            return False
        self.route = self._fetcher.route
        return True

    def headers(self, now: Callable[[], float] = time.time) -> Mapping[str, str]:
        """Return the headers of a request that is sent now.

        Raises:
            LLMRequestError: it must be signed, and the region is not known.
        """
        return self.route.request_headers(self.method, self.url, self.content, now)

    @property
    @abstractmethod
    def estimated_tokens(self) -> int:
        """An estimate of the tokens that the request will use, for limits and budgets."""

    def drop_parameter(self, parameter: str) -> bool:
        """Drop or rename a parameter that the provider rejects; return False if it must stay."""
        return False

    def corrected(self, answer: str, reason: str) -> Self | None:
        """Return the request to correct an answer that is not valid, None if there is none."""
        return None

    def price(self, tokens: Tokens) -> float | None:
        """Return the price of tokens in dollars, None if it is not known."""
        return self.pricing(self.route.profile.prices, self.route.model, tokens)


def estimated_prompt(content: bytes) -> int:
    """Return an estimate of the tokens in the body of a request: a quarter of its bytes."""
    return estimate_bytes(len(content))
