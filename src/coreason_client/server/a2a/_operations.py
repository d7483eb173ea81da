"""The operations of the protocol, the same for all bindings.

Parameters and results are JSON objects of protocol 1.0. Errors are those of
`coreason_client.a2a.errors`; the bindings write them.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import closing
from functools import partial
from time import monotonic, time
from typing import Any, Final, NamedTuple
from uuid import UUID

from coreason_client.a2a._dialects import OPERATIONS
from coreason_client.a2a.errors import (
    A2AJSONRPCError,
    ExtensionSupportRequiredError,
    InternalError,
    TaskNotCancelableError,
    UnsupportedOperationError,
)

from ..engine._packets import CANCELLED
from ..engine._runtime import Runtime
from ..errors import LogError, PositionGone
from ..http._problems import Problem
from ..http._stream_response import take_reader
from ..log.base import AgentVersion, StreamLog
from ..log.tasks import TaskQuery, TaskStore
from ..observe._metrics import NO_METRICS, Metrics
from ._fold import JSON, TaskFold
from ._incoming import (
    MediaTypes,
    dump_page_token,
    history_length,
    optional_object,
    parse_listing,
    returns_immediately,
)
from ._protocol import INTERRUPTED, TERMINAL, V03, VERSIONS, Caller
from ._push._configs import not_supported
from ._push._service import PushService
from ._push._urls import URLRules
from ._reading import TaskStream, parse_position
from ._settings import A2A
from ._task_states import TaskStates
from ._turn_log import TurnLog
from ._turn_starter import Sent, TurnStarter
from ._turns import turns_of

logger = logging.getLogger("coreason_client.server")

# Tasks

_CANCEL_WAIT: Final = 5.0  # seconds beyond the lease, after which a stream has another owner
_BLOCKING_WAIT: Final = 15.0  # seconds between two looks at a task that a client waits for


class _TaskReader(NamedTuple):
    """A caller that waits for the end of a turn."""

    principal: str
    stream_id: UUID


class TaskService:
    """The tasks of one application; `media_types` are those that the agent accepts.

    With `repeats_answer`, the last chunk of an answer is the whole answer.
    """

    def __init__(
        self,
        runtime: Runtime,
        tasks: TaskStore,
        agent: AgentVersion | None,
        media_types: MediaTypes | None = None,
        *,
        repeats_answer: bool = False,
    ) -> None:
        self._runtime = runtime
        self._tasks = tasks
        self.states = TaskStates(
            runtime.log, tasks, lambda: runtime.closing, repeats_answer=repeats_answer
        )
        turn_log = runtime.log if isinstance(runtime.log, TurnLog) else TurnLog(runtime.log)
        self.turns = TurnStarter(runtime, tasks, self.states, turn_log, agent, media_types)
        turn_log.states, turn_log.begin_claimed = self.states, self.turns.begin_claimed

    # Sending.

    async def send(self, caller: Caller, params: Mapping[str, Any]) -> JSON:
        """Send a message; return the task or the message that answers it.

        That is at once if the client wants it, otherwise when the turn is over.
        """
        configuration = optional_object(params, "configuration")
        history = history_length(configuration)
        sent = await self.turns.begin(caller, params, reads_live=False)
        if returns_immediately(params):
            return {"task": await self.states.task(sent.record, history)}
        fold = await self._ended(sent)
        if fold.message is not None:
            return {"message": fold.message}
        return {"task": fold.task(history=history)}

    async def _ended(self, sent: Sent) -> TaskFold:
        """Return the fold of a task after its turn; who waits for it counts as its reader."""
        producers, record = self._runtime.producers, sent.record
        unit = await take_reader(self._runtime, record.principal)
        reader = _TaskReader(record.principal, turns_of(record)[-1].stream_id)
        producers.add_reader(reader, unit)
        try:
            # What readers of a shared log get may have to be stored by its replicas too.
            if sent.ended is not None and not self._runtime.log.shared:
                fold = await sent.ended
                if fold is not None:
                    return fold
            return await self._read_turn(sent)
        finally:
            producers.remove_reader(reader)

    async def _read_turn(self, sent: Sent) -> TaskFold:
        with closing(self.states.reading(sent.record, messages=sent.messages)) as reading:
            stream = TaskStream(self.states, reading, waits_for_turns=False)
            while not stream.ended:
                if not await stream.next(_BLOCKING_WAIT):
                    stream.check_producer(self._runtime)
            return reading.fold

    async def send_stream(self, caller: Caller, params: Mapping[str, Any]) -> TaskStream:
        """Send a message; return the events of the turn that answers it."""
        history = history_length(optional_object(params, "configuration"))
        sent = await self.turns.begin(caller, params)
        reading = self.states.reading(sent.record, history, sent.messages)
        try:
            await reading.skip_turns(len(turns_of(sent.record)) - 1)
        except PositionGone:
            raise InternalError("The task has expired.") from None
        announce = self.states.announce
        v03 = caller.version == V03
        return TaskStream(self.states, reading, waits_for_turns=False, announce=announce, v03=v03)

    # Reading.

    async def get(self, caller: Caller, params: Mapping[str, Any]) -> JSON:
        """Return a task."""
        history = history_length(params)
        return await self.states.task(await self.states.load(caller, params), history)

    async def list(self, caller: Caller, params: Mapping[str, Any]) -> JSON:
        """Return tasks of the caller, the latest change of state first."""
        wanted = parse_listing(params)
        await self.states.repair(caller.principal)
        page = await self._tasks.find(
            TaskQuery(
                caller.principal,
                wanted.size + 1,  # one more, to know whether there is a next page
                wanted.context_id,
                wanted.state,
                wanted.changed_since,
                wanted.after,
            )
        )
        tasks = [
            await self.states.task(record, wanted.history, artifacts=wanted.artifacts)
            for record in page.records[: wanted.size]
        ]
        more = len(page.records) > wanted.size
        return {
            "tasks": tasks,
            "nextPageToken": dump_page_token(page.records[wanted.size - 1].position)
            if more
            else "",
            "pageSize": wanted.size,
            "totalSize": page.total,
        }

    async def subscribe(
        self, caller: Caller, params: Mapping[str, Any], last_event_id: str | None = None
    ) -> TaskStream:
        """Return the task as it stands, or as it stood at a position, and its further events."""
        record = await self.states.load(caller, params)
        position = parse_position(last_event_id)
        if record.state in TERMINAL and position is None:
            raise UnsupportedOperationError("The task is over: get it instead.")
        reading = self.states.reading(record)
        try:
            resumes = position is not None and await reading.skip_to(position)
            if not resumes:
                reading.close()
                reading = self.states.reading(record)
                await reading.catch_up()
        except PositionGone:
            raise InternalError("The task has expired.") from None
        # With its artifacts also for a client that has them: it checks that nothing is missing.
        first = {"task": reading.fold.task()}
        v03 = caller.version == V03
        return TaskStream(self.states, reading, waits_for_turns=True, first=first, v03=v03)

    # Cancelling.

    async def cancel(self, caller: Caller, params: Mapping[str, Any]) -> JSON:
        """Cancel a task, and return it when it is over."""
        record = await self.states.load(caller, params)
        if record.state in TERMINAL:
            raise TaskNotCancelableError("The task is over.")
        if record.state in INTERRUPTED:
            work = self.turns.cancel_waiting(caller, record)
            await self._runtime.background.uninterrupted(work)
        else:
            await self._cancel_running(turns_of(record)[-1].stream_id)
        return await self.get(caller, {"id": str(record.task_id)})

    async def _cancel_running(self, stream_id: UUID) -> None:
        log, producers = self._runtime.log, self._runtime.producers
        await log.request_cancel(stream_id)
        if (producer := producers.get(stream_id)) is not None:
            producer.stop(CANCELLED)
        until = monotonic() + log.lease + _CANCEL_WAIT
        meta = await log.meta(stream_id)
        last = meta.last_seq
        with closing(log.follow(stream_id, last, meta.epoch_of(last))) as follower:
            while (left := until - monotonic()) > 0 and not (await follower.next(100, left)).ended:
                pass


# All operations

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
        with await take_reader(runtime, caller.principal) as reader:
            service = self._services_of(runtime).tasks
            if operation == "send_message_stream":
                opening = service.send_stream(caller, params)
            else:
                opening = service.subscribe(caller, params, last_event_id)
            stream: TaskStream = await _guarded(operation, opening)
            runtime.producers.add_reader(stream, reader)
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
