"""`coreason serve`: what it prints works, what it refuses is one sentence, and how it stops."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
from datetime import datetime
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner

from coreason_client import CAPClient, CAPRuntimeError
from coreason_client.cli._app import app
from coreason_client.cli.serve._options import ServeOptions
from coreason_client.server import create_ticket

from .command import PATIENCE, Process, coreason_here, environment
from .conftest import AGENT, Service


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "served_here.py").write_text(AGENT)
    (tmp_path / "broken_here.py").write_text("raise ValueError('bad day')")
    (tmp_path / "needs_other.py").write_text("import no_such_library")
    (tmp_path / "whole_app.py").write_text(
        "from coreason_client.server import AgentApp\n"
        "async def agent(request, stream): ...\n"
        "app = AgentApp(agent)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
    return tmp_path


@pytest.fixture
def serves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that ought to be refused fails here instead of serving without end."""

    def serve(*_: object, **__: object) -> None:
        raise AssertionError("the command was accepted")

    monkeypatch.setattr("coreason_client.server.serve", serve)


def run_curl(line: str, env: dict[str, str] | None = None) -> str:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl here")
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        capture_output=True,
        text=True,
        env=environment(env),
        timeout=PATIENCE,
        check=True,
    )
    return done.stdout


def test_the_printed_curl_line_works(service: Service) -> None:
    out = run_curl(service.curl)
    assert "Now: How do I resume a stream?." in out
    assert '"op":"CLOSE"' in out


def test_it_answers_to_its_own_names_and_to_those_that_are_allowed(service: Service) -> None:
    statuses = {
        host: httpx2.get(f"{service.url}/openapi.json", headers={"Host": host}).status_code
        for host in ("localhost", "agent.example", "evil.example")
    }
    assert statuses == {"localhost": 200, "agent.example": 200, "evil.example": 421}


@pytest.mark.parametrize(
    ("variable", "value"),
    [("COREASON_API_KEY", "first-key second-key"), ("COREASON_API_KEYS", "first-key,second-key")],
)
def test_keys_from_the_environment_are_not_printed_and_a_signal_ends_it_well(
    tmp_path: Path, variable: str, value: str
) -> None:
    env = {variable: value}
    arguments = ["serve", "--port", "0", "--store", "sqlite:streams.db"]
    with Process(*arguments, env=env, cwd=tmp_path) as process:
        told = process.expect("}'\n")
        assert "the built-in guide" in told
        assert "streams.db" in told
        assert "-key" not in told.replace("api-key", "")
        [url] = re.findall(r"at (http://\S+),", told)
        [curl] = re.findall(r"^curl .*$", told, re.MULTILINE)
        assert '"op":"CLOSE"' in run_curl(curl, env)
        wrong = coreason_here("chat", "--url", url, "--api-key", "third-key", "hello")
        assert (wrong.returncode, "HTTP 401" in wrong.stderr) == (1, True)
        assert "with --api-key, COREASON_API_KEY or a profile." in wrong.stderr
        right = coreason_here("chat", "--url", url, "hello", env={"COREASON_API_KEY": "second-key"})
        assert (right.returncode, right.stderr) == (0, "")
        process.signal(signal.SIGTERM)
        assert process.end() == 0
        assert_drained(process.errors)
        assert process.text.strip() == ""  # stdout has the announcement and nothing else


