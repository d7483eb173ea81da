"""The operations of the protocol on tasks, the same for all bindings.

Parameters and results are JSON objects of protocol 1.0. Errors are those of
`coreason_client.a2a.errors`; the bindings write them.
"""

from collections.abc import Mapping
from contextlib import closing
from time import monotonic
from typing import Any, Final, NamedTuple
from uuid import UUID

from coreason_client.a2a.errors import (
    InternalError,
    TaskNotCancelableError,
    UnsupportedOperationError,
)

from ..engine._ending import CANCELLED
from ..engine._runtime import Runtime
from ..errors import PositionGone
from ..http._problems import too_many_readers
from ..log.base import AgentVersion
from ..log.tasks import TaskQuery, TaskStore
from ._caller import Caller
from ._fold import JSON, TaskFold
from ._incoming import MediaTypes
from ._params import (
    dump_page_token,
    history_length,
    optional_object,
    parse_listing,
    returns_immediately,
)
from ._reading import parse_position
from ._states import INTERRUPTED, TERMINAL
from ._task_states import TaskStates
from ._task_stream import TaskStream
from ._turn_log import TurnLog
from ._turn_starter import Sent, TurnStarter
from ._turns import turns_of
from ._versions import V03

__all__ = ["TaskService"]

_CANCEL_WAIT: Final = 5.0  # seconds beyond the lease, after which a stream has another owner
_BLOCKING_WAIT: Final = 15.0  # seconds between two looks at a task that a client waits for


class _Reader(NamedTuple):
    """Who waits for the end of a turn."""

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
        sent = await self.turns.begin(caller, params)
        if returns_immediately(params):
            return {"task": await self.states.task(sent.record, history)}
        fold = await self._ended(sent)
        if fold.message is not None:
            return {"message": fold.message}
        return {"task": fold.task(history=history)}

    async def _ended(self, sent: Sent) -> TaskFold:
        """Return the fold of a task after its turn; who waits for it counts as its reader."""
        producers, record = self._runtime.producers, sent.record
        unit = await producers.take_reader(record.principal)
        if unit is None:
            raise too_many_readers(self._runtime.options)
        reader = _Reader(record.principal, turns_of(record)[-1].stream_id)
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
            await self.turns.uninterrupted(self.turns.cancel_waiting(caller, record))
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
