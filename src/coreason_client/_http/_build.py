"""Code that both senders share: the clients, their requests, and what is read of a response.

There are several small connection pools instead of a large one. A pool of httpcore2 checks all of
its connections whenever a request starts or ends, so opening a thousand streams in one pool takes a
million checks. Here each client handles a limited number of concurrent requests, and further
requests use another client. Up to that number there is only one client, and its idle connections
are reused as usual.

Some names of httpx2 and httpcore2 that are used here are undocumented. httpx2 has no argument for a
network backend, so it is set on the pools of clients that we create. That needs four private names:
`_transport`, `_mounts`, `_pool` and `_network_backend`. It does not close the innermost generator
of a response body that is not read to its end, which trio reports as a leak. Closing it needs two
more: `_stream` and `_httpcore_stream`. A client does not say which proxy it uses, which
`_transport_for_url` and `_proxy_url` do.
"""

import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from os import environ
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar

import httpx2

from .._clock import monotonic
from .._fallback import report_fallback
from ._types import (
    DEFAULT_PORTS,
    FailureKind,
    Headers,
    Request,
    ResponseHead,
    TransportFailure,
    limited,
    limits_of,
)

if TYPE_CHECKING:
    import httpcore2  # loaded with the first client, because it needs as long as all of ours

# Translates the exceptions of the HTTP libraries into `TransportFailure`.
#
# A caller may pass a client of `httpx2` or of `httpx`. Their classes have the same names but are
# different, and `httpx` may not be installed, so exceptions are recognised by class name.

_LIBRARIES = ("httpx2", "httpx", "httpcore2", "httpcore")

# The most specific name comes first.
_KINDS = {
    "DecodingError": FailureKind.ENCODING,
    "ConnectTimeout": FailureKind.CONNECT_TIMEOUT,
    "TimeoutException": FailureKind.TIMEOUT,
    "ConnectError": FailureKind.CONNECT,
    "ProxyError": FailureKind.PROXY,
    "TransportError": FailureKind.BROKEN,
    "NetworkError": FailureKind.BROKEN,
    "ProtocolError": FailureKind.BROKEN,
    "StreamError": FailureKind.BROKEN,
    "InvalidURL": FailureKind.REQUEST,
}