def test_the_page_and_tickets_of_a_served_agent(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.txt"
    secrets.write_text(f"# the new one\n{'n' * 32}\n# the old one\n{'o' * 32}\n")
    secrets.chmod(0o600)
    arguments = ["serve", "--port", "0", "--ticket-secrets-file", str(secrets)]
    with Process(*arguments, cwd=tmp_path) as process:
        told = process.expect("}'\n")
        [url] = re.findall(r"Open (http://\S+/) in a browser\.", told)
        assert httpx2.get(url).headers["content-security-policy"].startswith("default-src 'none'")
        assert httpx2.get(f"{url}page/config.json").json()["needs_key"] is True
        [curl] = re.findall(r"^curl .*$", told, re.MULTILINE)
        assert '"Authorization: Bearer $TICKET"' in curl
        for letter in "no":
            ticket = create_ticket(letter * 32, "ann")
            assert '"op":"CLOSE"' in run_curl(curl, {"TICKET": ticket})
        assert "invalid-ticket" in run_curl(curl, {"TICKET": create_ticket("x" * 32, "ann")})


@pytest.mark.parametrize(
    ("chosen", "host", "page"),
    [
        *((None, "127.0.0.1", True), (None, "::1", True), (None, "localhost", True)),
        *((None, "0.0.0.0", False), (True, "0.0.0.0", True), (False, "127.0.0.1", False)),
    ],
)
def test_a_page_is_served_on_loopback_unless_told_otherwise(
    chosen: bool | None, host: str, page: bool
) -> None:
    assert ServeOptions(page=chosen, host=host).has_page is page


def test_the_page_is_opened_and_may_cut(tmp_path: Path) -> None:
    """The browser is a program that notes the address."""
    browser, noted = tmp_path / "browser", tmp_path / "noted"
    os.mkfifo(noted)
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {noted}\n')
    browser.chmod(0o755)
    arguments = ["serve", "--port", "0", "--open", "--chaos"]
    with Process(*arguments, cwd=tmp_path, env={"BROWSER": str(browser)}) as process:
        [url] = re.findall(r"Open (http://\S+/) in a browser\.", process.expect("}'\n"))
        config = httpx2.get(f"{url}page/config.json").json()
        assert (config["cut"], config["documents"]) == (True, True)
        assert httpx2.get(f"{url}page/docs/docs/page.md").text.startswith("# The page\n")
        assert noted.read_text() == url  # waits for the browser


@pytest.mark.usefixtures("serves_nothing")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--no-page", "--open"], "--open needs --page"),
        (["--no-page", "--chaos"], "--chaos needs --page"),
        (["--host", "0.0.0.0", "--api-key", "k", "--open"], "--open needs --page"),
        (["--chaos", "--workers", "2"], "--chaos cuts the connections of one process"),
        (["--metrics"], "--metrics needs a key in addition to tickets"),
    ],
)
def test_options_of_the_page_that_do_not_fit(arguments: list[str], says: str) -> None:
    env = {"COREASON_TICKET_SECRETS": "s" * 32}
    result = CliRunner().invoke(app, ["serve", "--port", "0", *arguments], env=env)
    assert result.exit_code == 2
    assert says in result.stderr


def test_ctrl_c_drains_and_ends_well(tmp_path: Path) -> None:
    with Process(
        "serve", "--port", "0", "--api-key", "it's-one", cwd=tmp_path, fresh=True
    ) as process:
        told = process.expect("}'\n")
        [curl] = re.findall(r"^curl .*$", told, re.MULTILINE)
        assert '"op":"CLOSE"' in run_curl(curl)
        process.signal(signal.SIGINT)
        assert process.end() == 0
        assert_drained(process.errors)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_ends_it_at_once(folder: Path, number: signal.Signals, code: int) -> None:
    arguments = ["serve", "served_here:agent", "--port", "0", "--log-format", "json"]
    with Process(*arguments, cwd=folder) as process:
        url = json.loads(process.expect("\n"))["url"]
        with CAPClient(url, "any") as client, client.chat("wait") as answer:
            assert next(answer) == "begun "
            process.signal(number)
            while httpx2.get(f"{url}/health", timeout=PATIENCE).json()["status"] == "ok":
                pass
            process.signal(number)
            assert process.end() == code
        lines = [json.loads(line) for line in process.errors.splitlines()]
        assert [line for line in lines if line.get("event") == "draining"]
        assert not [line for line in lines if "exception" in line]


def assert_drained(errors: str) -> None:
    """The log has whole lines with date and zone, and the last ones are about the drain."""
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d"
    # On a machine that is busy, a warning with the place where the event loop has stood still.
    stood = "(?:has made no progress|makes progress again)"
    stalled = rf"^{time} WARNING [^\n]* {stood}.*?(?=^{time} |\Z)"
    errors = re.sub(stalled, "", errors, flags=re.MULTILINE | re.DOTALL)
    for line in errors.splitlines():
        assert re.match(rf"{time} INFO coreason_client\.server: ", line), line
    assert re.search(r"draining: 0 streams, up to 10 seconds\n.*drained in \d", errors)


def test_every_line_is_json_and_v_adds_the_access_log(folder: Path) -> None:
    arguments = ["serve", "served_here:agent", "--port", "0", "--log-format", "json", "-v"]
    with Process(*arguments, cwd=folder) as process:
        announced = json.loads(process.expect("\n"))
        url = announced["url"]
        assert announced["message"].startswith(f"Serving served_here:agent at {url}, ")
        assert httpx2.get(f"{url}/health?a=b", timeout=PATIENCE).status_code == 200
        process.signal(signal.SIGTERM)
        assert process.end() == 0
        lines = [json.loads(line) for line in process.errors.splitlines()]
        assert process.text.strip() == ""
    for line in lines:
        assert list(line)[:4] == ["time", "level", "logger", "message"]
        assert datetime.fromisoformat(line["time"]).tzinfo is not None
    [access] = [line for line in lines if line["logger"] == "uvicorn.access"]
    assert (access["method"], access["path"], access["status"]) == ("GET", "/health?a=***", 200)
    [drained] = [line for line in lines if line.get("event") == "drained"]
    assert isinstance(drained["seconds"], float)


