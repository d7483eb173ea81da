"""Restarts the server when a Python file changes, for development.

The parent holds the listening socket, so clients that connect during a restart wait instead of
being refused. It starts one process and stops it before it starts the next: a log that is not
shared cannot be open in two processes.

If the process ends by itself, because the changed file has an error, the parent waits for the next
change.
"""

import logging
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeAlias, cast

from ._draining_server import SIGHUP, Hangup, exit_now, is_ignored
from ._worker_processes import exit_reason

logger = logging.getLogger("coreason_client.server")

_TICK = 0.4  # seconds between two checks of the files
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})
_MAX_SHOWN = 3

Files: TypeAlias = Mapping[str, tuple[int, int]]
"""The Python files of some folders, each with its time and size."""


def scan(folders: Iterable[Path]) -> Files:
    """Return the Python files below the folders, without hidden folders and environments."""
    found: dict[str, tuple[int, int]] = {}
    for folder in folders:
        for where, below, names in os.walk(folder):
            below[:] = [name for name in below if not name.startswith(".") and name not in _SKIPPED]
            if "pyvenv.cfg" in names:
                below.clear()
                continue
            for name in names:
                if name.endswith(".py") and (state := _state(Path(where, name))) is not None:
                    found[str(Path(where, name))] = state
    return found


def changed(before: Files, now: Files) -> list[str]:
    """Return the paths that are new, gone or different, in order."""
    return sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))


def _state(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:  # removed since it was listed
        return None
    return status.st_mtime_ns, status.st_size


class Reloader:
    """Keeps one process running, and replaces it when a file changes, until a signal."""

    def __init__(
        self,
        start: "Callable[[Connection[bytes, bytes]], BaseProcess]",
        folders: Iterable[Path],
        stop_timeout: float,
        *,
        tick: float = _TICK,
    ) -> None:
        self._start_process = start
        self._folders = list(folders)
        self._stop_timeout = stop_timeout
        self._tick = tick
        self._stopped_by: int | None = None
        self._hangup = Hangup()
        self._process: BaseProcess | None = None

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM. A second signal ends all processes at once."""
        with self._handling_signals():
            files = scan(self._folders)
            while self._stopped_by is None:
                with self._running():
                    files = self._until_change(files)

    @contextmanager
    def _running(self) -> Iterator[None]:
        # Breaks if this process dies, and then the server ends too. Windows has another type of it.
        ours, theirs = cast("Any", Pipe())
        self._process = self._start_process(theirs)
        theirs.close()
        try:
            yield
        finally:
            self._stop(self._process)
            ours.close()

    def _until_change(self, files: Files) -> Files:
        """Wait for a change or a signal; return the files as they are now."""
        process, was_alive = self._process, True
        while self._stopped_by is None:
            if process is not None and process.is_alive():
                wait([process.sentinel], self._tick)
            else:
                if process is not None and was_alive:
                    was_alive = False
                    logger.warning(
                        "the server ended (%s), and starts again when a Python file changes",
                        exit_reason(process.exitcode),
                    )
                wait([], self._tick)
            now = scan(self._folders)
            if paths := changed(files, now):
                shown = ", ".join(Path(path).name for path in paths[:_MAX_SHOWN])
                more = f" and {len(paths) - _MAX_SHOWN} more" if len(paths) > _MAX_SHOWN else ""
                logger.info(
                    "%s%s changed: restarting",
                    *(shown, more),
                    extra={"event": "reloading", "paths": paths},
                )
                return now
        return files

    def _stop(self, process: BaseProcess) -> None:
        process.terminate()
        process.join(self._stop_timeout)
        if process.is_alive():
            logger.warning("the server did not stop in time and is killed")
            process.kill()
            process.join()

    @contextmanager
    def _handling_signals(self) -> Iterator[None]:
        numbers = [signal.SIGINT, signal.SIGTERM]
        if not is_ignored():
            numbers.append(SIGHUP)
        before = {number: signal.signal(number, self._on_signal) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _: object) -> None:
        if number == SIGHUP and not self._hangup.terminal_closed():
            return  # the keys are read again when their file changes
        if self._stopped_by is not None:
            if self._process is not None and self._process.is_alive():
                self._process.kill()
            exit_now(number)
        self._stopped_by = number
