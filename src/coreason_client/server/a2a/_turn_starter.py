"""Begins the turns of tasks: a message begins a task, continues one, or joins a turn.

The beginning of a turn is its own asyncio task, so a client that disconnects does not interrupt it.
The stream of a turn is opened together with what is stored of its task; then the log is told that
the agent starts, and then it starts. If the process dies before the second step, whoever claims the
stream starts the agent. The second step is fenced, so the agent starts once.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from time import monotonic, time
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

from pydantic_core import to_json

from coreason_client.a2a.errors import UnsupportedOperationError
from coreason_manifest.definitions.presentation import StreamOpCode
from coreason_manifest.definitions.service import ServiceRequest

from ..engine._appender import twice
from ..engine._conversation import (
    asked_in,
    dump_claim,
    dump_request,
    last_question,
    parse_request,
)
from ..engine._inbox import FULL, MAX_TEXT, InboxMessage, InboxStore
from ..engine._limits import Unit
from ..engine._packets import CANCELLED, CONVERSATION_BUSY, Frames
from ..engine._runtime import Runtime
from ..engine._writer import was_answered
from ..errors import Fenced, UnknownStream
from ..http._problems import shutting_down, too_many_streams
from ..log.base import AgentVersion, Claim, NewStream, StreamMeta
from ..log.tasks import TaskChange, TaskRecord, TaskStore
from ..observe._spans import HeaderValues, StoredHeaders, trace_headers
from ._fold import JSON, TaskFold
from ._incoming import (
    IncomingMessage,
    MediaTypes,
    optional_object,
    parse_message,
    request_for,
    returns_immediately,
    wrong,
)
from ._protocol import INTERRUPTED, NOT_LISTED, WORKING, Caller
from ._push._configs import PushHook
from ._task_states import TaskStates
from ._turn_log import TurnLog
from ._turns import (
    TurnQuestion,
    TurnRef,
    dump_turns,
    is_announced,
    may_join,
    message_name,
    parse_turn_question,
    turns_of,
)

_ANSWERED: Final = "The question was already answered by another message."
_INBOXES: Final = 20  # of the latest turns of a task, in which a message is looked for


class Sent(NamedTuple):
    """The task that a message belongs to, and the messages of turns that are known with it.

    `ended` is given if this process runs the turn, see `TurnLog.add`.
    """

    record: TaskRecord
    messages: Mapping[int, JSON] = {}
    ended: "asyncio.Future[TaskFold | None] | None" = None


class _New(NamedTuple):
    """A turn that is about to begin."""

    request: ServiceRequest
    stream: NewStream
    started: bytes  # its question once the agent starts


class _Inboxes:
    """The messages that the agents of tasks have got while they were running."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def has(self, record: TaskRecord, key: UUID) -> bool:
        """Return True if a task has got a message before: it began a turn, or is in an inbox."""
        turns = turns_of(record)
        if key in [turn.key for turn in turns]:
            return True
        asked = turns[-_INBOXES:] if self._runtime.options.inbox else ()
        return any(await asyncio.gather(*(self._took(turn, key) for turn in asked)))

    async def _took(self, turn: TurnRef, key: UUID) -> bool:
        with suppress(UnknownStream):
            return await (await self._of(turn)).has(str(key))
        return False

    async def put(self, request: ServiceRequest, record: TaskRecord) -> bool:
        """Give a message to the running agent; return False if its turn has ended.

        Raises:
            UnsupportedOperationError: the message has no text, or the inbox is full.
        """
        text = last_question(request)
        if not 0 < len(text) <= MAX_TEXT:
            size = f"1 to {MAX_TEXT} characters"
            raise UnsupportedOperationError(f"A running agent takes only text, of {size}.")
        turn = turns_of(record)[-1]
        result = await (await self._of(turn)).put(InboxMessage(str(request.request_id), text))
        if result == "full":
            raise UnsupportedOperationError(FULL)
        self._runtime.producers.wake_inbox(turn.stream_id)
        return result == "stored"

    async def _of(self, turn: TurnRef) -> InboxStore:
        log = self._runtime.log
        return InboxStore(log, await log.meta(turn.stream_id))


