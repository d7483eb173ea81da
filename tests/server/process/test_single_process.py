"""Several processes on a log of one process are refused, however they were started."""

import asyncio
import os
import re
import signal
import socket
import time
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from coreason_client.server import AgentApp, AgentStream, MemoryStreamLog, SQLiteStreamLog, running
from coreason_client.server.process import _single_process
from coreason_client.server.process._address_lock import LocalAddress
from coreason_client.server.process._single_process import (
    SeveralProcesses,
    SingleProcessGuard,
    check_workers,
    configured_workers,
)
from coreason_manifest.definitions.service import ServiceRequest

from ..address_holder import hold, reply
from ..aio import aio
from ..peer import LIMIT, Answer, Peer
from ..program import Program

SENTENCE = "workers must be 1 with MemoryStreamLog, which serves one process; more workers need"

MODULE = """
import os
from starlette.applications import Starlette
from starlette.routing import Mount
from coreason_client.server import AgentApp

async def agent(request, stream):
    await stream.write(str(os.getpid()))

app = AgentApp(agent)
mounted = Starlette(routes=[Mount("/", app)])
"""

WORKERS = """
import sys, uvicorn
sys.path.insert(0, sys.argv[1])
if __name__ == "__main__":
    uvicorn.run(sys.argv[2], workers=2, port=0, timeout_worker_healthcheck=1)
"""

FORKS = """
import os, socket, sys, uvicorn
sys.path.insert(0, sys.argv[1])
from served import app

sock = socket.create_server(("127.0.0.1", 0))
sys.stderr.write(f"at http://127.0.0.1:{sock.getsockname()[1]}\\n")
sys.stderr.flush()
children = []
for _ in range(2):
    if (child := os.fork()) == 0:
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[sock])
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
"""

