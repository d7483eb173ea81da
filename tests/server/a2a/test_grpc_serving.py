"""gRPC as a part of an application: its settings, the card, mounts, workers, and the extra."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
from a2a.types import a2a_pb2 as pb
from starlette.applications import Starlette
from starlette.routing import Mount

from coreason_client.a2a import (
    A2AClient,
    A2AConnectionError,
    AgentCardResolver,
    GrpcTransport,
)
from coreason_client.errors import ArgumentError
from coreason_client.server import AgentApp, AgentStream, ServiceRequest, running
from coreason_client.server.a2a import A2A

from ..aio import LIMIT, aio
from ..program import PATIENCE, Program
from .grpc_peer import Doors, make_agent, sending, serving, stub_of

ROOT = Path(__file__).parents[3]


async def agent(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write(f"You said {stream.question}.")


# Settings.


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"grpc_address": "50051"}, "grpc_address"),
        ({"grpc_url": "https://agent.example/path"}, "grpc_url"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], argument: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        A2A(**settings)
    assert caught.value.argument == argument


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "agent.example"])
def test_a_public_address_needs_keys(host: str) -> None:
    settings = A2A(grpc_address=f"{host}:0")
    with pytest.raises(ArgumentError, match="for an agent without keys") as caught:
        AgentApp(agent, a2a=settings)
    assert caught.value.argument == "grpc_address"
    AgentApp(agent, a2a=settings, api_keys=["k"])
    AgentApp(agent, a2a=A2A(grpc_address=f"{host}:0", grpc_allow_public=True))


@aio
async def test_start_grpc_is_checked_too() -> None:
    with pytest.raises(ArgumentError) as caught:
        await AgentApp(agent).start_grpc("127.0.0.1:0")
    assert caught.value.argument == "a2a"
    app = AgentApp(agent, a2a=True)
    async with app.lifespan():
        for address in ("x", "0.0.0.0:0"):
            with pytest.raises(ArgumentError) as caught:
                await app.start_grpc(address)
            assert caught.value.argument == "address"
        assert app.grpc_port is None
        port = await app.start_grpc("0.0.0.0:0", allow_public=True)
        assert app.grpc_port == port
        with pytest.raises(RuntimeError, match=f"listens at 0.0.0.0:{port}"):
            await app.start_grpc("127.0.0.1:0")


# The card.


def listed(url: str) -> set[tuple[str, str]]:
    card = httpx2.get(f"{url}/.well-known/agent-card.json", timeout=LIMIT).json()
    older = {("0.3", found["url"]) for found in card["additionalInterfaces"]}
    found = {(one["protocolVersion"], one["url"]) for one in card["supportedInterfaces"]}
    assert older <= found
    grpc = {one["url"] for one in card["supportedInterfaces"] if one["protocolBinding"] == "GRPC"}
    return {pair for pair in found if pair[1] in grpc}


def test_the_card_lists_the_bound_address() -> None:
    app = AgentApp(agent, a2a=A2A(grpc_address="127.0.0.1:0"))
    with running(app) as server:
        address = f"127.0.0.1:{app.grpc_port}"
        assert listed(server.url) == {("1.0", address), ("0.3", address)}
    assert app.grpc_port is None


def test_grpc_can_be_left_out_of_the_card() -> None:
    settings = A2A(grpc_address="127.0.0.1:0", grpc_on_card=False)
    app = AgentApp(agent, a2a=settings)
    with running(app) as server:
        assert listed(server.url) == set()
        transport = GrpcTransport(f"127.0.0.1:{app.grpc_port}")
        with A2AClient.with_transport(transport) as client:
            assert client.send_message("hi").text == "You said hi."


def test_the_card_lists_the_address_that_was_given() -> None:
    settings = A2A(grpc_address="127.0.0.1:0", grpc_url="agent.example:443")
    with running(AgentApp(agent, a2a=settings)) as server:
        assert listed(server.url) == {("1.0", "agent.example:443"), ("0.3", "agent.example:443")}


def test_the_card_of_a_server_at_all_addresses_has_the_one_that_was_called() -> None:
    app = AgentApp(agent, a2a=A2A(grpc_address="0.0.0.0:0", grpc_allow_public=True))
    with running(app) as server:
        assert ("1.0", f"127.0.0.1:{app.grpc_port}") in listed(server.url)


@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_a_client_finds_grpc_on_the_card(version: str) -> None:
    with running(AgentApp(agent, a2a=A2A(grpc_address="127.0.0.1:0"))) as server:
        with AgentCardResolver() as resolver:
            card = resolver.resolve(server.url)
        interfaces = [
            found
            for found in card.supported_interfaces
            if (found.protocol_binding, found.protocol_version) == ("GRPC", version)
        ]
        only = card.model_copy(update={"supported_interfaces": interfaces})
        with A2AClient.from_agent_card(only) as client:
            assert client.send_message("hi").text == "You said hi."


def test_without_grpc_the_card_lists_none() -> None:
    with running(AgentApp(agent, a2a=True)) as server:
        assert listed(server.url) == set()


# Mounted applications.


@aio
async def test_a_mounted_application() -> None:
    doors = Doors()
    mounted = AgentApp(make_agent(doors), a2a=True)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with mounted.lifespan():
            await mounted.start_grpc("127.0.0.1:0")
            yield

    parent = Starlette(lifespan=lifespan, routes=[Mount("/agent", mounted)])
    async with parent.router.lifespan_context(parent), stub_of(mounted) as stub:
        answered = await stub.SendMessage(sending("hi"))
        assert answered.task.status.state == pb.TASK_STATE_COMPLETED
    assert mounted.grpc_port is None


WITHOUT_LIFESPAN = """
import asyncio
from coreason_client.server import AgentApp
from tests.server.a2a.grpc_peer import Doors, make_agent, sending, stub_of

