"""The URLs and IP addresses that push notifications may be sent to. No I/O.

A client chooses the URL, so it could make the server send requests to machines that only the server
can reach. What the URL itself shows is checked when it is registered; every address that its host
resolves to is checked when a connection is made.

* Public addresses are allowed.
* Addresses of this machine and of private networks are allowed only with `allow_private_webhooks`.
* Link-local addresses, where clouds offer the credentials of a machine, are never allowed; nor are
  multicast, unspecified and reserved addresses, and tunnels to IPv4 that cannot be checked.
* IPv6 addresses that stand for an IPv4 address are judged as that: IPv4-mapped, and NAT64.
"""

import re
import socket
from dataclasses import dataclass
from enum import Enum, auto
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from ...._host_port import bracketed

# IP addresses

IPAddress: TypeAlias = IPv4Address | IPv6Address


class Reach(Enum):
    """The machines that an address leads to."""

    PUBLIC = auto()
    PRIVATE = auto()
    FORBIDDEN = auto()


# Own tables, because those of `ipaddress` differ between versions of Python.
_PRIVATE_V4: Final = tuple(
    map(
        IPv4Network,
        ("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
    )
)
_FORBIDDEN_V4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network; 0.0.0.0 reaches this machine
            "169.254.0.0/16",  # link-local
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
_PRIVATE_V6: Final = (IPv6Network("::1/128"), IPv6Network("fc00::/7"))
_METADATA_V6: Final = (  # unique local addresses at which clouds offer credentials
    IPv6Network("fd00:ec2::/32"),
    IPv6Network("fd20:ce::/32"),
)
_GLOBAL_V6: Final = IPv6Network("2000::/3")
_FORBIDDEN_V6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments, such as Teredo
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4
            "3fff::/20",  # documentation
        ),
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")


def parse_address(text: str) -> IPAddress | None:
    """Return an address in its standard form, None if the text is something else."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def reach_of(address: IPAddress) -> Reach:
    """Return who can be reached at an address."""
    if isinstance(address, IPv4Address):
        return _reach_of_v4(address)
    if address.ipv4_mapped is not None:
        return _reach_of_v4(address.ipv4_mapped)
    plain = IPv6Address(int(address))  # without a zone
    if plain in _NAT64:
        return _reach_of_v4(IPv4Address(int(plain) & 0xFFFF_FFFF))
    if any(plain in network for network in _METADATA_V6):
        return Reach.FORBIDDEN
    if any(plain in network for network in _PRIVATE_V6):
        return Reach.PRIVATE
    if plain not in _GLOBAL_V6 or any(plain in network for network in _FORBIDDEN_V6):
        return Reach.FORBIDDEN
    return Reach.PUBLIC


def _reach_of_v4(address: IPv4Address) -> Reach:
    if any(address in network for network in _FORBIDDEN_V4):
        return Reach.FORBIDDEN
    if any(address in network for network in _PRIVATE_V4):
        return Reach.PRIVATE
    return Reach.PUBLIC


def is_allowed(address: IPAddress, *, allow_private: bool) -> bool:
    """Return True if a notification may be sent to an address."""
    reach = reach_of(address)
    return reach is Reach.PUBLIC or (allow_private and reach is Reach.PRIVATE)


# URLs

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
    """The URLs and addresses that a server allows."""

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

    def allows(self, address: IPAddress) -> bool:
        """Return True if a notification may be sent to an address."""
        return is_allowed(address, allow_private=self.allow_private)


def _address_of(host: str) -> IPAddress | None:
    """Return the address that a host stands for without a lookup, also in its older forms."""
    if (address := parse_address(host)) is not None:
        return address
    try:
        # Such as 2130706433, 0x7f.1 and 0177.0.0.1: the operating system understands them.
        return IPv4Address(socket.inet_aton(host))
    except OSError:
        return None
