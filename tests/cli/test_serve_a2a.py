"""`coreason serve --a2a`: the card, its URL, and what is refused."""

import json
import logging
import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from coreason_client import A2AClient
from coreason_client.a2a import GrpcTransport
from coreason_client.cli._app import app
from coreason_client.server import AgentApp, running
from tests.ports import free_port
from tests.server.log.valkey_server import ValkeyServer

from .command import PATIENCE, Process, coreason_here

AGENT = '''
import asyncio
import os

from coreason_client.server import AgentStream


async def painter(request, stream: AgentStream) -> None:
    """Paints doors."""
    match stream.question:
        case "paint":
            await stream.ask("Which colour?")
        case "slow":
            for number in range(20):
                await stream.write(f"{number} ")
                await asyncio.sleep(0.05)
        case "pid":
            await stream.write(str(os.getpid()))
        case colour:
            await stream.write(f"The door is {colour}.")
'''
CARD = {"name": "Painter & Sons", "skills": [{"id": "door", "name": "Doors", "tags": ["paint"]}]}
EXTENDED = {"name": "Painter & Sons, for customers", "description": "Also windows."}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "painter_here.py").write_text(AGENT)
    (tmp_path / "card.json").write_text(json.dumps(CARD))
    (tmp_path / "extended.json").write_text(json.dumps(EXTENDED))
    (tmp_path / "list.json").write_text("[]")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
    return tmp_path


def started(process: Process) -> tuple[str, str]:
    """Return the URLs of the server and of the card, as the command prints them."""
    printed = process.expect("}'\n")
    [url] = re.findall(r"at (http://\S+),", printed)
    [card] = re.findall(r"Its A2A card is (http\S+)\. ", printed)
    return url, card


def test_a_process_serves_what_it_prints(folder: Path) -> None:
    command = ["serve", "painter_here:painter", "--port", "0", "--grpc-port", "0"]
    with Process(*command, cwd=folder) as process:
        printed = process.expect("}'\n")
        [url] = re.findall(r"at (http://\S+),", printed)
        [card_url] = re.findall(r"Its A2A card is (http\S+)\. ", printed)
        [port] = re.findall(r"gRPC uses port (\d+)\. ", printed)
        assert card_url == f"{url}/.well-known/agent-card.json"
        card = httpx2.get(card_url).json()
        assert (card["name"], card["description"]) == ("painter", "Paints doors.")
        address = f"127.0.0.1:{port}"
        assert urls(card) == {f"{url}/a2a", address}
        with A2AClient.with_transport(GrpcTransport(address)) as client:
            assert client.send_message("red").text == "The door is red."
        _ask_and_answer(url)
        process.signal(signal.SIGTERM)
        assert process.end() == 0


def _ask_and_answer(url: str) -> None:
    asked = coreason_here("a2a", "send", url, "paint")
    assert (asked.returncode, asked.stdout) == (0, "Which colour?\n")
    [answer] = re.findall(r"^to answer: coreason (.*)$", asked.stderr, re.MULTILINE)
    answered = coreason_here(*answer.split(), "blue")
    assert (answered.returncode, answered.stdout) == (0, "The door is blue.\n")


def test_a_signal_lets_an_open_stream_end(folder: Path) -> None:
    with Process("serve", "painter_here:painter", "--port", "0", "--a2a", cwd=folder) as process:
        url, _ = started(process)
        with A2AClient.connect(url) as client:
            stream = client.send_message_stream("slow", resume=False)
            shown = next(stream).text
            process.signal(signal.SIGTERM)
            shown += "".join(event.text for event in stream)
        assert shown == "".join(f"{number} " for number in range(20))
        assert process.end() == 0


def _silent_logger() -> logging.Logger:
    logger = logging.getLogger("tests.silent")
    logger.disabled = True
    return logger


class Served:
    """The application that a command would serve, in the process of the test."""

    def __init__(self, *arguments: str) -> None:
        self.arguments = ["serve", "painter_here:painter", "--port", "0", *arguments]

    @contextmanager
    def running(self) -> Iterator[str]:
        """Serve it; yield the URL."""
        apps: list[AgentApp] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("coreason_client.server.serve", lambda app, *_, **__: apps.append(app))
            # Servers of other tests run in this process, and the command logs for all of it: their
            # watchdogs would report on its standard error that the machine is busy.
            patch.setattr("coreason_client.server.engine._watchdog.logger", _silent_logger())
            result = CliRunner().invoke(app, self.arguments)
        assert (result.exit_code, result.stderr) == (0, "")
        with running(apps[0], log_config=None) as server:
            yield server.url

    def card(self) -> dict[str, Any]:
        """Return the card."""
        with self.running() as url:
            card: dict[str, Any] = httpx2.get(f"{url}/.well-known/agent-card.json").json()
        return card


