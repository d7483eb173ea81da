"""The only module that uses aiohttp: it sends requests, reads bytes and translates failures."""

import asyncio
import errno
import os
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from functools import lru_cache
from math import ceil
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakSet

import aiohttp
from aiohttp.http_exceptions import ContentEncodingError
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from .. import _ownership
from .._clock import real_seconds
from .._http._types import (
    CONNECT_FAILURES,
    FailureKind,
    Headers,
    Request,
    ResponseHead,
    TransportFailure,
)
from .._ownership import PerLoop
from ._internals import fail_readers, request_function, unread_bytes

_KEEP_ALIVE = 60.0
_CHUNK = 65_536
_END_WAIT = 0.05  # seconds to wait for the end of a body after its answer
_NO_WAIT = nullcontext()


# Time limits of calls on one event loop; limits that end in the same second share a timer.
#
# aiohttp starts a timer for each request and cancels it at the end, which is about a twelfth of the
# cost of a call. A time limit works like `asyncio.timeout`: it cancels the task that waits, and the
# code that began it turns the cancellation into a timeout.

_EXACT_SECONDS = 5.0  # a longer limit may be up to a second longer, as in aiohttp


class TimeLimit:
    """The time limit of one task, which must be waiting whenever the limit may be reached."""

    __slots__ = ("_before", "_group", "_reached", "_task")

    def __init__(self, task: "asyncio.Task[object] | None", group: "set[TimeLimit]") -> None:
        self._task = task
        self._before = 0 if task is None else task.cancelling()
        self._group = group
        self._reached = False
        group.add(self)

    def reach(self) -> None:
        """Cancel the task, because its time is over."""
        self._reached = True
        if self._task is not None:
            self._task.cancel()

    def end(self) -> bool:
        """End the limit; return True if it was reached and nothing else cancelled the task."""
        self._group.discard(self)
        if not self._reached or self._task is None:
            return False
        self._reached = False
        return self._task.uncancel() <= self._before


NO_LIMIT = TimeLimit(None, set())
"""A limit that is never reached."""


