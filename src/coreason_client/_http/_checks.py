"""What can be sent, and what can be shown, of addresses and headers. Pure."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

from ..errors import ArgumentError

__all__ = [
    "VISIBLE",
    "check_headers",
    "check_http_client",
    "merged_headers",
    "shown",
    "url_parts",
    "wrong_url",
]

VISIBLE = re.compile(r"[!-~]+", re.ASCII)

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)


def check_headers(headers: Mapping[Any, Any]) -> None:
    """Refuse headers that cannot be sent; values may be secrets, so they are not repeated.

    Raises:
        ArgumentError: a name or a value is not valid.
    """
    for name, value in headers.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise ArgumentError("headers", "must have valid header names", name)
        if not isinstance(value, str):
            kind = type(value).__name__
            raise ArgumentError(f"headers[{name!r}]", f"must be text, not of type {kind}")
        if any(c in value for c in "\r\n\0") or value != value.strip():
            raise ArgumentError(
                f"headers[{name!r}]", "must be text in one line, without spaces around it"
            )


def check_http_client(client: Any, *, is_async: bool) -> None:
    """Refuse an `http_client` that cannot send our requests; None means that one is made.

    Raises:
        TypeError: it is not an HTTP client, or it is async where a sync one is needed, or the
            other way round.
    """
    if client is None:
        return
    closing, other = ("aclose", "close") if is_async else ("close", "aclose")
    sends = callable(getattr(client, "send", None)) and hasattr(client, "build_request")
    if sends and hasattr(client, closing):
        return
    wanted = "AsyncClient" if is_async else "Client"
    message = (
        f"http_client must be an httpx2.{wanted} or httpx.{wanted}, got {type(client).__name__}"
    )
    if sends and hasattr(client, other):
        message += f"; use the {'sync' if is_async else 'async'} client class with it"
    raise TypeError(message)


def merged_headers(*layers: Mapping[str, str]) -> dict[str, str]:
    """Return all headers; a later layer replaces a header whose name differs only in case."""
    merged: dict[str, tuple[str, str]] = {}
    for layer in layers:
        merged |= {name.lower(): (name, value) for name, value in layer.items()}
    return dict(merged.values())


def shown(url: str) -> str:
    """Return a URL without what may be secret in it: user, password, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def wrong_url(argument: str, rule: str, url: Any) -> ArgumentError:
    """Return the error for a URL; one that may hold a password is not repeated."""
    hidden = isinstance(url, str) and "@" in url
    return ArgumentError(argument, rule) if hidden else ArgumentError(argument, rule, url)


def url_parts(argument: str, url: str) -> SplitResult:
    """Return the parts of a URL.

    Raises:
        ArgumentError: it has no valid host, or no valid port.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port  # parsed only when it is read
    except ValueError:
        raise wrong_url(argument, "must be a URL with a valid host and port", url) from None
    return parts
