"""A process that is started as a copy of the template, with the methods of `subprocess.Popen`."""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Final

_TEMPLATE: Final = Path(__file__).with_name("template.py")
_START_WITHIN: Final = 100.0  # the imports of a framework take seconds on an idle machine

# What programs that serve agents, and the command, import; for tests that are not about imports.
PROJECT: Final = (
    *("coreason_client.server", "coreason_client.server.process._draining_server"),
    *("coreason_client.agents.guide", "coreason_client.testing._chaos"),
    *(
        "coreason_client.cap.client",
        "coreason_client.cap.streams",
        "coreason_client._http._backend",
    ),
    *(
        "coreason_client.cli._app",
        "coreason_client.cli._attached",
        "coreason_client.cli._conversation",
    ),
    *("coreason_client.cli.chat._answer", "coreason_client.cli.output._live"),
    *("coreason_client.llm.aclient", "coreason_client.llm.settings"),
)
WITH_STORES: Final = (*PROJECT, "redis.asyncio", "asyncpg")


class PreloadedProcess:
    """A Python process in a separate session; `arguments` begin with `-m` or `-c`.

    The streams are descriptors, which the caller may close after the start. `libraries` are those
    that this program imports in any case, beside the usual ones; an absolute path among them is a
    folder in which all are searched first.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        stdin: int,
        stdout: int,
        stderr: int,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        terminal: bool = False,
        libraries: tuple[str, ...] = (),
    ) -> None:
        """Start it; with `terminal`, its stdin becomes its controlling terminal."""
        assert arguments[0] in ("-m", "-c"), arguments
        env = dict(os.environ if env is None else env)
        request = {
            "arguments": list(arguments),
            "cwd": str(cwd or Path.cwd()),
            "env": env,
            "terminal": terminal,
        }
        self.args = arguments
        self.returncode: int | None = None
        self._waiting = threading.Lock()
        self._received = b""
        self._report, theirs = os.pipe()
        readable, writable = os.pipe()
        settings = {name: env[name] for name in env if _is_read_at_start(name)}
        path = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        folders = (str(Path(folder).absolute()) for folder in path)
        control = _template(frozenset(settings.items()), (*libraries, *folders))
        socket.send_fds(control, [b"+"], [readable, stdin, stdout, stderr, theirs])
        os.close(readable)
        os.close(theirs)
        with os.fdopen(writable, "w") as file:
            json.dump(request, file)
        pid = self._line(_START_WITHIN)
        assert pid is not None, "the process did not start"
        self.pid = pid

    def poll(self) -> int | None:
        """Return the exit code, None while it runs; a signal that ended it is negative."""
        with self._waiting:
            return self._wait(0.0)

    def wait(self, timeout: float) -> int:
        """Wait for the end and return the exit code.

        Raises:
            subprocess.TimeoutExpired: it still runs.
        """
        with self._waiting:
            code = self._wait(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def _wait(self, timeout: float) -> int | None:
        if self.returncode is None:
            self.returncode = self._line(timeout)
            if self.returncode is not None:
                os.close(self._report)
        return self.returncode

    def _line(self, timeout: float) -> int | None:
        """Return the next number of the report, None if it does not come in time."""
        deadline = monotonic() + timeout
        while b"\n" not in self._received:
            if not select.select([self._report], [], [], max(deadline - monotonic(), 0.0))[0]:
                return None
            data = os.read(self._report, 64)
            assert data, "the template of the process has ended"
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return int(line)


def _is_read_at_start(name: str) -> bool:
    """Return True if the interpreter, or a library at its import, reads this variable only once.

    There is a template for each of their values. A copy extends its path itself.
    """
    return name.startswith(("PYTHON", "LANG", "LC_", "SSL_CERT_")) and name != "PYTHONPATH"


@cache
def _template(settings: frozenset[tuple[str, str]], libraries: tuple[str, ...]) -> socket.socket:
    """Start a template with these settings of the interpreter; it lasts as long as this process."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, str(_TEMPLATE), str(theirs.fileno()), *libraries],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={"PATH": os.environ.get("PATH", os.defpath), **dict(settings)},
        cwd="/",
        pass_fds=[theirs.fileno()],
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait(_START_WITHIN)

    atexit.register(end)
    return ours
