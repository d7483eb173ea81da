"""A durable agent in a child process that is killed and started again."""

import json
import os
import random
import secrets
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import IO, TYPE_CHECKING

from coreason_manifest.definitions._base import utc_now
from coreason_manifest.definitions.presentation import ClosePacket, Packet

from .._load import model_agent
from .._logs import show_logs
from ..exits import Failure
from ..output import print_stderr, print_stdout

if TYPE_CHECKING:
    from ...agents.llm import Agent

_START_TIMEOUT = 60.0
# The child searches modules where this process has found them.
_PROGRAM = """\
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from coreason_client.cli.chat._agent_process import main
main()
"""


@contextmanager
def agent_process(llm: str | None, system: str | None, *, verbose: int) -> "Iterator[AgentProcess]":
    """Serve the built-in guide or a model in a child process while the block runs.

    Raises:
        Failure: the process does not start.
    """
    from ...server import listen

    with ExitStack() as stack:
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="coreason-chat-", ignore_cleanup_errors=True)
        )
        # This process keeps the socket open, so a client that connects after a kill just waits.
        sock = stack.enter_context(listen("127.0.0.1", 0))
        settings = AgentSettings(
            llm, system, secrets.token_urlsafe(24), folder, sock.fileno(), verbose
        )
        process = AgentProcess(settings, f"http://127.0.0.1:{sock.getsockname()[1]}")
        stack.callback(process.kill)
        process.start()
        yield process


