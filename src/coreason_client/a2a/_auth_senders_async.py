"""The async senders that put credentials into requests; the rules are in `_auth`."""

from typing import Any

from .._drive_async import AsyncOpener
from .._http._types import Request
from ._auth import CardCredential, Credentials
from ._auth_redaction import RedactingSender

__all__ = ["AsyncAuthSender", "AsyncCardSender"]


class AsyncCardSender:
    """A sender of requests for cards."""

    def __init__(self, sender: AsyncOpener, given: CardCredential) -> None:
        self._sender = sender
        self._given = given
        self.sleep = sender.sleep

    async def open(self, request: Request) -> Any:
        """Send the request, with the credential if it was refused without."""
        given = self._given.for_request(request)
        return await self._sender.open(await given.apply_async(request))


class AsyncAuthSender(RedactingSender):
    """A sender whose requests carry credentials."""

    def __init__(self, sender: AsyncOpener, given: Credentials) -> None:
        self._sender = sender
        self._given = given
        self.sleep = sender.sleep

    async def open(self, request: Request) -> Any:
        """Send the request, and once more with new credentials on a 401."""
        response = await self._sender.open(self._remember(await self._given.apply_async(request)))
        if not self._given.refresh_after(request, response.head.status):
            return response
        await response.aclose()
        refreshed = await self._given.apply_async(request, refresh=True)
        return await self._sender.open(self._remember(refreshed))