class TurnStarter:
    """Begins turns; `media_types` are those that the agent accepts, None for all."""

    def __init__(
        self,
        runtime: Runtime,
        tasks: TaskStore,
        states: TaskStates,
        turn_log: TurnLog,
        agent: AgentVersion | None,
        media_types: MediaTypes | None = None,
    ) -> None:
        self._runtime = runtime
        self._tasks = tasks
        self._states = states
        self._turn_log = turn_log
        self._inboxes = _Inboxes(runtime)
        self._agent = agent
        self._media_types = media_types
        self.push = PushHook()

    async def begin(
        self, caller: Caller, params: Mapping[str, Any], *, reads_live: bool = True
    ) -> Sent:
        """Begin or join a turn, and register the push configuration of the message.

        `reads_live` is False if the caller waits for the end of the turn.
        """
        config = self.push.parse(optional_object(params, "configuration"), caller.version)
        incoming = parse_message(
            caller.principal,
            params.get("message"),
            self._runtime.options.max_parts,
            self._media_types,
            immediately=returns_immediately(params),
            reads_live=reads_live,
            metadata=optional_object(params, "metadata"),
        )

        async def run() -> Sent:
            begin = self._begin_task if incoming.task_id is None else self._send_to_task
            sent = await begin(caller, incoming)
            await self._enter(caller, incoming, sent.record)
            if config is not None:
                await self.push.register(sent.record, config)
            return sent

        return await self._runtime.background.uninterrupted(run())

    async def _enter(self, caller: Caller, incoming: IncomingMessage, record: TaskRecord) -> None:
        """Give the turn that a message began its place among those that wait, before the answer.

        Its sender may send the next message at once. If the message was sent before, the process
        that opened the turn may have died before it did this.
        """
        order, turn = self._runtime.producers.order, turns_of(record)[-1]
        if order is not None and record.state == WORKING and turn.key == incoming.key:
            message = replace(incoming, context_id=record.context_id)
            request = request_for(message, turn.request_id, caller.user_id, incoming.metadata)
            await order.enter(caller.principal, request, turn.stream_id)

    async def _begin_task(self, caller: Caller, incoming: IncomingMessage) -> Sent:
        """Begin a task with a message, or join the one that it has begun before."""
        unit = None if self._runtime.closing else await self._take_stream(caller)
        if unit is None:  # nothing can begin, but who sends a message again may join its task
            known = await self._runtime.log.find(caller.principal, incoming.key)
            record = None if known is None else await self._tasks.get(known.stream_id)
            if record is not None and (sent := await self._joined(record, incoming)):
                return sent
            raise self._refusal()
        with unit:
            return await self._begin_or_join(caller, incoming, unit)

    async def _begin_or_join(self, caller: Caller, incoming: IncomingMessage, unit: Unit) -> Sent:
        turn = TurnRef(uuid4(), incoming.key, incoming.key, time())
        data = dump_turns([turn], announced=incoming.immediately)
        record = TaskRecord(
            turn.stream_id, caller.principal, incoming.context_id, WORKING, turn.opened, data
        )
        new = self._new(caller, incoming, record, turn)
        if await was_answered(self._runtime.log, caller.principal, new.request):
            raise UnsupportedOperationError(_ANSWERED)
        await _check_order(self._runtime, caller.principal, new.request)
        values = {message_name(1): to_json(incoming.message)}
        replaces: UUID | None = None
        while True:
            begun = await self._tasks.begin(new.stream, record, values, replaces)
            if begun.opened is not None:
                return await self._start(caller.headers, new, begun.opened, record, incoming, unit)
            if begun.record is not None and (sent := await self._joined(begun.record, incoming)):
                return sent
            replaces = begun.stream_id  # it was answered long ago

    async def _joined(self, record: TaskRecord, incoming: IncomingMessage) -> Sent | None:
        """Return the task that a message has begun before, None if that was long ago."""
        record = await self._states.settled(record)
        return Sent(record) if may_join(record, incoming.key, time()) else None

    async def _take_stream(self, caller: Caller) -> Unit | None:
        return await self._runtime.producers.take_stream(caller.principal)

    def _refusal(self) -> Exception:
        """Return why no stream can begin now."""
        runtime = self._runtime
        return shutting_down() if runtime.closing else too_many_streams(runtime.options)

    async def _send_to_task(self, caller: Caller, incoming: IncomingMessage) -> Sent:
        """Give a message to the running agent of a task, or begin its next turn with it."""
        while True:
            record = await self._states.load(caller, {"id": incoming.task_id})
            if incoming.named_context and incoming.context_id != record.context_id:
                raise wrong("message.contextId", "must be the context of the task")
            if await self._inboxes.has(record, incoming.key):
                return Sent(record)
            metadata = _to_task(record, incoming.metadata)
            request = request_for(incoming, incoming.key, caller.user_id, metadata)
            if await was_answered(self._runtime.log, caller.principal, request):
                return await self._sent_before(caller, incoming, _ANSWERED)
            if record.state != WORKING or not self._runtime.options.inbox:
                return await self._begin_next(caller, incoming, record)
            if await self._inboxes.put(request, record):
                return Sent(record)
            # Its turn has just ended. If that asks, the message was sent before the question.
            incoming = replace(incoming, metadata=_answering(incoming.metadata, None))

    async def _begin_next(
        self, caller: Caller, incoming: IncomingMessage, record: TaskRecord
    ) -> Sent:
        """Begin the next turn of a task that waits for its user."""
        if record.state not in INTERRUPTED:
            state = record.state.removeprefix("TASK_STATE_")
            raise UnsupportedOperationError(f"The task is {state}, so it accepts no message.")
        unit = None if self._runtime.closing else await self._take_stream(caller)
        if unit is None:
            raise self._refusal()
        with unit:
            turn = TurnRef(uuid4(), uuid4(), incoming.key, time())
            new = self._new(caller, incoming, record, turn)
            announced = is_announced(record) or incoming.immediately
            change = _next_turn(record, turn, incoming.message, announced=announced)
            opened = await self._tasks.add_turn(new.stream, change)
            if opened is None:
                why = "Another message has just been sent to the task."
                return await self._sent_before(caller, incoming, why)
            sent = await self._start(caller.headers, new, opened, change.new, incoming, unit)
        await self.push.turn_added(record.task_id)
        return sent

    async def _sent_before(self, caller: Caller, incoming: IncomingMessage, why: str) -> Sent:
        """Return the task of a message if it has just got it; another one was faster otherwise.

        Raises:
            UnsupportedOperationError: that is so, for the reason `why`.
        """
        record = await self._states.load(caller, {"id": incoming.task_id})
        if await self._inboxes.has(record, incoming.key):
            return Sent(record)
        raise UnsupportedOperationError(why)

    def _new(
        self, caller: Caller, incoming: IncomingMessage, record: TaskRecord, turn: TurnRef
    ) -> _New:
        # A message to a task need not name its context, and one that begins a task names no task.
        message = replace(incoming, context_id=record.context_id, task_id=str(record.task_id))
        metadata = _to_task(record, incoming.metadata)
        request = request_for(message, turn.request_id, caller.user_id, metadata)
        stored = dump_request(caller.principal, request, trace_headers(caller.headers))
        question = TurnQuestion(record.task_id, self._runtime.options.agent_id)
        stream = NewStream(
            *(turn.stream_id, caller.principal, turn.request_id, turn.key.hex),
            *(question.dump(stored), self._agent),
        )
        return _New(request, stream, question._replace(started=True).dump(stored))

    async def _start(
        self,
        headers: HeaderValues,
        new: _New,
        opened: StreamMeta,
        record: TaskRecord,
        incoming: IncomingMessage,
        unit: Unit,
    ) -> Sent:
        """Start the agent of a turn whose stream was opened."""
        sent = Sent(record, {len(turns_of(record)): incoming.message})
        if self._runtime.closing:  # another process starts it
            raise shutting_down()
        try:
            ended = await self._run(
                *(headers, new.request, opened, sent, new.started, unit),
                first_waits=not incoming.reads_live,
            )
        except Fenced:  # another process was faster
            return Sent(record)
        return sent._replace(ended=ended)

    async def _run(
        self,
        headers: HeaderValues,
        request: ServiceRequest,
        meta: StreamMeta,
        sent: Sent,
        started: bytes,
        unit: Unit | None,
        *,
        first_waits: bool = False,
    ) -> "asyncio.Future[TaskFold | None]":
        stream_id, turn_log, order = meta.stream_id, self._turn_log, self._runtime.producers.order
        if self._agent is None and not (order and order.add_unstarted(stream_id, started)):
            # A durable one has its journal, and one that waits for its turn is started later.
            start = self._tasks.start
            await twice(self._runtime.log, lambda: start(stream_id, meta.epoch, started))
        ended = turn_log.add(stream_id, sent.record, sent.messages)
        producer = self._runtime.producers.start(
            *(request, meta, headers, monotonic(), unit), first_waits=first_waits
        )

        def forget(_: object) -> None:
            turn_log.forget(stream_id, unwritten=producer.unwritten is not None)

        producer.task.add_done_callback(forget)
        return ended

    # Cancellations.

    async def cancel_waiting(self, caller: Caller, record: TaskRecord) -> None:
        """Add a turn to a task that waits for its user; it consists of the cancellation.

        Raises:
            UnsupportedOperationError: another request was faster.
        """
        turn = TurnRef(uuid4(), uuid4(), uuid4(), time())
        question = TurnQuestion(record.task_id, self._runtime.options.agent_id)
        stored = question.dump(to_json({"principal": caller.principal}))
        new = NewStream(*(turn.stream_id, caller.principal, turn.request_id, turn.key.hex, stored))
        change = _next_turn(record, turn, None, announced=is_announced(record))
        opened = await self._tasks.add_turn(new, change)
        if opened is None:
            raise UnsupportedOperationError("Another message has just been sent to the task.")
        await self._close_cancelled(Claim(turn.stream_id, opened.epoch, 0), change.new)
        await self.push.turn_added(record.task_id)

    async def _close_cancelled(self, claim: Claim, record: TaskRecord | None = None) -> None:
        """End a turn that was cancelled; with its task, if the turn consists of that.

        Then nothing can answer the question before it any more.
        """
        if record is not None:
            turns = [turn.stream_id for turn in turns_of(record)]
            place = asked_in(record.principal, turns[turns.index(claim.stream_id) - 1])
            void = dump_claim(claim.stream_id, approves=True)
            await self._runtime.log.add_turn(place, claim.stream_id, void)
            self._turn_log.add(claim.stream_id, record, {})
        seq = claim.last_seq + 1
        frames = Frames(claim.stream_id, epoch=claim.epoch, first_seq=seq)
        frame, _ = frames.packet(seq, StreamOpCode.ERROR, CANCELLED)
        await self._turn_log.close(claim.stream_id, claim.epoch, seq, [frame], CANCELLED.code)

    # Turns that another process has opened and not started.

    async def begin_claimed(self, claim: Claim) -> bool:
        """Start the agent of a claimed stream; return False if that is not possible.

        It is not if the agent was started before, was cancelled, or is not the one of this process;
        then the claimant ends the stream. A durable stream is continued by the claimant. A stream
        that does not belong to its task is ended: its process died before the task named it.
        """
        found = parse_turn_question(claim.question)
        if found is None or found[0].started or claim.last_seq:
            return False
        question, stored = found
        record = await self._tasks.get(question.task_id)
        if record is None or not await self._is_turn(claim, record, stored["principal"]):
            await self._close_cancelled(claim)
            return True
        if "request" not in stored:
            await self._close_cancelled(claim, record)
            return True
        meta = await self._runtime.log.meta(claim.stream_id)
        ours = question.agent_id == self._runtime.options.agent_id
        if meta.agent is not None or meta.cancel_requested or not ours:
            return False
        if self._runtime.closing:
            return True  # until its lease ends; another process starts it
        request, trace = parse_request(claim.question)
        del stored["task"]
        started = question._replace(started=True).dump(to_json(stored))
        held = replace(meta, epoch=claim.epoch)
        await self._run(StoredHeaders(trace), request, held, Sent(record), started, None)
        return True

    async def _is_turn(self, claim: Claim, record: TaskRecord, principal: str) -> bool:
        """Return True if the task names a stream, and for a first turn the request does too."""
        turns = {turn.stream_id: turn for turn in turns_of(record)}
        turn = turns.get(claim.stream_id)
        if turn is None or claim.stream_id != record.task_id:
            return turn is not None
        named = await self._runtime.log.find(principal, turn.request_id)
        if named is not None and named.stream_id == claim.stream_id:
            return True
        # Its process died before the request named it, so no client knows the task.
        hidden = record.updated(state=NOT_LISTED, open=False)
        await self._tasks.update(TaskChange(record, hidden))
        return False


