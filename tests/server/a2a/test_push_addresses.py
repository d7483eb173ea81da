"""The addresses to which notifications may be sent."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.a2a._push._urls import (
    Reach,
    is_allowed,
    parse_address,
    reach_of,
)

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "223.255.255.255",
    "2606:2800:220:1:248:1893:25c8:1946",
    "2a00:1450:4001:80b::200e",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
]
PRIVATE = [
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "127.0.0.1",
    "127.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "::1",
    "fc00::1",
    "fdff::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:192.168.1.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
]
FORBIDDEN = [
    "0.0.0.0",
    "0.1.2.3",
    "169.254.0.1",
    "169.254.169.254",
    "192.0.0.170",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::127.0.0.1",  # IPv4-compatible
    "::ffff:0.0.0.0",
    "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1",  # IPv4-translated
    "64:ff9b::a9fe:a9fe",  # NAT64 of 169.254.169.254
    "64:ff9b:1::7f00:1",  # local NAT64
    "100::1",
    "2001::1",  # Teredo
    "2001:0:7f00:1::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::1",  # 6to4 of 127.0.0.1
    "2002:808:808::1",
    "3fff::1",
    "5f00::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::1",
    "fe80::1%eth0",
    "fe90::1",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
]


@pytest.mark.parametrize(
    ("text", "reach"),
    [
        *((text, Reach.PUBLIC) for text in PUBLIC),
        *((text, Reach.PRIVATE) for text in PRIVATE),
        *((text, Reach.FORBIDDEN) for text in FORBIDDEN),
    ],
)
def test_who_can_be_reached(text: str, reach: Reach) -> None:
    address = ip_address(text)
    assert reach_of(address) is reach
    assert is_allowed(address, allow_private=False) is (reach is Reach.PUBLIC)
    assert is_allowed(address, allow_private=True) is (reach is not Reach.FORBIDDEN)


@given(st.ip_addresses())
def test_what_python_knows_as_special_is_never_public(address: object) -> None:
    one = parse_address(str(address))
    assert one is not None
    special = (
        one.is_private
        or one.is_loopback
        or one.is_link_local
        or one.is_multicast
        or one.is_unspecified
        or one.is_reserved
    )
    mapped = getattr(one, "ipv4_mapped", None)
    nat64 = str(one).startswith("64:ff9b::")
    if special and mapped is None and not nat64:
        assert reach_of(one) is not Reach.PUBLIC


@given(st.ip_addresses(v=4))
def test_an_address_in_another_form_is_judged_the_same(address: object) -> None:
    plain, mapped = ip_address(str(address)), ip_address(f"::ffff:{address}")
    assert reach_of(mapped) is reach_of(plain)
    assert reach_of(ip_address(f"64:ff9b::{address}")) is reach_of(plain)


@pytest.mark.parametrize("text", ["", "example.org", "2130706433", "0177.0.0.1", "127.1", "[::1]"])
def test_other_texts_are_no_addresses(text: str) -> None:
    assert parse_address(text) is None
