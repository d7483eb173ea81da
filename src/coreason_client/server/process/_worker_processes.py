"""Worker processes: started, replaced when they die, and stopped together.

The parent only supervises. Each worker has a pipe to the parent: the worker reports that it is
ready and answers pings. If the pipe breaks because the parent has died, it drains and exits.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from time import monotonic
from types import FrameType
from typing import Any, cast

from ._draining_server import Hangup, exit_now, is_ignored

logger = logging.getLogger("coreason_client.server")

_TICK = 0.5
_PING_EVERY = 5.0
_HUNG_AFTER = 60.0  # seconds; a process without CPU time for some seconds is not hung
_MAX_DELAY = 30.0  # seconds between two attempts to replace workers that do not start
_READY, _PING, _PONG = b"ready", b"ping", b"pong"


class StartFailed(RuntimeError):
    """No worker could start; the log has the reason."""


class WorkerLink:
    """The worker's end of the pipe to its parent."""

    def __init__(self, pipe: "Connection[bytes, bytes]") -> None:
        self._pipe = pipe
        self._sending = threading.Lock()

    def open(self) -> None:
        """Start to answer pings; end the process when the parent has died."""
        threading.Thread(target=self._answer, name="coreason-worker-link", daemon=True).start()

    def ready(self) -> None:
        """Report that this worker accepts requests."""
        self._send(_READY)

    def _answer(self) -> None:
        with suppress(EOFError, OSError):
            while self._pipe.recv_bytes() == _PING:
                self._send(_PONG)
        os.kill(os.getpid(), signal.SIGTERM)

    def _send(self, message: bytes) -> None:
        with self._sending, suppress(OSError):
            self._pipe.send_bytes(message)


class _Worker:
    def __init__(self, start: "Callable[[Connection[bytes, bytes]], BaseProcess]") -> None:
        self._pipe, worker_end = cast("Any", Pipe())  # Windows has another type of connection
        self.ready = False
        self._replied_at = self._pinged_at = monotonic()
        self.process = start(worker_end)
        worker_end.close()

    @property
    def pid(self) -> int:
        return self.process.pid or 0

    @property
    def handles(self) -> tuple[int, "Connection[bytes, bytes]"]:
        return self.process.sentinel, self._pipe

    def read_messages(self) -> None:
        """Read the messages of the worker."""
        with suppress(EOFError, OSError):
            while self._pipe.poll():
                self.ready |= self._pipe.recv_bytes() == _READY
                self._replied_at = monotonic()

    def is_hung(self) -> bool:
        """Send a ping if one is due; return True if the worker has not answered for a long time."""
        now = monotonic()
        if now - self._pinged_at >= _PING_EVERY:
            if self._replied_at >= self._pinged_at:
                self._pinged_at = now
            with suppress(OSError):
                self._pipe.send_bytes(_PING)
        return self.ready and now - max(self._replied_at, self._pinged_at) > _HUNG_AFTER

    def terminate(self) -> None:
        with suppress(ProcessLookupError):
            self.process.terminate()

    def end(self, timeout: float | None = None) -> None:
        """Wait for the process to end, and kill it after `timeout` seconds."""
        self.process.join(timeout)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self._pipe.close()


