"""The only room that knows aiohttp: requests out, bytes in, its failures translated once."""

import asyncio
import errno
import os
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakSet

import aiohttp
from multidict import CIMultiDictProxy
from yarl import URL

from .. import _fork
from .._http._types import FailureKind, Headers, Request, ResponseHead, TransportFailure
from .._per_loop import PerLoop
from ._internals import fail_readers, unread_bytes

__all__ = ["Session", "Sessions"]

_KEEP_ALIVE = 60.0
_CHUNK = 65_536
_END_WITHIN = 0.05
_AT_ONCE = nullcontext()


class Sessions:
    """One session for each event loop; each is closed with its loop, or by `aclose`.

    A forked child starts with none.
    """

    def __init__(self, max_concurrency: int | None) -> None:
        self._max_concurrency = max_concurrency
        self._by_loop: PerLoop[Session] = PerLoop(
            asyncio.get_running_loop, leave=Session.after_fork
        )
        self._closed = False

    async def current(self) -> "Session | None":
        """Return the session of the running loop, made if there is none; None after a close."""
        if self._closed:
            return None
        session = self._by_loop.get()
        if session is None:
            session = Session(self._max_concurrency)
            await self._by_loop.open(session, session.close)
            await self._by_loop.close_dead(Session.disconnect)
        return session

    async def aclose(self) -> None:
        """Close the session of the running loop; those of other loops are closed there, soon."""
        self._closed = True
        await self._by_loop.close_dead(Session.disconnect)
        await self._by_loop.aclose()
        self._by_loop.close_everywhere()

    def abandon(self) -> None:
        """Close the sessions of a client that was dropped; called from anywhere, at any time."""
        self._closed = True
        self._by_loop.close_everywhere()


class Session:
    """The connections of one event loop."""

    def __init__(self, max_concurrency: int | None) -> None:
        self._turns = None if max_concurrency is None else asyncio.Semaphore(max_concurrency)
        # No limit of connections here: a request that waits for one would look like a slow
        # provider. Who wants a limit gives the client `max_concurrency`.
        connector = aiohttp.TCPConnector(
            limit=0, keepalive_timeout=_KEEP_ALIVE, socket_factory=self._new_socket
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=True,
        )
        self._urls: dict[str, tuple[URL, URL | None]] = {}
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self.reading: set[aiohttp.ClientResponse] = set()

    @property
    def closed(self) -> bool:
        return self._session.closed

    def sender(self, *, whole: bool) -> "_Sender":
        """Return what opens requests; `whole` says for what their read limit is."""
        return _Sender(self, whole=whole)

    def turn(
        self, left: Callable[[], float], out_of_time: Callable[[], Exception]
    ) -> AbstractAsyncContextManager[None]:
        """Wait until fewer calls are under way than may be, but not beyond the deadline."""
        return _AT_ONCE if self._turns is None else _turn(self._turns, left, out_of_time)

    async def close(self) -> None:
        """Close the connections, and end what is being read from them."""
        for response in self.reading:
            fail_readers(response.content, aiohttp.ClientConnectionError("closed"))
        await self._session.close()

    def disconnect(self) -> None:
        """Close the sockets, because the loop of the connections is closed."""
        for connection in list(self._sockets):
            connection.close()

    def after_fork(self) -> None:
        """Leave the connections to the parent process."""
        for connection in list(self._sockets):
            _fork.detach_socket(connection)

    def _new_socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        self._sockets.add(made)
        return made

    def way(self, url: str) -> tuple[URL, URL | None]:
        """Return the address and the proxy on the way to it, as the environment says."""
        known = self._urls.get(url)
        if known is None:
            if len(self._urls) > 1000:  # model names may be part of an address
                self._urls.clear()
            known = self._urls[url] = URL(url, encoded=True), _proxy(url)
        return known

    def translated(self, error: Exception) -> TransportFailure:
        """Return what a failure of aiohttp is in our terms.

        Raises:
            RuntimeError: it is none of the connection.
        """
        if self.closed:  # in the middle of a call, for which aiohttp has many words
            return TransportFailure(FailureKind.CLOSED, "the client has been closed")
        if isinstance(error, RuntimeError):
            raise error
        return TransportFailure(_kind(error), _words(error))

    async def post(
        self, request: Request, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        """Send a request and return the response once its head is there."""
        url, proxy = self.way(request.url)
        return await self._session.post(
            url,
            data=request.content,
            headers=request.headers,
            timeout=timeout,
            allow_redirects=False,
            proxy=proxy,
        )


@asynccontextmanager
async def _turn(
    turns: asyncio.Semaphore, left: Callable[[], float], out_of_time: Callable[[], Exception]
) -> AsyncGenerator[None]:
    try:
        async with asyncio.timeout(left()):
            await turns.acquire()
    except TimeoutError:
        raise out_of_time() from None
    try:
        yield
    finally:
        turns.release()


class _Sender:
    """Opens requests for the shells.

    `whole` means that the read limit is for the complete answer; else it is for each silence.
    """

    def __init__(self, session: Session, *, whole: bool) -> None:
        self._session = session
        self._whole = whole

    async def open(self, request: Request) -> "_Response":
        """Send a request.

        Raises:
            TransportFailure: there was no answer.
        """
        limits = request.timeouts
        connect, read = (None, None) if limits is None else (limits.connect, limits.read)
        timeout = _timeout(connect, read, whole=self._whole)
        try:
            return _Response(self._session, await self._session.post(request, timeout))
        except (aiohttp.ClientError, OSError, ValueError, OverflowError, RuntimeError) as error:
            failure = self._session.translated(error)
            if not isinstance(error, aiohttp.ClientResponseError):  # which shows our headers
                failure.__cause__ = error
        raise failure

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


@lru_cache(maxsize=64)  # nearly all requests have the same limits
def _timeout(connect: float | None, read: float | None, *, whole: bool) -> aiohttp.ClientTimeout:
    if whole:  # no silence can be longer than the whole, so it needs no timer of its own
        return aiohttp.ClientTimeout(total=read, sock_connect=connect)
    return aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=read)


