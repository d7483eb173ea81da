"""Addresses of gRPC interfaces: what a card says, as the URL of an origin. Pure.

A card has a URL (`https://host:port`, also with the schemes `http`, `grpcs` and `grpc`), or only
`host:port`, perhaps after `dns:` or `dns:///`. With only `host:port` the connection is encrypted,
except that it is plain in these cases, unless the port is 443:

* the card was fetched over http,
* the card was not fetched, and the host is this machine.
"""

import re
from importlib.util import find_spec
from urllib.parse import urlsplit

from ..._host_port import host_port
from ..._http._checks import check_url, wrong_url

_SCHEMES = {"grpc": "http", "grpcs": "https", "http": "http", "https": "https"}
_DNS = re.compile(r"dns:(?:///)?")
_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})
_TLS_PORT = 443


def is_installed() -> bool:
    """Return True if the extra `grpc` is installed."""
    try:
        return all(map(find_spec, ("grpc", "google.protobuf")))
    except ModuleNotFoundError:  # not even the package `google`
        return False


def grpc_url(address: str, fetched_from: str | None = None, argument: str = "url") -> str:
    """Return `http://host:port` (plain) or `https://host:port` (TLS) for an address.

    `fetched_from` is the URL of the card that has the address; `argument` names it in errors.

    Raises:
        ArgumentError: the address cannot be called.
        TypeError: it is not a string.
    """
    if not isinstance(address, str):
        raise TypeError(f"{argument} must be a string, got {type(address).__name__}")
    scheme, separator, rest = address.partition("://")
    if separator and scheme.lower() in _SCHEMES:
        url = f"{_SCHEMES[scheme.lower()]}://{rest}"
    else:
        url = f"https://{_DNS.sub('', address, count=1)}"
    parts = check_url(url, argument, credentials_go_into="auth")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise wrong_url(argument, "must be host:port or a URL without a path for gRPC", address)
    if not separator and _is_plain(parts.hostname or "", parts.port, fetched_from):
        url = f"http://{parts.netloc}"
    return url.rstrip("/")


def _is_plain(host: str, port: int | None, fetched_from: str | None) -> bool:
    if port is None or port == _TLS_PORT:
        return False
    if fetched_from is not None:
        return urlsplit(fetched_from).scheme == "http"
    return host.lower() in _THIS_MACHINE


def target_of(url: str) -> tuple[str, bool]:
    """Return the target of a channel, `host:port`, and whether it uses TLS."""
    parts = urlsplit(url)
    is_secure = parts.scheme == "https"
    port = parts.port or (_TLS_PORT if is_secure else 80)
    return host_port(parts.hostname or "", port), is_secure