class Supervisor:
    """Keeps a number of workers running until a signal.

    SIGHUP replaces them one after the other, unless it says that the terminal was closed; SIGTTIN
    and SIGTTOU add and remove one. `on_tick` is called before workers are started, and twice a
    second.
    """

    def __init__(
        self,
        start: "Callable[[Connection[bytes, bytes]], BaseProcess]",
        workers: int,
        stop_timeout: float,
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        self._start_process = start
        self._on_tick = on_tick
        self._hangup = Hangup()
        self._count = workers
        self._stop_timeout = stop_timeout
        self._workers: list[_Worker] = []
        self._stopping: list[_Worker] = []
        self._to_replace: list[_Worker] = []
        self._stopped_by: int | None = None
        self._unreplaced: list[str] = []  # ended workers without a replacement, with the reasons
        self._ever_ready = False
        self._failures = 0  # consecutive failed starts
        self._start_at = 0.0

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM. A second signal ends all processes at once.

        Raises:
            StartFailed: the first workers could not start.
        """
        with self._handling_signals():
            try:
                while self._stopped_by is None:
                    self._on_tick()
                    self._fill()
                    self._wait()
                    self._check()
                    self._replace_next()
            finally:
                self._stop()

    @contextmanager
    def _handling_signals(self) -> Iterator[None]:
        handlers: dict[signal.Signals, Callable[[int, FrameType | None], None]] = {
            signal.SIGINT: self._on_stop,
            signal.SIGTERM: self._on_stop,
        }
        if sys.platform != "win32":
            handlers |= {signal.SIGTTIN: self._on_more, signal.SIGTTOU: self._on_fewer}
            if not is_ignored():
                handlers[signal.SIGHUP] = self._on_restart
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_stop(self, number: int, _: FrameType | None) -> None:
        if self._stopped_by is not None:
            for worker in (*self._workers, *self._stopping):
                worker.process.kill()
            exit_now(number)
        self._stopped_by = number

    def _on_restart(self, number: int, _: FrameType | None) -> None:
        if not self._hangup.terminal_closed():
            self._to_replace = list(self._workers)
        elif self._stopped_by is None:
            self._stopped_by = number

    def _on_more(self, _: int, __: FrameType | None) -> None:
        self._count += 1

    def _on_fewer(self, _: int, __: FrameType | None) -> None:
        self._count = max(self._count - 1, 1)

    def _fill(self) -> None:
        extra = 1 if self._to_replace else 0
        while len(self._workers) > self._count + extra:
            self._retire(self._workers[-1])
        while len(self._workers) < self._count + extra and monotonic() >= self._start_at:
            worker = _Worker(self._start_process)
            self._workers.append(worker)
            self._log_started(worker)

    def _log_started(self, worker: _Worker) -> None:
        if self._unreplaced:
            reason = self._unreplaced.pop(0)
            logger.warning(
                "%s and is replaced by worker %d",
                *(reason, worker.pid),
                extra={"event": "worker_replaced", "worker": worker.pid, "reason": reason},
            )
        else:
            logger.info(
                "worker %d started",
                worker.pid,
                extra={"event": "worker_started", "worker": worker.pid},
            )

    def _wait(self) -> None:
        wait([handle for worker in self._workers for handle in worker.handles], _TICK)

    def _check(self) -> None:
        for worker in self._workers:  # all of them, before one that has ended is judged
            worker.read_messages()
            if worker.ready:
                self._ever_ready, self._failures = True, 0
        for worker in list(self._workers):
            if worker.process.is_alive() and worker.is_hung():
                logger.error("worker %d does not answer and will be killed", worker.pid)
                worker.process.kill()
                worker.process.join()
            if not worker.process.is_alive():
                self._remove_ended(worker)
        for worker in list(self._stopping):
            if not worker.process.is_alive():
                worker.end()
                self._stopping.remove(worker)

    def _remove_ended(self, worker: _Worker) -> None:
        worker.end()
        self._workers.remove(worker)
        if worker in self._to_replace:
            self._to_replace.remove(worker)
        reason = f"worker {worker.pid} ended ({exit_reason(worker.process.exitcode)})"
        if not worker.ready:
            if not self._ever_ready and self._stopped_by is None:
                raise StartFailed(
                    f"{reason} before it was ready; the log lines above have the reason"
                )
            self._failures += 1
            delay = min(2.0 ** (self._failures - 1), _MAX_DELAY)
            self._start_at = monotonic() + delay
        self._unreplaced.append(reason)

    def _replace_next(self) -> None:
        """Retire the next worker to replace, once there is one more than needed."""
        if self._to_replace and sum(worker.ready for worker in self._workers) > self._count:
            self._retire(self._to_replace.pop(0))

    def _retire(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        self._stopping.append(worker)
        worker.terminate()

    def _stop(self) -> None:
        workers = (*self._workers, *self._stopping)
        for worker in workers:
            worker.terminate()
        deadline = monotonic() + self._stop_timeout
        for worker in workers:
            worker.end(max(deadline - monotonic(), 0.0))


def exit_reason(code: int | None) -> str:
    """Return a description of the exit code of a process."""
    if code is None:
        return "unknown reason"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
