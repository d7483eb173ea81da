"""`coreason serve` with TLS, on a Unix socket and with the files that it reads again."""

import re
import signal
import socket
import ssl
import stat
import sys
from pathlib import Path

import httpx2
import pytest
import trustme

from coreason_client import CAPClient, CAPRuntimeError
from coreason_client.cli.serve._serving import reload_folders

from .command import PATIENCE, Process, coreason_here
from .conftest import AGENT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "served_here.py").write_text(AGENT)
    return tmp_path


def write(path: Path, text: str) -> Path:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o600)
    return new.replace(path)


def test_tls_keys_metrics_and_the_drain(folder: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(folder / "both.pem")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    write(folder / "keys.txt", "old ann\n")
    write(folder / "scraper.txt", "scraper\n")
    arguments = ["serve", "served_here:agent", "--port", "0", "--ssl-certfile", "both.pem"]
    arguments += ["--api-keys-file", "keys.txt", "--metrics-key-file", "scraper.txt"]
    arguments += ["--drain-timeout", "0.1s", "--retention", "2d", "--agent-id", "mine"]
    with Process(*arguments, cwd=folder) as process:
        printed = process.expect("}'\n")
        [url] = re.findall(r"at (https://\S+),", printed)
        assert f"Open {url}/ in a browser." in printed
        verify = ssl.create_default_context(cafile=folder / "ca.pem")
        with httpx2.Client(base_url=url, verify=verify, timeout=PATIENCE) as http:
            assert "<!doctype html>" in http.get("/").text
            assert http.get("/health").json()["agent_id"] == "mine"
            statuses = {
                key: http.get("/metrics", headers={"Authorization": f"Bearer {key}"}).status_code
                for key in ("scraper", "old")
            }
            assert statuses == {"scraper": 200, "old": 401}
            with CAPClient(url, "old", http_client=http) as client:
                assert "Now: hi" in client.ask("hi")
            write(folder / "keys.txt", "new ann\n")
            process.signal(signal.SIGHUP)
            process.expect_error("the certificate was read again")
            with (
                CAPClient(url, "old", http_client=http) as client,
                pytest.raises(CAPRuntimeError, match="401"),
            ):
                client.ask("hi")
            with (
                CAPClient(url, "new", http_client=http) as client,
                client.chat("wait") as answer,
                pytest.raises(CAPRuntimeError, match="server_stopped"),
            ):
                assert next(answer) == "begun "
                process.signal(signal.SIGTERM)
                next(answer)
        assert process.end() == 0
        assert "draining: 1 streams, up to 0.1 seconds" in process.errors
        assert not re.search("Traceback|scraper|old|new ann", process.errors)


def test_a_unix_socket(folder: Path) -> None:
    path = folder / "agent.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))  # left behind by a process that was killed
    arguments = ["serve", "served_here:agent", "--uds", "agent.sock", "--root-path", "/agent"]
    with Process(*arguments, "--uds-mode", "606", cwd=folder) as process:
        printed = process.expect("}'\n")
        assert "at the Unix socket agent.sock," in printed
        assert "curl -N --unix-socket agent.sock http://localhost/agent/assist " in printed
        assert stat.S_IMODE(path.stat().st_mode) == 0o606
        transport = httpx2.HTTPTransport(uds=str(path))
        with httpx2.Client(transport=transport, timeout=PATIENCE) as http:
            for url in ("http://localhost/agent", "http://any.example"):  # the socket is local
                with CAPClient(url, "any", http_client=http) as client:
                    assert "Now: hi" in client.ask("hi")
        again = coreason_here("serve", "--uds", "agent.sock", cwd=folder)
        assert again.stderr == "error: cannot listen on agent.sock: address already in use\n"
        assert again.returncode == 1
        process.signal(signal.SIGTERM)
        assert process.end() == 0
    assert not path.exists()
    path.write_text("precious")
    for name, says in (
        ("agent.sock", "--uds agent.sock: there is something other than a socket at this path"),
        ("x" * 200, f"cannot listen on {'x' * 200}: af_unix path too long"),
        ("no/such/folder", "cannot listen on no/such/folder: no such file or directory"),
    ):
        failed = coreason_here("serve", "--uds", name, cwd=folder)
        assert failed.stderr == f"error: {says}\n"
    assert path.read_text() == "precious"


def test_the_folder_of_the_agent_is_watched_too(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not `served_here`: another test may have imported a module of that name.
    (folder / "watched_here.py").write_text(AGENT)
    monkeypatch.syspath_prepend(str(folder))
    __import__("watched_here")
    try:
        monkeypatch.chdir(folder)
        assert reload_folders(["watched_here:agent"]) == [folder]
        other = tmp_path_factory.mktemp("other")
        monkeypatch.chdir(other)
        assert reload_folders(["watched_here:agent", "watched_here:b"]) == [other, folder]
        assert reload_folders(["not_imported:agent"]) == [other]
    finally:
        del sys.modules["watched_here"]
