"""The IP addresses that push notifications may be sent to. No I/O.

A client chooses the URL, so it could make the server send requests to machines that only the server
can reach. That is why every address is checked when a connection is made.

* Public addresses are allowed.
* Addresses of this machine and of private networks are allowed only with `allow_private_webhooks`.
* Link-local addresses, where clouds offer the credentials of a machine, are never allowed; nor are
  multicast, unspecified and reserved addresses, and tunnels to IPv4 that cannot be checked.
* IPv6 addresses that stand for an IPv4 address are judged as that: IPv4-mapped, and NAT64.
"""

from enum import Enum, auto
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias

__all__ = ["Reach", "is_allowed", "parse_address", "reach_of"]

Address: TypeAlias = IPv4Address | IPv6Address


class Reach(Enum):
    """Who can be reached at an address."""

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


def parse_address(text: str) -> Address | None:
    """Return an address in its standard form, None if the text is something else."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def reach_of(address: Address) -> Reach:
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


def is_allowed(address: Address, *, allow_private: bool) -> bool:
    """Return True if a notification may be sent to an address."""
    reach = reach_of(address)
    return reach is Reach.PUBLIC or (allow_private and reach is Reach.PRIVATE)
