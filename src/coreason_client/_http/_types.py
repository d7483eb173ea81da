"""Requests, responses and failures as plain data, independent of any HTTP library."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field, replace
from enum import StrEnum
from math import inf
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit

from ..errors import ArgumentError

# Keeps the query of a URL out of the log lines of the HTTP library.
#
# It logs the URL of every request at level INFO, and a query may contain a key. So the request that
# it sees has no query; the `target` of its extensions is what is sent. Only clients that we create
# do this: the transport of a caller's client may not know `target`.


def hide_query(request: Any) -> None:
    """Move the query of a request of `httpx2` out of its URL; an event hook."""
    url = request.url
    if url.query or "target" in request.extensions:  # that of a redirect is copied
        request.extensions = {**request.extensions, "target": url.raw_path}
        request.url = url.copy_with(query=None)


async def hide_query_async(request: Any) -> None:
    """Do the same in an async client."""
    hide_query(request)


_CONNECT_SECONDS = 10.0
_ENDLESS_SECONDS = 1e8  # three years; sockets reject much more, so it means no limit
SHORTEST_SECONDS = 0.001  # 0 would mean "do not block" to a socket
DEFAULT_PORTS = {"http": 80, "https": 443}


class TimeoutLike(Protocol):
    """An `httpx2.Timeout`, an `httpx.Timeout`, or any object with these four limits."""

    connect: float | None
    read: float | None
    write: float | None
    pool: float | None


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds for each phase of a request, None for no limit."""

    connect: float | None
    read: float | None
    write: float | None
    pool: float | None

    def within(self, seconds: float) -> "Timeouts":
        """Return the limits, each capped at this number of seconds."""
        return Timeouts(*(shorter(own, seconds) for own in astuple(self)))


_NO_LIMITS = Timeouts(None, None, None, None)


def shorter(limit: float | None, seconds: float) -> float:
    """Return the shorter of two limits; None means no limit."""
    return seconds if limit is None else min(limit, seconds)


class _LimitedTimeout(float):
    """A timeout of each operation that ends at a time, however many operations come before it.

    HTTP libraries pass a timeout to the network unchanged, and use it for one read after another.
    Our network backend asks for the `seconds_left`; others see those of the time of creation.
    """

    __slots__ = ("end", "timeout", "total")
    end: float  # on `time.monotonic`
    timeout: float | None
    total: bool


def limited(timeout: float | None, end: float | None, *, total: bool = False) -> float | None:
    """Return a timeout that ends at `end`, on `time.monotonic`.

    With `total` it is for all operations together, from the first one.
    """
    if end is None and (timeout is None or not total):
        return timeout
    end = inf if end is None else end
    limit = _LimitedTimeout(shorter(timeout, max(end - time.monotonic(), SHORTEST_SECONDS)))
    limit.end, limit.timeout, limit.total = end, timeout, total
    return limit


def limits_of(timeout: float | None) -> tuple[float | None, float]:
    """Return the timeout of each operation, and the time at which it ends."""
    if type(timeout) is not _LimitedTimeout:
        return timeout, inf
    if timeout.total and timeout.timeout is not None:
        timeout.end = min(timeout.end, time.monotonic() + timeout.timeout)
        timeout.total = False
    return timeout.timeout, timeout.end


def seconds_left(timeout: float | None) -> float | None:
    """Return the seconds that the next read, write or connect may take."""
    if type(timeout) is not _LimitedTimeout:
        return timeout
    own, end = limits_of(timeout)
    return shorter(own, max(end - time.monotonic(), SHORTEST_SECONDS))


SocketOption: TypeAlias = (
    tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
)
TimeoutArgument: TypeAlias = float | TimeoutLike | None


def timeouts_from(timeout: TimeoutArgument, argument: str = "timeout") -> Timeouts:
    """Return all four limits for a `timeout` argument: a read timeout or a timeout object.

    Raises:
        ArgumentError: a limit is not a positive number; `argument` is its name.
        TypeError: it is neither a number nor a timeout object.
    """
    if timeout is None or isinstance(timeout, int | float):
        limits = Timeouts(_CONNECT_SECONDS, timeout, timeout, _CONNECT_SECONDS)
    else:
        try:
            limits = Timeouts(timeout.connect, timeout.read, timeout.write, timeout.pool)
        except AttributeError:
            raise TypeError(
                f"{argument} must be a number of seconds or an httpx2.Timeout, got {timeout!r}"
            ) from None
    each = (limits.connect, limits.read, limits.write, limits.pool)
    return Timeouts(*(_checked(seconds, argument) for seconds in each))


