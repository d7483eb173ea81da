"""The programs of the page about proxies, with a real proxy and real certificates."""

import re
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from coreason_client import CAPClient, CAPConnectionError, CoreasonError
from coreason_client.server import AgentApp, running
from tests.http.support import HOST, Relay
from tests.ports import free_port

from .blocks import Block, parse
from .conftest import parrot

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "proxies.md"
PROGRAMS = [block for block in parse(PAGE.read_text(), "proxies.md") if block.language == "python"]
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def agent(folder: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """An agent behind TLS, if "mutual" only for clients with a certificate; files are there."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "company-ca.pem")
    client = authority.issue_cert("client.example")
    client.private_key_pem.write_to_path(folder / "client.key")
    for number, blob in enumerate(client.cert_chain_pems):
        blob.write_to_path(folder / "client.pem", append=number > 0)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(tls)
    if getattr(request, "param", None) == "mutual":
        tls.verify_mode = ssl.CERT_REQUIRED
        authority.configure_trust(tls)
    with running(AgentApp(parrot)) as server, Relay(server.url, tls=tls) as relay:
        yield relay.url


def program(about: str) -> Block:
    [found] = [block for block in PROGRAMS if about in block.code]
    return found


def run(block: Block, **addresses: str) -> None:
    code = block.code
    for name, address in addresses.items():
        code = re.sub(rf"https?://{name}\.example(:\d+)?", address, code)
    exec(compile(code, "proxies.md", "exec"), {"__name__": "__main__"})


def test_a_proxy_in_code(
    agent: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "company-ca.pem"))
    with Relay() as proxy:
        run(program("proxy="), agent=agent, proxy=proxy.url)
    assert capsys.readouterr().out == "You said: Hello \n"
    assert proxy.heads[0].startswith(b"CONNECT ")


def test_a_private_authority_in_code(agent: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(program("with httpx2.Client(verify=context)"), agent=agent)
    assert capsys.readouterr().out == "You said: Hello \n"


@pytest.mark.parametrize("agent", ["mutual"], indirect=True)
def test_a_client_certificate(agent: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(program("load_cert_chain"), agent=agent)
    assert capsys.readouterr().out == "You said: Hello \n"
    with pytest.raises(CoreasonError):  # without one the agent does not answer
        run(program("with httpx2.Client(verify=context)"), agent=agent)


def test_the_environment_and_the_message_about_a_proxy(
    agent: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "company-ca.pem"))
    with Relay() as proxy, CAPClient(agent, "sk") as client:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        assert client.ask("Hello") == "You said: Hello "
        assert len(proxy.heads) == 1
    port = free_port()
    monkeypatch.setenv("HTTPS_PROXY", f"http://user:secret@{HOST}:{port}")
    with (
        CAPClient("https://agent.example", "sk", max_retries=0) as client,
        pytest.raises(CAPConnectionError) as raised,
    ):
        client.ask("Hello")
    [shown] = re.findall(r"^POST https://agent.example/.* failed:", PAGE.read_text(), re.MULTILINE)
    expected = shown.replace("http://proxy.example:3128", f"http://{HOST}:{port}")
    assert str(raised.value).startswith(expected)
    assert "secret" not in str(raised.value)
