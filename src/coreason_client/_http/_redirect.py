"""Redirect rules: which are followed, how many in a row, what is sent to another origin. Pure.

The HTTP libraries can follow redirects, but a caller's client may or may not be configured to. And
no credentials may be sent to another origin, neither our key nor those configured in the caller's
client.
"""

from collections.abc import Set as AbstractSet
from dataclasses import replace
from urllib.parse import urljoin

from .._drive import Flow, Reply
from ._types import Request, ResponseHead, TransportFailure, origin

FOLLOWED = frozenset({307, 308})
"""The redirect statuses that keep the method and the body."""

FOLLOWED_FOR_GET = FOLLOWED | {301, 302, 303}
"""The redirect statuses that are safe to follow for a GET request, which has no body."""

MAX_REDIRECTS = 5

_SAFE_HEADERS = frozenset(
    {
        "a2a-extensions",
        "a2a-version",
        "accept",
        "cache-control",
        "content-type",
        "last-event-id",
        "user-agent",
        "x-a2a-extensions",
        "x-request-id",
    }
)


class Redirects:
    """Counts the redirects of one request; `statuses` are the statuses that are followed."""

    __slots__ = ("_count", "_statuses")

    def __init__(self, statuses: AbstractSet[int] = FOLLOWED) -> None:
        self._statuses = statuses
        self._count = 0

    def includes(self, head: ResponseHead) -> bool:
        """Return True if the response is a redirect to follow."""
        return head.status in self._statuses and "location" in head.headers

    def follow(self, request: Request, head: ResponseHead) -> Request:
        """Count a redirect and return the request for its location.

        Raises:
            ValueError: there were too many in a row, or the location cannot be used.
        """
        self._count += 1
        if self._count > MAX_REDIRECTS:
            raise ValueError(f"more than {MAX_REDIRECTS} in a row")
        return redirected(request, head.headers["location"])


def follow_redirects(
    request: Request, statuses: AbstractSet[int] = FOLLOWED
) -> Flow[Reply | TransportFailure]:
    """Send a request, follow its redirects, and return the last reply or the failure.

    If a redirect cannot be followed, it is the reply that is returned.
    """
    redirects = Redirects(statuses)
    while True:
        result = yield request
        assert result is not None  # noqa: S101 - a request, not a wait, was yielded
        if isinstance(result, TransportFailure) or not redirects.includes(result.head):
            return result
        try:
            request = redirects.follow(request, result.head)
        except ValueError:
            return result


def redirected(request: Request, location: str) -> Request:
    """Return the request for a redirect; without credentials once it left its first origin.

    Raises:
        ValueError: the location is not an http or https URL with a valid host name.
    """
    target = urljoin(request.url, location)
    scheme, host, _ = target_origin = origin(target)
    if scheme not in ("http", "https") or not host:
        raise ValueError("not an http or https address")
    try:
        host.encode("idna")
    except UnicodeError:
        raise ValueError("the host name is not valid") from None
    if not request.without_client_defaults and target_origin == origin(request.url):
        return replace(request, url=target)
    return without_credentials(replace(request, url=target))


def without_credentials(request: Request) -> Request:
    """Return the request without anything that identifies the sender."""
    safe_headers = {
        name: value for name, value in request.headers.items() if name.lower() in _SAFE_HEADERS
    }
    return replace(request, headers=safe_headers, without_client_defaults=True)
