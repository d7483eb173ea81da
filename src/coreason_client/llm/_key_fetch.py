"""Fetches the key of one call from a callable. No I/O, except in the action.

* The callable is called before the first attempt with a model, and once more if the provider
  rejects the key; then the request is sent again. Callables cache their tokens themselves.
* Its exceptions become an `LLMAuthenticationError`, after which the next model is tried.
* An async callable is awaited by `AsyncLLMClient`, until the deadline of the call at the longest.
"""

import inspect
from typing import Any

from .._drive import Action
from .._secret import AsyncCallableError, call_sync, mask_tokens, redact, redacted_cause
from ._auth import check_key_of, key_secrets
from ._route import Route
from .credentials import Key, KeyProvider
from .errors import LLMAuthenticationError, LLMError, LLMRequestError

__all__ = ["FetchKey", "KeyFetcher"]

_ASYNC_CLIENT = "AsyncLLMClient"


class FetchKey(Action):
    """Calls the callable; the result is its `value` or its `error`."""

    __slots__ = ("_name", "_provider", "_seconds", "error", "value")

    def __init__(self, provider: KeyProvider, name: str, seconds: float) -> None:
        self._provider = provider
        self._name = name
        self._seconds = seconds
        self.value: Any = None
        self.error: Exception | None = None

    def perform(self) -> None:
        """Call the callable."""
        try:
            self.value = call_sync(self._provider, self._name, _ASYNC_CLIENT)
        except Exception as error:  # noqa: BLE001 - whatever the callable raises
            self.error = error

    async def perform_async(self) -> None:
        """Call the callable and await its result, if it is async."""
        try:
            value: Any = self._provider()
            if inspect.isawaitable(value):
                from asyncio import timeout

                async with timeout(self._seconds):
                    value = await value
            self.value = value
        except Exception as error:  # noqa: BLE001 - whatever the callable raises
            self.error = error


class KeyFetcher:
    """Fetches the key of a route for one call.

    Attributes:
        route: the route, with its key once that is fetched.
    """

    __slots__ = ("_action", "_provider", "_rejected", "route")

    def __init__(self, route: Route, provider: KeyProvider) -> None:
        self.route = route
        self._provider = provider
        self._action: FetchKey | None = None
        self._rejected: Key | None = None

    def next_step(self, seconds: float) -> FetchKey | None:
        """Return the action to perform, None if the route has its key.

        Raises:
            LLMAuthenticationError: the callable failed.
            LLMRequestError: it did not return a key, or is async in the sync client.
        """
        action = self._action
        if action is None:
            if self.route.key is not None:
                return None
            self._action = FetchKey(self._provider, self.route.key_name, seconds)
            return self._action
        self._action = None
        if action.error is not None:
            raise self._failed(action.error)
        key = check_key_of(self.route.profile, action.value, self.route.key_name)
        self.route = self.route.with_key(key)
        return None

    def refresh(self, error: LLMError) -> bool:
        """Drop a key that was rejected, once; return True if another one will be fetched."""
        rejected = isinstance(error, LLMAuthenticationError)
        if not rejected or self._rejected is not None or self.route.key is None:
            return False
        self._rejected = self.route.key
        self.route = self.route.without_key()
        return True

    def _failed(self, error: Exception) -> LLMError:
        route = self.route
        if isinstance(error, AsyncCallableError):
            return LLMRequestError(str(error), provider=route.profile.name, model=route.model)
        failure = LLMAuthenticationError(
            f"there is no key for {route.profile.name}: {route.key_name} raised "
            f"{type(error).__name__}",
            provider=route.profile.name,
            model=route.model,
        )
        failure.__cause__ = redacted_cause(error, self._redact)
        return failure

    def _redact(self, text: str) -> str:
        known = [*self.route.secrets(), *key_secrets(self._rejected)]
        return mask_tokens(redact(text, known))
