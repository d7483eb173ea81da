"""A Postgres server with the settings of its distribution, in its own processes."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ._child import cpu_seconds

__all__ = ["Postgres", "postgres"]

_DEBIAN = Path("/usr/lib/postgresql")
_START_WITHIN = 30.0


class Postgres:
    """A running server; it listens at a unix socket only."""

    def __init__(self, folder: Path, process: "subprocess.Popen[bytes]") -> None:
        self._folder = folder
        self._process = process

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self._folder}"

    def cpu_seconds(self) -> float:
        """Return the CPU time of all its processes since its start."""
        pid = self._process.pid
        ended = _stat(pid)[13:15]  # of processes that have ended
        ticks = sum(map(int, ended)) / os.sysconf("SC_CLK_TCK")
        return ticks + sum(map(_cpu_seconds, (pid, *_children(pid))))

    def wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + _START_WITHIN
        ready = [str(_programs() / "pg_isready"), "--quiet", "--host", str(self._folder)]
        while subprocess.run(ready, check=False).returncode:
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise AssertionError("the Postgres server did not start")
            time.sleep(0.02)


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Run a server, with its data in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="bench-postgres-") as name:
        folder, data = Path(name), Path(name, "data")
        options = _as_owner(folder)
        initdb = (_programs() / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8")
        subprocess.run([*initdb, "--locale=C"], check=True, **options)
        process: subprocess.Popen[bytes] = subprocess.Popen(
            [_programs() / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses="],
            **options,
        )
        try:
            server = Postgres(folder, process)
            server.wait_until_it_answers()
            yield server
        finally:
            process.terminate()
            try:
                process.wait(1.0)  # it waits for its clients
            except subprocess.TimeoutExpired:
                process.send_signal(subprocess.signal.SIGQUIT)
                process.wait()


def _programs() -> Path:
    """Return the folder of the server programs, of Debian's newest version or of the path."""
    folders = sorted(_DEBIAN.glob("*/bin"), key=lambda folder: int(folder.parent.name))
    if found := shutil.which("postgres"):
        folders.append(Path(found).resolve().parent)
    if not folders:
        raise AssertionError("there is no Postgres: install the package postgresql")
    return folders[-1]


def _as_owner(folder: Path) -> dict[str, Any]:
    """Return the options of a process that owns the folder; Postgres refuses to run as root."""
    options: dict[str, Any] = {
        "cwd": folder,
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    }
    if os.geteuid():
        return options
    user = pwd.getpwnam("postgres")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {**options, "user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _stat(pid: int) -> list[str]:
    """Return the fields of a process from its state on; none of them if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _children(parent: int) -> list[int]:
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return [pid for pid in pids if _stat(pid)[1:2] == [str(parent)]]


def _cpu_seconds(pid: int) -> float:
    try:
        return cpu_seconds(pid)
    except OSError:  # it has just ended
        return 0.0
