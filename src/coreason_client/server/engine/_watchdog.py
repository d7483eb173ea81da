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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain, count
from typing import Final, TypeAlias
from uuid import UUID

from ..._ownership import PerLoop
from .._internals import exit_check
from .._outage import Outage
from ..log.base import StreamLog

# Renewal of leases while the event loop is blocked, for at most a minute.
#
# A process with a blocked event loop is alive, and its agents may continue soon, so other processes
# should not end its streams. After a minute without progress the process counts as stuck: its
# leases expire, and other processes end its streams so that the readers see an error.


MAX_BLOCKED: Final = 60.0  # seconds


class LeaseRescue:
    """Decides when to call `renew` while the event loop is blocked."""

    def __init__(self, period: float, renew: Callable[[], None]) -> None:
        self._period = period
        self._renew = renew
        self._unresponsive = 0.0
        self._due = period
        self._given_up = False

    def check(self, unresponsive: float, blocked: float) -> None:
        """Renew the leases if it is time.

        `unresponsive` is how many seconds the loop has made no progress, and `blocked` how many of
        them the process was able to run.
        """
        if unresponsive < self._unresponsive:  # a new block has begun
            self._due, self._given_up = self._period, False
        self._unresponsive = unresponsive
        if blocked > MAX_BLOCKED:
            if not self._given_up:
                self._given_up = True
                logger.error(
                    "the event loop has made no progress for %.0f s: the leases of its streams are "
                    "no longer renewed, and other processes will end the streams",
                    blocked,
                )
        elif unresponsive >= self._due:
            self._due = unresponsive + self._period
            self._try()

    def _try(self) -> None:
        try:
            self._renew()
        except Exception as error:  # noqa: BLE001 - the thread must go on
            logger.warning("leases could not be renewed while the event loop is blocked: %r", error)


def renew_in_thread(log: StreamLog, owner: str, held: Mapping[UUID, int]) -> None:
    """Renew leases on a new event loop in this thread.

    The result is ignored: the blocked event loop gets it when it renews the leases itself.
    """
    if held:
        asyncio.run(_renew(log, owner, held))


async def _renew(log: StreamLog, owner: str, held: Mapping[UUID, int]) -> None:
    async with asyncio.timeout(log.lease):
        await log.start(owner)
        try:
            await log.renew(held)
        finally:
            await log.stop(owner)


# Reports about a blocked event loop, computed from times alone. Pure: the caller has the clock.
#
# The caller sends the loop a probe at intervals and checks whether the loop has answered. While the
# whole process is stopped or starved, the loop cannot answer: that time does not count as blocked.
# It is recognised by a check that comes late.

_LATE: Final = 1.0  # seconds by which a check may be late without a report
_FIRST_REPORTS: Final = (1.0, 5.0, 15.0, 30.0)


@dataclass(frozen=True, slots=True)
class Blocked:
    """Something has blocked the loop for `seconds`, and still does."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Unblocked:
    """The loop makes progress again, after being blocked for `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class NotRun:
    """No thread ran for `seconds`, during which the process used `cpu` seconds of CPU."""

    seconds: float
    cpu: float

    @property
    def busy(self) -> bool:
        """True if the process used the CPU meanwhile, as native code does that holds the GIL."""
        return self.cpu >= self.seconds / 2


Report: TypeAlias = Blocked | Unblocked | NotRun


class LoopWatch:
    """The state of one event loop. All times are of one monotonic clock."""

    __slots__ = (
        "_answered_at",
        "_late_total",
        "_next_report_at",
        "_probed_at",
        "_report_times",
        "_reported",
    )

    def __init__(self) -> None:
        self._probed_at: float | None = None
        self._answered_at: float | None = None  # set in the thread of the event loop
        self.reset()

    def reset(self) -> None:
        """Forget the open probe, if there is one."""
        self._probed_at = self._answered_at = None
        self._late_total = 0.0  # lateness of all checks since the probe
        self._report_times = chain(_FIRST_REPORTS, count(60.0, 60.0))
        self._next_report_at = next(self._report_times)
        self._reported = 0.0  # seconds in the latest report

    @property
    def probing(self) -> bool:
        """True if a probe is open."""
        return self._probed_at is not None

    def record_probe(self, now: float) -> None:
        """Record that a probe was sent to the loop."""
        self.reset()
        self._probed_at = now

    def record_answer(self, now: float) -> float | None:
        """Record the answer of the loop; return how long it took, None if the probe was forgotten.

        May be called in another thread.
        """
        probed_at, self._answered_at = self._probed_at, now
        return None if probed_at is None else now - probed_at

    def unresponsive_for(self, now: float) -> float:
        """Return how many seconds the loop has not answered, for whatever reason."""
        if self._probed_at is None or self._answered_at is not None:
            return 0.0
        return now - self._probed_at

    def blocked_for(self, now: float) -> float:
        """Return how many seconds something has blocked the loop."""
        return max(self.unresponsive_for(now) - self._late_total, 0.0)

    def check(self, now: float, late: float, cpu: float) -> list[Report]:
        """Return the reports that are due now.

        `late` is how many seconds this check is late, and `cpu` the CPU time of the process since
        the last one.
        """
        reports: list[Report] = []
        if late >= _LATE:
            reports.append(NotRun(late, cpu))
        if self._probed_at is None:
            return reports
        self._late_total += max(late, 0.0)
        answered_at = self._answered_at
        blocked = (now if answered_at is None else answered_at) - self._probed_at - self._late_total
        if answered_at is not None:
            if self._reported:
                # The lateness of this check may have come after the answer.
                reports.append(Unblocked(max(blocked, self._reported)))
            self.reset()
        elif blocked >= self._next_report_at:
            reports.append(Blocked(blocked))
            self._reported = blocked
            while self._next_report_at <= blocked:
                self._next_report_at = next(self._report_times)
        return reports


# Detects that uvicorn is about to stop.
#
# uvicorn waits for open responses before it ends the lifespan, and the responses here wait for
# their producers. `serve` informs the application in time; `uvicorn module:app` does not, so the
# application polls the flag that uvicorn sets when a signal arrives.

_POLL_INTERVAL = 0.25


def watch_exit(on_exit: Callable[[], None]) -> asyncio.Task[None] | None:
    """Call `on_exit` when the server that handles SIGTERM has to stop.

    Returns the task that polls for it, or None if there is no such server.
    """
    if threading.current_thread() is not threading.main_thread():
        return None
    should_exit = exit_check()
    if should_exit is None:
        return None
    return asyncio.get_running_loop().create_task(_watch(should_exit, on_exit))


async def _watch(should_exit: Callable[[], bool], on_exit: Callable[[], None]) -> None:
    while not should_exit():  # noqa: ASYNC110 - a flag has no event
        await asyncio.sleep(_POLL_INTERVAL)
    on_exit()


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
