"""The headers that pass the proxy, in both directions. Pure.

Only what the protocol needs passes. So neither the token, a cookie nor the page's address reaches
the agent, and an agent can neither set a cookie, redirect the browser nor open a login window.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from .._http._checks import merged_headers
from .._version import __version__

__all__ = ["request_headers", "response_headers"]

_REQUEST: Final = frozenset(
    {
        "accept",
        "cache-control",
        "content-type",
        "last-event-id",
        "traceparent",
        "tracestate",
        "x-request-id",
    }
)
_RESPONSE: Final = frozenset(
    {"cache-control", "content-type", "retry-after", "x-request-id", "x-stream-id"}
)
# A response of the agent is data for the page, whatever type it claims to be.
_ADDED: Final = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}


def request_headers(
    given: Iterable[tuple[str, str]], own: Mapping[str, str], key: str | None
) -> dict[str, str]:
    """Return the headers of a request to the agent; those of the user replace the browser's."""
    passed = {name: value for name, value in given if name.lower() in _REQUEST}
    # Bytes are passed on as they come, so they must not be compressed.
    agent = {"User-Agent": f"coreason-client/{__version__}", "Accept-Encoding": "identity"}
    authorization = {} if key is None else {"Authorization": f"Bearer {key}"}
    return merged_headers(agent, passed, own, authorization)


def response_headers(given: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of the response to the browser; values must be ASCII."""
    passed = {
        name: value
        for name, value in given.items()
        if name.lower() in _RESPONSE and value.isascii()
    }
    return merged_headers(passed, _ADDED)
