"""Serving: the port, the host, the signals, and how many processes."""

import asyncio
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coreason_client.errors import MissingExtraError
from coreason_client.server import (
    AgentApp,
    AgentStream,
    LogUnavailable,
    SQLiteStreamLog,
    check_host,
    running,
    serve,
)
from coreason_manifest.definitions.service import ServiceRequest

from .peer import Peer
from .program import Program


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


@pytest.mark.proves("RES2-11d")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_leaves_with_code_0(number: signal.Signals) -> None:
    with Program(PROGRAM) as process:
        peer = Peer(process.url())
        with peer.open() as answer:
            answer.until(1)
            process.signal(number)
            assert answer.rest().text == "ab"
        peer.close()
        assert process.end() == 0


PLAIN = """
import asyncio, sys, uvicorn
from coreason_client.server import AgentApp

async def agent(request, stream):
    await stream.write("a")
    await asyncio.Event().wait()

uvicorn.run(AgentApp(agent, drain_timeout=0.1), port=0)
"""


def test_under_a_plain_uvicorn_the_signal_is_noticed_too() -> None:
    with Program(PLAIN) as process:
        peer = Peer(process.url())
        with peer.open() as answer:
            answer.until(1)
            process.signal(signal.SIGTERM)
            assert answer.rest().last.p.code == "server_stopped"
        peer.close()
        process.end()


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
