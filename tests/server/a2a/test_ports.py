"""Addresses of the gRPC server: their form, and who may listen there."""

import errno
import socket
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.errors import ArgumentError
from coreason_client.server.a2a._settings import GrpcAddress, check_free, parse_address, reserve

HOST = "127.0.0.1"


def listener(host: str = HOST, *, shared: bool = False) -> socket.socket:
    sock = socket.socket()
    if shared:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind((host, 0))
    sock.listen()
    return sock


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:50051", GrpcAddress("127.0.0.1", 50051)),
        ("[::1]:0", GrpcAddress("::1", 0)),
        ("localhost:65535", GrpcAddress("localhost", 65535)),
        ("agent-1.internal:1", GrpcAddress("agent-1.internal", 1)),
    ],
)
def test_addresses(text: str, address: GrpcAddress) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "50051", ":50051", "host", "host:", "host:65536", "host:+1", "::1:5", "http://h:1"),
        *("h:1 ", "host:١", "host:000001", 50051, None),
    ],
)
def test_other_texts_are_refused(text: object) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_address(text, "address")
    assert caught.value.argument == "address"


@given(st.text() | st.from_regex(r"\[?[a-z0-9:.]{0,8}\]?:[0-9]{0,6}", fullmatch=True))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        address = parse_address(text)
    except ArgumentError:
        return
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("host", "loopback", "wildcard"),
    [
        ("127.0.0.1", True, False),
        ("127.9.9.9", True, False),
        ("::1", True, False),
        ("localhost", True, False),
        ("0.0.0.0", False, True),
        ("::", False, True),
        ("10.0.0.1", False, False),
        ("agent.example", False, False),
    ],
)
def test_hosts(host: str, loopback: bool, wildcard: bool) -> None:
    address = GrpcAddress(host, 1)
    assert (address.is_loopback, address.is_wildcard) == (loopback, wildcard)


@pytest.mark.parametrize("shared", [False, True])
def test_an_address_in_use_is_not_free(shared: bool) -> None:
    with closing(listener()) as sock:
        address = GrpcAddress(HOST, sock.getsockname()[1])
        with pytest.raises(OSError, match=f"cannot listen at {address}: ") as caught:
            check_free(address, shared=shared)
    assert caught.value.errno == errno.EADDRINUSE
    check_free(address, shared=shared)


def test_only_sharing_processes_may_use_a_shared_address() -> None:
    with closing(listener(shared=True)) as sock:
        address = GrpcAddress(HOST, sock.getsockname()[1])
        check_free(address, shared=True)
        with pytest.raises(OSError, match="in use"):
            check_free(address, shared=False)
        with pytest.raises(OSError, match="in use"):
            reserve(address)


def test_one_of_the_addresses_of_a_name_is_in_use() -> None:
    with closing(listener()) as sock, pytest.raises(OSError, match="cannot listen at localhost"):
        check_free(GrpcAddress("localhost", sock.getsockname()[1]), shared=False)


def test_port_0_and_hosts_of_other_machines() -> None:
    check_free(GrpcAddress(HOST, 0), shared=False)
    with pytest.raises(OSError, match=r"cannot listen at 192\.0\.2\.1:5"):  # a documentation net
        check_free(GrpcAddress("192.0.2.1", 5), shared=False)
    with pytest.raises(OSError, match=r"cannot listen at no-such-host\.invalid:5"):
        check_free(GrpcAddress("no-such-host.invalid", 5), shared=False)


def test_a_reserved_address_can_be_shared_and_is_taken_for_others() -> None:
    with closing(listener()) as sock:
        address = GrpcAddress(HOST, sock.getsockname()[1])
    [reserved] = reserve(address)
    with reserved:
        check_free(address, shared=True)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(address)
