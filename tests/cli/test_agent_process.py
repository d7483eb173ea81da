"""`coreason chat --kill`: an agent that is killed continues, and leaves nothing behind."""

import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from coreason_client.cli.chat import _agent_process
from coreason_client.cli.chat._agent_process import AgentKiller, agent_process
from coreason_client.cli.exits import Failure

from .command import PATIENCE, Process, coreason_here
from .models import MODEL, answer, chunk, model, streamed

# The guide finds nothing about it, so its answer is short.
QUESTION = "xyzzy"
ONE_KILL = ["chat", "--chaos", "--kill", "--seed", "37"]


def is_soon(condition: Callable[[], bool]) -> bool:
    """Wait until a condition is true; it depends on a process that reports to nobody."""
    deadline = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


@pytest.mark.timeout(180)  # the answer has many cuts, and a busy machine starts agents slowly
@pytest.mark.usefixtures("coreason_clock")  # the waits after its cuts add up to a minute
def test_an_agent_that_is_killed_loses_nothing_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = coreason_here(*ONE_KILL, QUESTION, env={"TMPDIR": str(tmp_path)})
    assert (done.returncode, done.stderr) == (0, "")
    *_, last = done.stdout.splitlines()
    found = re.fullmatch(
        r"Resumed after \d+ cuts? of the connection and 1 kill of the agent, nothing lost or "
        r"duplicated: (\d+) packets received, (\d+) logged\.",
        last,
    )
    assert found is not None, last
    assert found[1] == found[2]
    assert done.stdout.count("I found nothing about") == 1
    assert _left_behind(tmp_path) == []


def test_a_model_is_asked_again_when_its_agent_was_killed() -> None:
    words = [f"word{number} " for number in range(30)]
    held = streamed([chunk(content=word) for word in words[:15]], hold=True)
    with model(held, answer(*words)) as served:
        done = coreason_here(*ONE_KILL, "--llm", MODEL, "Hi", env=served.env)
        requests = len(served.received)
    assert (done.returncode, done.stderr) == (0, "")
    text, _, last = done.stdout.rstrip().rpartition("\n\n")
    assert text == "".join(words)
    assert re.search("and 1 kill of the agent, nothing lost or duplicated", last)
    assert requests >= 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_the_agent_ends_with_the_command(tmp_path: Path, number: signal.Signals, code: int) -> None:
    env = {"TMPDIR": str(tmp_path)}
    with Process(*ONE_KILL, "How do I resume a stream?", env=env) as process:
        process.expect("**")
        process.signal(number)
        assert process.end() == code
        assert is_soon(lambda: not _processes_with(env))
        assert is_soon(lambda: not _left_behind(tmp_path))


def _left_behind(folder: Path) -> list[Path]:
    return list(folder.glob("coreason-chat-*"))


def _processes_with(env: dict[str, str]) -> list[str]:
    """Return the processes that run in an environment."""
    [(name, value)] = env.items()
    wanted = f"{name}={value}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended, or belongs to somebody else
            if wanted in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
    return found


@pytest.mark.parametrize("ends", ["at once", "at any time"])
def test_a_process_that_does_not_start_is_reported(
    ends: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start = subprocess.Popen

    def started_and_ended(*given: Any, **options: Any) -> Any:
        process = start(*given, **options)
        process.wait(PATIENCE)
        return process

    if ends == "at once":  # so nothing can be written to it
        monkeypatch.setattr(subprocess, "Popen", started_and_ended)
    monkeypatch.setattr(_agent_process, "_PROGRAM", "raise SystemExit('no memory')")
    with (
        pytest.raises(Failure, match="the process of the agent did not start"),
        agent_process(None, None, verbose=0),
    ):
        pass
    assert capsys.readouterr().err == "no memory\n"


# Serves one connection.
PROGRAM = """
import socket, sys
sys.path[:] = __import__("json").loads(sys.argv[1])
from coreason_client.cli.chat._agent_process import AgentSettings
settings = AgentSettings.from_line(sys.stdin.buffer.readline())
print("ready", flush=True)
connection, _ = socket.socket(fileno=settings.socket).accept()
connection.sendall(b"served")
sys.stdin.read()
"""


def test_a_client_that_connects_between_a_kill_and_the_next_start_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_agent_process, "_PROGRAM", PROGRAM)
    with agent_process(None, None, verbose=0) as process:
        process.kill()
        address = urlsplit(process.url)
        assert address.port is not None
        with socket.create_connection(("127.0.0.1", address.port), timeout=PATIENCE) as client:
            process.start()
            assert client.recv(100) == b"served"
    assert process._process is None


def test_an_answer_begins_with_an_agent_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_agent_process, "_PROGRAM", PROGRAM)
    with agent_process(None, None, verbose=0) as process:
        killer = AgentKiller(process, 1)
        first = process._process
        killer.begin_answer()
        assert process._process is first
        process.kill()
        killer.begin_answer()
        assert process._process is not None


@pytest.mark.parametrize(
    ("arguments", "env", "says"),
    [
        (["--kill"], {}, "--kill needs --chaos"),
        (
            ["--chaos", "--kill", "--url", "http://127.0.0.1:1"],
            {},
            "--kill and --url cannot be used together: .*",
        ),
        (
            ["--chaos", "--kill"],
            {"COREASON_URL": "http://127.0.0.1:1"},
            "--kill and COREASON_URL cannot be used together: .*",
        ),
        (["--chaos", "--kill", "--llm", MODEL], {}, ".*LLM_API_KEY.*"),
    ],
)
def test_what_cannot_be_killed_is_refused_in_one_sentence(
    tmp_path: Path, arguments: list[str], env: dict[str, str], says: str
) -> None:
    done = coreason_here("chat", *arguments, "Hi", env=env, cwd=tmp_path)
    assert (done.returncode in {1, 2}, done.stdout) == (True, "")
    assert re.search(f"^error: {says}\n\\Z", done.stderr, re.MULTILINE), done.stderr
