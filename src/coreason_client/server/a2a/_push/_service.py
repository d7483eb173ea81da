"""Push notifications of one application: the operations on configurations, and the deliveries."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from time import time
from typing import Any, Final
from uuid import UUID, uuid5

from coreason_client.a2a.errors import TaskNotFoundError

from ..._outage import Outage
from ...engine._appender import twice
from ...engine._runtime import Runtime
from ...errors import LogError
from ...log.deliveries import Delivery
from ...log.tasks import TaskRecord, TaskStore
from ...observe._metrics import Metrics
from .._fold import JSON
from .._incoming import wrong
from .._protocol import Caller
from .._reading import EventPosition
from .._task_states import TaskStates
from .._turns import turns_of
from ._configs import MAX_CONFIGS, PushConfig, PushHook, config_id_of, page_of
from ._deliverer import LEASE, Deliverer, DeliveryTools
from ._progress import DeliveryObserver, DeliveryProgress
from ._sender import WebhookSender
from ._urls import URLRules

logger = logging.getLogger("coreason_client.server")

_INLINE: Final = "taskPushNotificationConfig"
_POLL: Final = 5.0  # seconds between two looks for deliveries that nobody works on
_CLAIMED_AT_ONCE: Final = 100
_MAX_DELIVERERS: Final = 10_000  # in this process
_STOP_SECONDS: Final = 5.0  # for requests that are being sent when the process ends


class PushService(PushHook):
    """The configurations and deliveries; one for each runtime."""

    def __init__(
        self,
        runtime: Runtime,
        tasks: TaskStore,
        service: TaskStates,
        rules: URLRules,
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time,
        sender: WebhookSender | None = None,
    ) -> None:
        self._runtime = runtime
        self._tasks = tasks
        self._service = service
        self._rules = rules
        self._clock = clock
        self._sender = sender or WebhookSender(rules)
        self._stopping = asyncio.Event()
        self._tools = DeliveryTools(
            tasks,
            runtime.log,
            service,
            self._sender,
            rules,
            DeliveryObserver(metrics),
            self._stopping,
            RequestSlots().slot,
            clock,
        )
        self._deliverers: dict[tuple[UUID, str], asyncio.Task[None]] = {}
        self._outage = Outage()

    # Operations.

    async def create(self, caller: Caller, params: Mapping[str, Any]) -> JSON:
        """Store a configuration for a task, or replace the one with its id."""
        config = PushConfig.parse(params, self._rules, caller.version)
        record = await self._service.load(caller, params, "taskId")
        await self._put(record, config, DeliveryProgress())
        return config.shown(str(record.task_id))

    async def get(self, caller: Caller, params: Mapping[str, Any]) -> JSON:
        """Return a configuration; without an id the first one, as in 0.3."""
        name = config_id_of(params)
        record = await self._service.load(caller, params, "taskId")
        for delivery in await self._tasks.deliveries.all(record.task_id):
            if name is None or delivery.name == name:
                return PushConfig.load(delivery.data).shown(str(record.task_id))
        raise TaskNotFoundError("The task has no push configuration with this id.")

    async def list(self, caller: Caller, params: Mapping[str, Any]) -> JSON:
        """Return the configurations of a task, ordered by their ids."""
        record = await self._service.load(caller, params, "taskId")
        stored = await self._tasks.deliveries.all(record.task_id)
        configs = [PushConfig.load(one.data).shown(str(record.task_id)) for one in stored]
        return page_of(configs, params)

    async def delete(self, caller: Caller, params: Mapping[str, Any]) -> JSON:
        """Delete a configuration, if there is one with this id."""
        name = config_id_of(params)
        if name is None:
            raise wrong("id", "is required and must be a string")
        record = await self._service.load(caller, params, "taskId")
        await self._tasks.deliveries.delete(record.task_id, name)
        self._cancel(record.task_id, name)
        return {}

    # The configuration of a message.

    def parse(self, configuration: Mapping[str, Any], version: str) -> PushConfig | None:
        given = configuration.get(_INLINE)
        if given is None:
            return None
        path = f"configuration.{_INLINE}."
        config = PushConfig.parse(given, self._rules, version, path)
        # A message that is sent again must not register its configuration twice.
        return config if given.get("id") else replace(config, id="")

    async def register(self, record: TaskRecord, config: PushConfig) -> None:
        if not config.id:
            config = replace(config, id=uuid5(record.task_id, repr(config)).hex)
        for delivery in await self._tasks.deliveries.all(record.task_id):
            if delivery.name == config.id and delivery.data == config.dump():
                return
        first = len(turns_of(record)) == 1
        await self._put(record, config, DeliveryProgress(EventPosition(0, 0) if first else None))

    async def _put(
        self, record: TaskRecord, config: PushConfig, progress: DeliveryProgress
    ) -> None:
        stays = not self._runtime.closing
        due = self._clock() + (LEASE if stays else 0.0)
        delivery = Delivery(record.task_id, config.id, config.dump(), progress.dump(), due)
        if not await self._tasks.deliveries.put(delivery, MAX_CONFIGS):
            raise wrong("id", f"is new, but a task may have at most {MAX_CONFIGS} configurations")
        if stays:
            self._start(delivery)

    async def turn_added(self, task_id: UUID) -> None:
        async def claim() -> None:
            for delivery in await self._tasks.deliveries.all(task_id):
                if DeliveryProgress.load(delivery.progress).idle:  # nobody works on it
                    await self._claim(delivery)

        await twice(self._runtime.log, claim)

    # Deliveries.

    @property
    def deliverers(self) -> int:
        """The number of deliveries that this process works on."""
        return len(self._deliverers)

    async def run(self) -> None:
        """Deliver notifications until cancelled; then finish the requests that are being sent."""
        # Nobody else works on a log that is not shared, so deliveries need not run out.
        horizon = self._clock() if self._runtime.log.shared else math.inf
        try:
            while True:
                await self._claim_due(horizon)
                await asyncio.sleep(_POLL)
                horizon = self._clock()
        finally:
            await self._stop()

    async def _claim_due(self, until: float) -> None:
        if self._runtime.closing:
            return
        loop = asyncio.get_running_loop()
        room = min(_CLAIMED_AT_ONCE, _MAX_DELIVERERS - len(self._deliverers))
        try:
            for delivery in await self._tasks.deliveries.due(until, room):
                if (delivery.task_id, delivery.name) not in self._deliverers:
                    await self._claim(delivery)
        except Exception as error:  # a bug must not end all deliveries
            if self._outage.failed(loop.time()):
                expected = isinstance(error, LogError)
                logger.warning(
                    "looking for push notifications to send failed: %s",
                    error if expected else repr(error),
                    exc_info=None if expected else error,
                )
        else:
            self._outage.worked(loop.time())

    async def _claim(self, delivery: Delivery) -> None:
        if self._runtime.closing:
            return
        held = delivery.changed(due=self._clock() + LEASE)
        if await self._tasks.deliveries.replace(delivery, held):
            self._start(held)

    def _start(self, held: Delivery) -> None:
        self._cancel(held.task_id, held.name)
        key = held.task_id, held.name
        task = asyncio.get_running_loop().create_task(self._deliver(held))
        self._deliverers[key] = task

        def forget(ended: "asyncio.Task[None]") -> None:
            if self._deliverers.get(key) is ended:
                del self._deliverers[key]

        task.add_done_callback(forget)

    async def _deliver(self, held: Delivery) -> None:
        try:
            await Deliverer(self._tools, held).run()
        except LogError as error:
            logger.warning(
                "push notifications of task %s are continued later: %s", held.task_id, error
            )
        except Exception:
            logger.exception("push notifications of task %s failed", held.task_id)

    def _cancel(self, task_id: UUID, name: str) -> None:
        if (task := self._deliverers.pop((task_id, name), None)) is not None:
            task.cancel()

    async def _stop(self) -> None:
        self._stopping.set()
        self._runtime.log.wake_readers()  # deliverers that wait for events
        seconds = min(_STOP_SECONDS, self._runtime.options.cancel_grace)
        if running := list(self._deliverers.values()):
            await asyncio.wait(running, timeout=seconds)
            for task in running:
                task.cancel()
            await asyncio.wait(running)
        with suppress(Exception):
            await self._sender.aclose()


# Limits of requests at the same time

_OF_ALL: Final = 256
_OF_A_PRINCIPAL: Final = 32


class RequestSlots:
    """Slots for requests: so many in all, and so many for each principal.

    So the webhooks of one client, which may all hang, cannot delay those of the others.
    """

    def __init__(self, of_all: int = _OF_ALL, of_a_principal: int = _OF_A_PRINCIPAL) -> None:
        self._all = asyncio.Semaphore(of_all)
        self._of_a_principal = of_a_principal
        self._by_principal: dict[str, asyncio.Semaphore] = {}
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def slot(self, principal: str) -> AsyncIterator[None]:
        """Wait for a slot and hold it."""
        own = self._by_principal.setdefault(principal, asyncio.Semaphore(self._of_a_principal))
        self._users[principal] = self._users.get(principal, 0) + 1
        try:
            async with own, self._all:
                yield
        finally:
            self._users[principal] -= 1
            if not self._users[principal]:
                del self._users[principal], self._by_principal[principal]
