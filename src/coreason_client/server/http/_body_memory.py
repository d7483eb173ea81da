"""The memory for large bodies that are being read or wait to be parsed.

A process keeps a bounded number of bytes, and one principal gets at most a quarter of them, so one
key cannot keep the others from sending. A request that finds no free memory waits, and its body is
not read meanwhile.
"""

import asyncio
from collections import Counter, deque
from typing import Final

from .._off_loop import LARGE_BODY
from ._problems import Problem

__all__ = ["BodyMemory", "BodyReservation"]

_MAX_BODIES: Final = 16
_MAX_BODIES_PER_PRINCIPAL: Final = 4


class BodyMemory:
    """The memory for large bodies in one process; `max_bytes` is the size of the largest body."""

    def __init__(self, max_bytes: int, timeout: float) -> None:
        self._free = _MAX_BODIES * max_bytes
        self._max_per_principal = _MAX_BODIES_PER_PRINCIPAL * max_bytes
        self._timeout = timeout
        self._held: Counter[str] = Counter()
        self._waiting: deque[tuple[BodyReservation, int, asyncio.Future[None]]] = deque()

    def reservation(self, principal: str) -> "BodyReservation":
        """Return an empty reservation for one body."""
        return BodyReservation(self, principal)

    async def reserve(self, reservation: "BodyReservation", size: int) -> None:
        """Reserve memory for a body, and wait for it if necessary.

        Raises:
            Problem: 503, no memory was released in time.
        """
        if not self._waiting and self._fits(reservation, size):
            self._grant(reservation, size)
            return
        granted = asyncio.get_running_loop().create_future()
        entry = (reservation, size, granted)
        self._waiting.append(entry)
        self._grant_waiting()  # the earlier ones may all wait for the limit of their principal
        try:
            async with asyncio.timeout(self._timeout):
                await granted
        except TimeoutError:
            raise _busy() from None
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)
                self._grant_waiting()

    def release(self, reservation: "BodyReservation") -> None:
        """Free the memory of a reservation for the requests that wait."""
        self._free += reservation.size
        self._held[reservation.principal] -= reservation.size
        if not self._held[reservation.principal]:
            del self._held[reservation.principal]
        self._grant_waiting()

    def _fits(self, reservation: "BodyReservation", size: int) -> bool:
        held = self._held[reservation.principal]
        return size <= self._free and held + size <= self._max_per_principal

    def _grant(self, reservation: "BodyReservation", size: int) -> None:
        reservation.size = size
        self._free -= size
        self._held[reservation.principal] += size

    def _grant_waiting(self) -> None:
        """Grant memory in the order of arrival.

        A request that waits for the limit of its principal does not delay the others.
        """
        for entry in list(self._waiting):
            reservation, size, granted = entry
            if size > self._free:
                return
            if self._fits(reservation, size):
                self._waiting.remove(entry)
                if not granted.done():
                    self._grant(reservation, size)
                    granted.set_result(None)


class BodyReservation:
    """The memory that is reserved for one body."""

    def __init__(self, memory: BodyMemory, principal: str) -> None:
        self.principal = principal
        self.size = 0
        self._memory = memory

    async def reserve(self, size: int) -> None:
        """Reserve memory, once; a small body needs none."""
        if size > LARGE_BODY and not self.size:
            await self._memory.reserve(self, size)

    def release(self) -> None:
        """Release the memory, if any was reserved."""
        if self.size:
            self._memory.release(self)
            self.size = 0


def _busy() -> Problem:
    return Problem(
        503,
        "busy",
        "The server is reading too many large bodies.",
        headers={"Retry-After": "1", "Connection": "close"},
    )
