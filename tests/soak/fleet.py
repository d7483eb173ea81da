"""Replica processes that can be killed, frozen and restarted, and their records."""

import asyncio
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from ..preloaded import PROJECT, WITH_STORES, PreloadedProcess
from .options import ReplicaOptions

_START_WITHIN = 60.0
_LEAVE_WITHIN = 20.0
_ROOT = Path(__file__).resolve().parents[2]
# Below the range of ephemeral ports: the port of a stopped replica must still be free when it is
# restarted.
_PORTS = range(20_000, 32_000)


class Replica:
    """One replica: a port, and the process that serves there at the moment."""

    def __init__(self, folder: Path, number: int, port: int, options: ReplicaOptions) -> None:
        self.number = number
        self.port = port
        self._folder = folder
        self._options = options
        self._process: PreloadedProcess | None = None
        self._lifeline = -1
        self._starts = 0
        self.busy = False  # a fault is acting on it

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def fit(self) -> bool:
        """True if it serves and no fault is acting on it."""
        return self._process is not None and not self.busy

    async def start(self) -> None:
        """Start the process and wait until it accepts connections."""
        self._reap()
        process = self._process = self._spawn()
        deadline = time.monotonic() + _START_WITHIN
        while not await _accepts(self.port):
            if process.poll() is not None:
                raise RuntimeError(
                    f"replica {self.number} exited during its start: {self.errors()}"
                )
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"replica {self.number} did not start within {_START_WITHIN:g} seconds"
                )
            await asyncio.sleep(0.05)

    @property
    def exited(self) -> bool:
        """True if the process has exited by itself."""
        return self._process is not None and self._process.poll() is not None

    def kill(self) -> None:
        """Kill the process, like a crash."""
        if self._process is not None:
            self._process.kill()
            self._reap()

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    async def leave(self) -> int | None:
        """Ask the process to drain and exit; return its exit code, None if it did not exit."""
        process = self._process
        if process is None:
            return None
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            return await asyncio.to_thread(process.wait, _LEAVE_WITHIN)
        return None

    def errors(self) -> str:
        """Return the stderr of all processes of this replica."""
        files = sorted(self._folder.glob(f"stderr-{self.number}-*"))
        return "".join(file.read_text(errors="replace") for file in files)

    def notes(self) -> Iterator[str]:
        for file in sorted(self._folder.glob(f"notes-{self.number}-*")):
            yield from file.read_text().splitlines()

    def _spawn(self) -> PreloadedProcess:
        self._starts += 1
        name = f"{self.number}-{self._starts}"
        notes, stderr = self._folder / f"notes-{name}", self._folder / f"stderr-{name}"
        arguments = [str(self.port), self._options.dump(), str(notes)]
        theirs, self._lifeline = os.pipe()  # its end tells the process that nobody needs it
        try:
            with stderr.open("wb") as errors, Path(os.devnull).open("wb") as null:
                return PreloadedProcess(
                    ["-m", self._options.program, *arguments],
                    stdin=theirs,
                    stdout=null.fileno(),
                    stderr=errors.fileno(),
                    cwd=_ROOT,
                    libraries=PROJECT if self._options.url.startswith("sqlite:") else WITH_STORES,
                )
        finally:
            os.close(theirs)

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, number)

    def _reap(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.wait(_LEAVE_WITHIN)
            os.close(self._lifeline)


class Fleet:
    """All replicas, one for each set of options; kills all its processes on exit."""

    def __init__(self, folder: Path, options: Sequence[ReplicaOptions]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.replicas = [
            Replica(folder, number, port, own)
            for number, (port, own) in enumerate(
                zip(_free_ports(len(options)), options, strict=True)
            )
        ]

    async def __aenter__(self) -> Self:
        try:
            await asyncio.gather(*(replica.start() for replica in self.replicas))
        except BaseException:
            self._kill_all()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._kill_all()

    async def leave(self) -> list[int | None]:
        """Ask all replicas to drain and exit; return their exit codes."""
        return list(await asyncio.gather(*(replica.leave() for replica in self.replicas)))

    def notes(self) -> Iterator[str]:
        for replica in self.replicas:
            yield from replica.notes()

    def errors(self) -> str:
        return "".join(replica.errors() for replica in self.replicas)

    def _kill_all(self) -> None:
        for replica in self.replicas:
            replica.kill()


async def _accepts(port: int) -> bool:
    with suppress(OSError):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        return True
    return False


def _free_ports(number: int) -> list[int]:
    ports: list[int] = []
    for port in random.sample(_PORTS, k=200):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            ports.append(port)
        if len(ports) == number:
            return ports
    raise RuntimeError(f"no {number} free ports found in {_PORTS}")
