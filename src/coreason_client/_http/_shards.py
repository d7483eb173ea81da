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
from http.cookiejar import CookieJar, DefaultCookiePolicy
from os import environ
from typing import Generic, TypedDict, TypeVar

import httpx2

__all__ = ["Shard", "Shards", "client_options"]

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


class ClientOptions(TypedDict):
    """Arguments of an HTTP client, sync or async."""

    cookies: CookieJar
    limits: httpx2.Limits
    verify: ssl.SSLContext


def client_options() -> ClientOptions:
    """Return the arguments of the HTTP clients that we make."""
    return {
        # One client may serve many users: a cookie set for one must not be sent for another.
        "cookies": CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        # A stream holds its connection for as long as it lasts: a limit would be a limit on
        # streams.
        "limits": httpx2.Limits(max_keepalive_connections=20),
        # Shared, because reading the certificates takes a while; made as httpx2 makes it,
        # environment variables included.
        "verify": _ssl_context(environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR")),
    }


@lru_cache(maxsize=4)
def _ssl_context(cert_file: str | None, cert_dir: str | None) -> ssl.SSLContext:
    return httpx2.create_ssl_context()