OWN_PORTS = """
import multiprocessing, socket, sys
sys.path.insert(0, sys.argv[1])

def child(sockets, number):
    import uvicorn
    from served import app
    config = uvicorn.Config(app, log_level="warning", workers=1)
    uvicorn.Server(config).run(sockets=[sockets[number]])

if __name__ == "__main__":
    # Each child inherits both sockets, and serves at one of them.
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    for sock in sockets:
        sys.stderr.write(f"at http://127.0.0.1:{sock.getsockname()[1]}\\n")
    sys.stderr.flush()
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=child, args=(sockets, n)) for n in range(2)]
    for process in children:
        process.start()
    for process in children:
        process.join()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "served.py").write_text(MODULE)
    return tmp_path


async def hello(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("hello")


def run_workers(folder: Path, name: str) -> Program:
    path = folder / "run_workers.py"  # spawned children import it once more
    path.write_text(WORKERS)
    source = f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')"
    return Program(source, folder, name, env={"PYTHONPATH": str(folder)})


def ask_once_it_listens(peer: Peer) -> Answer:
    """Ask; uvicorn reports that its workers have started a moment before they listen."""
    give_up_at = time.monotonic() + LIMIT
    while True:
        try:
            return peer.ask()
        except httpx2.ConnectError:
            if time.monotonic() > give_up_at:
                raise
            time.sleep(0.05)


def test_uvicorn_with_two_workers_does_not_start(folder: Path) -> None:
    with run_workers(folder, "served:app") as program:
        program.expect(SENTENCE)
        program.end()
        assert "Traceback" not in program.errors


def test_mounted_without_a_lifespan_every_request_is_refused(folder: Path) -> None:
    with run_workers(folder, "served:mounted") as program:
        program.expect("Application startup complete")
        peer = Peer(program.url())
        refused = ask_once_it_listens(peer)
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert refused.problem["type"] == "urn:coreason:problem:several-processes"
        assert refused.problem["detail"].startswith(SENTENCE)
        peer.close()
        program.expect(SENTENCE)
        program.signal(signal.SIGTERM)
        program.end()
        assert "Traceback" not in program.errors


def test_of_two_forks_on_one_socket_one_serves(folder: Path) -> None:
    with Program(FORKS, folder) as program:
        url = program.url()
        peer = Peer(url)
        serving = int(peer.ask().text)
        peer.close()
        # Whoever connects now reaches the other one.
        os.kill(serving, signal.SIGSTOP)
        other = Peer(url)
        refused = other.ask()
        assert refused.status == 503
        address = url.removeprefix("http://")
        detail = f"another process serves at {address}, and MemoryStreamLog serves one process"
        assert refused.problem["detail"].startswith(detail)
        program.expect(re.escape(detail))
        os.kill(serving, signal.SIGKILL)
        while (answer := other.ask()).status == 503:  # until the system has removed the process
            pass
        assert int(answer.text) != serving
        other.close()
        assert "Traceback" not in program.errors


def test_processes_with_their_own_ports_are_allowed(folder: Path) -> None:
    with Program(OWN_PORTS, folder) as program:
        program.expect(r"(?s)(http://\S+).*(http://\S+)")
        urls = re.findall(r"http://\S+", program.errors)
        pids = set()
        for url in urls:
            peer = Peer(url)
            pids.add(peer.ask().text)
            peer.close()
        assert len(pids) == 2


def test_two_applications_of_one_process_share_an_address() -> None:
    first, second = AgentApp(hello), AgentApp(hello)
    parent = Starlette(routes=[Mount("/one", first), Mount("/two", second)])
    with running(parent) as server:
        for path in ("/one", "/two"):
            peer = Peer(server.url + path)
            assert peer.ask().text == "hello"
            peer.close()


# The rule.


class Shared(MemoryStreamLog):
    shared = True


def test_more_workers_than_the_log_can_serve_are_refused(tmp_path: Path) -> None:
    for log in (MemoryStreamLog(), SQLiteStreamLog(tmp_path / "l.db")):
        app = AgentApp(hello, log=log)
        app.check_workers(1)
        with pytest.raises(ValueError, match="more workers need a log that processes share"):
            app.check_workers(2)

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
def test_the_workers_of_the_parent_process_are_counted(
    monkeypatch: pytest.MonkeyPatch, argv: list[str], environ: dict[str, str], workers: int
) -> None:
    assert configured_workers(argv, environ) == 1  # nobody started this process as a worker
    monkeypatch.setattr("multiprocessing.parent_process", lambda: object())
    assert configured_workers(argv, environ) == workers


@pytest.mark.parametrize(
    ("workers", "reload", "counted"), [(3, False, 3), (1, False, 1), (3, True, 1)]
)
def test_the_configuration_of_uvicorn_has_priority_over_the_command_line(
    monkeypatch: pytest.MonkeyPatch, workers: int, reload: bool, counted: int
) -> None:
    server = SimpleNamespace(config=SimpleNamespace(workers=workers, reload=reload))
    assert configured_workers([], {}, server) == 1
    monkeypatch.setattr("multiprocessing.parent_process", lambda: object())
    assert configured_workers(["--workers", "9"], {"WEB_CONCURRENCY": "9"}, server) == counted


@aio
async def test_an_address_of_another_process_is_refused_until_it_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        address = sock.getsockname()
        with hold(address[1]) as holder:
            assert await asyncio.to_thread(reply, holder) == "True"
            one = SingleProcessGuard(MemoryStreamLog(), wait=0.1)
            for _ in range(2):
                with pytest.raises(SeveralProcesses, match="another process serves at 127"):
                    await one.check_address(address)
            await SingleProcessGuard(Shared()).check_address(address)
            patient = asyncio.ensure_future(
                SingleProcessGuard(MemoryStreamLog(), wait=LIMIT).check_address(address)
            )
            await asyncio.sleep(0)
            holder.kill()  # as an earlier process that has drained
            await patient
        await one.check_address(address)
        one.release()


@aio
async def test_only_the_first_request_waits_for_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[LocalAddress] = []

    def claim(address: LocalAddress) -> bool:
        attempts.append(address)
        return False

    monkeypatch.setattr(_single_process, "claim", claim)
    monkeypatch.setattr(_single_process, "_POLL_INTERVAL", 0.001)
    guard = SingleProcessGuard(MemoryStreamLog(), has_socket=lambda _: True, wait=0.05)
    for waits in (True, False):
        attempts.clear()
        with pytest.raises(SeveralProcesses):
            await guard.check_address(("127.0.0.1", 1))
        assert (len(attempts) > 1) is waits


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@aio
async def test_an_address_is_held_as_long_as_its_socket_is_open(host: str) -> None:
    """Also that of an application that was dropped without its shutdown."""
    dropped = SingleProcessGuard(MemoryStreamLog(), has_socket=lambda _: True)
    with socket.create_server((host, 0)) as sock:
        address = ("127.0.0.1", sock.getsockname()[1])
        await dropped.check_address(address)
        await _check_another_address()
        assert await asyncio.to_thread(_is_free, address[1]) == "False"
    await _check_another_address()
    assert await asyncio.to_thread(_is_free, address[1]) == "True"


async def _check_another_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        guard = SingleProcessGuard(MemoryStreamLog())
        await guard.check_address(sock.getsockname())
        guard.release()


def _is_free(port: int) -> str:
    with hold(port) as other:
        try:
            return reply(other)
        finally:
            other.kill()


@aio
async def test_test_clients_and_missing_addresses_are_allowed() -> None:
    one = SingleProcessGuard(MemoryStreamLog())
    await one.check_address(None)
    await one.check_address(("testserver", 80))
    await one.check_address(("/no/such/socket", None))
    for number in range(1100):  # they are not kept for ever
        await one.check_address((f"host-{number}", 80))
    assert len(one._known) <= 1000
