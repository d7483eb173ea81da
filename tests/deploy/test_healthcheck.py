"""The health check of the image asks where the running server listens, whatever its options are."""

import importlib.util
import sys
from pathlib import Path

import pytest
import trustme

from coreason_client.server import AgentApp, running
from tests.each import each
from tests.ports import free_port

from .test_nginx import running_unix

SPEC = importlib.util.spec_from_file_location(
    "healthcheck", Path(__file__).parents[2] / "deploy" / "healthcheck.py"
)
assert SPEC is not None
assert SPEC.loader is not None
CHECK = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(CHECK)


async def hello(request: object) -> str:
    return "hello"


@each(
    ("line", "options"),
    [
        ("coreason serve", {}),
        ("/opt/coreason/bin/coreason serve --port 9000", {"--port": "9000"}),
        ("python /opt/coreason/bin/coreason serve --port=9000 a:b", {"--port": "9000"}),
        ("python -m coreason_client serve --uds /run/a", {"--uds": "/run/a"}),
        (
            "/sbin/docker-init -- coreason serve m:a --host :: --ssl-certfile=/c=d --workers 2",
            {"--host": "::", "--ssl-certfile": "/c=d"},
        ),
    ],
)
def test_the_options_are_those_of_the_command(line: str, options: dict[str, str]) -> None:
    other = [["sh", "-c", "x"], ["sleep", "serve", "--port", "1"], []]
    assert CHECK.serve_options([*other, line.split(), ["coreason", "serve"]]) == options
    assert CHECK.serve_options(other) == {}


def ready(monkeypatch: pytest.MonkeyPatch, *options: str) -> bool:
    """Return whether the check succeeds beside a server with these options."""
    line = ["/opt/coreason/bin/coreason", "serve", *options]
    monkeypatch.setattr(CHECK, "command_lines", lambda: [line])
    return bool(CHECK.main() == 0)


def test_it_follows_the_port_and_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    app = AgentApp(hello, root_path="/agents/one")  # behind a proxy; the path is the same here
    with running(app) as server:
        assert ready(monkeypatch, "--host", "0.0.0.0", f"--port={server.port}")
        assert ready(monkeypatch, "--host=127.0.0.1", "--port", str(server.port))
        with pytest.raises(OSError, match="refused"):
            ready(monkeypatch, "--port", str(free_port()))


def test_a_server_that_is_not_ready_is_unhealthy(monkeypatch: pytest.MonkeyPatch) -> None:
    app = AgentApp(hello)
    with running(app) as server:
        monkeypatch.setattr(type(app._runtime), "log_works", False)
        assert not ready(monkeypatch, f"--port={server.port}")


def test_it_follows_tls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "cert.pem"
    trustme.CA().issue_cert("agent.example").private_key_and_cert_chain_pem.write_to_path(file)
    with running(AgentApp(hello), ssl_certfile=str(file)) as server:
        assert ready(monkeypatch, f"--port={server.port}", "--ssl-certfile", str(file))


def test_it_follows_a_unix_socket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with running_unix(AgentApp(hello), tmp_path / "agent.sock"):
        assert ready(monkeypatch, "--uds", str(tmp_path / "agent.sock"))


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="there is no /proc here")
def test_command_lines_are_those_of_processes() -> None:
    lines = list(CHECK.command_lines())
    assert any(line[0].endswith(Path(sys.executable).name) for line in lines)