def _checked(seconds: float | None, argument: str) -> float | None:
    if seconds is not None and not seconds > 0:  # also true for NaN
        raise ArgumentError(argument, "must be greater than 0", seconds)
    return None if seconds is None or seconds >= _ENDLESS_SECONDS else seconds


class Headers(Mapping[str, str]):
    """Response headers, case-insensitive; values of a repeated name are joined."""

    __slots__ = ("_values",)

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._values: dict[str, str] = {}
        for name, value in pairs:
            key = name.lower()
            before = self._values.get(key)
            self._values[key] = value if before is None else f"{before}, {value}"

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._values

    def __repr__(self) -> str:
        return f"Headers({list(self._values)})"  # names only: a value may be a cookie


# Not frozen, like `ResponseHead`: that would triple the cost of creating one.
@dataclass(slots=True)
class Request:
    """One request to send.

    `without_client_defaults` means that the HTTP client adds nothing to it, such as default
    headers, cookies or authentication. It is set for a redirect to another origin, which must not
    carry credentials.

    `deadline` is the time, on `_clock.monotonic`, after which nothing of the request may wait. It
    is exact for clients that this package creates, also if bytes arrive one by one; for a caller's
    client it shortens the timeouts. Without one, the head and an error body must still arrive
    within the read timeout, and with `whole` the response as a whole.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    content: bytes = field(default=b"", repr=False)
    timeouts: Timeouts | None = None
    without_client_defaults: bool = False
    deadline: float | None = None
    whole: bool = False

    def expiring(self, deadline: float, now: float) -> "Request":
        """Return the request with a deadline and with timeouts that end no later than it."""
        left = max(deadline - now, SHORTEST_SECONDS)
        limits = self.timeouts or _NO_LIMITS
        return replace(self, timeouts=limits.within(left), deadline=deadline)


@dataclass(slots=True)
class ResponseHead:
    """Status and headers of a response."""

    status: int
    headers: Headers

    @property
    def content_type(self) -> str:
        """The media type in lower case, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class FailureKind(StrEnum):
    """The kind of a transport failure."""

    CONNECT = "connect"
    CONNECT_TIMEOUT = "connect_timeout"
    CERTIFICATE = "certificate"
    TIMEOUT = "timeout"
    BROKEN = "broken"
    ENCODING = "encoding"
    PROXY = "proxy"
    REQUEST = "request"
    TOO_LARGE = "too_large"
    CLOSED = "closed"


FINAL_FAILURES = frozenset(
    {
        FailureKind.CERTIFICATE,
        FailureKind.CLOSED,
        FailureKind.REQUEST,
        FailureKind.TOO_LARGE,
    }
)
"""Failures that a retry cannot repair."""

UNSENT_FAILURES = frozenset({FailureKind.CONNECT, FailureKind.CONNECT_TIMEOUT})
"""Failures before any byte of the request was sent."""

CONNECT_FAILURES = UNSENT_FAILURES | {FailureKind.PROXY}
"""Failures of the connection itself, which the proxy may have caused."""

TIMEOUT_FAILURES = frozenset({FailureKind.TIMEOUT, FailureKind.CONNECT_TIMEOUT})
"""Failures because a time limit was exceeded."""


class TransportFailure(Exception):
    """The only failure that this package raises; `__cause__` is the library's exception.

    `proxy` is the proxy of a failed connection, without user and password.
    """

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.proxy: str | None = None

    @property
    def via(self) -> str:
        """The proxy for a message about the request; empty if there is none."""
        return "" if self.proxy is None else f" through the proxy {self.proxy}"


def origin(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port of a URL for comparison.

    Raises:
        ValueError: the port is not a number.
    """
    parts = urlsplit(url)
    port = parts.port or DEFAULT_PORTS.get(parts.scheme)
    return parts.scheme.lower(), (parts.hostname or "").lower(), port
