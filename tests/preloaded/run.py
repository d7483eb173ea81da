"""Runs a Python program to its end, as `subprocess.run` does."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from .process import PreloadedProcess


def run_preloaded(
    arguments: Sequence[str],
    *,
    timeout: float,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    libraries: tuple[str, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; after the timeout, it is killed with its whole session."""
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        given.write(stdin)
        given.seek(0)
        process = PreloadedProcess(
            arguments,
            stdin=given.fileno(),
            stdout=out.fileno(),
            stderr=err.fileno(),
            env=env,
            cwd=cwd,
            libraries=libraries,
        )
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait(timeout)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(
            arguments, code, out.read().decode(), err.read().decode()
        )