class AgentProcess:
    """The child process that serves the agent."""

    def __init__(self, settings: "AgentSettings", url: str) -> None:
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._copier: threading.Thread | None = None
        self.url, self.key = url, settings.key

    def start(self) -> None:
        """Start the process, and wait until it serves.

        Raises:
            Failure: it does not start.
        """
        # Ctrl-C in a terminal reaches all processes of a session, and this one must not see it.
        self._process = process = subprocess.Popen(  # noqa: S603 - this interpreter and a constant
            [sys.executable, "-c", _PROGRAM, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[self._settings.socket],
            start_new_session=True,
        )
        assert process.stdin is not None  # noqa: S101
        assert process.stdout is not None  # noqa: S101
        self._copier = threading.Thread(target=_copy_lines, args=[process.stderr], daemon=True)
        self._copier.start()
        try:
            process.stdin.write(self._settings.to_line())
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, which is noticed now
        if not _is_ready(process.stdout):
            self.kill()
            raise Failure("the process of the agent did not start; -v shows its log")

    def ensure_started(self) -> None:
        """Start the process if it does not run, because Ctrl-C came between a kill and the start.

        Raises:
            Failure: it does not start.
        """
        if self._process is None or self._process.poll() is not None:
            self.kill()
            self.start()

    def kill(self) -> None:
        """End the process with SIGKILL, if it runs."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        if self._copier is not None:
            self._copier.join()
        for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
            with suppress(BrokenPipeError):  # it had not read all that was written
                pipe.close()


class AgentKiller:
    """Kills the process of the agent after some packets, and starts it again."""

    def __init__(self, process: AgentProcess, seed: int) -> None:
        self._process = process
        self.url, self.key = process.url, process.key
        self.kills = Kills(seed)

    def begin_answer(self) -> None:
        """Begin an answer.

        Raises:
            Failure: the agent does not run, and does not start.
        """
        self._process.ensure_started()
        self.kills.begin_answer()

    def received(self, packet: Packet) -> None:
        """Kill the agent if this is the time, and wait until it serves again.

        Raises:
            Failure: it does not start again.
        """
        if isinstance(packet, ClosePacket) or not self.kills.is_due(packet.seq, packet.t):
            return
        self._process.kill()
        self.kills.record(utc_now())
        self._process.start()


def _is_ready(stdout: IO[bytes]) -> bool:
    """Wait until the child reports that it serves; return False if it does not."""
    deadline = monotonic() + _START_TIMEOUT
    while (left := deadline - monotonic()) > 0:
        if select.select([stdout], [], [], left)[0]:
            return stdout.readline().decode().rstrip() == READY
    return False


def _copy_lines(stderr: IO[bytes]) -> None:
    """Pass on what the child logs; a terminal shows it above the unfinished answer."""
    for line in stderr:
        print_stderr(line.decode("utf-8", "replace").rstrip("\n"))


_PER_ANSWER = 3  # each kill costs the time in which a process starts
_MIN_PACKETS, _MAX_PACKETS = 2, 12


class Kills:
    """The packets after which the agent is killed; the same for each seed.

    The distances double, so that short answers are interrupted too, and long ones complete.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._next = self._left = self._in_answer = 0
        self._last: datetime | None = None
        self.count = 0

    def begin_answer(self) -> None:
        """Begin an answer, whose packets are numbered from 1."""
        self._next, self._left, self._in_answer = 0, _PER_ANSWER, 0
        self._plan_next()

    def is_due(self, seq: int, written_at: datetime) -> bool:
        """Return True if the agent is to be killed after this packet.

        A packet that was in the log before the last kill does not count: an agent that is killed
        again and again before it can write anything new is given up by the server.
        """
        if not self._left or seq < self._next:
            return False
        return self._last is None or written_at > self._last

    def record(self, at: datetime) -> None:
        """Record a kill."""
        self.count += 1
        self._left -= 1
        self._last = at
        self._plan_next()

    def _plan_next(self) -> None:
        self._next += self._random.randint(_MIN_PACKETS, _MAX_PACKETS) * 2**self._in_answer
        self._in_answer += 1


# The child. Its settings are the first line on stdin. When stdin ends, the parent has died.


READY = "ready"
SECONDS_PER_WORD = 0.012
# Every kill happens after a new packet, so this limit is not reached; it is a reserve.
_MAX_RESTARTS = 10


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The settings with which the child process serves the agent; they are sent through a pipe.

    Attributes:
        llm: the name of a model, None for the built-in guide.
        system: the system prompt for the model.
        key: the API key that clients must use.
        folder: the directory of the log; deleted if the parent process dies.
        socket: the file descriptor of the listening socket.
        verbose: how many times `-v` was given.
    """

    llm: str | None
    system: str | None
    key: str = field(repr=False)
    folder: str
    socket: int
    verbose: int

    def to_line(self) -> bytes:
        """Return the settings as one line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> "AgentSettings":
        """Return the settings in a line."""
        return cls(**json.loads(line))


def main() -> None:
    """Serve the agent; the process ends by a signal or with its parent."""
    settings = AgentSettings.from_line(sys.stdin.buffer.readline())
    threading.Thread(target=_exit_with_parent, args=[settings.folder], daemon=True).start()
    show_logs(settings.verbose)
    from ...server import AgentApp, SQLiteStreamLog, serve

    app = AgentApp(
        own_agent(settings.llm, settings.system),
        log=SQLiteStreamLog(Path(settings.folder, "streams.db")),
        api_keys=[settings.key],
        agent_id="guide" if settings.llm is None else "llm",
        durable=True,
        max_restarts=_MAX_RESTARTS,
    )
    reported = False

    async def report_ready() -> None:
        nonlocal reported
        if not reported:  # uvicorn calls this repeatedly
            reported = True
            print_stdout(READY)

    sock = socket.socket(fileno=settings.socket)
    serve(app, sockets=[sock], callback_notify=report_ready, log_config=None, log_level=None)


def own_agent(
    llm: str | None, system: str | None, seconds_per_word: float = SECONDS_PER_WORD
) -> "Agent":
    """Return a model, or the built-in guide with a pause after each word.

    Raises:
        MissingExtraError, Failure: as `model_agent`.
    """
    if llm is None:
        from ...agents.guide import paced

        return paced(seconds_per_word)
    # The user also runs the agent, so the details of its errors may be shown.
    return model_agent(llm, system, tell_errors=True)


def _exit_with_parent(folder: str) -> None:
    sys.stdin.buffer.read()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)
