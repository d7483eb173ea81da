"""Limits the requests to webhooks that are sent at the same time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

__all__ = ["RequestSlots"]

_OF_ALL: Final = 256
_OF_A_PRINCIPAL: Final = 32


class RequestSlots:
    """Slots for requests: so many in all, and so many for each principal.

    So the webhooks of one client, which may all hang, cannot delay those of the others.
    """

    def __init__(self, of_all: int = _OF_ALL, of_a_principal: int = _OF_A_PRINCIPAL) -> None:
        self._all = asyncio.Semaphore(of_all)
        self._of_a_principal = of_a_principal
        self._by_principal: dict[str, asyncio.Semaphore] = {}
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def slot(self, principal: str) -> AsyncIterator[None]:
        """Wait for a slot and hold it."""
        own = self._by_principal.setdefault(principal, asyncio.Semaphore(self._of_a_principal))
        self._users[principal] = self._users.get(principal, 0) + 1
        try:
            async with own, self._all:
                yield
        finally:
            self._users[principal] -= 1
            if not self._users[principal]:
                del self._users[principal], self._by_principal[principal]
