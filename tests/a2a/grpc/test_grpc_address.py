"""Addresses of gRPC interfaces."""

from collections.abc import Callable
from typing import Any

import pytest

from coreason_client.a2a._grpc import _address
from coreason_client.a2a._grpc._address import grpc_url, is_installed, target_of
from coreason_client.errors import ArgumentError


@pytest.mark.parametrize(
    ("address", "fetched_from", "url"),
    [
        ("https://agent.example:50051", None, "https://agent.example:50051"),
        ("https://agent.example/", None, "https://agent.example"),
        ("http://agent.example:50051", "https://agent.example", "http://agent.example:50051"),
        ("grpc://agent.example:50051", None, "http://agent.example:50051"),
        ("grpcs://agent.example:50051", None, "https://agent.example:50051"),
        ("GRPCS://agent.example:50051", None, "https://agent.example:50051"),
        # Without a scheme.
        ("agent.example:50051", None, "https://agent.example:50051"),
        ("agent.example:50051", "https://agent.example", "https://agent.example:50051"),
        ("agent.example:50051", "http://agent.example", "http://agent.example:50051"),
        ("agent.example:443", "http://agent.example", "https://agent.example:443"),
        ("agent.example", "http://agent.example", "https://agent.example"),
        ("localhost:50051", None, "http://localhost:50051"),
        ("localhost:50051", "https://localhost", "https://localhost:50051"),
        ("127.0.0.1:50051", None, "http://127.0.0.1:50051"),
        ("[::1]:50051", None, "http://[::1]:50051"),
        ("dns:///agent.example:50051", None, "https://agent.example:50051"),
        ("dns:localhost:50051", None, "http://localhost:50051"),
    ],
)
def test_an_address_is_a_url(address: str, fetched_from: str | None, url: str) -> None:
    assert grpc_url(address, fetched_from) == url


@pytest.mark.parametrize(
    "address",
    [
        "",
        ":50051",
        "host:port",
        "host:99999999",
        "https://host/path",
        "host:50051/path",
        "https://host?x=1",
        "unix:///run/agent.sock",
        "xds:///agent",
        "https://me:secret@host",
        "host name:50051",
        "h\u00f6st:50051",
    ],
)
def test_an_address_that_cannot_be_called(address: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        grpc_url(address)
    assert "secret" not in str(caught.value)


def test_an_address_must_be_text() -> None:
    with pytest.raises(TypeError, match="url must be a string, got int"):
        grpc_url(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "target", "is_secure"),
    [
        ("https://agent.example", "agent.example:443", True),
        ("https://agent.example:50051/a.B/C", "agent.example:50051", True),
        ("http://agent.example", "agent.example:80", False),
        ("http://[::1]:50051", "[::1]:50051", False),
    ],
)
def test_the_target_of_a_channel(url: str, target: str, is_secure: bool) -> None:
    assert target_of(url) == (target, is_secure)


def _nothing(name: str) -> Any:
    return None


def _no_parent(name: str) -> Any:
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("find", [_nothing, _no_parent])
def test_whether_the_extra_is_installed(
    find: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_installed()
    monkeypatch.setattr(_address, "find_spec", find)
    assert not is_installed()
