"""Servers in separate processes, which end with whoever started them.

A child is a module here that calls `answer` with its port. From then on every line on its input is
a question: it says what it has used so far. When its input ends, so does the child.
"""

import gc
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Child", "Usage", "answer", "child", "cpu_seconds", "resident_bytes"]

_ROOT = Path(__file__).resolve().parents[1]
_LONGEST_LIFE = 300.0
_END_WITHIN = 15.0
_SCHEDULER_CLOCK = 2  # CPUCLOCK_SCHED of the kernel


@dataclass(frozen=True, slots=True)
class Usage:
    """The CPU time of a process since its start, and its memory."""

    cpu_seconds: float
    resident_bytes: int


class Child:
    """A server that runs in another process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.port = int(self._line())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_seconds(self) -> float:
        """Return the CPU time used so far, without any work in the child."""
        return cpu_seconds(self.pid)

    def usage(self) -> Usage:
        """Return the CPU time and memory of the child."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Usage(*json.loads(self._line()))

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f"the process ended too early: {self._process.args!r}")
        return line


@contextmanager
def child(module: str, *arguments: object) -> Iterator[Child]:
    """Run a module of this package while the block runs, with a time limit."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.{module}", *map(str, arguments)],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    watch = threading.Timer(_LONGEST_LIFE, process.kill)
    watch.start()
    try:
        yield Child(process)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(_END_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        watch.cancel()
        process.stdout.close()


def answer(port: int) -> None:
    """Run as the child: print the port, and answer until the input ends."""
    print(port, flush=True)
    for _ in sys.stdin:
        gc.collect()
        print(json.dumps((time.process_time(), resident_bytes())), flush=True)


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of all threads of a process, to the microsecond.

    Linux gives every process a clock of its CPU time; `/proc/PID/stat` counts in ticks of 10 ms.
    """
    return time.clock_gettime((~pid << 3) | _SCHEDULER_CLOCK)


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
