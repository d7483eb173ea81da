"""Delivers the events of one task to one webhook: in order, one request at a time.

A deliverer holds its delivery until the time `due`, and extends that with everything it stores. If
it does not, because its process has died, another process takes the delivery over. A deliverer that
finds that this has happened stops at once.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    closing,
    suppress,
)
from dataclasses import dataclass, field
from time import time
from typing import Final, Protocol

from ...errors import LogError, PositionGone
from ...log.base import StreamLog
from ...log.deliveries import Delivery
from ...log.tasks import TaskRecord, TaskStore
from .._fold import GENERATION, JSON, Event
from .._protocol import TERMINAL, WORKING
from .._reading import Streamed, TaskReading, TaskStream
from .._turns import turns_of
from ._configs import PushConfig
from ._notifications import Notification, notifications, task_notifications
from ._progress import DeliveryObserver, DeliveryProgress, retry_delay
from ._sender import TIMEOUT, WebhookError, WebhookResponse, WebhookSender
from ._urls import URLRules

LEASE: Final = 60.0
"""Seconds for which a process holds a delivery; longer than a request takes."""
_WAIT: Final = 15.0  # seconds for the next event
_IDLE: Final = 300.0  # seconds after which a delivery that waits for the user is looked at again
_RUNNING_POLL: Final = 10.0  # the same for a running task whose entries have expired
_LONGEST_SLEEP: Final = 60.0  # a delivery that is not due for longer is left to whoever finds it
_RELEASE_SECONDS: Final = 2.0


class Tasks(Protocol):
    """The operations on tasks that deliverers need."""

    async def settled(self, record: TaskRecord) -> TaskRecord:
        """Return a record whose state is that of its last turn."""

    async def task(
        self, record: TaskRecord, history: int | None, *, artifacts: bool = True
    ) -> JSON:
        """Return a task as JSON."""

    async def next_turn(self, reading: TaskReading, seconds: float) -> None:
        """Wait until a task has another turn."""


@asynccontextmanager
async def _no_limit(_: str) -> AsyncIterator[None]:
    yield


@dataclass(frozen=True, slots=True)
class DeliveryTools:
    """The tools that all deliverers of a process share.

    `slot` returns the context in which a request for a principal is sent; it limits their number.
    `stopping` is set when the process ends.
    """

    tasks: TaskStore
    log: StreamLog
    service: Tasks
    sender: WebhookSender
    rules: URLRules
    observer: DeliveryObserver
    stopping: asyncio.Event
    slot: Callable[[str], AbstractAsyncContextManager[None]] = _no_limit
    clock: Callable[[], float] = time
    jitter: Callable[[], float] = field(default=random.random)


class _Lost(Exception):
    """The delivery was taken over, changed or deleted, or has to wait."""


class Deliverer:
    """Works on one delivery, which this process holds."""

    def __init__(self, tools: DeliveryTools, held: Delivery) -> None:
        self._tools = tools
        self._held = held
        self._config = PushConfig.load(held.data)
        self._progress = DeliveryProgress.load(held.progress)
        self._boundary = self._progress.boundary
        self._restarts = 0  # of the reading
        self._principal = ""

    async def run(self) -> None:
        """Deliver events until the task is over, or this process must stop.

        Raises:
            LogError: the log failed; the delivery is continued when its time has come.
        """
        try:
            with suppress(_Lost):
                await self._run()
        except asyncio.CancelledError:
            with suppress(_Lost, LogError, TimeoutError):
                async with asyncio.timeout(_RELEASE_SECONDS):
                    await self._store(self._progress, self._tools.clock())
            raise

    async def _run(self) -> None:
        record = await self._tools.tasks.get(self._held.task_id)
        if record is None:  # it has expired
            await self._tools.tasks.deliveries.delete(self._held.task_id, self._held.name)
            return
        self._principal = record.principal
        self._progress = self._progress.paused(idle=False)
        try:
            await self._follow(record)
        except PositionGone:
            await self._send_as_it_stands(record)

    # Reading.

    async def _follow(self, record: TaskRecord) -> None:
        """Send the events of a task, from where the delivery is."""
        tools, self._restarts = self._tools, 0
        with closing(TaskReading(tools.log, tools.tasks, record)) as reading:
            position = self._progress.position
            if position is None:
                await reading.catch_up()
                await self._send([Streamed(_as_it_stands(reading), reading.position)], reading)
            elif not await reading.skip_to(position):  # the log has lost what was delivered
                self._start_over()
                await self._follow(record)
                return
            await self._send_all(reading)

    async def _send_all(self, reading: TaskReading) -> None:
        while True:
            await self._send_turns(reading)
            if reading.fold.message is not None or reading.fold.state in TERMINAL:
                await self._store(self._progress, None)
                return
            await self._store(self._progress.paused(idle=True), self._tools.clock() + _IDLE)
            # A turn that was added before this was stored has not woken the delivery.
            latest = await self._tools.tasks.get(self._held.task_id)
            if latest is None or len(turns_of(latest)) == len(turns_of(reading.record)):
                return
            reading.update(latest)
            await self._extend(self._progress.paused(idle=False))

    async def _send_turns(self, reading: TaskReading) -> None:
        """Send the events up to the end of the last known turn."""
        stream = TaskStream(self._tools.service, reading, waits_for_turns=False)
        while not reading.at_end:
            stopping = self._tools.stopping.is_set()
            events = await stream.next(0.0 if stopping else _WAIT)
            await self._send(events, reading)
            if stopping and not events and not reading.at_end:
                await self._store(self._progress, self._tools.clock())
                raise _Lost
            await self._extend_if_needed()

    async def _send_as_it_stands(self, record: TaskRecord) -> None:
        """Send the whole task, because entries have expired."""
        service, now = self._tools.service, self._tools.clock
        record = await service.settled(record)
        if record.state == WORKING:  # its events cannot be read, but its end is stored
            await self._store(self._progress, now() + _RUNNING_POLL)
            return
        task = await service.task(record, None)
        generation = task["metadata"][GENERATION]
        if generation > self._progress.generation:
            body = self._config.dump_event({"task": task})
            await self._deliver(Notification(body, self._progress.position, generation))
        over = record.state in TERMINAL or not record.open
        await self._store(self._progress.paused(idle=not over), None if over else now() + _IDLE)

    # Sending.

    async def _send(self, events: Sequence[Streamed], reading: TaskReading) -> None:
        if reading.restarts != self._restarts:
            self._restarts = reading.restarts
            self._start_over()
        fold, delivered = reading.fold, self._progress.generation
        if self._config.wants_tasks:
            found = task_notifications(events, delivered, fold)
        else:
            found = notifications(events, delivered, fold.generation, self._boundary)
        for notification in found:
            await self._deliver(notification)

    def _start_over(self) -> None:
        self._progress = self._progress.started_over()
        self._boundary = self._progress.boundary

    async def _deliver(self, notification: Notification) -> None:
        """Send a notification until it is accepted, and store that.

        Raises:
            _Lost: it must be sent later, or by another process.
        """
        if notification.merged:
            await self._extend(self._progress.begun(notification))
        while True:
            answer, reason = await self._attempt(notification)
            if answer is not None and 200 <= answer.status < 300:
                self._tools.observer.delivered()
                await self._extend(self._progress.delivered(notification))
                return
            await self._retry_later(answer, reason)

    async def _attempt(self, notification: Notification) -> tuple[WebhookResponse | None, str]:
        """Return the answer of the webhook, and the reason if it is a failure."""
        tools = self._tools
        async with tools.slot(self._principal):
            await self._extend_if_needed()
            try:
                url = self._config.target(tools.rules)
                answer = await tools.sender.post(url, self._config.headers, notification.body)
            except WebhookError as error:
                return None, str(error)
            except ValueError as error:
                return None, f"its url {error}"
        redirected = ", and redirects are not followed" if 300 <= answer.status < 400 else ""
        return answer, f"it answered with {answer.status}{redirected}"

    async def _retry_later(self, answer: WebhookResponse | None, reason: str) -> None:
        """Store a failure and wait until it is time for the next attempt."""
        tools, now = self._tools, self._tools.clock()
        progress = self._progress.failed(now, None if answer is None else answer.status)
        if progress.disabled:
            await self._store(progress, None)
            tools.observer.disabled(self._held, self._config.host, reason)
            raise _Lost
        asked = None if answer is None else answer.retry_after
        delay = retry_delay(progress.failures, asked, tools.jitter)
        await self._store(progress, now + delay)
        tools.observer.failed(self._held, self._config.host, progress, reason, delay)
        if delay > _LONGEST_SLEEP:
            raise _Lost
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await tools.stopping.wait()
            raise _Lost  # it is due, so another process continues
        await self._extend(progress)

    # Holding.

    async def _extend_if_needed(self) -> None:
        if self._held.due is None or self._held.due - self._tools.clock() < TIMEOUT + LEASE / 3:
            await self._extend(self._progress)

    async def _extend(self, progress: DeliveryProgress) -> None:
        """Store progress, and hold the delivery for longer."""
        await self._store(progress, self._tools.clock() + LEASE)

    async def _store(self, progress: DeliveryProgress, due: float | None) -> None:
        changed = self._held.changed(due=due, progress=progress.dump())
        if not await self._tools.tasks.deliveries.replace(self._held, changed):
            raise _Lost
        self._held, self._progress = changed, progress


def _as_it_stands(reading: TaskReading) -> Event:
    fold = reading.fold
    return {"task": fold.task()} if fold.message is None else {"message": fold.message}
