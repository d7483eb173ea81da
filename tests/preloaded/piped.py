"""A preloaded process whose stdin and stdout are files of the process that has started it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from .process import PreloadedProcess


class PipedProcess(PreloadedProcess):
    """A process that is spoken to through `stdin` and `stdout`; its stderr is that of the test."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        libraries: tuple[str, ...] = (),
    ) -> None:
        """Start it; see `PreloadedProcess`."""
        given, ours = os.pipe()
        self.stdin = os.fdopen(ours, "wb")
        ours, written = os.pipe()
        self.stdout = os.fdopen(ours, "rb")
        super().__init__(
            arguments,
            stdin=given,
            stdout=written,
            stderr=2,
            env=env,
            cwd=cwd,
            libraries=libraries,
        )
        os.close(given)
        os.close(written)

    def line(self) -> str:
        """Return the next line that it writes."""
        return self.stdout.readline().decode().strip()

    def close(self, timeout: float) -> None:
        """Kill it, unless it has ended, and wait for its end."""
        self.kill()
        self.wait(timeout)
        self.stdin.close()
        self.stdout.close()