async def _check_order(runtime: Runtime, principal: str, request: ServiceRequest) -> None:
    """Refuse a new message while an earlier one is answered, if the agent does so.

    Raises:
        UnsupportedOperationError: that is so.
    """
    order = runtime.producers.order if runtime.options.on_busy == "reject" else None
    busy = order is not None and await order.busy(principal, request)
    if busy and await runtime.log.find(principal, request.request_id) is None:
        raise UnsupportedOperationError(CONVERSATION_BUSY.message)


def _to_task(record: TaskRecord, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the metadata of a message to a task; if that waits, it names the question."""
    waits = record.state in INTERRUPTED
    return _answering(metadata, str(turns_of(record)[-1].stream_id)) if waits else metadata


def _answering(metadata: Mapping[str, Any], question: str | None) -> Mapping[str, Any]:
    """Return the metadata of a message that answers a question, unless it names another one."""
    given = metadata.get("answer")
    answer = given if isinstance(given, dict) else {}
    return {**metadata, "answer": {"question_id": question, **answer}}


def _next_turn(
    record: TaskRecord, turn: TurnRef, message: JSON | None, *, announced: bool
) -> TaskChange:
    """Return the change that adds a turn to a task that waits for its user."""
    turns = [*turns_of(record), turn]
    data = dump_turns(turns, announced=announced)
    changed = record.updated(state=WORKING, changed=turn.opened, data=data)
    values = {} if message is None else {message_name(len(turns)): to_json(message)}
    return TaskChange(record, changed, values)
