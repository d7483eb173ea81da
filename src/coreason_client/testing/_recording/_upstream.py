"""Passes requests on to a service, and its responses back, chunk by chunk as they arrive.

The HTTP client of the package is not used: it joins small chunks, and their boundaries would be
lost.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from .._loopback import HTTPHead, HTTPRequest, MalformedHTTP, ResponseWriter, read_body, read_head
from ._file import End

T = TypeVar("T")

_CONNECT_TIMEOUT = 30.0
_MAX_HEAD = 1024 * 1024
# About one connection, not about the message.
_HOP_BY_HOP = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization"),
        *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect"),
    }
)
_REPLACED = _HOP_BY_HOP | {"host", "content-length", "accept-encoding"}
_WITHOUT_BODY = frozenset({204, 304})
_STATUS = re.compile(r"[1-5][0-9]{2}", re.ASCII)


class Unreachable(Exception):
    """The service cannot be reached, or its answer cannot be passed on."""


class ResponseObserver(Protocol):
    """Gets a response while it is passed on, and may change it."""

    def begins(self, status: int, headers: tuple[tuple[str, str], ...], *, chunked: bool) -> None:
        """Record the head of the response."""

    def passes(self, data: bytes) -> tuple[bytes, bool]:
        """Record a chunk; return what the client gets, and False to break the connection then."""

    def ends(self, end: End) -> None:
        """Record how the response ended."""


class Upstream:
    """A service at a URL; its path is not used, because requests have theirs."""

    def __init__(self, url: str, context: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if secure else 80)
        self._context = (context or ssl.create_default_context()) if secure else None
        self._netloc = parts.netloc

    async def forward(
        self, request: HTTPRequest, response: ResponseWriter, observer: ResponseObserver
    ) -> None:
        """Pass a request on, and its response back.

        Raises:
            Unreachable: the service cannot be reached, or its answer cannot be passed on.
        """
        reader, writer = await self._connect()
        left = asyncio.ensure_future(response.until_disconnected())
        try:
            writer.write(self._message(request))
            await writer.drain()
            await _pass_back(request.method, reader, response, observer, left)
        finally:
            left.cancel()
            writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        connecting = asyncio.open_connection(
            self._host, self._port, ssl=self._context, limit=_MAX_HEAD
        )
        try:
            return await asyncio.wait_for(connecting, _CONNECT_TIMEOUT)
        except (OSError, TimeoutError) as error:
            why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise Unreachable(f"cannot connect to {self._netloc}: {why}") from None

    def _message(self, request: HTTPRequest) -> bytes:
        headers = [(name, value) for name, value in request.headers if name not in _REPLACED]
        # A compressed answer could neither be read nor searched for secrets.
        headers += [("host", self._netloc), ("accept-encoding", "identity")]
        headers.append(("connection", "close"))
        if request.body or request.method not in ("GET", "HEAD", "DELETE"):
            headers.append(("content-length", str(len(request.body))))
        lines = [f"{request.method} {request.target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + request.body


async def _pass_back(
    method: str,
    reader: asyncio.StreamReader,
    response: ResponseWriter,
    observer: ResponseObserver,
    left: "asyncio.Future[None]",
) -> None:
    try:
        head = await _unless_left(_final_head(reader), left)
        if head is None:
            observer.ends("disconnect")
            return
        await _pass_message(method, head, reader, response, observer, left)
    except _Left:
        observer.ends("client left")
    except (ConnectionError, asyncio.IncompleteReadError):
        observer.ends("client left" if left.done() else "disconnect")
    except MalformedHTTP as error:
        raise Unreachable(f"the service does not speak HTTP/1.1: {error}") from None


async def _final_head(reader: asyncio.StreamReader) -> HTTPHead | None:
    while (head := await read_head(reader)) is not None and _status(head) < 200:
        pass
    return head


def _status(head: HTTPHead) -> int:
    version, _, rest = head.start.partition(" ")
    status = rest.partition(" ")[0]
    if not version.startswith("HTTP/1.") or not _STATUS.fullmatch(status):
        raise MalformedHTTP("a response must begin with HTTP/1.1 and a status")
    return int(status)


async def _pass_message(
    method: str,
    head: HTTPHead,
    reader: asyncio.StreamReader,
    response: ResponseWriter,
    observer: ResponseObserver,
    left: "asyncio.Future[None]",
) -> None:
    status = _status(head)
    if head.get("content-encoding") not in ("", "identity"):
        raise Unreachable("the service compressed its answer although it was asked not to")
    headers = tuple((n, v) for n, v in head.headers if n not in _HOP_BY_HOP | {"content-length"})
    has_body = method != "HEAD" and status not in _WITHOUT_BODY
    # A body without a length may be a stream too, which ends with the connection.
    streams = has_body and (head.is_chunked or not head.get("content-length"))
    observer.begins(status, headers, chunked=streams)
    body = read_body(reader, head, until_closed=True)
    sent_headers = [*headers, ("connection", "close")]
    if not streams:
        whole, complete = await _read_whole(body, left) if has_body else (b"", True)
        data, _ = observer.passes(whole)
        await (response.whole if complete else response.broken)(status, sent_headers, data)
        observer.ends("complete" if complete else "disconnect")
        return
    await response.start(status, sent_headers)
    async for chunk in _until_disconnected(body, left):
        data, goes_on = observer.passes(chunk)
        await response.send(data)
        if not goes_on:
            return
    await response.finish()
    observer.ends("complete")


class _Left(Exception):
    """The client has closed its connection."""


async def _read_whole(
    body: AsyncIterator[bytes], left: "asyncio.Future[None]"
) -> tuple[bytes, bool]:
    """Return a body, and False if it broke off."""
    blocks: list[bytes] = []
    try:
        async for block in _until_disconnected(body, left):
            blocks.append(block)  # noqa: PERF401 - what was read is needed if it breaks off
    except (ConnectionError, asyncio.IncompleteReadError):
        return b"".join(blocks), False
    return b"".join(blocks), True


async def _until_disconnected(
    body: AsyncIterator[bytes], left: "asyncio.Future[None]"
) -> AsyncIterator[bytes]:
    iterator = aiter(body)
    while (chunk := await _unless_left(anext(iterator, None), left)) is not None:
        yield chunk


async def _unless_left(awaited: Awaitable[T], left: "asyncio.Future[None]") -> T:
    """Await something, or raise `_Left` as soon as the client closes its connection."""
    task = asyncio.ensure_future(awaited)
    try:
        waiting: set[asyncio.Future[Any]] = {task, left}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise _Left
        return task.result()
    finally:
        task.cancel()
