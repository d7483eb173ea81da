"""The async senders that add credentials to requests; the rules are in `_auth`."""

from collections.abc import Collection
from typing import Any

from .._drive_async import AsyncOpener, run_async
from .._http._types import Request
from ._auth import CardCredential, Credentials
from ._auth_redaction import RedactingSender

__all__ = ["AsyncAuthSender", "AsyncCardSender"]


class AsyncCardSender(RedactingSender):
    """A sender of the requests for one card."""

    _credentials: CardCredential

    def __init__(self, sender: AsyncOpener, credentials: CardCredential) -> None:
        super().__init__(credentials)
        self._sender = sender
        self.sleep = sender.sleep

    async def open(self, request: Request) -> Any:
        """Send the request, with the credential if the server has challenged it."""
        credentials = self._credentials.for_request(request)
        await _fetch_tokens(credentials, request, self._sender)
        prepared = await credentials.apply_async(request)
        return await self._sender.open(self._remember(prepared))


class AsyncAuthSender(RedactingSender):
    """A sender that adds credentials to the requests of one call."""

    _credentials: Credentials

    def __init__(self, sender: AsyncOpener, credentials: Credentials) -> None:
        super().__init__(credentials)
        self._sender = sender
        self.sleep = sender.sleep

    async def open(self, request: Request) -> Any:
        """Send the request, and once more with new credentials on a 401."""
        await _fetch_tokens(self._credentials, request, self._sender)
        prepared = await self._credentials.apply_async(request)
        used = self._credentials.values
        response = await self._sender.open(self._remember(prepared))
        if not self._credentials.refresh_after(request, response.head.status):
            return response
        await response.aclose()
        await _fetch_tokens(self._credentials, request, self._sender, rejected=used)
        refreshed = await self._credentials.apply_async(request, refresh=True)
        return await self._sender.open(self._remember(refreshed))


async def _fetch_tokens(
    credentials: Credentials,
    request: Request,
    sender: AsyncOpener,
    rejected: Collection[str] = (),
) -> None:
    """Request the tokens that a request needs, unless there are usable ones."""
    for cache in credentials.token_caches(request):
        if cache.is_usable(rejected):
            continue
        attempts = cache.attempts
        async with cache.lock_async():
            if not cache.is_usable(rejected):
                cache.raise_failure_since(attempts)
                await run_async(cache.fetch(), sender)
