"""Run a copy of the official A2A conformance kit against the agent in examples/a2a_conformance.py.

The copy is a checkout of https://github.com/a2aproject/a2a-tck: branch 1.0-dev, or 0.3.x with
`--protocol 0.3`. It runs with the Python of its own .venv, or with `uv run`. Other arguments go to
the kit, and its exit code is the one of this program.
"""

import argparse
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

AGENT = Path(__file__).parents[1] / "examples" / "a2a_conformance.py"
CARD = "/.well-known/agent-card.json"
START_SECONDS = 30.0
USAGE = 2


class Problem(Exception):
    """The kit cannot be run; the message says why."""


def runner(folder: Path | None) -> list[str]:
    """Return the command of the kit in a folder.

    Raises:
        Problem: there is no kit, or nothing to run it with.
    """
    if folder is None or not (folder / "run_tck.py").is_file():
        raise Problem(
            "DIR must be a checkout of https://github.com/a2aproject/a2a-tck, with run_tck.py in "
            f"it, got {'nothing' if folder is None else folder}: make tck DIR=../a2a-tck"
        )
    python = folder / ".venv" / "bin" / "python"
    if python.is_file():
        return [str(python.absolute()), "run_tck.py"]
    if uv := shutil.which("uv"):
        return [uv, "run", "run_tck.py"]
    raise Problem(f"{folder} has no .venv/bin/python, and uv is not installed: install one of them")


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that nobody uses."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@contextmanager
def agent(protocol: str, seconds: float = START_SECONDS) -> Iterator[str]:
    """Serve the agent, and yield its URL once its card can be read.

    Raises:
        Problem: it does not start.
    """
    port, grpc_port = free_ports(2)
    command = [sys.executable, str(AGENT), "--port", str(port), "--protocol", protocol]
    if protocol != "0.3":
        command += ["--grpc-port", str(grpc_port)]
    process = subprocess.Popen(command)  # noqa: S603 - our own example
    try:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + seconds
        while not _has_card(url):
            if process.poll() is not None:
                raise Problem(f"the agent has ended with exit code {process.returncode}")
            if time.monotonic() > deadline:
                raise Problem(f"the agent has no card after {seconds:g} seconds")
            time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait(START_SECONDS)


def _has_card(url: str) -> bool:
    try:
        with urlopen(url + CARD, timeout=1.0) as response:  # noqa: S310 - on loopback
            return bool(response.status == 200)
    except (URLError, OSError):
        return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the kit, and return its exit code."""
    parser = argparse.ArgumentParser(prog="make tck DIR=", description=__doc__)
    parser.add_argument("folder", nargs="?", help="a copy of the kit")
    parser.add_argument("--protocol", choices=["1.0", "0.3"], default="1.0")
    given, others = parser.parse_known_args(arguments)
    try:
        command = runner(Path(given.folder) if given.folder else None)
        with agent(given.protocol) as url:
            option = "--sut-url" if given.protocol == "0.3" else "--sut-host"
            command += [option, url, *others]
            done = subprocess.run(command, cwd=given.folder, check=False)  # noqa: S603 - the kit
            return done.returncode
    except Problem as problem:
        sys.stderr.write(f"{problem}\n")
        return USAGE


if __name__ == "__main__":
    sys.exit(main())
