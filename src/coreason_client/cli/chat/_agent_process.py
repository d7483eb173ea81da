"""A durable agent in a child process that is killed and started again."""

import json
import random
import secrets
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from time import monotonic
from typing import IO

from coreason_manifest.definitions._base import utc_now
from coreason_manifest.definitions.presentation import ClosePacket, Packet

from ..exits import Failure
from ..output import print_stderr
from ._agent_child import READY, AgentSettings

__all__ = ["AgentKiller", "AgentProcess", "Kills", "agent_process"]

_START_TIMEOUT = 60.0
# The child searches modules where this process has found them.
_PROGRAM = """\
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from coreason_client.cli.chat._agent_child import main
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

    def __init__(self, settings: AgentSettings, url: str) -> None:
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._copier: threading.Thread | None = None
        self.url = url

    @property
    def key(self) -> str:
        """The API key of the agent."""
        return self._settings.key

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
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


class AgentKiller:
    """Kills the process of the agent after some packets, and starts it again."""

    def __init__(self, process: AgentProcess, seed: int) -> None:
        self._process = process
        self._kills = Kills(seed)

    @property
    def url(self) -> str:
        """The URL of the agent."""
        return self._process.url

    @property
    def key(self) -> str:
        """The API key of the agent."""
        return self._process.key

    @property
    def count(self) -> int:
        """The number of kills so far."""
        return self._kills.count

    def begin_answer(self) -> None:
        """Begin an answer.

        Raises:
            Failure: the agent does not run, and does not start.
        """
        self._process.ensure_started()
        self._kills.begin_answer()

    def received(self, packet: Packet) -> None:
        """Kill the agent if this is the time, and wait until it serves again.

        Raises:
            Failure: it does not start again.
        """
        if isinstance(packet, ClosePacket) or not self._kills.is_due(packet.seq, packet.t):
            return
        self._process.kill()
        self._kills.record(utc_now())
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