class TimeLimits:
    """Begins the time limits of the tasks of the running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._groups: dict[int, set[TimeLimit]] = {}  # by the second in which they end

    def begin(self, seconds: float | None) -> TimeLimit:
        """Begin the limit of the current task; None means no limit."""
        if seconds is None:
            return NO_LIMIT
        task, now = asyncio.current_task(self._loop), self._loop.time()
        if seconds <= _EXACT_SECONDS:
            group: set[TimeLimit] = set()
            self._loop.call_at(now + seconds, _reach_all, group)
            return TimeLimit(task, group)
        second = ceil(now + seconds)
        if (known := self._groups.get(second)) is None:
            known = self._groups[second] = set()
            self._loop.call_at(second, self._reach_group, second)
        return TimeLimit(task, known)

    def _reach_group(self, second: int) -> None:
        _reach_all(self._groups.pop(second))


def _reach_all(limits: set[TimeLimit]) -> None:
    for limit in tuple(limits):
        limit.reach()


class AsyncHTTPSessions:
    """One session per event loop; each is closed with its loop, or by `aclose`.

    A forked child starts without sessions.
    """

    def __init__(self, max_concurrency: int | None) -> None:
        self._max_concurrency = max_concurrency
        self._by_loop: PerLoop[AsyncHTTPSession] = PerLoop(
            asyncio.get_running_loop, leave=AsyncHTTPSession.after_fork
        )
        self._closed = False

    def get(self) -> "AsyncHTTPSession | None":
        """Return the session of the running loop; None if there is none, or after a close."""
        return None if self._closed else self._by_loop.get()

    async def current(self) -> "AsyncHTTPSession | None":
        """Return the session of the running loop, created on first use; None after a close."""
        if self._closed:
            return None
        session = self._by_loop.get()
        if session is None:
            session = AsyncHTTPSession(self._max_concurrency)
            await self._by_loop.open(session, session.close)
            await self._by_loop.close_dead(AsyncHTTPSession.disconnect)
        return session

    async def aclose(self) -> None:
        """Close the session of the running loop; other loops close their sessions soon."""
        self._closed = True
        await self._by_loop.close_dead(AsyncHTTPSession.disconnect)
        await self._by_loop.aclose()
        self._by_loop.close_everywhere()

    def abandon(self) -> None:
        """Close the sessions of a garbage-collected client; may be called from any thread."""
        self._closed = True
        self._by_loop.close_everywhere()


class AsyncHTTPSession:
    """The connections of one event loop."""

    def __init__(self, max_concurrency: int | None) -> None:
        self._slots = None if max_concurrency is None else asyncio.Semaphore(max_concurrency)
        self.limited = max_concurrency is not None
        # No connection limit: a request that waits for a connection would look like a slow
        # provider. `max_concurrency` of the client limits the calls instead.
        connector = aiohttp.TCPConnector(
            limit=0, keepalive_timeout=_KEEP_ALIVE, socket_factory=self._new_socket
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=True,
        )
        self._request = request_function(self._session)
        self._whole_sender = _AsyncSender(self, whole=True)
        self._stream_sender = _AsyncSender(self, whole=False)
        self._urls: dict[str, tuple[URL, URL | None]] = {}
        self._headers: dict[int, tuple[Mapping[str, str], CIMultiDict[str]]] = {}
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self.reading: set[aiohttp.ClientResponse] = set()
        self.limits = TimeLimits()
        self.process = _ownership.OwnerProcess()  # a forked child has no part in the connections

    @property
    def closed(self) -> bool:
        """True once the session is closed."""
        return self._session.closed

    def sender(self, *, whole: bool) -> "_AsyncSender":
        """Return a sender; with `whole` the read timeout applies to the complete answer."""
        return self._whole_sender if whole else self._stream_sender

    def slot(
        self, seconds_left: Callable[[], float], deadline_error: Callable[[], Exception]
    ) -> AbstractAsyncContextManager[None]:
        """Wait until fewer than `max_concurrency` calls are running, up to the deadline."""
        if self._slots is None:
            return _NO_WAIT
        return _slot(self._slots, seconds_left, deadline_error)

    async def close(self) -> None:
        """Close the connections; pending reads fail."""
        for response in self.reading:
            fail_readers(response.content, aiohttp.ClientConnectionError("closed"))
        await self._session.close()

    def disconnect(self) -> None:
        """Close the sockets directly, because their event loop is closed."""
        for connection in list(self._sockets):
            connection.close()

    def after_fork(self) -> None:
        """Leave the connections to the parent process."""
        for connection in list(self._sockets):
            _ownership.detach_socket(connection)

    def _new_socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, *_ = address
        connection = socket.socket(family, kind, protocol)
        self._sockets.add(connection)
        return connection

    def url_and_proxy(self, url: str) -> tuple[URL, URL | None]:
        """Return a parsed URL, and the proxy that the environment sets for it."""
        known = self._urls.get(url)
        if known is None:
            if len(self._urls) > 1000:  # a URL may contain the name of a model
                self._urls.clear()
            known = self._urls[url] = URL(url, encoded=True), _proxy(url)
        return known

    def proxy_of(self, url: str) -> str | None:
        """Return the proxy for a URL without user and password."""
        proxy = self.url_and_proxy(url)[1]
        return None if proxy is None else str(proxy.origin())

    def headers(self, given: Mapping[str, str]) -> CIMultiDict[str]:
        """Return headers in the form of aiohttp; those of one route are the same object."""
        known = self._headers.get(id(given))
        if known is None:
            if len(self._headers) > 100:
                self._headers.clear()
            # The original is kept, so that no other object gets its id.
            known = self._headers[id(given)] = given, CIMultiDict(given)
        return known[1]

    def translate(self, error: Exception) -> TransportFailure:
        """Translate an exception of aiohttp.

        Raises:
            RuntimeError: the exception does not concern the connection.
        """
        if self.closed:  # during a call; aiohttp reports that in several ways
            return TransportFailure(FailureKind.CLOSED, "the client has been closed")
        if isinstance(error, RuntimeError):
            raise error
        return TransportFailure(_kind(error), _message(error))

    def send(
        self, request: Request, timeout: aiohttp.ClientTimeout
    ) -> Awaitable[aiohttp.ClientResponse]:
        """Send a request and return the response once its head is received."""
        url, proxy = self.url_and_proxy(request.url)
        return self._request(
            request.method,
            url,
            data=request.content or None,
            headers=self.headers(request.headers),
            timeout=timeout,
            allow_redirects=False,
            proxy=proxy,
        )


@asynccontextmanager
async def _slot(
    slots: asyncio.Semaphore,
    seconds_left: Callable[[], float],
    deadline_error: Callable[[], Exception],
) -> AsyncGenerator[None]:
    try:
        async with asyncio.timeout(seconds_left()):
            await slots.acquire()
    except TimeoutError:
        raise deadline_error() from None
    try:
        yield
    finally:
        slots.release()


class _AsyncSender:
    """Sends the requests of flows and machines.

    With `whole` the read timeout applies to the complete answer. Otherwise it applies to the head
    with an error body, and to each read of a stream.
    """

    def __init__(self, session: AsyncHTTPSession, *, whole: bool) -> None:
        self._session = session
        self._whole = whole

    async def open(self, request: Request) -> "_OpenResponse":
        """Send a request.

        Raises:
            TransportFailure: there was no response.
        """
        limits = request.timeouts
        connect, read = (None, None) if limits is None else (limits.connect, limits.read)
        timeout = _timeout(connect, None if self._whole else read)
        limit = self._session.limits.begin(read)
        try:
            response = await self._session.send(request, timeout)
            return _OpenResponse(self._session, response, limit)
        except asyncio.CancelledError:
            if not limit.end():
                raise
            failure = self._session.translate(TimeoutError())
        except (aiohttp.ClientError, OSError, ValueError, OverflowError, RuntimeError) as error:
            limit.end()
            failure = self._session.translate(error)
            if failure.kind in CONNECT_FAILURES:
                failure.proxy = self._session.proxy_of(request.url)
            if not isinstance(error, aiohttp.ClientResponseError):  # its text contains our headers
                failure.__cause__ = error
        raise failure

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(real_seconds(seconds))


@lru_cache(maxsize=64)  # nearly all requests have the same timeouts
def _timeout(connect: float | None, read: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=read)


class ReceivedHeaders(Headers):
    """The headers of aiohttp, looked up on demand: for most answers none is needed."""

    __slots__ = ("_received",)

    def __init__(self, received: CIMultiDictProxy[str]) -> None:
        self._received = received

    def __getitem__(self, name: str) -> str:
        return ", ".join(self._received.getall(name))

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(map(str.lower, self._received)))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self._received

    def __repr__(self) -> str:
        return f"Headers({list(self)})"  # names only: a value may be a cookie


class _OpenResponse:
    """A response whose body has not been read."""

    __slots__ = ("_limit", "_response", "_session", "head")

    def __init__(
        self, session: AsyncHTTPSession, response: aiohttp.ClientResponse, limit: TimeLimit
    ) -> None:
        self._session = session
        self._limit = limit
        session.reading.add(response)
        self._response = response
        self.head = ResponseHead(response.status, ReceivedHeaders(response.headers))

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the body in pieces, as they are received."""
        self._session.process.check()
        self._limit.end()
        try:
            while chunk := await self._response.content.readany():
                yield chunk
                self._session.process.check()
        except (aiohttp.ClientError, OSError, ValueError) as error:
            timed_out = isinstance(error, TimeoutError)
            if not timed_out and (rest := unread_bytes(self._response.content)):
                yield rest
            raise self._session.translate(error) from error

    async def collect(self, add: Callable[[bytes], None]) -> None:
        """Pass each piece of the body to a function; cheaper than iterating over `chunks`."""
        self._session.process.check()
        try:
            while chunk := await self._response.content.readany():
                add(chunk)
        except asyncio.CancelledError:
            if self._limit.end():
                raise self._session.translate(TimeoutError()) from None
            raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise self._session.translate(error) from error

    async def read(self, limit: int) -> bytes:
        """Read the body up to the limit."""
        body = bytearray()
        try:
            async for chunk in self._response.content.iter_chunked(_CHUNK):
                body += chunk
                if len(body) >= limit:
                    break
        except asyncio.CancelledError:
            if not self._limit.end():
                raise
            if not body:
                raise self._session.translate(TimeoutError()) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if not body:
                raise self._session.translate(error) from error
        return bytes(body[:limit])

    async def aclose(self) -> None:
        """Release the connection if the body is complete, else close it."""
        self._limit.end()
        if not self._session.process.is_current:
            return
        self._session.reading.discard(self._response)
        if self._response.closed:  # aiohttp released the connection at the end of the body
            return
        content = self._response.content
        abandoned = sys.exc_info()[1] is not None  # left early, cancelled or broken
        try:
            if not (abandoned or content.at_eof()):
                # The end of the body often arrives shortly after the end of the answer.
                with suppress(aiohttp.ClientError, OSError):
                    async with asyncio.timeout(_END_WAIT):
                        await content.wait_eof()
        finally:
            if content.at_eof():
                self._response.release()
            else:
                self._response.close()


