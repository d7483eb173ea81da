"""The URLs that push notifications may be sent to. No I/O.

Only what the URL itself shows is checked here; what its host resolves to is checked when the
connection is made.
"""

import re
import socket
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final
from urllib.parse import urlsplit

from ...._host_port import bracketed
from ._addresses import Address, is_allowed, parse_address

__all__ = ["URLRules", "WebhookURL"]

_VISIBLE: Final = re.compile(r"[!-~]+", re.ASCII)
_MAX_LENGTH: Final = 2048
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class WebhookURL:
    """A URL that was checked, in parts, so that nothing parses it differently later."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """The value of the `Host` header."""
        shown = bracketed(self.host)
        return shown if self.port == _PORTS[self.scheme] else f"{shown}:{self.port}"


@dataclass(frozen=True, slots=True)
class URLRules:
    """What a server allows."""

    allow_http: bool = False
    allow_private: bool = False

    def parse(self, url: object) -> WebhookURL:
        """Return the parts of a URL.

        Raises:
            ValueError: it is not allowed; the message completes a sentence that starts with `url`.
        """
        if not isinstance(url, str) or not url:
            raise ValueError("is required and must be a string")
        if len(url) > _MAX_LENGTH:
            raise ValueError(f"may have at most {_MAX_LENGTH} characters")
        if not _VISIBLE.fullmatch(url) or "\\" in url:
            raise ValueError("must be ASCII without spaces and backslashes")
        try:
            parts = urlsplit(url)
            port, host = parts.port, parts.hostname
        except ValueError:
            raise ValueError("must have a valid host and port") from None
        if parts.scheme not in _PORTS or not host or "%" in host:
            raise ValueError("must start with https:// and a host")
        if "@" in parts.netloc:
            raise ValueError("must not have a user or password: use authentication")
        if parts.scheme == "http" and not self.allow_http:
            raise ValueError("must start with https://, because this server sends nothing in clear")
        if port == 0:
            raise ValueError("must have a port from 1 to 65535")
        self._check_host(host)
        query = f"?{parts.query}" if parts.query else ""
        return WebhookURL(
            parts.scheme, host, port or _PORTS[parts.scheme], f"{parts.path or '/'}{query}"
        )

    def _check_host(self, host: str) -> None:
        address = _address_of(host)
        name = host.rstrip(".")
        local = name == "localhost" or name.endswith(".localhost")
        allowed = self.allows(address) if address is not None else self.allow_private or not local
        if not allowed:
            raise ValueError("must have a public host, because this server sends to no other")

    def allows(self, address: Address) -> bool:
        """Return True if a notification may be sent to an address."""
        return is_allowed(address, allow_private=self.allow_private)


def _address_of(host: str) -> Address | None:
    """Return the address that a host stands for without a lookup, also in its older forms."""
    if (address := parse_address(host)) is not None:
        return address
    try:
        # Such as 2130706433, 0x7f.1 and 0177.0.0.1: the operating system understands them.
        return IPv4Address(socket.inet_aton(host))
    except OSError:
        return None