class _Headers(Headers):
    """Headers that are read when somebody asks for one: of most answers nobody does."""

    __slots__ = ("_received",)

    def __init__(self, received: CIMultiDictProxy[str]) -> None:
        self._received = received

    def __getattr__(self, name: str) -> Any:
        """Make `_values`, which is not there the first time."""
        super().__init__(self._received.items())
        return object.__getattribute__(self, name)


class _Response:
    """A response whose body has not been read."""

    def __init__(self, session: Session, response: aiohttp.ClientResponse) -> None:
        self._session = session
        self._process = _fork.OwnerProcess()
        session.reading.add(response)
        self._response = response
        self.head = ResponseHead(response.status, _Headers(response.headers))

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Iterate over the body as it comes."""
        self._process.check()
        try:
            while chunk := await self._response.content.readany():
                yield chunk
                self._process.check()
        except (aiohttp.ClientError, OSError, ValueError) as error:
            timed_out = isinstance(error, TimeoutError)
            if not timed_out and (rest := unread_bytes(self._response.content)):
                yield rest
            raise self._session.translated(error) from error

    async def read(self, limit: int) -> bytes:
        """Read the body, or what of it fits the limit."""
        body = bytearray()
        try:
            async for chunk in self._response.content.iter_chunked(_CHUNK):
                body += chunk
                if len(body) >= limit:
                    break
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if not body:
                raise self._session.translated(error) from error
        return bytes(body[:limit])

    async def aclose(self) -> None:
        """Give the connection back when the body is over, else close it."""
        if not self._process.is_current:
            return
        content = self._response.content
        self._session.reading.discard(self._response)
        abandoned = sys.exc_info()[1] is not None  # left, cancelled or broken: it is closed at once
        try:
            if not (abandoned or content.at_eof()):
                # The last word of an answer and the end of its body often come one after the other.
                with suppress(aiohttp.ClientError, OSError):
                    async with asyncio.timeout(_END_WITHIN):
                        await content.wait_eof()
        finally:
            if content.at_eof():
                self._response.release()
            else:
                self._response.close()


def _kind(error: Exception) -> FailureKind:
    if isinstance(error, TimeoutError):
        return FailureKind.TIMEOUT
    # A handshake that failed is as final as a certificate that is not right.
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return FailureKind.CERTIFICATE
    if isinstance(error, aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError):
        return FailureKind.PROXY
    if isinstance(error, aiohttp.ClientConnectorError):
        return FailureKind.CONNECT
    if isinstance(error, ValueError | OverflowError):  # an InvalidURL is one too
        return FailureKind.REQUEST
    return FailureKind.BROKEN


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "the time was up"
    if isinstance(error, aiohttp.ClientConnectorError):
        where = f"{error.host}, port {error.port}"
        if isinstance(error, aiohttp.ClientConnectorSSLError):
            return f"no TLS with {where}, which may not speak https: {error.os_error.strerror}"
        return f"cannot connect to {where}: {_reason(error.os_error)}"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer broke off"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server closed the connection"
    return str(error) or type(error).__name__


def _reason(error: OSError) -> str:
    # Where asyncio raises it, the words tell the call instead of the reason.
    if error.errno is not None and error.errno in errno.errorcode:
        return os.strerror(error.errno).lower()
    return error.strerror or str(error) or type(error).__name__


def _proxy(url: str) -> URL | None:
    """Return the proxy that the environment names for an address.

    Looked up here, once for each address, because aiohttp would do it for each request.
    """
    parts, known = urlsplit(url), getproxies()
    found = known.get(parts.scheme) or known.get("all")
    # With its port, since an exception may be for one port alone.
    if not found or not parts.hostname or proxy_bypass(parts.netloc):
        return None
    return URL(found if "://" in found else f"http://{found}")