def urls(card: dict[str, Any]) -> set[str]:
    return {one["url"] for one in card["supportedInterfaces"]}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("arguments", [(), ("--a2a",)])
def test_a_card_implies_a2a(arguments: tuple[str, ...]) -> None:
    card = Served("--card", "card.json", *arguments).card()
    assert (card["name"], card["description"]) == ("Painter & Sons", "Paints doors.")
    assert [skill["id"] for skill in card["skills"]] == ["door"]


@pytest.mark.usefixtures("folder")
def test_clients_with_a_key_get_the_extended_card() -> None:
    served = Served("--extended-card", "extended.json", "--api-key", "one-key")
    assert served.card()["name"] == "painter"
    with served.running() as url, A2AClient.connect(url, auth="one-key") as client:
        extended = client.get_extended_card()
    assert (extended.name, extended.description) == (EXTENDED["name"], EXTENDED["description"])


@pytest.mark.usefixtures("folder")
def test_the_card_has_the_public_urls() -> None:
    public = "https://agent.example/painter"
    card = Served("--a2a", "--public-url", public).card()
    assert urls(card) == {f"{public}/a2a"}
    card = Served(
        "--grpc-port", "0", "--public-url", public, "--grpc-url", "grpc.example:443"
    ).card()
    assert urls(card) == {f"{public}/a2a", "grpc.example:443"}


@pytest.mark.usefixtures("folder")
def test_without_the_option_there_is_no_card() -> None:
    with Served().running() as url:
        assert httpx2.get(f"{url}/.well-known/agent-card.json").status_code == 404


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--card", "no.json"], "--card no.json: no such file or directory"),
        (["--card", "list.json"], "--card list.json: an agent card must be a JSON object"),
        (["--card", "painter_here.py"], "--card painter_here.py: the file is not JSON: .*"),
        (["--extended-card", "no.json"], "--extended-card no.json: no such file or directory"),
        (["--a2a", "--public-url", "agent"], "--public-url must be a URL such as .*"),
        (["--grpc-url", "agent:443"], "--grpc-url needs --grpc-port"),
        (["--grpc-port", "0", "--grpc-url", "a b"], "--grpc-url must be a URL in ASCII .*"),
        (["--grpc-port", "0", "--workers", "2"], "--grpc-port 0 with --workers would give .*"),
        (["--grpc-port", "1", "--host", "a b"], "--host with --grpc-port must be host:port, .*"),
    ],
)
def test_a_refusal_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    def serve(*_: object, **__: object) -> None:
        raise AssertionError("the command was accepted")

    monkeypatch.setattr("coreason_client.server.serve", serve)
    result = CliRunner().invoke(app, ["serve", "painter_here:painter", "--port", "0", *arguments])
    assert re.fullmatch(f"error: {message}\n", result.stderr)
    assert (result.exit_code, result.stdout) == (2, "")


def test_a_port_of_grpc_that_is_in_use_is_one_sentence(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        command = ["serve", "painter_here:painter", "--port", "0", "--grpc-port", str(port)]
        result = CliRunner().invoke(app, command)
    message = (
        f"error: cannot listen on 127.0.0.1, port {port}: address already in use: stop the other "
        "server, or choose another port (0 is any free one)\n"
    )
    assert (result.exit_code, result.stderr, result.stdout) == (1, message, "")


def test_every_worker_has_the_card_and_every_task(folder: Path) -> None:
    with ValkeyServer() as store:
        grpc_port = str(free_port())
        arguments = ["--workers", "2", "--card", "card.json", "--grpc-port", grpc_port]
        command = ["serve", "painter_here:painter", "--port", "0", *arguments]
        with Process(*command, env={"COREASON_STORE": store.url}, cwd=folder) as process:
            url, card_url = started(process)
            assert httpx2.get(card_url, timeout=PATIENCE).json()["name"] == "Painter & Sons"
            _tasks_of_both_workers(url)
            with A2AClient.with_transport(GrpcTransport(f"127.0.0.1:{grpc_port}")) as client:
                assert client.send_message("red").text == "The door is red."
            process.signal(signal.SIGTERM)
            assert process.end() == 0
            assert not re.search("WARNING|ERROR|Traceback", process.errors)


def _tasks_of_both_workers(url: str) -> None:
    """Ask until both workers have answered; each connection can read the task of any other."""
    answered: set[str] = set()
    deadline = time.monotonic() + 20
    while len(answered) < 2:  # the second worker may still be starting
        assert time.monotonic() < deadline, "only one worker answered"
        with A2AClient.connect(url) as client, A2AClient.connect(url) as other:
            answer = client.send_message("pid")
            task = client.list_tasks(page_size=1).tasks[0]
            assert other.get_task(task.id).artifacts[0].parts[0].text == answer.text
            answered.add(answer.text)
