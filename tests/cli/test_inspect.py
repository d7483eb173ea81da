"""`coreason inspect`: what it prints, what the page can reach, and how it ends."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest

from coreason_client import CAPClient
from tests.a2a.loopback import serve

from .command import Process, coreason_here
from .conftest import Service


@contextmanager
def inspecting(*arguments: str, **env: str) -> Iterator[tuple[Process, str, str]]:
    """Run the command; yield the process, the URL of its server and the token."""
    with Process("inspect", *arguments, "--no-open", env=env) as process:
        printed = process.expect("#token=")
        [url] = re.findall(r"^(http://\S+)/#token=$", printed, re.MULTILINE)
        yield process, url, process.expect("\n").strip()


def test_a_cap_agent_is_reached_through_the_printed_url(service: Service) -> None:
    with inspecting(service.url) as (process, url, token):
        assert len(token) >= 40
        assert httpx2.get(f"{url}/").status_code == 200
        assert httpx2.get(f"{url}/health").status_code == 401
        with CAPClient(url, token) as client:
            assert str(client.ask("hi")).endswith("Now: hi.")
            assert client.health().agent_id == "mine.agent"
        process.signal(signal.SIGINT)
        assert process.end() == 0
        assert process.text.strip() == ""
        assert process.errors == ""


def test_ctrl_c_ends_it_while_an_answer_is_read(service: Service) -> None:
    with (
        inspecting(service.url, "--protocol", "cap") as (process, url, token),
        CAPClient(url, token, max_retries=0) as client,
        client.chat("wait") as stream,
    ):
        assert next(stream) == "begun "
        process.signal(signal.SIGINT)
        assert process.end() == 0
        assert process.errors == ""
    with CAPClient(service.url, "any") as client:
        assert stream.stream_id is not None
        client.cancel(stream.stream_id)  # leaving did not stop it


def test_an_a2a_agent_gets_the_token_of_the_environment_and_the_page_does_not() -> None:
    secret = "token-of-the-agent"
    with serve() as agent:
        given = ("--header", "X-Tenant: tenant-secret", agent.url)
        with inspecting(*given, "-v", COREASON_A2A_TOKEN=secret) as (process, url, token):
            with CAPClient(url, token) as client:
                answer = str(client.ask("go"))
            headers = {"Authorization": f"Bearer {token}"}
            config = httpx2.get(f"{url}/page/config.json", headers=headers)
            process.signal(signal.SIGTERM)
            assert process.end() == 0
            logs = process.errors
    assert answer == "1\u20282\u20283\u20284\u2028"
    sent = agent.seen[-1].headers
    assert (sent["authorization"], sent["x-tenant"]) == (f"Bearer {secret}", "tenant-secret")
    assert (config.json()["protocol"], config.json()["card"]["name"]) == ("a2a", "Counter")
    for word in (secret, "tenant-secret", token):
        assert word not in config.text + logs + process.text


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--host", "0.0.0.0"], 2, "--host must be a loopback address"),
        (["--host", "agent.example"], 2, "--host must be a loopback address"),
        (["--timeout", "0"], 2, "--timeout must be greater than 0"),
        (["--header", "nothing"], 2, "--header must be a name, a colon and a value"),
        (["--protocol", "cap", "--api-key", "with space"], 2, "--api-key must be visible ASCII"),
        (["--protocol", "smtp"], 2, "Invalid value for '--protocol'"),
    ],
)
def test_wrong_usage_is_one_sentence(
    service: Service, arguments: list[str], code: int, words: str
) -> None:
    ended = coreason_here("inspect", service.url, "--no-open", *arguments)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert words in ended.stderr


def test_a_port_that_is_taken_is_named(service: Service) -> None:
    port = service.url.rpartition(":")[2]
    ended = coreason_here("inspect", service.url, "--protocol", "cap", "--port", port)
    assert ended.returncode == 1
    assert f"cannot listen on 127.0.0.1, port {port}: address already in use" in ended.stderr


def test_the_browser_is_opened_unless_told_otherwise(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def serve_asgi(app: object, sockets: object, *, on_started: object, **_: object) -> None:
        assert callable(on_started)
        on_started()

    monkeypatch.setattr("coreason_client.server.run.serve_asgi", serve_asgi)
    monkeypatch.setattr("coreason_client.cli.inspect.open_browser", opened.append)
    shown = coreason_here("inspect", service.url, "--protocol", "cap")
    assert shown.returncode == 0
    [url] = re.findall(r"^http://\S+#token=\S+$", shown.stdout, re.MULTILINE)
    assert opened == [url]
    coreason_here("inspect", service.url, "--protocol", "cap", "--no-open")
    assert opened == [url]
