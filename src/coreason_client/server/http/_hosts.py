"""The Host, Origin and path of a request that a server accepts. Pure: headers in, a refusal out.

A browser lets any web page send requests to any server, and a server without keys cannot tell the
senders apart. Two rules keep out pages of other sites. With keys or tickets neither rule applies,
because a page does not have one of its own accord.

* Host. A page can point its own domain at 127.0.0.1 (DNS rebinding); for the browser it then has
  the same origin as the server. The Host header still has the page's domain. So the Host of a
  connection to a loopback address must be an IP address (which cannot be rebound), `localhost`,
  a name below `.localhost`, the host of `public_url`, or one of `allowed_hosts`. The port is
  ignored. Connections to other addresses and unix sockets are not checked: the server cannot know
  the names of containers and proxies.
* Origin. With `Sec-Fetch-Site: same-origin` or `none` the browser confirms that no page of another
  site sent the request. Otherwise the host and port of Origin must be those of Host, or Origin
  must be that of `public_url` or one of `cors_origins`. A request without both headers does not
  come from a page.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ...errors import ArgumentError
from ._problems import Problem

Headers = Sequence[tuple[bytes, bytes]]
Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
RouteEntry: TypeAlias = tuple[set[str], str, Handler]
"""Methods, path and handler of a route."""

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_HOST = re.compile(r"(\[[A-Za-z0-9:.%]+\]|[A-Za-z0-9._-]+)(?::([0-9]{0,5}))?", re.ASCII)
_ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^/?#@\sA-Z]+")
_PATTERN = re.compile(r"\*|(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*", re.ASCII)
_MAX_SHOWN = 100
_MODELS: Final = "/v1/models/"


@dataclass(frozen=True, slots=True)
class _Origin:
    """Scheme, host and port of an origin; the port is always set."""

    scheme: str
    host: str
    port: int


def checked_origins(origins: Iterable[Any]) -> tuple[str, ...]:
    """Return the origins.

    Raises:
        ArgumentError: no browser sends an origin in this form, so it would never match.
        TypeError: the argument is one string.
    """
    if isinstance(origins, str):
        raise TypeError(f"cors_origins must be a list of origins, got {origins!r}")
    found = tuple(origins)
    for origin in found:
        if not isinstance(origin, str) or not _ORIGIN.fullmatch(origin):
            raise ArgumentError(
                "cors_origins",
                "must have origins as browsers send them, such as https://app.example or "
                "http://localhost:5173, in lower case and without a path or a final slash, or *",
                origin,
            )
    return found


class AllowedHosts:
    """The two rules, for one application without keys."""

    __slots__ = ("_any_origin", "_origins", "_patterns")

    def __init__(
        self,
        allowed_hosts: Iterable[str] = (),
        public_url: str | None = None,
        cors_origins: Iterable[str] = (),
    ) -> None:
        if isinstance(allowed_hosts, str):
            raise TypeError(f"allowed_hosts must be a list of host names, got {allowed_hosts!r}")
        self._patterns = {_pattern(host) for host in allowed_hosts}
        origins = tuple(cors_origins)
        self._any_origin = "*" in origins
        self._origins: set[str | _Origin] = {_origin(text) or text for text in origins}
        if public_url is not None:
            public = _public(public_url)
            self._origins.add(public)
            self._patterns.add(public.host)

    def refusal(self, headers: Headers, server: object) -> Problem | None:
        """Return the refusal of a request, None if it is allowed.

        `server` is the local address of the connection, from the ASGI scope.
        """
        hosts, sites, origins = _values(headers, b"host", b"sec-fetch-site", b"origin")
        if _is_loopback(server):
            for host in hosts:
                if not self._knows_host(host):
                    return _misdirected(host)
        if sites and all(site in ("same-origin", "none") for site in sites):
            return None
        for origin in origins:
            if not self._knows_origin(origin, hosts, same_host=not sites):
                return _foreign(origin)
        return _foreign("") if sites and not origins else None

    def _knows_host(self, value: str) -> bool:
        found = _split_host(value)
        if found is None:
            return False
        host = found[0]
        return _is_address(host) or _is_localhost(host) or self._is_allowed(host)

    def _is_allowed(self, host: str) -> bool:
        parents = (f"*{host[at:]}" for at, letter in enumerate(host) if letter == "." and at)
        return not self._patterns.isdisjoint({"*", host, *parents})

    def _knows_origin(self, value: str, hosts: Sequence[str], *, same_host: bool) -> bool:
        if self._any_origin:
            return True
        origin = _origin(value)
        if (origin or value) in self._origins and value != "null":
            return True
        if origin is None or not same_host or not hosts:
            return False
        return all(_is_at(origin, host) for host in hosts)


def _values(headers: Headers, *names: bytes) -> Iterable[list[str]]:
    """Return the values of each of these headers."""
    found: dict[bytes, list[str]] = {name: [] for name in names}
    for key, value in headers:
        if (values := found.get(key.lower())) is not None:
            values.append(value.decode("latin-1").strip())
    return found.values()


def _split_host(value: str) -> tuple[str, int | None] | None:
    """Return the host, in lower case and without a final dot, and the port of a Host header."""
    match = _HOST.fullmatch(value)
    if match is None:
        return None
    host = match[1].lower()
    if host[0] != "[":
        host = host.removesuffix(".")
    port = int(match[2]) if match[2] else None
    return (host, port) if host else None


@lru_cache(maxsize=16)  # most requests name the same host
def _is_address(host: str) -> bool:
    try:
        if host[0] == "[":
            IPv6Address(host[1:-1])
        else:
            IPv4Address(host)
    except ValueError:
        return False
    return True


def _is_localhost(host: str) -> bool:
    return host == "localhost" or host.endswith(".localhost")


def _is_loopback(server: object) -> bool:
    if not isinstance(server, tuple | list) or not server or not isinstance(server[0], str):
        return False
    return _is_loopback_address(server[0])


@lru_cache(maxsize=16)  # a server has few addresses
def _is_loopback_address(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:  # the path of a unix socket, or a name from a test client
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _origin(text: str) -> _Origin | None:
    """Parse an Origin header or a URL; return None if it is not an HTTP origin."""
    scheme, separator, rest = text.partition("://")
    scheme = scheme.lower()
    found = _split_host(rest) if separator and scheme in _DEFAULT_PORTS else None
    if found is None:
        return None
    host, port = found
    return _Origin(scheme, host, _DEFAULT_PORTS[scheme] if port is None else port)


def _is_at(origin: _Origin, host_header: str) -> bool:
    found = _split_host(host_header)
    if found is None:
        return False
    host, port = found
    # A Host without a port has the default port of the scheme that the browser used.
    return (host, port or _DEFAULT_PORTS[origin.scheme]) == (origin.host, origin.port)


def _public(url: str) -> _Origin:
    try:
        parts = urlsplit(url)
        origin = _origin(f"{parts.scheme}://{parts.netloc}")
    except (AttributeError, TypeError, ValueError):
        origin = None
    if origin is None:
        raise ArgumentError("public_url", "must be a URL such as https://agent.example.com", url)
    return origin


def _pattern(host: Any) -> str:
    text = host.lower().removesuffix(".") if isinstance(host, str) else ""
    if not _PATTERN.fullmatch(text):
        raise ArgumentError(
            "allowed_hosts",
            "must have names such as agent.example.com, *.example.com or *, without scheme and "
            "port",
            host,
        )
    return text


def _misdirected(host: str) -> Problem:
    return Problem(
        421,
        "host-not-allowed",
        "The Host header is not a name of this machine. On a loopback address a server without "
        "keys accepts no other name: use the IP address or localhost, or start the server with "
        "allowed_hosts (coreason serve --allowed-host NAME) or with keys.",
        reason=f"the Host {_shown(host)} is not in allowed_hosts (--allowed-host)",
    )


def _foreign(origin: str) -> Problem:
    return Problem(
        403,
        "origin-not-allowed",
        "A web page of another origin must not use a server without keys: add the origin of the "
        "page to cors_origins, or set public_url to the address of the server.",
        reason=f"the Origin {_shown(origin)} is not in cors_origins",
    )


def _shown(text: str) -> str:
    return repr(text[:_MAX_SHOWN])


# The path, and the prefix below which a proxy serves an application. A proxy may remove the prefix
# from the path of a request or pass it on. Both give the same scope: `root_path` has the prefix and
# `path` begins with it, as ASGI requires.


def with_root_path(scope: MutableMapping[str, Any], prefix: str) -> MutableMapping[str, Any]:
    """Return the scope of a request below the prefix; a mount inside it is kept."""
    outer, path = scope.get("root_path", ""), scope["path"]
    if not prefix or outer == prefix:  # the server itself may have the same option
        return scope
    if not outer and path.startswith(f"{prefix}/"):
        return {**scope, "root_path": prefix}
    return {**scope, "root_path": prefix + outer, "path": prefix + path}


def encoded_slash_problem(scope: MutableMapping[str, Any]) -> Problem | None:
    """Return the refusal of a path with an encoded slash.

    ASGI decodes the path, so `/agents/one%2Fassist` would look like `/agents/one/assist`, although
    a proxy in front, and its access rules, see another path. The name of a model may have one:
    everything below `/v1/models/` is the same for access rules.
    """
    before, slash, _ = (scope.get("raw_path") or b"").lower().partition(b"%2f")
    if not slash:
        return None
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    if path.startswith(_MODELS) and _MODELS.encode() in before:
        return None
    return Problem(404, "not-found", "A path with an encoded slash (%2F) does not exist.")


def route_table(entries: Iterable[RouteEntry], *, with_slash: bool = True) -> list[Route]:
    """Return routes; by default each path is also served with a trailing slash.

    Both are served, because a redirect between them would repeat the Host header, which the client
    may have chosen freely.
    """
    table = []
    for methods, path, handler in entries:
        for spelling in (path, f"{path}/") if with_slash else (path,):
            route = Route(spelling, handler)
            route.methods = methods  # Route itself adds HEAD to GET
            table.append(route)
    return table
