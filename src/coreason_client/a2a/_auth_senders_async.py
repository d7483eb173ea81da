"""The async senders that add credentials to requests; the rules are in `_auth`."""

from typing import Any

from .._drive_async import AsyncOpener
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
        prepared = await self._credentials.apply_async(request)
        response = await self._sender.open(self._remember(prepared))
        if not self._credentials.refresh_after(request, response.head.status):
            return response
        await response.aclose()
        refreshed = await self._credentials.apply_async(request, refresh=True)
        return await self._sender.open(self._remember(refreshed))
