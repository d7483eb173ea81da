"""Sends notifications, only to addresses that are allowed.

The host is resolved once, every address that it resolves to is checked, and the connection goes to
one of these addresses; the request and TLS still use the name. So there is no second resolution
that could give another answer. Redirects are not followed, proxies of the environment are not used,
and only the beginning of a response is read.
"""

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from time import time
from typing import Any, Final, TypeAlias

import httpcore2

from ...._retry import retry_after
from ._urls import URLRules, WebhookURL, parse_address

# Resolves the hosts of webhooks, without a thread that others need.
#
# A client chooses the host, and with it a name server that may answer slowly. So each lookup has
# its own thread: in a shared pool, lookups that hang would delay all others. The threads are
# daemons, because a lookup cannot be cancelled and must not delay the end of the process.

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


# Sending

TIMEOUT: Final = 20.0
"""Seconds in which a webhook must have answered."""
_CONNECT_TIMEOUT: Final = 5.0  # for each address
_MAX_ADDRESSES: Final = 4  # that are tried
_MAX_RESPONSE: Final = 65_536  # bytes
_KEPT_CONNECTIONS: Final = 50
_KEEP_ALIVE: Final = 15.0
_OWN_ERRORS: Final = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    httpcore2.ConnectionNotAvailable,
)


class WebhookError(Exception):
    """No answer was received; the message says why, without secrets."""


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """The answer of a webhook, and the seconds after which it wants the next request."""

    status: int
    retry_after: float | None = None


class _CheckedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to hosts whose addresses are allowed."""

    def __init__(
        self, rules: URLRules, resolver: Resolver, network: httpcore2.AsyncNetworkBackend
    ) -> None:
        self._rules = rules
        self._resolve = resolver
        self._network = network

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        failure: Exception = WebhookError("its host has no address")
        for address in await self._addresses(host, port):
            try:
                return await self._network.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
        raise WebhookError("a socket of this machine is not a webhook")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host; one that is not allowed forbids them all."""
        try:
            found = list(dict.fromkeys(await self._resolve(host, port)))
        except (OSError, UnicodeError):
            raise WebhookError("its host cannot be resolved") from None
        for text in found:
            address = parse_address(text)
            if address is None or not self._rules.allows(address):
                raise WebhookError("its host has an address that is not allowed")
        return found[:_MAX_ADDRESSES]


class WebhookSender:
    """Sends notifications on one event loop; call `aclose` at the end."""

    def __init__(
        self,
        rules: URLRules,
        *,
        resolver: Resolver | None = None,
        network: httpcore2.AsyncNetworkBackend | None = None,
        ssl_context: ssl.SSLContext | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        self._backend = _CheckedBackend(
            rules, resolver or ThreadResolver(), network or httpcore2.AnyIOBackend()
        )
        self._ssl_context = ssl_context
        self._timeout = timeout
        self._pool: httpcore2.AsyncConnectionPool | None = None

    def _open_pool(self) -> httpcore2.AsyncConnectionPool:
        """Return the connections; loading certificates is slow, so not before the first use."""
        if self._pool is None:
            self._pool = httpcore2.AsyncConnectionPool(
                ssl_context=self._ssl_context or ssl.create_default_context(),
                max_connections=None,  # the caller limits the number of requests
                max_keepalive_connections=_KEPT_CONNECTIONS,
                keepalive_expiry=_KEEP_ALIVE,
                network_backend=self._backend,
            )
        return self._pool

    async def post(
        self, url: WebhookURL, headers: Mapping[str, str], body: bytes
    ) -> WebhookResponse:
        """Send a notification.

        Raises:
            WebhookError: no answer was received in time.
        """
        request = httpcore2.Request(
            "POST",
            httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target),
            headers=[
                ("Host", url.authority),
                *headers.items(),
                ("Content-Length", str(len(body))),
                ("Accept", "*/*"),
                ("User-Agent", "coreason-client"),
            ],
            content=body,
            extensions={"timeout": {"connect": _CONNECT_TIMEOUT}},
        )
        try:
            async with asyncio.timeout(self._timeout):
                return await self._send(request)
        except TimeoutError:
            raise WebhookError(f"it did not answer within {self._timeout:g} seconds") from None
        except _OWN_ERRORS as error:
            # Only these messages come from the network; others could repeat a header.
            shown = str(error) if isinstance(error, httpcore2.NetworkError) else ""
            detail = shown or type(error).__name__
            raise WebhookError(f"the connection failed: {detail}") from None

    async def _send(self, request: httpcore2.Request) -> WebhookResponse:
        response = await self._open_pool().handle_async_request(request)
        try:
            received = 0
            async with aclosing(response.aiter_stream()) as chunks:
                async for chunk in chunks:
                    received += len(chunk)
                    if received > _MAX_RESPONSE:
                        break
        finally:
            await response.aclose()
        named = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in response.headers
        }
        return WebhookResponse(response.status, retry_after(named, time))

    async def aclose(self) -> None:
        """Close all connections."""
        if self._pool is not None:
            await self._pool.aclose()
