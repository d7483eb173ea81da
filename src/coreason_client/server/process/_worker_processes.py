"""Worker processes: started, replaced when they die, and ended together.

The parent only watches. Each worker has a pipe to it: the worker reports that it is ready and
answers pings, and when the pipe breaks because the parent is gone, it drains and leaves.
"""

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from time import monotonic
from types import FrameType

from ._uvicorn import leave_now

__all__ = ["StartFailed", "Supervisor", "WorkerLink", "exit_reason"]

logger = logging.getLogger("coreason_client.server")

_TICK = 0.5
_PING_EVERY = 5.0
_HUNG_AFTER = 60.0  # a process that gets no CPU for some seconds is not hung
_LONGEST_DELAY = 30.0  # between two attempts to replace workers that do not start
_READY, _PING, _PONG = b"ready", b"ping", b"pong"


class StartFailed(RuntimeError):
    """No worker has started; the log says why."""


class WorkerLink:
    """The worker's end of the pipe to its parent."""

    def __init__(self, pipe: "Connection[bytes, bytes]") -> None:
        self._pipe = pipe
        self._sending = threading.Lock()

    def open(self) -> None:
        """Answer pings from now on, and end the process when the parent is gone."""
        threading.Thread(target=self._answer, name="coreason-worker-link", daemon=True).start()

    def ready(self) -> None:
        """Report that this worker serves."""
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
        self._pipe, theirs = Pipe()
        self.ready = False
        self._heard_at = self._pinged_at = monotonic()
        self.process = start(theirs)
        theirs.close()

    @property
    def pid(self) -> int:
        return self.process.pid or 0

    @property
    def handles(self) -> tuple[int, "Connection[bytes, bytes]"]:
        return self.process.sentinel, self._pipe

    def listen(self) -> None:
        """Read what the worker has sent."""
        with suppress(EOFError, OSError):
            while self._pipe.poll():
                self.ready |= self._pipe.recv_bytes() == _READY
                self._heard_at = monotonic()

    def is_hung(self) -> bool:
        """Ping now and then; return True if no answer came for a long time."""
        now = monotonic()
        if now - self._pinged_at >= _PING_EVERY:
            if self._heard_at >= self._pinged_at:
                self._pinged_at = now
            with suppress(OSError):
                self._pipe.send_bytes(_PING)
        return self.ready and now - max(self._heard_at, self._pinged_at) > _HUNG_AFTER

    def terminate(self) -> None:
        with suppress(ProcessLookupError):
            self.process.terminate()

    def end(self, timeout: float | None = None) -> None:
        """Kill the process if it does not end in time."""
        self.process.join(timeout)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self._pipe.close()


class Supervisor:
    """Keeps a number of workers running until a signal.

    SIGHUP replaces them one after the other, SIGTTIN and SIGTTOU add and remove one.
    """

    def __init__(
        self,
        start: "Callable[[Connection[bytes, bytes]], BaseProcess]",
        workers: int,
        stop_within: float,
    ) -> None:
        self._start_process = start
        self._wanted = workers
        self._stop_within = stop_within
        self._workers: list[_Worker] = []
        self._leaving: list[_Worker] = []
        self._to_replace: list[_Worker] = []
        self._stopped_by: int | None = None
        self._lost: list[str] = []  # workers that have no replacement yet, and why they ended
        self._ever_ready = False
        self._failures = 0  # of starts, in a row
        self._start_at = 0.0

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM. A second one ends everything at once.

        Raises:
            StartFailed: the first workers could not start.
        """
        with self._handling_signals():
            try:
                while self._stopped_by is None:
                    self._fill()
                    self._wait()
                    self._check()
                    self._roll()
            finally:
                self._stop()

    @contextmanager
    def _handling_signals(self) -> Iterator[None]:
        handlers: dict[signal.Signals, Callable[[int, FrameType | None], None]] = {
            signal.SIGINT: self._on_stop,
            signal.SIGTERM: self._on_stop,
            signal.SIGHUP: self._on_restart,
            signal.SIGTTIN: self._on_more,
            signal.SIGTTOU: self._on_fewer,
        }
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_stop(self, number: int, _: FrameType | None) -> None:
        if self._stopped_by is not None:
            for worker in (*self._workers, *self._leaving):
                worker.process.kill()
            leave_now(number)
        self._stopped_by = number

    def _on_restart(self, _: int, __: FrameType | None) -> None:
        self._to_replace = list(self._workers)

    def _on_more(self, _: int, __: FrameType | None) -> None:
        self._wanted += 1

    def _on_fewer(self, _: int, __: FrameType | None) -> None:
        self._wanted = max(self._wanted - 1, 1)

    def _fill(self) -> None:
        extra = 1 if self._to_replace else 0
        while len(self._workers) > self._wanted + extra:
            self._retire(self._workers[-1])
        while len(self._workers) < self._wanted + extra and monotonic() >= self._start_at:
            worker = _Worker(self._start_process)
            self._workers.append(worker)
            self._log_started(worker)

    def _log_started(self, worker: _Worker) -> None:
        if self._lost:
            reason = self._lost.pop(0)
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
        for worker in list(self._workers):
            worker.listen()
            if worker.ready:
                self._ever_ready, self._failures = True, 0
            if worker.process.is_alive() and worker.is_hung():
                logger.error("worker %d does not answer and is killed", worker.pid)
                worker.process.kill()
                worker.process.join()
            if not worker.process.is_alive():
                self._lose(worker)
        for worker in list(self._leaving):
            if not worker.process.is_alive():
                worker.end()
                self._leaving.remove(worker)

    def _lose(self, worker: _Worker) -> None:
        worker.end()
        self._workers.remove(worker)
        if worker in self._to_replace:
            self._to_replace.remove(worker)
        reason = f"worker {worker.pid} ended ({exit_reason(worker.process.exitcode)})"
        if not worker.ready:
            if not self._ever_ready and self._stopped_by is None:
                raise StartFailed(f"{reason} before it served; the lines above say why")
            self._failures += 1
            delay = min(2.0 ** (self._failures - 1), _LONGEST_DELAY)
            self._start_at = monotonic() + delay
        self._lost.append(reason)

    def _roll(self) -> None:
        """Retire the next worker that is to be replaced, once there is one more than needed."""
        if self._to_replace and sum(worker.ready for worker in self._workers) > self._wanted:
            self._retire(self._to_replace.pop(0))

    def _retire(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        self._leaving.append(worker)
        worker.terminate()

    def _stop(self) -> None:
        workers = (*self._workers, *self._leaving)
        for worker in workers:
            worker.terminate()
        deadline = monotonic() + self._stop_within
        for worker in workers:
            worker.end(max(deadline - monotonic(), 0.0))


def exit_reason(code: int | None) -> str:
    """Return why a process has ended, in words."""
    if code is None:
        return "unknown reason"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
