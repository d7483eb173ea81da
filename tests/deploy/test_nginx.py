"""A real nginx with the file of `deploy` in front of an agent."""

import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from coreason_client import CAPClient
from coreason_client.server import AgentApp, AgentStream, ServiceRequest, running
from coreason_client.server.run import _server, unix_socket
from tests.docs.blocks import parse
from tests.ports import free_port
from tests.server.peer import LIMIT, Gate, Peer, envelope

from .install import program

ROOT = Path(__file__).parents[2]
MAIN = """
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
{user}
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {content}
}}
"""


@contextmanager
def nginx(folder: Path, content: str, port: int) -> Iterator[str]:
    """Run nginx in the foreground, as the user of the tests."""
    configuration = folder / "nginx.conf"
    user = "user root;" if folder.owner() == "root" else ""
    configuration.write_text(MAIN.format(folder=folder, content=content, user=user))
    errors = folder / "error.log"
    process = subprocess.Popen([program("nginx"), "-c", str(configuration), "-e", str(errors)])
    try:
        deadline = time.monotonic() + LIMIT
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), LIMIT).close()
                break
            except OSError:
                assert process.poll() is None, errors.read_text()
                assert time.monotonic() < deadline
                time.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(LIMIT)


@contextmanager
def running_unix(app: AgentApp, path: Path) -> Iterator[None]:
    """Serve on a Unix socket, in a thread."""
    started = threading.Event()
    server = _server(app, None, LIMIT, on_started=started.set)
    with unix_socket(path, 0o666) as sock:
        thread = threading.Thread(target=server.run, args=([sock],))
        thread.start()
        try:
            assert started.wait(LIMIT)
            yield
        finally:
            server.should_exit = True
            thread.join(LIMIT)


def test_streams_bodies_and_dead_replicas(tmp_path: Path) -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("first ")
        await gate.wait()
        await stream.write("second")

    port, dead = free_port(), free_port()
    with running(AgentApp(agent, metrics=True, drain_timeout=0)) as server:
        text = (ROOT / "deploy" / "nginx.conf").read_text()
        text = re.sub(r"agent-1:\d+", f"127.0.0.1:{dead}", text)
        text = re.sub(r"agent-\d:\d+", f"127.0.0.1:{server.port}", text)
        text = text.replace("listen 80;", f"listen 127.0.0.1:{port};")
        with nginx(tmp_path, text, port) as url:
            peer = Peer(url)
            with peer.open() as answer:
                assert answer.until(1).text == "first "  # it is not held back
                gate.open()
                assert answer.rest().text == "first second"
            # One of three replicas is dead, and nobody notices.
            assert [peer.ask().status for _ in range(6)] == [200] * 6
            large = envelope("x" * (3 * 1024 * 1024))
            assert peer.ask(large).status == 200
            assert peer.ask(envelope("x" * (5 * 1024 * 1024))).status == 413
            assert peer.http.get("/metrics").status_code == 404
            peer.close()


def test_the_block_for_a_unix_socket_and_a_prefix(tmp_path: Path) -> None:
    """Both the block of the page, which passes the prefix on, and one that removes it."""
    page = (ROOT / "docs" / "howto" / "nginx.md").read_text()
    [location] = [
        block.code for block in parse(page, "nginx") if "unix:" in block.code and not block.title
    ]
    path, port = tmp_path / "agent.sock", free_port()
    kept = location.replace("/run/coreason/agent.sock", str(path))
    removed = kept.replace("location /agents/one/", "location /agents/two/")
    removed = removed.replace(f"{path};", f"{path}:/;")
    content = f"server {{ listen 127.0.0.1:{port};\n{kept}\n{removed}\n}}"

    async def hello(request: ServiceRequest) -> str:
        return "hello"

    with (
        running_unix(AgentApp(hello, a2a=True, root_path="/agents/one"), path),
        nginx(tmp_path, content, port) as url,
    ):
        for name in ("one", "two"):
            with CAPClient(f"{url}/agents/{name}", "any") as client:
                assert client.ask("hi") == "hello"
            card = httpx2.get(f"{url}/agents/{name}/.well-known/agent-card.json", timeout=LIMIT)
            assert card.json()["url"] == "http://localhost/agents/one/a2a"