class translated:  # noqa: N801 - used as `with translated():`
    """Turn every transport error into a `TransportFailure`; other exceptions propagate.

    A class, because a `contextlib` generator would be a tenth of the cost of an open stream.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, exc_type: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception):
            kind = _kind_of(error)
            if kind is not None:
                raise TransportFailure(kind, _message(error)) from error


def _kind_of(error: Exception) -> FailureKind | None:
    names = [
        cls.__name__ for cls in type(error).__mro__ if cls.__module__.split(".")[0] in _LIBRARIES
    ]
    kind = next((kind for name, kind in _KINDS.items() if name in names), None)
    if kind is None and isinstance(error, OSError):  # from a caller's own transport
        kind = FailureKind.BROKEN
    if kind is None and isinstance(error, UnicodeError | OverflowError):
        kind = FailureKind.REQUEST  # a host or port that the socket library rejects
    if kind is FailureKind.CONNECT and _is_certificate_error(error):
        return FailureKind.CERTIFICATE
    return kind


def _is_certificate_error(error: BaseException) -> bool:
    current: BaseException | None = error
    while current is not None:
        if isinstance(current, ssl.SSLCertVerificationError):
            return True
        current = current.__cause__ or current.__context__
    return False


def _message(error: Exception) -> str:
    name = type(error).__name__
    text = str(error)
    return f"{name}: {text}" if text else name


MAX_ERROR_BODY_SECONDS = 5.0


def build_request(client: Any, request: Request) -> Any:
    """Build the request with the classes of the client's library, `httpx2` or `httpx`.

    The read timeout is for the whole head; `begin_body` makes it one for each read.
    """
    limits, url = request.timeouts, request.url
    kind: Any = type(getattr(client, "base_url", url))  # the URL of its library
    parts = {
        "method": request.method,
        # Parsed once, unless it has a query, which may hold a secret.
        "url": url if "?" in url else _parsed(kind, url),
        # Bytes, because the libraries encode text as ASCII, but the standard requires UTF-8.
        "headers": {name: value.encode() for name, value in request.headers.items()},
        "content": request.content,
    }
    # A tuple, because each library accepts only its own Timeout class.
    four = (limits.connect, limits.read, limits.write, limits.pool) if limits else None
    built = client.build_request(**parts, **({"timeout": four} if four else {}))
    timeouts = built.extensions.get("timeout")
    if isinstance(timeouts, dict):
        end = _real_time(request.deadline)
        for name, timeout in timeouts.items():
            timeouts[name] = limited(timeout, end, total=name == "read")
    if not request.without_client_defaults:
        return built
    return type(built)(**parts, extensions=built.extensions)


@lru_cache(maxsize=64)
def _parsed(kind: Callable[[str], Any], url: str) -> Any:
    return kind(url)


def once(action: Callable[[], None]) -> Callable[[], None]:
    """Return a callable that runs the action the first time and does nothing afterwards."""
    pending = [action]

    def act() -> None:
        if pending:
            pending.pop()()

    return act


def with_authorization(request: Request, authorization: str) -> Request:
    """Return the request with this `Authorization`, unless it has its own or must have none."""
    has_own = any(name.lower() == "authorization" for name in request.headers)
    if request.without_client_defaults or has_own:
        return request
    return replace(request, headers={**request.headers, "Authorization": authorization})


def send_options(request: Request) -> dict[str, Any]:
    """Return the arguments of `send`; redirects are followed by `_redirect`, not by the client."""
    options: dict[str, Any] = {"stream": True, "follow_redirects": False}
    if request.without_client_defaults:
        options["auth"] = None
    return options


def response_head(response: Any) -> ResponseHead:
    return ResponseHead(response.status_code, Headers(response.headers.multi_items()))


def begin_body(response: Any, request: Request) -> None:
    """Set the read timeout for a body that is a stream; any other counts to the head."""
    timeouts = response.request.extensions.get("timeout")
    if isinstance(timeouts, dict) and response.status_code < 300 and not request.whole:
        timeout, _ = limits_of(timeouts.get("read"))
        timeouts["read"] = limited(timeout, _real_time(request.deadline))


def end_body_within(response: Any, seconds: float) -> float:
    """Limit the time for the rest of the body; return its end on `time.monotonic`."""
    end = time.monotonic() + seconds
    timeouts = response.request.extensions.get("timeout")
    if isinstance(timeouts, dict):  # the transport reads it when it starts to read the body
        timeout, before = limits_of(timeouts.get("read"))
        end = min(end, before)
        timeouts["read"] = limited(timeout, end)
    return end


def _real_time(deadline: float | None) -> float | None:
    """Return a time of our clock on `time.monotonic`, which does not skip waits."""
    return None if deadline is None else time.monotonic() + deadline - monotonic()


def is_body_complete(response: Any) -> bool:
    """Return True if the whole body has arrived, so reading the rest of it does not wait.

    Only our network backend knows this: always False for a caller's own client.
    """
    stream = response.extensions.get("network_stream")
    return getattr(stream, "response_complete", False) is True


def body_reader(response: Any) -> tuple[Any, float | None]:
    """Return a function that reads the body without h11 (None on a caller's client), and a timeout.

    For each piece of a body, h11 and the generators of httpx2 cost more than everything else.
    """
    stream = response.extensions.get("network_stream")
    limits = response.request.extensions.get("timeout")
    read = limits.get("read") if isinstance(limits, dict) else None
    return getattr(stream, "read_body", None), read


def can_read_raw(response: Any, head: ResponseHead) -> bool:
    """Return True if the body has no content encoding and was not already read by a mock."""
    encoding = head.headers.get("content-encoding", "identity").strip().lower()
    return encoding == "identity" and not response.is_stream_consumed


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


# Closing a connection, which differs between threads and event loops.


def close_stream(stream: "httpcore2.NetworkStream") -> None:
    """Close a connection and wake a thread that is reading from it."""
    # Closing a descriptor does not wake a thread that is reading from it, but `shutdown` does.
    # `socket.socket.shutdown`, because that of a TLS socket removes the object the reader uses.
    sock = stream.get_extra_info("socket")
    if isinstance(sock, socket.socket):
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
    stream.close()


async def close_stream_async(stream: "httpcore2.AsyncNetworkStream") -> None:
    """Close a connection; its event loop wakes a task that is reading from it."""
    await stream.aclose()


def replace_network_backends(client: Any, replacement: Callable[[object], object | None]) -> bool:
    """Replace the network backends of all pools of a client, or change nothing.

    `replacement` returns the new backend for an old one, None for an unknown one. Return False if
    nothing was changed; the client then works the same, but slower.
    """
    try:
        transports = [client._transport, *client._mounts.values()]
        pools = [transport._pool for transport in transports if transport is not None]
        backends = [replacement(pool._network_backend) for pool in pools]
    except AttributeError:
        pools, backends = [], [None]
    if None in backends:
        report_fallback("the pools of httpx2 are", "packets are read one chunk at a time, slower")
        return False
    for pool, backend in zip(pools, backends, strict=True):
        pool._network_backend = backend
    return True


def close_body_with_response(response: Any) -> None:
    """Make `aclose` of an async response close the generator of its body.

    A response without these names is left unchanged: it is that of a mock or of another transport.
    """
    stream = response.stream
    while (inner := getattr(stream, "_stream", None)) is not None:
        stream = inner
    if (body := getattr(stream, "_httpcore_stream", None)) is not None:
        stream._httpcore_stream = _ClosableBody(body)


class _ClosableBody:
    """The body of a response that also closes the generator that reads it."""

    __slots__ = ("_body", "_reader")

    def __init__(self, body: Any) -> None:
        self._body = body
        self._reader: Any = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        self._reader = self._body.__aiter__()
        reader: AsyncIterator[bytes] = self._reader
        return reader

    async def aclose(self) -> None:
        close_reader = getattr(self._reader, "aclose", None)
        try:
            if close_reader is not None:
                await close_reader()
        finally:
            await self._body.aclose()


def proxy_of(client: Any, url: str) -> str | None:
    """Return the proxy that a client uses for a URL, without user and password.

    None if it uses none, if that cannot be found out, or if the URL is not valid.
    """
    try:
        proxy = client._transport_for_url(httpx2.URL(url))._pool._proxy_url
        host, port = proxy.host.decode(), proxy.port or DEFAULT_PORTS.get(proxy.scheme.decode())
        return f"{proxy.scheme.decode()}://{f'[{host}]' if ':' in host else host}:{port}"
    except (AttributeError, httpx2.InvalidURL):  # also of a caller's own transport
        return None


def proxy_for(client: Any, url: str) -> str | None:
    """Return the proxy of a caller's client for a URL; of no client, that of a new one of ours."""
    if client is not None:
        return proxy_of(client, url)
    try:
        with httpx2.Client(verify=client_options()["verify"]) as new:
            return proxy_of(new, url)
    except (ImportError, ValueError):  # the environment names one that httpx2 cannot use
        return None