app = AgentApp(make_agent(doors := Doors()), a2a=True)

async def main():
    await app.start_grpc("127.0.0.1:0")
    async with stub_of(app) as stub:
        stream = stub.SendStreamingMessage(sending("wait"))
        print((await stream.read()).HasField("task"))
        await asyncio.wait_for(doors.reached.wait(), 10)

asyncio.run(asyncio.wait_for(main(), 20))
print(app.grpc_port)
"""


def test_an_application_without_a_lifespan_ends_with_its_event_loop() -> None:
    """In its own process: gRPC may crash if the event loop of another server is still running."""
    command = [sys.executable, "-c", WITHOUT_LIFESPAN]
    found = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert (found.returncode, found.stdout.split()) == (0, ["True", "None"]), found.stderr


@aio
async def test_an_agent_is_the_same_over_both_protocols() -> None:
    async with serving() as (app, _), stub_of(app) as stub:
        task = (await stub.SendMessage(sending("hi"))).task
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            found = await http.get(f"/a2a/tasks/{task.id}", headers={"A2A-Version": "1.0"})
        assert found.json()["artifacts"][0]["parts"] == [{"text": "You said hi."}]


# Processes.

SERVE = """
import logging, sys
from coreason_client.server import AgentApp, serve
from coreason_client.server.a2a import A2A

async def agent(request, stream):
    await stream.write("a")

logging.basicConfig(level=logging.INFO)
serve(AgentApp(agent, a2a=A2A(grpc_address=sys.argv[1])), port=0, log_level="info")
"""


def test_a_second_process_gets_a_clear_error() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with Program(SERVE, f"127.0.0.1:{port}") as program:
            assert program.end() == 1
            program.expect(f"OSError.*the gRPC server cannot listen at 127.0.0.1:{port}: Address")


def test_a_signal_ends_a_process_that_serves_grpc() -> None:
    address = free_address()
    with Program(SERVE, address) as program:
        program.url()
        with A2AClient.with_transport(GrpcTransport(address)) as client:
            assert client.send_message("hi").text == "a"
            program.signal(signal.SIGTERM)
            assert program.end() == 0
        assert "Traceback" not in program.errors
        assert "Warning" not in program.errors


WORKERS = """
import logging, os, sys
from coreason_client.server import AgentApp, MemoryStreamLog, listen, serve_workers
from coreason_client.server.a2a import A2A

class Shared(MemoryStreamLog):
    shared = True

async def agent(request, stream):
    await stream.write(str(os.getpid()))

def app():
    return AgentApp(agent, log=Shared(), a2a=A2A(grpc_address=os.environ["GRPC"]))

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    with listen("127.0.0.1", 0) as sock:
        address = os.environ["GRPC"]
        serve_workers("grpc_workers:app", sock, 2, shutdown_timeout=15, grpc_address=address)
"""


def workers(folder: Path, address: str) -> Program:
    path = folder / "grpc_workers.py"
    path.write_text(WORKERS)
    source = f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')"
    return Program(source, env={"GRPC": address, "PYTHONPATH": str(folder)})


def free_address() -> str:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


def answering(address: str) -> int:
    """Ask over a new connection, and return the process that answers."""
    with A2AClient.with_transport(GrpcTransport(address)) as client:
        return int(client.send_message("hi").text)


def test_workers_share_a_port_which_no_other_process_can_use(tmp_path: Path) -> None:
    address = free_address()
    with workers(tmp_path, address) as program:
        program.expect(r"(?s)worker \d+ started.*worker \d+ started")
        found: set[int] = set()
        deadline = time.monotonic() + PATIENCE
        while len(found) < 2:
            assert time.monotonic() < deadline, f"only {found} answered"
            try:
                found.add(answering(address))
            except A2AConnectionError:  # none of them may have started yet
                time.sleep(0.05)
        for other in (Program(SERVE, address), workers(tmp_path, address)):
            with other:
                assert other.end() == 1
                other.expect(f"OSError.*the gRPC server cannot listen at {address}: Address")
                assert "started" not in other.errors
        program.signal(signal.SIGTERM)
        assert program.end() == 0
        assert "Traceback" not in program.errors


# The extra.

WITHOUT = """
import sys


class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("grpc", "google"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Block())
import asyncio
from coreason_client.errors import MissingExtraError
from coreason_client.server import AgentApp
from coreason_client.server.a2a import A2A

async def agent(request, stream): ...

app = AgentApp(agent, a2a=True)
try:
    AgentApp(agent, a2a=A2A(grpc_address="127.0.0.1:0"))
except MissingExtraError as error:
    print(error)
try:
    asyncio.run(app.start_grpc("127.0.0.1:0"))
except MissingExtraError as error:
    print(error.extra)
"""
NOT_LOADED = """
import sys
from coreason_client.server import AgentApp
from coreason_client.server.a2a import A2A

async def agent(request, stream): ...

AgentApp(agent, a2a=True)
print([name for name in ("grpc", "google.protobuf") if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("program", "lines"),
    [
        (WITHOUT, ["gRPC needs the extra 'grpc': pip install 'coreason-client[grpc]'", "grpc"]),
        (NOT_LOADED, ["[]"]),
    ],
)
def test_the_extra_is_optional_and_loaded_only_for_grpc(program: str, lines: list[str]) -> None:
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert found.stdout.splitlines() == lines
