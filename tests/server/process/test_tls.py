"""TLS: files that cannot be used are one sentence, and a new certificate needs no restart."""

import logging
import socket
import ssl
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from coreason_client import ArgumentError, CAPClient
from coreason_client.server import AgentApp, running, serve
from coreason_client.server.process._tls import check_tls
from coreason_client.server.run import _server, tls_options
from tests.each import each

from ..peer import LIMIT

PASSWORD = "correct horse"


async def hello(request: Any, stream: Any) -> None:
    await stream.write("hello")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, authority: trustme.CA) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    issue(authority, folder)
    issued, other = authority.issue_cert("127.0.0.1"), authority.issue_cert("127.0.0.1")
    other.private_key_pem.write_to_path(folder / "other.pem")
    issued.private_key_and_cert_chain_pem.write_to_path(folder / "both.pem")
    key = serialization.load_pem_private_key((folder / "key.pem").read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(PASSWORD.encode())
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "locked.pem").write_bytes(key.private_bytes(*form, encryption))
    (folder / "text.txt").write_text("hello")
    damaged = (folder / "cert.pem").read_text().replace("M", "A")
    (folder / "damaged.pem").write_text(damaged)
    return folder


def issue(authority: trustme.CA, folder: Path) -> None:
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    (folder / "cert.pem").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))


@each(
    ("cert", "key", "password"),
    [
        (None, None, None),
        ("cert.pem", "key.pem", None),
        ("cert.pem", "key.pem", "not needed"),
        ("both.pem", None, None),
        ("cert.pem", "locked.pem", PASSWORD),
    ],
)
def test_files_that_fit(
    files: Path, cert: str | None, key: str | None, password: str | None
) -> None:
    check_tls(cert and files / cert, key and files / key, password)


@each(
    ("cert", "key", "password", "says"),
    [
        (None, "key.pem", None, "ssl_keyfile needs ssl_certfile"),
        (None, None, "p", "ssl_keyfile_password needs ssl_certfile"),
        ("no.pem", None, None, "ssl_certfile {}/no.pem: no such file or directory"),
        ("cert.pem", "no.pem", None, "ssl_keyfile {}/no.pem: no such file or directory"),
        ("", None, None, "ssl_certfile {}: is a directory"),
        ("text.txt", "key.pem", None, "ssl_certfile {}/text.txt: the file has no certificate"),
        ("cert.pem", None, None, "ssl_certfile {}/cert.pem: the file has no private key"),
        ("cert.pem", "text.txt", None, "ssl_keyfile {}/text.txt: the file has no private key"),
        ("cert.pem", "other.pem", None, "ssl_keyfile {}/other.pem: the key does not belong to"),
        ("damaged.pem", "key.pem", None, "ssl_keyfile {}/key.pem: the certificate or the key is"),
        ("cert.pem", "locked.pem", None, "ssl_keyfile_password is missing, and the key in {}/lock"),
        ("cert.pem", "locked.pem", "w", "ssl_keyfile_password does not decrypt the key in {}/lock"),
    ],
)
def test_what_is_wrong_with_the_files(
    files: Path, cert: str | None, key: str | None, password: str | None, says: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        check_tls(
            None if cert is None else files / cert, None if key is None else files / key, password
        )
    assert str(caught.value).startswith(says.format(files))
    assert PASSWORD not in str(caught.value)


def test_serve_refuses_before_it_listens() -> None:
    with pytest.raises(ArgumentError, match=r"ssl_certfile nowhere\.pem: no such file"):
        serve(AgentApp(hello), ssl_certfile="nowhere.pem")


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def test_a_server_with_tls_has_an_https_url(files: Path, authority: trustme.CA) -> None:
    options = tls_options(files / "cert.pem", files / "locked.pem", PASSWORD)
    with running(AgentApp(hello, page=True), **options) as server:
        assert server.url == f"https://127.0.0.1:{server.port}"
        http = httpx2.Client(verify=trusting(authority), timeout=LIMIT)
        with CAPClient(server.url, "any", http_client=http) as client:
            assert client.ask("hi") == "hello"
        assert "<!doctype html>" in http.get(f"{server.url}/").text
        http.close()
        # Plain HTTP gets no answer, and disturbs nobody.
        with socket.create_connection(("127.0.0.1", server.port), LIMIT) as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"HTTP" not in plain.recv(100)


def test_a_new_certificate_is_used_and_a_broken_one_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = trustme.CA(), trustme.CA()
    issue(first, tmp_path)
    options = tls_options(tmp_path / "cert.pem", tmp_path / "key.pem", None)
    server = _server(AgentApp(hello), None, 10.0, log_config=None, **options)
    server.config.load()

    def accepted_by(authority: trustme.CA) -> bool:
        assert server.config.ssl is not None
        return handshake(server.config.ssl, trusting(authority))

    with caplog.at_level(logging.INFO, "coreason_client.server"):
        assert (accepted_by(first), accepted_by(second)) == (True, False)
        (tmp_path / "key.pem").write_text("")
        server.reload()
        assert accepted_by(first)
        issue(second, tmp_path)
        server.reload()
        assert (accepted_by(first), accepted_by(second)) == (False, True)
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]
    assert "the file has no private key" in caplog.messages[0]


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> bool:
    """Return True if a client accepts the certificate of a server; in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(10):
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLCertVerificationError:
                return False
    return not ends
