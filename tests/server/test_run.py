"""Serving: the port, the host, the signals, and how many processes."""

import asyncio
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coreason_client.errors import MissingExtraError
from coreason_client.server import (
    AgentApp,
    AgentStream,
    LogUnavailable,
    MemoryStreamLog,
    SQLiteStreamLog,
    check_host,
    listen,
    listen_all,
    running,
    serve,
)
from coreason_client.server.process._single_process import check_workers, configured_workers
from coreason_manifest.definitions.service import ServiceRequest

from .peer import LIMIT, Peer


async def hello(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("hello")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_an_agent_without_keys_is_not_opened_to_the_network(host: str) -> None:
    with pytest.raises(ValueError, match="for an agent without keys"):
        serve(AgentApp(hello), host=host)
    check_host(AgentApp(hello), host, allow_public=True)
    check_host(AgentApp(hello, api_keys=["k"]), host)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
def test_loopback_is_not_the_network(host: str) -> None:
    check_host(AgentApp(hello), host)


def test_every_address_of_a_host_listens_at_the_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    def addresses(host: str, port: int, **_: object) -> list[Any]:
        # The second is of a network for documentation, which this machine does not have.
        kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        return [(*kind, (ip, port)) for ip in ("127.0.0.1", "192.0.2.1", "127.0.0.2", "127.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", addresses)
    sockets = listen_all("a host", 0)
    with sockets[0], sockets[1]:
        [(first, port), (second, same)] = [sock.getsockname() for sock in sockets]
        assert (first, second, same) == ("127.0.0.1", "127.0.0.2", port)
        with pytest.raises(OSError, match="in use"):  # and closes what it had opened
            listen_all("a host", port)


def test_small_packets_leave_a_listening_socket_at_once() -> None:
    with listen("127.0.0.1", 0) as sock:
        # asyncio looks at the first, and where it does not, accepted sockets inherit the second.
        assert sock.proto == socket.IPPROTO_TCP
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        with socket.create_connection(sock.getsockname(), timeout=LIMIT):
            accepted, _ = sock.accept()
            with accepted:
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        with pytest.raises(OSError, match="in use"):
            listen(*sock.getsockname())


def test_more_workers_than_the_log_can_serve_are_refused(tmp_path: Path) -> None:
    for log in (MemoryStreamLog(), SQLiteStreamLog(tmp_path / "l.db")):
        app = AgentApp(hello, log=log)
        app.check_workers(1)
        with pytest.raises(ValueError, match="more workers need a log that processes share"):
            app.check_workers(2)

    class Shared(MemoryStreamLog):
        shared = True

    check_workers(Shared(), 8)


@pytest.mark.parametrize(
    ("argv", "environ", "workers"),
    [
        (["uvicorn", "x:app"], {}, 1),
        (["uvicorn", "--workers", "4", "x:app"], {}, 4),
        (["uvicorn", "--workers=3"], {}, 3),
        (["uvicorn", "--workers"], {}, 1),
        (["uvicorn", "--workers", "many"], {}, 1),
        ([], {"WEB_CONCURRENCY": "2"}, 2),
        ([], {"WEB_CONCURRENCY": ""}, 1),
    ],
)
def test_the_workers_around_are_counted(
    monkeypatch: pytest.MonkeyPatch, argv: list[str], environ: dict[str, str], workers: int
) -> None:
    assert configured_workers(argv, environ) == 1  # nobody started this process as a worker
    monkeypatch.setattr("multiprocessing.parent_process", lambda: object())
    assert configured_workers(argv, environ) == workers


@pytest.mark.parametrize(
    ("workers", "reload", "counted"), [(3, False, 3), (1, False, 1), (3, True, 1)]
)
def test_the_configuration_of_uvicorn_counts_more_than_the_command_line(
    monkeypatch: pytest.MonkeyPatch, workers: int, reload: bool, counted: int
) -> None:
    server = SimpleNamespace(config=SimpleNamespace(workers=workers, reload=reload))
    assert configured_workers([], {}, server) == 1
    monkeypatch.setattr("multiprocessing.parent_process", lambda: object())
    assert configured_workers(["--workers", "9"], {"WEB_CONCURRENCY": "9"}, server) == counted


def test_a_server_that_cannot_start_says_so(tmp_path: Path) -> None:
    (tmp_path / "l.db").write_bytes(b"this is not a database, but it is long enough to be one")
    app = AgentApp(hello, log=SQLiteStreamLog(tmp_path / "l.db"))
    with pytest.raises(LogUnavailable, match="cannot be opened"), running(app):
        pass
    with pytest.raises(LogUnavailable, match="cannot be opened"):
        serve(app, port=0)


def test_an_application_that_fails_to_start_does_not_hang() -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no"})

    with pytest.raises(RuntimeError, match="did not start"), running(broken):
        pass


def test_two_servers_on_one_file_are_refused(tmp_path: Path) -> None:
    with running(AgentApp(hello, log=SQLiteStreamLog(tmp_path / "l.db"))):
        second = SQLiteStreamLog(tmp_path / "l.db", lock_timeout=0.05)
        with pytest.raises(LogUnavailable, match="serves one process"):
            asyncio.run(second.start("me"))


PROGRAM = """
import asyncio
from coreason_client.server import AgentApp, serve

async def agent(request, stream):
    await stream.write("a")
    await asyncio.sleep(0.3)
    await stream.write("b")

serve(AgentApp(agent), port=0, log_level="info")
"""


def url_of(process: "subprocess.Popen[bytes]") -> str:
    """Wait until uvicorn says where it listens."""
    assert process.stderr is not None
    for line in process.stderr:
        if url := re.search(r"http://127\.0\.0\.1:\d+", line.decode()):
            return url[0]
    raise AssertionError("the server did not start")


@pytest.mark.proves("RES2-11d")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_leaves_with_code_0(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    try:
        peer = Peer(url_of(process))
        with peer.open() as answer:
            answer.until(1)
            process.send_signal(number)
            assert answer.rest().text == "ab"
        peer.close()
        process.communicate(timeout=LIMIT)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0


PLAIN = """
import asyncio, sys, uvicorn
from coreason_client.server import AgentApp

async def agent(request, stream):
    await stream.write("a")
    await asyncio.Event().wait()

uvicorn.run(AgentApp(agent, drain_timeout=0.1), port=0)
"""


def test_under_a_plain_uvicorn_the_signal_is_noticed_too() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PLAIN], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    try:
        peer = Peer(url_of(process))
        with peer.open() as answer:
            answer.until(1)
            process.send_signal(signal.SIGTERM)
            assert answer.rest().last.p.code == "server_stopped"
        peer.close()
        process.communicate(timeout=LIMIT)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_a_missing_extra_is_named(missing: str) -> None:
    program = f"""
import sys
sys.modules[{missing!r}] = None
from coreason_client.server import AgentApp, serve
async def agent(request, stream): ...
serve(AgentApp(agent))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert str(MissingExtraError("coreason_client.server", "server")) in done.stderr.decode()


def test_importing_the_server_does_not_import_uvicorn() -> None:
    program = "import sys, coreason_client.server; print('uvicorn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"False\n"


def test_the_description_fits_what_is_served() -> None:
    with running(AgentApp(hello, api_keys=["k"], agent_id="greeter", version="2")) as server:
        peer = Peer(server.url)
        document: dict[str, Any] = peer.http.get("/openapi.json").json()
        peer.close()
    assert document["info"] == {"title": "greeter", "version": "2"}
    assert set(document["paths"]) == {
        "/assist",
        "/v1/assist",
        "/health",
        "/ready",
        "/streams/{stream_id}",
    }
    assert document["paths"]["/assist"]["post"]["security"] == [{"key": []}]
    schemas = document["components"]["schemas"]
    for reference in re.findall(
        r'"\$ref": "#/components/schemas/(\w+)"', str(document).replace("'", '"')
    ):
        assert reference in schemas
    assert {"ServiceRequest", "StreamPacket", "HealthCheckResponse", "Problem"} <= set(schemas)
