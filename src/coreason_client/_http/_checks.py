"""Checks of URLs, headers and clients before use, and text that is safe to show. Pure."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

from ..errors import ArgumentError, MissingExtraError

VISIBLE = re.compile(r"[!-~]+", re.ASCII)

_MAX_PROBLEM_MESSAGE = 500
_PROBLEM_FIELDS = ("detail", "message", "title")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)


def check_url(url: Any, argument: str = "url", *, credentials_go_into: str) -> SplitResult:
    """Check a URL to send requests to, and return its parts.

    `argument` is the name of the argument that contains the URL. A URL with a user or password is
    rejected; `credentials_go_into` is the argument to use for credentials instead.

    Raises:
        TypeError: it is not a string.
        ArgumentError: it is not a valid http or https URL; the message contains no password.
    """
    if not isinstance(url, str):
        raise TypeError(f"{argument} must be a string, got {type(url).__name__}")
    if not VISIBLE.fullmatch(url):
        raise wrong_url(argument, "must be a URL in ASCII without spaces", url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise wrong_url(argument, "must be a URL with a valid host and port", url) from None
    if "@" in parts.netloc:
        rule = f"must not contain a user or password: pass them as {credentials_go_into}"
        raise ArgumentError(argument, rule)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise wrong_url(argument, "must start with http:// or https:// and a host", url)
    if port == 0:
        raise wrong_url(argument, "must have a port from 1 to 65535", url)
    return parts


def wrong_url(argument: str, rule: str, url: Any) -> ArgumentError:
    """Return the error for a URL; the message omits a URL that may contain a password."""
    hidden = isinstance(url, str) and "@" in url
    return ArgumentError(argument, rule) if hidden else ArgumentError(argument, rule, url)


def check_headers(headers: Mapping[Any, Any]) -> None:
    """Reject headers that cannot be sent; messages omit values, which may be secrets.

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


def check_key(key: Any, argument: str = "api_key") -> str:
    """Return a key that can be sent in a header.

    Raises:
        ArgumentError: it cannot be sent; the message does not contain it.
    """
    if key == "":
        raise ArgumentError(argument, "must not be empty")
    if not isinstance(key, str) or not VISIBLE.fullmatch(key):
        raise ArgumentError(
            argument, "must be visible ASCII characters without spaces or line ends"
        )
    return str(key)


def check_http_client(client: Any, *, is_async: bool) -> None:
    """Reject an `http_client` that cannot send our requests; None means to create one.

    Raises:
        TypeError: it is not an HTTP client, or a sync client where an async one is needed, or
            the reverse.
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


@contextmanager
def socks_needs_extra() -> Iterator[None]:
    """Create a client of httpx2, which imports another package if the environment names SOCKS.

    Raises:
        MissingExtraError: that package is not installed.
    """
    try:
        yield
    except ImportError as error:
        raise MissingExtraError("a SOCKS proxy", "socks") from error


def merged_headers(*layers: Mapping[str, str]) -> dict[str, str]:
    """Return all headers; a later layer replaces a header whose name differs only in case."""
    merged: dict[str, tuple[str, str]] = {}
    for layer in layers:
        merged |= {name.lower(): (name, value) for name, value in layer.items()}
    return dict(merged.values())


def problem_message(problem: object) -> str:
    """Return the message in the JSON of an error response; empty if it has none.

    Covers problem documents (RFC 9457), `{"error": "…"}` and `{"error": {"message": "…"}}`.
    """
    if not isinstance(problem, dict):
        return ""
    error = problem.get("error")
    if isinstance(error, str):
        return error[:_MAX_PROBLEM_MESSAGE]
    for part in (error if isinstance(error, dict) else {}, problem):
        for name in _PROBLEM_FIELDS:
            if isinstance(found := part.get(name), str) and found:
                return found[:_MAX_PROBLEM_MESSAGE]
    return ""


def shown(url: str) -> str:
    """Return a URL without the parts that may be secret: user, password, query, fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
