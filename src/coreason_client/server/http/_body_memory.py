"""The memory for large bodies that are being read or wait to be parsed.

A process keeps a bounded number of bytes of them, and a principal at most a quarter of those, so
that no key can keep the others from sending. Who finds no room waits, and is not read meanwhile.
"""

import asyncio
from collections import Counter, deque
from typing import Final

from .._off_loop import LARGE_BODY
from ._problems import Problem

__all__ = ["BodyRoom", "Place"]

_BODIES: Final = 16
_BODIES_OF_ONE: Final = 4


class BodyRoom:
    """The room of one process; `most_bytes` is the size of the largest body."""

    def __init__(self, most_bytes: int, wait: float) -> None:
        self._free = _BODIES * most_bytes
        self._share = _BODIES_OF_ONE * most_bytes
        self._wait = wait
        self._held: Counter[str] = Counter()
        self._waiting: deque[tuple[Place, int, asyncio.Future[None]]] = deque()

    def place(self, principal: str) -> "Place":
        """Return the place of one body, which has no room yet."""
        return Place(self, principal)

    async def take(self, place: "Place", size: int) -> None:
        """Take room for a body, after waiting for it if need be.

        Raises:
            Problem: 503, there was none for so many seconds.
        """
        if not self._waiting and self._fits(place, size):
            self._grant(place, size)
            return
        granted = asyncio.get_running_loop().create_future()
        entry = (place, size, granted)
        self._waiting.append(entry)
        self._serve()  # those in front may all wait for their own share
        try:
            async with asyncio.timeout(self._wait):
                await granted
        except TimeoutError:
            raise _busy() from None
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)
                self._serve()

    def give_back(self, place: "Place") -> None:
        """Give back the room of a body, and let in who waits for it."""
        self._free += place.size
        self._held[place.principal] -= place.size
        if not self._held[place.principal]:
            del self._held[place.principal]
        self._serve()

    def _fits(self, place: "Place", size: int) -> bool:
        return size <= self._free and self._held[place.principal] + size <= self._share

    def _grant(self, place: "Place", size: int) -> None:
        place.size = size
        self._free -= size
        self._held[place.principal] += size

    def _serve(self) -> None:
        """Let in those who wait, in their order; who waits for an own share holds up nobody."""
        for entry in list(self._waiting):
            place, size, granted = entry
            if size > self._free:
                return
            if self._fits(place, size):
                self._waiting.remove(entry)
                if not granted.done():
                    self._grant(place, size)
                    granted.set_result(None)


class Place:
    """The room of one body."""

    def __init__(self, room: BodyRoom, principal: str) -> None:
        self.principal = principal
        self.size = 0
        self._room = room

    async def take(self, size: int) -> None:
        """Take room, once; a small body needs none."""
        if size > LARGE_BODY and not self.size:
            await self._room.take(self, size)

    def give_back(self) -> None:
        """Give back what was taken."""
        if self.size:
            self._room.give_back(self)
            self.size = 0


def _busy() -> Problem:
    return Problem(
        503,
        "busy",
        "The server is reading too many large bodies.",
        headers={"Retry-After": "1", "Connection": "close"},
    )
