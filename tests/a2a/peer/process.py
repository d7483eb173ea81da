"""The peer's process, from its start to its end."""

import os
import selectors
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

START: Final = 30.0
STOP: Final = 5.0
ROOT: Final = Path(__file__).parents[3]


@contextmanager
def running_peer() -> Iterator[str]:
    """Start the server, give its origin, and end it."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.a2a.peer.server"],
        cwd=ROOT,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(first_line(process.stdout))}"
        finally:
            process.terminate()
            try:
                process.wait(STOP)
            except subprocess.TimeoutExpired:
                process.kill()


def first_line(pipe: IO[bytes]) -> bytes:
    """Wait for the line that says that the server listens, but not for ever."""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        assert selector.select(START), "the peer did not start"
    line = pipe.readline()
    assert line, "the peer ended at its start"
    return line
