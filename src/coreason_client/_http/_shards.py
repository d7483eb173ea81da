"""Several small pools instead of a large one.

A pool of httpcore2 looks at all of its connections for every request that comes or goes, so a
thousand streams in one pool take a million looks to open. Here a client takes a bounded number of
requests at a time, and the next ones go to another client. Up to that number there is one client,
and its idle connections are used again as usual.
"""

import ssl
import threading
from collections.abc import Callable
from functools import lru_cache
from os import environ
from typing import Generic, TypeVar

import httpx2

__all__ = ["Shard", "Shards", "shared_ssl_context"]

_REQUESTS_PER_CLIENT = 32

Client = TypeVar("Client")


class Shard(Generic[Client]):
    """One client, and how many requests it has under way."""

    __slots__ = ("active", "client")

    def __init__(self, client: Client) -> None:
        self.client = client
        self.active = 0


class Shards(Generic[Client]):
    """Hands out clients; makes another when all are busy. Safe to use from many threads."""

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
        self._shards: list[Shard[Client]] = []
        self._lock = threading.Lock()

    def acquire(self) -> Shard[Client]:
        """Return the first client with room for one more request."""
        with self._lock:
            for shard in self._shards:
                if shard.active < _REQUESTS_PER_CLIENT:
                    break
            else:
                shard = Shard(self._make())
                self._shards.append(shard)
            shard.active += 1
            return shard

    def release(self, shard: Shard[Client]) -> None:
        """Take note that a request is over."""
        with self._lock:
            shard.active -= 1

    def drain(self) -> list[Client]:
        """Return all clients, to be closed, and forget them."""
        with self._lock:
            clients = [shard.client for shard in self._shards]
            self._shards = []
            return clients


def shared_ssl_context() -> ssl.SSLContext:
    """Return the context of all clients made here: reading the certificates takes a while.

    Made as httpx2 makes it, environment variables included.
    """
    return _ssl_context(environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=4)
def _ssl_context(cert_file: str | None, cert_dir: str | None) -> ssl.SSLContext:
    return httpx2.create_ssl_context()
