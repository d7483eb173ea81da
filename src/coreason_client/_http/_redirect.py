"""Following a redirect that keeps method and body (307, 308). Pure.

The libraries would follow by themselves, but a caller's client may be set up either way, and
nothing that says who we are may reach another origin: not our key, and not what the caller put
into a client of its own.
"""

from dataclasses import replace
from urllib.parse import urljoin

from ._types import Request, origin

__all__ = ["FOLLOWED", "MOST_REDIRECTS", "bare", "redirected"]

FOLLOWED = frozenset({307, 308})
MOST_REDIRECTS = 5

_HARMLESS_HEADERS = frozenset(
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


def redirected(request: Request, location: str) -> Request:
    """Return the request for the new place; once away from its origin it stays bare.

    Raises:
        ValueError: the location is not an address that can be followed.
    """
    target = urljoin(request.url, location)
    scheme, host, _ = there = origin(target)
    if scheme not in ("http", "https") or not host:
        raise ValueError("not an http or https address")
    try:
        host.encode("idna")
    except UnicodeError:
        raise ValueError("the host name is not valid") from None
    if not request.bare and there == origin(request.url):
        return replace(request, url=target)
    return bare(replace(request, url=target))


def bare(request: Request) -> Request:
    """Return the request without anything that says who sends it."""
    harmless = {
        name: value for name, value in request.headers.items() if name.lower() in _HARMLESS_HEADERS
    }
    return replace(request, headers=harmless, bare=True)
