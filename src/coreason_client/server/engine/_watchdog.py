"""A thread that detects a blocked event loop and logs what blocks it.

A blocking call in an agent (`time.sleep`, a synchronous HTTP or database client) stops every stream
of its process. Without a log line the cause is hard to find. The cost for the watched loop is one
callback every quarter of a second.
"""

import asyncio
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable

from ..._per_loop import PerLoop
from .._outage import Outage
from ._lease_rescue import LeaseRescue
from ._loop_watch import Blocked, LoopWatch, NotRun, Report

__all__ = ["watch_loop"]

logger = logging.getLogger("coreason_client.server")

_INTERVAL = 0.25
# The frame below the running callback is in one of these files: in the first with asyncio's loop,
# in the second with uvloop, whose own frames are not visible.
_LOOP_FILES = (asyncio.events.__file__, asyncio.runners.__file__)
_MAX_FRAMES = 30

# Also one per process: a forked process does not have the threads of its parent.
_watchdogs: "PerLoop[_Watchdog]" = PerLoop(asyncio.get_running_loop)


def watch_loop(
    rescue: LeaseRescue | None = None, on_delay: Callable[[float], None] | None = None
) -> Callable[[], None]:
    """Watch the running event loop until the returned function is called.

    `rescue` renews leases while the loop is blocked. `on_delay` gets the seconds that each probe
    waited for the loop, for whatever reason. All applications on an event loop share one watchdog.
    """
    watchdog = _watchdogs.get()
    if watchdog is None or not watchdog.alive:
        watchdog = _Watchdog(asyncio.get_running_loop())
        _watchdogs.set(watchdog)
    watchdog.add_user(rescue, on_delay)
    stopped = False

    def stop() -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            watchdog.remove_user(rescue, on_delay)

    return stop


class _Watchdog:
    """The thread that watches one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._pid = os.getpid()
        self._users = 0
        self._rescues: list[LeaseRescue] = []
        self._delay_listeners: list[Callable[[float], None]] = []
        self._watch = LoopWatch()
        self._errors = Outage()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="coreason-watchdog", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and not self._stop.is_set()

    def add_user(
        self, rescue: LeaseRescue | None, on_delay: Callable[[float], None] | None
    ) -> None:
        self._users += 1
        if rescue is not None:
            self._rescues.append(rescue)
        if on_delay is not None:
            self._delay_listeners.append(on_delay)

    def remove_user(
        self, rescue: LeaseRescue | None, on_delay: Callable[[float], None] | None
    ) -> None:
        if (
            os.getpid() != self._pid
        ):  # a forked process has no such thread, and its lock may be held
            return
        self._users -= 1
        if rescue is not None:
            self._rescues.remove(rescue)
        if on_delay is not None:
            self._delay_listeners.remove(on_delay)
        if not self._users:
            self._end()

    def _end(self) -> None:
        # Do not wait for the thread: it may be renewing a lease.
        self._stop.set()
        _watchdogs.discard(self._loop, self)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._sleep_and_check()
            except Exception:
                if self._errors.failed(time.monotonic()):  # at most once a minute
                    logger.exception("the watchdog of the event loop failed and continues")

    def _sleep_and_check(self) -> None:
        began, cpu = time.monotonic(), time.process_time()
        if self._stop.wait(_INTERVAL):
            return
        now = time.monotonic()
        late = now - began - _INTERVAL
        for report in self._watch.check(now, late, time.process_time() - cpu):
            self._log(report)
        if self._loop.is_closed():
            self._end()
        elif not self._loop.is_running():
            self._watch.reset()
        elif self._watch.probing:
            unresponsive, blocked = self._watch.unresponsive_for(now), self._watch.blocked_for(now)
            for rescue in list(self._rescues):
                rescue.check(unresponsive, blocked)
        else:
            self._watch.record_probe(time.monotonic())
            self._loop.call_soon_threadsafe(self._record_answer)

    def _record_answer(self) -> None:
        delay = self._watch.record_answer(time.monotonic())
        if delay is not None:
            for listener in self._delay_listeners:
                listener(delay)

    def _log(self, report: Report) -> None:
        fields = {"seconds": round(report.seconds, 3)}
        if isinstance(report, Blocked):
            logger.warning(
                "the event loop has made no progress for %.1f s. A blocking call stops all streams "
                "of this process: run blocking code in a plain `def` agent or with "
                "asyncio.to_thread. The event loop is here:\n%s",
                *(report.seconds, self._stack()),
                extra={"event": "loop_blocked", **fields},
            )
        elif not isinstance(report, NotRun):
            logger.warning(
                "the event loop makes progress again, after %.1f s",
                report.seconds,
                extra={"event": "loop_unblocked", **fields},
            )
        elif report.busy:
            logger.warning(
                "no other thread of this process ran for %.1f s: native code held the interpreter "
                "lock. The event loop is now here:\n%s",
                *(report.seconds, self._stack()),
                extra={"event": "interpreter_held", **fields},
            )
        else:
            logger.warning(
                "this process did not run for %.1f s: it was stopped, or the machine is too busy",
                report.seconds,
                extra={"event": "process_not_run", **fields},
            )

    def _stack(self) -> str:
        """Return the stack of the callback that the event loop is running."""
        frame = sys._current_frames().get(self._loop_thread)
        frames = [] if frame is None else list(traceback.extract_stack(frame))
        for number in range(len(frames) - 1, -1, -1):
            if frames[number].filename in _LOOP_FILES:
                frames = frames[number + 1 :]
                break
        return "".join(traceback.format_list(frames[-_MAX_FRAMES:])).rstrip()
