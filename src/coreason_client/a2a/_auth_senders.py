"""Senders that put credentials into requests; the rules are in `_auth`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from .._drive import AsyncOpener, SyncOpener
from .._http._types import Request
from .._secret import redact_chain
from ._auth import CardCredential, Credentials
from .errors import A2AError

__all__ = ["AsyncAuthSender", "AsyncCardSender", "SyncAuthSender", "SyncCardSender"]


class _Redacting:
    """Redacts what was sent, which an agent may repeat."""

    _given: Credentials
    _sent: Mapping[str, str] = MappingProxyType({})  # the headers of the last request

    def _remember(self, request: Request) -> Request:
        if not request.bare:
            self._sent = request.headers
        return request

    def redact(self, text: str) -> str:
        """Return a text without the secrets that were sent."""
        return self._given.redact(text, self._sent)

    def hide(self, error: A2AError) -> None:
        """Redact the words of an error, and of those that it came from."""
        redact_chain(error, self.redact)


class SyncCardSender:
    """A sender of requests for cards; the sync one of a pair."""

    def __init__(self, sender: SyncOpener, given: CardCredential) -> None:
        self._sender = sender
        self._given = given
        self.sleep = sender.sleep

    def open(self, request: Request) -> Any:
        """Send the request, with the credential if it was refused without."""
        return self._sender.open(self._given.for_request(request).apply(request))


class AsyncCardSender:
    """A sender of requests for cards; the async one of a pair."""

    def __init__(self, sender: AsyncOpener, given: CardCredential) -> None:
        self._sender = sender
        self._given = given
        self.sleep = sender.sleep

    async def open(self, request: Request) -> Any:
        """Send the request, with the credential if it was refused without."""
        given = self._given.for_request(request)
        return await self._sender.open(await given.apply_async(request))


class SyncAuthSender(_Redacting):
    """A sender whose requests carry credentials; the sync one of a pair."""

    def __init__(self, sender: SyncOpener, given: Credentials) -> None:
        self._sender = sender
        self._given = given
        self.sleep = sender.sleep

    def open(self, request: Request) -> Any:
        """Send the request, and once more with new credentials on a 401."""
        response = self._sender.open(self._remember(self._given.apply(request)))
        if not self._given.refresh_after(request, response.head.status):
            return response
        response.close()
        return self._sender.open(self._remember(self._given.apply(request, refresh=True)))


class AsyncAuthSender(_Redacting):
    """A sender whose requests carry credentials; the async one of a pair."""

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
