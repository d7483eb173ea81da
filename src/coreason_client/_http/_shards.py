"""Several small connection pools instead of a large one.

A pool of httpcore2 checks all of its connections whenever a request starts or ends, so opening a
thousand streams in one pool takes a million checks. Here each client handles a limited number of
concurrent requests, and further requests use another client. Up to that number there is only one
client, and its idle connections are reused as usual.
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
    """One client and the number of its active requests."""

    __slots__ = ("active", "client")

    def __init__(self, client: Client) -> None:
        self.client = client
        self.active = 0


class Shards(Generic[Client]):
    """Assigns clients to requests; creates another if all are busy. Thread-safe."""

    def __init__(self, create: Callable[[], Client]) -> None:
        self._create = create
        self._shards: list[Shard[Client]] = []
        self._lock = threading.Lock()

    def acquire(self) -> Shard[Client]:
        """Return the first client that can take one more request."""
        with self._lock:
            for shard in self._shards:
                if shard.active < _REQUESTS_PER_CLIENT:
                    break
            else:
                shard = Shard(self._create())
                self._shards.append(shard)
            shard.active += 1
            return shard

    def release(self, shard: Shard[Client]) -> None:
        """Record that a request has ended."""
        with self._lock:
            shard.active -= 1

    def drain(self) -> list[Client]:
        """Remove all clients and return them for closing."""
        with self._lock:
            clients = [shard.client for shard in self._shards]
            self._shards = []
            return clients


class ClientOptions(TypedDict):
    """Constructor arguments of an HTTP client, sync or async."""

    cookies: CookieJar
    limits: httpx2.Limits
    verify: ssl.SSLContext


def client_options() -> ClientOptions:
    """Return the constructor arguments of the HTTP clients that this package creates."""
    return {
        # One client may serve many users: a cookie set for one must not be sent for another.
        "cookies": CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        # A stream occupies its connection until it ends, so a limit on connections would limit
        # the number of streams.
        "limits": httpx2.Limits(max_keepalive_connections=20),
        # Shared, because loading the certificates is slow. It is the context that httpx2 would
        # create, which depends on these environment variables.
        "verify": _ssl_context(environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR")),
    }


@lru_cache(maxsize=4)
def _ssl_context(cert_file: str | None, cert_dir: str | None) -> ssl.SSLContext:
    return httpx2.create_ssl_context()
