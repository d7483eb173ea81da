"""Options of channels, and what a call sends."""

from pathlib import Path

import pytest
import trustme

from coreason_client._http._types import FailureKind, TransportFailure
from coreason_client.a2a._grpc._channel import GrpcRequest
from coreason_client.a2a._grpc._connection import (
    channel_key,
    channel_options,
    credentials_for,
    metadata_of,
)


def request(url: str, headers: dict[str, str] | None = None) -> GrpcRequest:
    return GrpcRequest("POST", url, headers or {}, max_message_bytes=7)


def test_calls_with_the_same_limit_to_the_same_origin_share_a_channel() -> None:
    assert channel_key(request("https://a.example/s/m")) == ("a.example:443", True, 7)
    assert channel_key(request("http://[::1]:9/s/m")) == ("[::1]:9", False, 7)


def test_the_options_of_a_channel() -> None:
    options = dict(channel_options(("a:1", False, 7)))
    assert options["grpc.max_receive_message_length"] == 7
    assert options["grpc.enable_retries"] == 0


def test_a_plain_channel_has_no_credentials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    assert credentials_for(("a:1", False, 7)) is None
    assert credentials_for(("a:1", True, 7)) is not None
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    assert credentials_for(("a:1", True, 7)) is not None


def test_a_file_of_roots_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    with pytest.raises(TransportFailure, match=r"SSL_CERT_FILE.*missing\.pem") as caught:
        credentials_for(("a:1", True, 7))
    assert caught.value.kind is FailureKind.REQUEST


def test_a_credential_in_the_query_is_an_error() -> None:
    with pytest.raises(TransportFailure, match="which gRPC does not have") as caught:
        metadata_of(request("https://a.example/s/m?key=secret"))
    assert caught.value.kind is FailureKind.REQUEST
    assert "secret" not in str(caught.value)
