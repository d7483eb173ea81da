"""The text form of a host and a port."""

from ipaddress import IPv4Address, IPv6Address
from urllib.parse import urlsplit

from hypothesis import given
from hypothesis import strategies as st

from coreason_client._host_port import bracketed, host_port

hosts = st.one_of(
    st.ip_addresses(v=4).map(IPv4Address.__str__),
    st.ip_addresses(v=6).map(IPv6Address.__str__),
    st.sampled_from(["localhost", "example.org"]),
)


@given(hosts, st.integers(1, 65_535))
def test_a_url_has_the_same_host_and_port(host: str, port: int) -> None:
    parts = urlsplit(f"http://{host_port(host, port)}/")
    assert (parts.hostname, parts.port) == (host, port)
    assert urlsplit(f"http://{bracketed(host)}").hostname == host


def test_only_an_ipv6_address_has_brackets() -> None:
    assert host_port("::1", 80) == "[::1]:80"
    assert host_port("127.0.0.1", 80) == "127.0.0.1:80"
    assert bracketed("localhost") == "localhost"
