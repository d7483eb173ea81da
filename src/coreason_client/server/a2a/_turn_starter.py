"""Begins the turns of tasks: a message begins a task, continues one, or joins a turn."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from time import monotonic, time
from typing import Any, Final
from uuid import UUID, uuid4

from pydantic_core import to_json

from coreason_client.a2a.errors import UnsupportedOperationError
from coreason_manifest.definitions.service import ServiceRequest

from ..engine._conversation import dump_question, dump_request
from ..engine._quotas import Unit
from ..engine._runtime import Runtime
from ..http._limits import shutting_down, too_many_streams
from ..log.base import AgentVersion, NewStream, Opened, StreamMeta
from ..log.tasks import TaskRecord, TaskStore
from ..observe._spans import trace_headers
from ._caller import Caller
from ._incoming import IncomingMessage, MediaTypes, parse_message, request_for, wrong
from ._params import optional_object, returns_immediately
from ._push._hook import PushHook
from ._states import INTERRUPTED, WORKING
from ._task_states import TaskStates
from ._turns import TurnRef, dump_turns, may_join, message_name, turns_of

__all__ = ["TurnStarter"]

_STORED_POLL: Final = 0.05  # seconds between two looks for the task of an equal request
_STORED_POLLS: Final = 20


class TurnStarter:
    """Begins turns; `media_types` are those that the agent accepts, None for all."""

    def __init__(
        self,
        runtime: Runtime,
        tasks: TaskStore,
        states: TaskStates,
        agent: AgentVersion | None,
        media_types: MediaTypes | None = None,
    ) -> None:
        self._runtime = runtime
        self._tasks = tasks
        self._states = states
        self._agent = agent
        self._media_types = media_types
        self.push = PushHook()

    async def begin(self, caller: Caller, params: Mapping[str, Any]) -> TaskRecord:
        """Begin or join a turn, and register the push configuration of the message."""
        config = self.push.parse(optional_object(params, "configuration"), caller.version)
        record = await self._begin(caller, params)
        if config is not None:
            await self.push.register(record, config)
        return record

    async def _begin(self, caller: Caller, params: Mapping[str, Any]) -> TaskRecord:
        """Begin a task or a turn with a message, or join the turn that it has begun before."""
        optional_object(params, "metadata")
        incoming = parse_message(
            caller.principal,
            params.get("message"),
            self._runtime.options.max_parts,
            self._media_types,
            immediately=returns_immediately(params),
        )
        if incoming.task_id is not None:
            return await self._send_to_task(caller, incoming, params)
        known = await self._runtime.log.find(caller.principal, incoming.key)
        request_id = incoming.key
        if known is not None:
            record = await self._tasks.get(known.stream_id)
            if record is not None:
                record = await self._states.settled(record)
                if may_join(record, incoming.key, time()):
                    return record
            request_id = uuid4()
        unit = await self._take_stream(caller)
        try:
            record = await self._begin_task(caller, incoming, request_id, params, unit)
            if record is None:
                # Another request with the same message was faster, and died before it stored its
                # task.
                record = await self._begin_task(caller, incoming, uuid4(), params, unit)
        finally:
            unit.release()  # unless it was handed on
        assert record is not None  # noqa: S101 - nobody else has the second id
        return record

    async def _take_stream(self, caller: Caller) -> Unit:
        """Return the unit of a new stream, or raise the refusal of one."""
        if self._runtime.closing:
            raise shutting_down()
        unit = await self._runtime.producers.take_stream(caller.principal)
        if unit is None:
            raise too_many_streams(self._runtime.options)
        return unit

    async def _send_to_task(
        self, caller: Caller, incoming: IncomingMessage, params: Mapping[str, Any]
    ) -> TaskRecord:
        record = await self._states.load(caller, {"id": incoming.task_id})
        if incoming.named_context and incoming.context_id != record.context_id:
            raise wrong("message.contextId", "must be the context of the task")
        if may_join(record, incoming.key, time()):
            return record
        if record.state not in INTERRUPTED:
            state = record.state.removeprefix("TASK_STATE_")
            raise UnsupportedOperationError(f"The task is {state}, so it accepts no message.")
        unit = await self._take_stream(caller)
        try:
            turn = TurnRef(uuid4(), uuid4(), incoming.key, time())
            changed = await self.add_turn(record, turn, incoming)
            request, opened = await self._open(caller, incoming, record, turn, params)
            self._start(caller, request, opened.meta, record.task_id, unit)
        finally:
            unit.release()  # unless it was handed on
        await self.push.turn_added(record.task_id)
        return changed

    async def add_turn(
        self, record: TaskRecord, turn: TurnRef, incoming: IncomingMessage | None
    ) -> TaskRecord:
        """Record the next turn of a task that waits for its user.

        Raises:
            UnsupportedOperationError: another request was faster.
        """
        turns = [*turns_of(record), turn]
        changed = record.updated(state=WORKING, changed=turn.opened, data=dump_turns(turns))
        if not await self._tasks.update(changed):
            raise UnsupportedOperationError("Another message has just been sent to the task.")
        if incoming is not None:
            await self._put_message(record.task_id, len(turns), incoming)
        return changed

    async def _begin_task(
        self,
        caller: Caller,
        incoming: IncomingMessage,
        request_id: UUID,
        params: Mapping[str, Any],
        unit: Unit,
    ) -> TaskRecord | None:
        """Begin a task, or join the one that the same message has just begun.

        Return None if that one was not stored. The stream is opened first, because the log decides
        which of two equal requests begins it.
        """
        turn = TurnRef(uuid4(), request_id, incoming.key, time())
        record = TaskRecord(
            turn.stream_id,
            caller.principal,
            incoming.context_id,
            WORKING,
            turn.opened,
            dump_turns([turn]),
        )
        request, opened = await self._open(caller, incoming, record, turn, params)
        if not opened.created:
            return await self._stored_soon(opened.meta.stream_id)
        await self._put_message(record.task_id, 1, incoming)
        await self._tasks.create(record)
        self._start(caller, request, opened.meta, record.task_id, unit)
        return record

    async def _stored_soon(self, task_id: UUID) -> TaskRecord | None:
        for _ in range(_STORED_POLLS):
            if (record := await self._tasks.get(task_id)) is not None:
                return record
            await asyncio.sleep(_STORED_POLL)
        return None

    async def _put_message(self, task_id: UUID, turn: int, incoming: IncomingMessage) -> None:
        await self._tasks.put_value(task_id, message_name(turn), to_json(incoming.message))

    async def _open(
        self,
        caller: Caller,
        incoming: IncomingMessage,
        record: TaskRecord,
        turn: TurnRef,
        params: Mapping[str, Any],
    ) -> tuple[ServiceRequest, Opened]:
        # A message to a task need not name its context, and one that begins a task names no task.
        message = replace(incoming, context_id=record.context_id, task_id=str(record.task_id))
        metadata = params.get("metadata")
        request = request_for(message, turn.request_id, caller.user_id, metadata)
        new = self.new_stream(caller, turn, self._question(caller, request))
        return request, await self._runtime.log.open(new, self._runtime.owner)

    def _start(
        self, caller: Caller, request: ServiceRequest, meta: StreamMeta, task_id: UUID, unit: Unit
    ) -> None:
        producer = self._runtime.producers.start(request, meta, caller.headers, monotonic(), unit)
        producer.task.add_done_callback(lambda _: self._states.settle_soon(task_id))

    def _question(self, caller: Caller, request: ServiceRequest) -> bytes:
        if self._agent is None:
            return dump_question(caller.principal, request)
        return dump_request(caller.principal, request, trace_headers(caller.headers))

    def new_stream(self, caller: Caller, turn: TurnRef, question: bytes) -> NewStream:
        """Return the stream of a turn, as it is opened."""
        return NewStream(
            turn.stream_id,
            caller.principal,
            turn.request_id,
            turn.key.hex,
            question,
            self._agent,
        )
