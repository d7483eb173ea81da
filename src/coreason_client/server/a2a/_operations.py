"""The operations of the protocol by their names, for every binding."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from time import time
from typing import Any, Final

from coreason_client.a2a._dialects import OPERATIONS
from coreason_client.a2a.errors import (
    A2AJSONRPCError,
    ExtensionSupportRequiredError,
    InternalError,
    UnsupportedOperationError,
)

from ..engine._runtime import Runtime
from ..errors import LogError
from ..http._problems import Problem, too_many_readers
from ..log.base import AgentVersion, StreamLog
from ..log.tasks import TaskStore
from ..observe._metrics import NO_METRICS, Metrics
from ._caller import Caller
from ._incoming import MediaTypes
from ._push._hook import not_supported
from ._push._service import PushService
from ._push._urls import URLRules
from ._service import TaskService
from ._settings import A2A
from ._task_stream import TaskStream
from ._turn_log import TurnLog
from ._versions import VERSIONS

__all__ = ["Operations"]

logger = logging.getLogger("coreason_client.server")

_OPEN_RETENTION: Final = 7 * 86400.0  # seconds, of a task that waits for its user


class Operations:
    """Calls the operations; `runtime` returns the runtime of this event loop.

    Attributes:
        versions: the versions of the protocol that clients may use, the latest first.
    """

    def __init__(
        self,
        settings: A2A,
        tasks: TaskStore,
        runtime: Callable[[], Awaitable[Runtime]],
        metrics: Metrics = NO_METRICS,
    ) -> None:
        self.versions = tuple(version for version in VERSIONS if version in settings.versions)
        card = settings.card
        modes = [] if card is None else card.default_input_modes
        self._media_types = MediaTypes(modes) if modes else None
        extensions = [] if card is None else card.capabilities.extensions
        self._extensions = {extension.uri: extension.required for extension in extensions}
        self._streaming = settings.streaming
        self._tasks = tasks
        self._runtime = runtime
        self._metrics = metrics
        self._push_rules = _push_rules(settings)
        self._repeats_answer = settings.repeats_answer
        self._services: tuple[Runtime, _Services] | None = None

    def turns_on(self, log: StreamLog) -> StreamLog:
        """Return the log that a new runtime uses, on which some streams are turns of tasks."""
        return TurnLog(log).as_log

    def attach(self, runtime: Runtime) -> None:
        """Follow what a new runtime does with the streams of tasks."""
        service = self._services_of(runtime).tasks
        self._tasks.on_ended = service.states.settle
        runtime.background.before_stop(service.turns.finish)
        runtime.upkeep.on_expire = partial(self._drop_old, runtime.options.final_retention)

    async def _drop_old(self, retention: float) -> None:
        now = time()
        await self._tasks.drop(now - retention, now - _OPEN_RETENTION)

    def used_extensions(self, named: Iterable[str]) -> list[str]:
        """Return the extensions that a client names and the agent has.

        Raises:
            ExtensionSupportRequiredError: the client does not name one that the agent requires.
        """
        known = set(named)
        for uri, required in self._extensions.items():
            if required and uri not in known:
                raise ExtensionSupportRequiredError(f"The agent requires the extension {uri}.")
        return [uri for uri in self._extensions if uri in known]

    async def call(self, operation: str, caller: Caller, params: Mapping[str, Any]) -> Any:
        """Return the result of an operation, in the shape of 1.0.

        Raises:
            A2AJSONRPCError: the operation is refused or fails.
            Problem, LogError: the server cannot do it now.
        """
        services = self._services_of(await self._runtime())
        call = services.calls.get(operation)
        if call is None:
            raise not_supported()
        return await _guarded(operation, call(caller, params))

    async def open(
        self,
        operation: str,
        caller: Caller,
        params: Mapping[str, Any],
        last_event_id: str | None = None,
    ) -> TaskStream:
        """Return the events of an operation that streams; raises like `call`.

        The stream counts as a reader; who has read it must remove it from the producers.
        """
        if not self._streaming:
            raise UnsupportedOperationError("The agent does not stream: send the message without.")
        runtime = await self._runtime()
        reader = await runtime.producers.take_reader(caller.principal)
        if reader is None:
            raise too_many_readers(runtime.options)
        try:
            service = self._services_of(runtime).tasks
            if operation == "send_message_stream":
                opening = service.send_stream(caller, params)
            else:
                opening = service.subscribe(caller, params, last_event_id)
            stream: TaskStream = await _guarded(operation, opening)
            runtime.producers.add_reader(stream, reader)
        finally:
            reader.release()  # unless it was handed on
        return stream

    async def run_push(self, runtime: Runtime) -> None:
        """Send push notifications until cancelled."""
        push = self._services_of(runtime).push
        if push is not None:
            await push.run()

    def _services_of(self, runtime: Runtime) -> "_Services":
        if self._services is None or self._services[0] is not runtime:
            self._services = runtime, self._make_services(runtime)
        return self._services[1]

    def _make_services(self, runtime: Runtime) -> "_Services":
        options = runtime.options
        agent = AgentVersion(options.agent_id, options.version) if options.durable else None
        known = (runtime, self._tasks, agent, self._media_types)
        tasks = TaskService(*known, repeats_answer=self._repeats_answer)
        if self._push_rules is None:
            return _Services(tasks)
        push = PushService(runtime, self._tasks, tasks.states, self._push_rules, self._metrics)
        tasks.turns.push = push
        return _Services(tasks, push)


class _Services:
    """The operations of one runtime, by name."""

    def __init__(self, tasks: TaskService, push: PushService | None = None) -> None:
        self.tasks = tasks
        self.push = push
        self.calls: dict[str, Callable[[Caller, Mapping[str, Any]], Awaitable[Any]]] = {
            "send_message": tasks.send,
            "get_task": tasks.get,
            "list_tasks": tasks.list,
            "cancel_task": tasks.cancel,
        }
        if push is not None:
            self.calls |= {
                "create_push_config": push.create,
                "get_push_config": push.get,
                "list_push_configs": push.list,
                "delete_push_config": push.delete,
            }


def _push_rules(settings: A2A) -> URLRules | None:
    if not settings.push:
        return None
    return URLRules(
        allow_http=settings.allow_http_webhooks, allow_private=settings.allow_private_webhooks
    )


async def _guarded(operation: str, work: Awaitable[Any]) -> Any:
    """Turn an unexpected failure into an error of the protocol."""
    try:
        return await work
    except (A2AJSONRPCError, Problem, LogError):
        raise
    except Exception:
        logger.exception("the operation %s of A2A failed", OPERATIONS[operation].name)
        raise InternalError("The server failed; its log has the reason.") from None
