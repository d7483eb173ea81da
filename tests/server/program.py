"""A test's program, in a separate process, with every wait bounded."""

import os
import re
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from ..preloaded import PROJECT, PreloadedProcess

PATIENCE = 30.0


class Program:
    """A Python program; its stderr is read all the time."""

    def __init__(
        self,
        source: str,
        *arguments: object,
        env: Mapping[str, str] | None = None,
        libraries: tuple[str, ...] = PROJECT,
    ) -> None:
        self._stderr, theirs = os.pipe()
        with Path(os.devnull).open("r+b") as null:
            self._process = PreloadedProcess(
                ["-c", source, *map(str, arguments)],
                stdin=null.fileno(),
                stdout=null.fileno(),
                stderr=theirs,
                env={**os.environ, **(env or {})},
                libraries=libraries,
            )
        os.close(theirs)
        self._changed = threading.Condition()
        self._errors = ""
        self._at_end = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            # Its workers too: they are in the same session, which is the program's own.
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        os.close(self._stderr)

    @property
    def errors(self) -> str:
        """The stderr so far."""
        return self._errors

    @property
    def pid(self) -> int:
        return self._process.pid

    def expect(self, pattern: str) -> re.Match[str]:
        """Wait until stderr has this, anywhere."""

        def found() -> re.Match[str] | None:
            return re.search(pattern, self._errors)

        with self._changed:
            self._changed.wait_for(lambda: found() or self._at_end, PATIENCE)
        match = found()
        assert match is not None, f"{pattern!r} did not come; there was {self._errors!r}"
        return match

    def url(self) -> str:
        """Wait until uvicorn says where it listens."""
        return self.expect(r"http://127\.0\.0\.1:\d+")[0]

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        """Wait for the end, and return the exit code."""
        code = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def _read(self) -> None:
        while data := os.read(self._stderr, 65536):
            with self._changed:
                self._errors += data.decode(errors="replace")
                self._changed.notify_all()
        with self._changed:
            self._at_end = True
            self._changed.notify_all()


def gone(pid: int) -> bool:
    """Return True if a process has ended, though its parent may not have noticed."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] == "Z"
