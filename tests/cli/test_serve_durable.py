"""`coreason serve --durable`: an answer goes on after its process was killed."""

import inspect
import re
import signal
import textwrap
from pathlib import Path
from typing import Any

import pytest

from coreason_client import CAPClient
from coreason_client.cli.serve import _application
from coreason_client.cli.serve._application import ServeConfig, worker_app
from coreason_client.cli.serve._options import DEFAULT_MAX_RESTARTS, ServeOptions
from coreason_client.server import AgentApp

from .command import Process, coreason_here
from .terminal import Emulator

AGENT = textwrap.dedent(
    """
    import asyncio
    from pathlib import Path


    async def agent(request, stream):
        for number in range(10):
            await stream.write(f"{number} ")
        await stream.step("wait", wait)
        await stream.write("the end")


    async def wait():
        while not Path("go").exists():
            await asyncio.sleep(0.01)


    async def unsteady(request, stream):
        await stream.write("The beginning. ")
        await stream.step("model", model, stream)
        await stream.write("The end.")


    async def model(stream):
        await stream.write(f"Text {stream.attempt}. ")
        if stream.attempt == 1:
            await asyncio.Event().wait()


    async def generator(request):
        yield "text"
    """
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "durable_here.py").write_text(AGENT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def serve(*_: object, **__: object) -> None:
        raise AssertionError("the command was accepted")

    monkeypatch.setattr("coreason_client.server.serve", serve)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--durable"],
            "--durable needs a store that outlives the process: add --store sqlite:PATH, .*",
        ),
        (["--durable", "--store", "memory"], "--durable needs a store .* --store sqlite:PATH"),
        (["--max-restarts", "2"], "--max-restarts needs --durable"),
        (
            ["durable_here:generator", "--durable", "--store", "sqlite:streams.db"],
            "--durable needs an agent that takes `stream`, .*",
        ),
    ],
)
def test_what_cannot_be_durable_is_refused_in_one_sentence(
    folder: Path, arguments: list[str], says: str
) -> None:
    done = coreason_here("serve", "--port", "0", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(f"error: {says}.*\n", done.stderr), done.stderr


def test_a_limit_below_one_is_refused(folder: Path) -> None:
    done = coreason_here("serve", "--durable", "--store", "sqlite:s.db", "--max-restarts", "0")
    assert done.returncode == 2
    assert "--max-restarts" in done.stderr


def test_the_options_reach_the_application_also_in_a_worker(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []
    create = AgentApp.__init__

    def record(self: AgentApp, agent: Any, **options: Any) -> None:
        made.append(options)
        create(self, agent, **options)

    monkeypatch.setattr(AgentApp, "__init__", record)
    options = ServeOptions(store="sqlite:streams.db", durable=True, max_restarts=7)
    config = ServeConfig(options)
    config.app()
    monkeypatch.setenv(_application._CONFIG_VARIABLE, config.to_json())
    worker_app()
    assert [(options["durable"], options["max_restarts"]) for options in made] == [(True, 7)] * 2


def test_the_default_limit_is_that_of_the_application() -> None:
    default = inspect.signature(AgentApp).parameters["max_restarts"].default
    assert default == DEFAULT_MAX_RESTARTS


def test_an_answer_continues_when_the_server_was_killed_and_started_again(tmp_path: Path) -> None:
    (tmp_path / "durable_here.py").write_text(AGENT)
    options = ["serve", "durable_here:agent", "--durable", "--store", "sqlite:streams.db", "--port"]
    with Process(*options, "0", cwd=tmp_path) as process:
        banner = process.expect("}'\n")
        assert "streams are stored in streams.db and continue after a restart" in banner
        [url] = re.findall(r"at (http://\S+),", banner)
        with CAPClient(url, "any", max_retries=100) as client, client.chat("count") as answer:
            assert next(answer) == "0 "
            process.signal(signal.SIGKILL)
            process.end()
            (tmp_path / "go").touch()
            with Process(*options, url.rpartition(":")[2], cwd=tmp_path) as again:
                again.expect("}'\n")
                assert "".join(answer) == "1 2 3 4 5 6 7 8 9 the end"
                again.signal(signal.SIGTERM)
                assert again.end() == 0
                assert re.search(r"WARNING .* is continued after packet", again.errors), (
                    again.errors
                )


def test_text_that_a_restarted_agent_writes_anew_is_redrawn_and_ends_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "durable_here.py").write_text(AGENT)
    options = ["serve", "durable_here:unsteady", "--durable", "--store", "sqlite:s.db", "--port"]
    emulator = Emulator(80, 24)

    class Terminal(Process):
        def received(self, text: str) -> None:
            emulator.feed(text)

    with Process(*options, "0", cwd=tmp_path) as server:
        [url] = re.findall(r"at (http://\S+),", server.expect("}'\n"))
        with (
            Terminal("chat", "--url", url, "Hi", terminal=True, size=(80, 24)) as terminal,
            Process("chat", "--url", url, "Hi") as pipe,
        ):
            terminal.expect("Text 1.")
            pipe.expect("Text 1.")
            server.signal(signal.SIGKILL)
            server.end()
            with Process(*options, url.rpartition(":")[2], cwd=tmp_path):
                assert terminal.end() == 0
                assert pipe.end() == 1
                assert (pipe.text.strip(), "producer_lost" in pipe.errors) == ("", True)
    assert emulator.lines == ["The beginning. Text 2. The end."]
