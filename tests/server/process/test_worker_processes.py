"""Worker processes: replaced when they die, ended together, and never left behind."""

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from coreason_client.server.process import _worker_processes
from coreason_client.server.process._worker_processes import exit_reason

from ..peer import LIMIT, Peer
from ..program import PATIENCE, Program, gone

MODULE = """
import asyncio, logging, os
from pathlib import Path
from coreason_client.server import AgentApp, MemoryStreamLog

class Shared(MemoryStreamLog):
    shared = True

async def agent(request, stream):
    await stream.write(f"{os.getpid()} ")
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    await stream.write("b")

def make():
    logging.basicConfig(level=logging.INFO)
    return AgentApp(agent, log=Shared(), drain_timeout=60)

def of_one_process():
    logging.basicConfig(level=logging.INFO)
    return AgentApp(agent)
"""

MAIN = """
import logging, os, sys
from coreason_client.server import listen, serve_workers

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    os.chdir(os.path.dirname(__file__))
    with listen("127.0.0.1", 0) as sock:
        sys.stderr.write(f"at http://127.0.0.1:{sock.getsockname()[1]}\\n")
        sys.stderr.flush()
        try:
            serve_workers(sys.argv[1], sock, int(sys.argv[2]), shutdown_timeout=60)
        except RuntimeError as error:
            sys.exit(f"sorry: {error}")
"""


@contextlib.contextmanager
def workers(folder: Path, count: int, factory: str = "worker_module:make") -> Iterator[Program]:
    (folder / "worker_module.py").write_text(MODULE)
    path = folder / "main_program.py"
    path.write_text(MAIN)
    source = f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')"
    with Program(source, factory, count, env={"PYTHONPATH": str(folder)}) as program:
        yield program


def started(program: Program, count: int) -> list[int]:
    """Wait until so many workers have been started; return their ids."""
    pattern = r"worker (\d+) started|is replaced by worker (\d+)"
    program.expect(rf"(?s)(?:.*(?:{pattern})){{{count}}}")
    return [int(a or b) for a, b in re.findall(pattern, program.errors)]


def wait_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not all(map(gone, pids)):
        assert time.monotonic() < deadline, f"still there: {pids}"
        time.sleep(0.01)


def test_a_worker_that_dies_is_replaced_and_all_drain_together(tmp_path: Path) -> None:
    with workers(tmp_path, 2) as program:
        first, second = started(program, 2)
        peer = Peer(program.url())
        with peer.open() as answer:
            serving = int(answer.until(1).text)
            other = first if serving == second else second
            os.kill(other, signal.SIGKILL)
            program.expect(rf"worker {other} ended \(killed by SIGKILL\) and is replaced by worker")
            pids = started(program, 3)
            # To all at once, as systemd does; the parent passes its own on to the workers.
            os.killpg(program.pid, signal.SIGTERM)
            program.expect("draining: 1 streams, up to 60 seconds")
            answer.rest()  # a shared log: readers leave
        assert not gone(serving)
        (tmp_path / "go").touch()
        assert program.end() == 0
        program.expect("drained in")
        wait_gone(pids)
        peer.close()
        assert "Traceback" not in program.errors


def test_a_worker_that_dies_before_it_is_ready_leaves_one_that_serves(tmp_path: Path) -> None:
    with workers(tmp_path, 2) as program:
        slow, serving = started(program, 2)
        os.kill(slow, signal.SIGSTOP)
        os.kill(program.pid, signal.SIGSTOP)  # it learns both at once: one is ready, one is dead
        peer = Peer(program.url())
        with peer.open() as answer:
            assert int(answer.until(1).text) == serving
            os.kill(slow, signal.SIGKILL)
            os.kill(program.pid, signal.SIGCONT)
            program.expect(rf"worker {slow} ended \(killed by SIGKILL\) and is replaced by worker")
            (tmp_path / "go").touch()
            answer.rest()
        peer.close()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_ends_all_of_them_at_once(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with workers(tmp_path, 1) as program:
        pids = started(program, 1)
        peer = Peer(program.url())
        with peer.open() as answer:
            answer.until(1)
            # A terminal sends Ctrl-C to all processes.
            os.killpg(program.pid, number)
            program.expect("draining: 1 streams")
            os.killpg(program.pid, number)
            assert program.end() == code
            with contextlib.suppress(httpx2.TransportError):
                answer.rest()
        peer.close()
        wait_gone(pids)
        assert "Traceback" not in program.errors


def test_workers_leave_when_their_parent_is_killed(tmp_path: Path) -> None:
    with workers(tmp_path, 1) as program:
        pids = started(program, 1)
        http = httpx2.Client(timeout=LIMIT)
        assert http.get(f"{program.url()}/health").status_code == 200  # it serves
        http.close()
        os.kill(program.pid, signal.SIGKILL)
        program.end()
        wait_gone(pids)


def test_signals_replace_add_and_remove_workers(tmp_path: Path) -> None:
    with workers(tmp_path, 1) as program:
        [first] = started(program, 1)
        http = httpx2.Client(timeout=LIMIT)
        assert http.get(f"{program.url()}/health").status_code == 200
        http.close()
        program.signal(signal.SIGHUP)
        _, second = started(program, 2)
        wait_gone([first])
        assert not gone(second)
        program.signal(signal.SIGTTIN)
        third = started(program, 3)[-1]
        program.signal(signal.SIGTTOU)
        wait_gone([third])
        assert not gone(second)
        program.signal(signal.SIGTERM)
        assert program.end() == 0
        wait_gone([second])
        assert "Traceback" not in program.errors


@pytest.mark.parametrize(
    ("factory", "count", "says"),
    [
        ("worker_module:of_one_process", 2, "more workers need a log that processes share"),
        ("worker_module:missing", 1, "has no attribute 'missing'"),
    ],
)
def test_workers_that_cannot_start_are_not_started_for_ever(
    tmp_path: Path, factory: str, count: int, says: str
) -> None:
    with workers(tmp_path, count, factory) as program:
        program.expect(says)
        assert program.end() == 1
        program.expect(r"sorry: worker \d+ ended \(exit code 1\) before it was ready")


def test_a_worker_that_does_not_answer_for_a_minute_is_hung(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr(_worker_processes, "monotonic", lambda: now)
    pipes: list[Any] = []

    def start(pipe: Any) -> Any:
        pipes.append(os.dup(pipe.fileno()))
        return SimpleNamespace(pid=1)

    worker = _worker_processes._Worker(start)
    with Connection(pipes[0]) as theirs:
        theirs.send_bytes(b"ready")
        worker.read_messages()
        assert worker.ready
        now += 3600  # nobody asked it meanwhile
        assert not worker.is_hung()
        assert theirs.recv_bytes() == b"ping"
        for _ in range(5):
            now += 12
            worker.read_messages()
            assert not worker.is_hung()
        now += 1
        assert worker.is_hung()
        theirs.send_bytes(b"pong")
        worker.read_messages()
        assert not worker.is_hung()
        worker._pipe.close()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (0, "exit code 0"),
        (3, "exit code 3"),
        (-9, "killed by SIGKILL"),
        (-99, "killed by signal 99"),
        (None, "unknown reason"),
    ],
)
def test_why_a_process_ended(code: int | None, reason: str) -> None:
    assert exit_reason(code) == reason