def test_keys_of_a_file_open_the_server_under_their_names(folder: Path) -> None:
    keys = folder / "keys.txt"
    keys.write_text("# ours\nfirst-key ann\nsecond-key\n")
    keys.chmod(0o600)
    arguments = ["serve", "served_here:agent", "--port", "0", "--api-keys-file", "keys.txt"]
    with Process(*arguments, "--api-key", "third-key", cwd=folder) as process:
        told = process.expect("}'\n")
        [url] = re.findall(r"at (http://\S+),", told)
        assert "first-key" not in told
        for key in ("first-key", "second-key", "third-key"):
            with CAPClient(url, key) as client, client.chat("hello") as answer:
                assert "Now: hello" in "".join(answer)
        with CAPClient(url, "ann") as client, pytest.raises(CAPRuntimeError, match="401"):
            list(client.chat("hello"))
        process.signal(signal.SIGTERM)
        assert process.end() == 0
        assert not re.search("(first|second|third)-key", process.errors)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["served_here"], 2, "must be given as MODULE:ATTRIBUTE"),
        (["no_such_module:agent"], 2, "module no_such_module not found in"),
        (["served_here:nobody"], 2, "module served_here has no attribute 'nobody'"),
        (["served_here:not_an_agent"], 2, "an agent is .* does not take these"),
        (["broken_here:agent"], 1, "cannot be imported: ValueError: bad day"),
        (["needs_other:agent"], 1, "cannot be imported: ModuleNotFoundError: .*no_such_library"),
        (["whole_app:app"], 2, "is an AgentApp"),
        (
            ["--store", "redis"],
            2,
            "--store must be memory, sqlite:PATH, postgresql://HOST or valkey://HOST, got 'redis'",
        ),
        (["--store", "http://:secret@x"], 2, "valkey://HOST, got 'http'"),
        (["--store", "sqlite:no/such/folder/x.db"], 1, "cannot be opened"),
        (["--store", "postgresql://:secret/@x"], 2, "--store must have %2F for /, %3F for"),
        (["--store-replicas", "1"], 2, "needs --store postgresql://HOST or valkey://HOST"),
        (
            ["--workers", "2"],
            2,
            "--workers must be 1 with MemoryStreamLog, .* got 2: add --store postgresql:.* or .*",
        ),
        (
            ["--workers", "2", "--store", "sqlite:x.db"],
            2,
            "SQLiteStreamLog, which serves one process",
        ),
        (["--host", "0.0.0.0"], 2, "without a key, anyone who can reach 0.0.0.0"),
        (["--host", "192.0.2.1", "--api-key", "k"], 1, "cannot listen on 192.0.2.1"),
        (["--api-key", ""], 2, "--api-key must be visible ASCII"),
        (["--api-key", "schlüssel"], 2, "--api-key must be visible ASCII"),
        (["--api-key", "a b"], 2, "without spaces: clients cannot send any other key"),
        (["--allowed-host", "http://x"], 2, "--allowed-host must have names such as"),
        (["--api-keys-file", "no.txt"], 2, "--api-keys-file no.txt: no such file or directory"),
        (["--api-keys-file", "/"], 2, "--api-keys-file /: is a directory"),
    ],
)
def test_a_refusal_is_one_sentence(
    folder: Path, serves_nothing: None, arguments: list[str], code: int, says: str
) -> None:
    result = CliRunner().invoke(app, ["serve", "--port", "0", *arguments])
    assert re.fullmatch(rf"error: .*{says}.*\n", result.stderr)
    assert (result.exit_code, result.stdout) == (code, "")


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"COREASON_API_KEYS": "good,b\x07d"}, "COREASON_API_KEYS must be visible"),
        ({"COREASON_API_KEY": "b\x07d"}, "COREASON_API_KEY must be visible"),
        ({"COREASON_API_KEYS": " , "}, "COREASON_API_KEYS is set but contains no key"),
    ],
)
def test_a_bad_key_of_the_environment_names_its_variable(
    folder: Path, serves_nothing: None, env: dict[str, str], says: str
) -> None:
    result = CliRunner().invoke(app, ["serve", "--port", "0"], env=env)
    assert re.fullmatch(rf"error: .*{says}.*\n", result.stderr)
    assert (result.exit_code, "--api-key" in result.stderr) == (2, False)


def test_a_taken_port_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = CliRunner().invoke(app, ["serve", "--port", port])
    assert result.exit_code == 1
    assert result.stderr == (
        f"error: cannot listen on 127.0.0.1, port {port}: address already in use: stop the other "
        "server, or choose another port (0 is any free one)\n"
    )
