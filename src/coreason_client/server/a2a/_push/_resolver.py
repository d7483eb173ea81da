"""Resolves the hosts of webhooks, without a thread that others need.

A client chooses the host, and with it a name server that may answer slowly. So each lookup has a
thread of its own: in a shared pool, lookups that hang would delay all others. The threads are
daemons, because a lookup cannot be cancelled and must not delay the end of the process.
"""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final, TypeAlias

from ._addresses import parse_address

__all__ = ["Resolver", "ThreadResolver"]

Resolver: TypeAlias = Callable[[str, int], Awaitable[Iterable[str]]]
"""Returns the addresses of a host for a port."""
_MAX_LOOKUPS: Final = 512


class ThreadResolver:
    """Looks hosts up as the operating system does."""

    def __init__(self, max_lookups: int = _MAX_LOOKUPS) -> None:
        self._left = threading.BoundedSemaphore(max_lookups)

    async def __call__(self, host: str, port: int) -> Iterable[str]:
        """Return the addresses of a host.

        Raises:
            OSError, UnicodeError: it cannot be resolved, or too many lookups hang.
        """
        if parse_address(host) is not None:
            return [host]
        if not self._left.acquire(blocking=False):
            raise OSError("too many lookups are running")
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Iterable[str]] = loop.create_future()
        thread = threading.Thread(
            target=self._look_up, args=(host, port, found), name="coreason-resolve", daemon=True
        )
        thread.start()
        return await found

    def _look_up(self, host: str, port: int, found: "asyncio.Future[Iterable[str]]") -> None:
        addresses: list[str] = []
        failure: Exception | None = None
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses = [str(info[4][0]) for info in infos]
        except Exception as error:  # noqa: BLE001 - it is raised to the caller
            failure = error
        finally:
            self._left.release()
        with suppress(RuntimeError):  # the event loop is closed
            found.get_loop().call_soon_threadsafe(_settle, found, addresses, failure)


def _settle(
    found: "asyncio.Future[Iterable[str]]", addresses: list[str], failure: Exception | None
) -> None:
    if found.done():  # nobody waits any more
        return
    if failure is None:
        found.set_result(addresses)
    else:
        found.set_exception(failure)