def _kind(error: Exception) -> FailureKind:
    if isinstance(error, TimeoutError):
        return FailureKind.TIMEOUT
    # A failed handshake is as final as an invalid certificate.
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return FailureKind.CERTIFICATE
    if isinstance(error, aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError):
        return FailureKind.PROXY
    if isinstance(error, aiohttp.ClientConnectorError):
        return FailureKind.CONNECT
    if isinstance(error, ValueError | OverflowError):  # includes InvalidURL
        return FailureKind.REQUEST
    if isinstance(error.__cause__, ContentEncodingError):
        return FailureKind.ENCODING
    return FailureKind.BROKEN


def _message(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, aiohttp.ClientConnectorError):
        where = f"{error.host}, port {error.port}"
        if isinstance(error, aiohttp.ClientConnectorSSLError):
            return f"TLS with {where} failed; it may not support https: {error.os_error.strerror}"
        return f"cannot connect to {where}: {_reason(error.os_error)}"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the response ended early"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server closed the connection"
    return str(error) or type(error).__name__


def _reason(error: OSError) -> str:
    # Errors raised by asyncio describe the call instead of the reason.
    if error.errno is not None and error.errno in errno.errorcode:
        return os.strerror(error.errno).lower()
    return error.strerror or str(error) or type(error).__name__


def _proxy(url: str) -> URL | None:
    """Return the proxy that the environment sets for a URL.

    Looked up here, once per URL, because aiohttp would do it for each request.

    Raises:
        ValueError: it is a SOCKS proxy.
    """
    parts, proxies = urlsplit(url), getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    # `netloc` includes the port, because an exception may be for one port only.
    if not found or not parts.hostname or proxy_bypass(parts.netloc):
        return None
    proxy = URL(found if "://" in found else f"http://{found}")
    if proxy.scheme.startswith("socks"):  # aiohttp would speak HTTP to it
        raise ValueError("the async AI client supports no SOCKS proxy; use an HTTP proxy")
    return proxy
