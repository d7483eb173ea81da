"""The writer of one stream: it numbers packets, appends them to the log, and ends the stream.

An agent gets an `AgentStream`, which only writes. The producer holds the writer itself.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, TypeVar
from uuid import UUID

from coreason_manifest.definitions._base import utc_now
from coreason_manifest.definitions.message import ChatMessage
from coreason_manifest.definitions.presentation import (
    ErrorSeverity,
    StreamError,
    StreamOpCode,
    StreamPacket,
)
from coreason_manifest.definitions.service import ServiceRequest

from ...errors import ArgumentError
from .._off_loop import off_loop
from ..durable._approvals import APPROVAL
from ..durable._results import with_limit
from ..errors import Fenced, LogError, LogUnavailable, UnknownStream
from ..log.base import Conversation, StreamLog, StreamMeta
from ..observe._metrics import NOT_METERED, StreamMeter
from ._appender import Appender, twice
from ._conversation import (
    COMPLETE,
    MAX_STATE_BYTES,
    AnsweredQuestion,
    RequestWithHistory,
    StoredQuestion,
    StoredTurn,
    Turn,
    answer_to,
    asked_in,
    conversation_of,
    dump_asked,
    dump_claim,
    dump_turn,
    given_turns,
    is_large,
    last_asker,
    last_end,
    make_turn,
    named_asker,
    names_question,
    parse_asked,
    parse_claims,
    question_of,
)
from ._packets import Frames

logger = logging.getLogger("coreason_client.server")

T = TypeVar("T")
_LOG_POLL: Final = 1.0  # seconds
_CLOCK_ERROR = 0.2  # seconds between the clocks of two servers of a store, as they are estimated
_FAILED_TURNS = 20  # that are skipped to find the question
_MAX_CLAIMS = 1_000
_SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*", re.ASCII)


class StreamWriter:
    """Writes the packets of one stream and its end.

    `ending` is the state of its end. `cancelled` is set when the agent should stop.
    """

    __slots__ = (
        "_appender",
        "_closing",
        "_frames",
        "_log",
        "_meta",
        "_text",
        "agent",
        "cancelled",
        "ending",
        "request",
        "transient_error",
        "turns",
    )

    def __init__(
        self,
        request: ServiceRequest,
        meta: StreamMeta,
        log: StreamLog,
        *,
        now: Callable[[], datetime] = utc_now,
        on_cancel: Callable[[], None] = lambda: None,
        meter: StreamMeter = NOT_METERED,
        notes: int | None = None,
        first_waits: bool = False,
    ) -> None:
        self.request = request
        self.cancelled = False
        self.agent: asyncio.Task[None] | None = None
        """The task of the agent, set when it runs."""
        self.turns = StreamTurns(request, meta, log)
        self._meta = meta
        self._log = log
        self._frames = Frames(
            meta.stream_id,
            now,
            epoch=meta.epoch,
            first_seq=meta.epoch_start,
            durable=meta.agent is not None,
        )
        self._appender = Appender(
            *(log, meta.stream_id, meta.epoch, on_cancel, meter),
            last_seq=meta.last_seq,
            notes=notes,
            first_waits=first_waits,
        )
        self.ending = self._appender.ending
        self._text: list[str] = []
        self.transient_error: StreamError | None = None
        self._closing: asyncio.Future[None] | None = None

    @property
    def stream_id(self) -> UUID:
        """The id of the stream."""
        return self._meta.stream_id

    @property
    def packets(self) -> int:
        """The number of packets in the log."""
        return self._appender.acked

    @property
    def last_seq(self) -> int:
        """The number of the last packet that was written; it may not be in the log yet."""
        return self._appender.last_seq

    async def flush(self) -> None:
        """Wait until everything that was written is in the log.

        Raises:
            LogError: the log did not accept it.
        """
        await self._appender.flush()

    async def checkpoint(self, value: Any) -> None:
        """Store a checkpoint of the current step; only a durable stream needs it."""

    async def write(self, text: str, checkpoint: Any = None, *, held: bool = False) -> None:
        """Write a DELTA packet; only a durable stream needs the checkpoint.

        If it is `held`, it is stored together with the next packet.

        Raises:
            TypeError: `text` is not a string.
            ValueError: `text` is not valid Unicode, or too long for one packet.
            StreamEnded: the stream has ended.
            LogError: the log did not accept it.
        """
        self.ending.check_open()
        appender = self._appender
        frame = self._frames.delta(appender.last_seq + 1, text)
        self._text.append(text)
        if held:
            appender.enqueue(frame)
        else:
            await appender.add_delta(frame)

    async def write_packet(self, op: StreamOpCode | str, p: Any) -> None:
        """Write any packet. A FATAL error and a CLOSE end the stream.

        Raises:
            ValueError: the payload does not match the op, or the code of an error is not in
                snake_case.
            StreamEnded: the stream has ended.
            LogError: the log did not accept it.
        """
        op = StreamOpCode(op)
        if op is StreamOpCode.DELTA:
            await self.write(p)
            return
        self.ending.check_open()
        frame, packet = self._checked_packet(op, p)
        if packet.is_last:
            frame = await self._last_frame(op, packet.p)
            self.ending.check_open()
        if op is StreamOpCode.CLOSE:
            await self._close(frame)
        elif op is StreamOpCode.ERROR:
            await self._error(packet.p, frame)
        else:
            await self._appender.add(frame)

    def _checked_packet(self, op: StreamOpCode, p: Any) -> tuple[bytes, StreamPacket]:
        """Return the frame of the next packet, and the packet; raises like `write_packet`."""
        frame, packet = self._frames.packet(self._appender.last_seq + 1, op, p)
        if op is StreamOpCode.ERROR:
            _check_code(packet.p)
        return frame, packet

    # The end of the stream.

    def missing(self) -> StreamError | None:
        """Return the error for an agent that must not end now, None if it may."""
        return None

    async def complete(self) -> None:
        """End the stream after the agent has returned; if it has ended, wait for that end."""
        if self.ending.ended:
            await self._wait_for_end()
        else:
            await self._close(await self._last_frame(StreamOpCode.CLOSE, {"reason": COMPLETE}))

    async def end_with(self, error: StreamError) -> None:
        """End the stream in error; if it has ended, wait for that end."""
        if self.ending.ended:
            await self._wait_for_end()
            return
        await self._finish(await self._last_frame(StreamOpCode.ERROR, error), error.code)

    async def _last_frame(self, op: StreamOpCode, p: Any) -> bytes:
        """Return the frame of the last packet, which names the messages that were not delivered."""
        if op is StreamOpCode.ERROR:
            p = await self.turns.naming(p)
        elif unread := await self.turns.seal(0):
            p = {**(p if isinstance(p, dict) else {"reason": p}), **unread}
        return self._frames.packet(self._appender.last_seq + 1, op, p)[0]

    def give_up(self) -> None:
        """Write nothing more, because another process owns the stream."""
        self._appender.give_up(Fenced(self._meta.stream_id, self._meta.epoch))

    async def _error(self, error: StreamError, frame: bytes) -> None:
        if error.severity is ErrorSeverity.FATAL:
            await self._finish(frame, error.code)
            return
        if error.severity is ErrorSeverity.TRANSIENT:
            self.transient_error = error
        await self._appender.add(frame, StreamOpCode.ERROR)

    async def _close(self, frame: bytes) -> None:
        if self.transient_error is not None:
            # The agent stopped at an error and did not finish its answer: with a CLOSE, readers
            # would take a partial answer for a complete one.
            await self.end_with(
                self.transient_error.model_copy(update={"severity": ErrorSeverity.FATAL})
            )
            return
        await self._finish(frame, None)

    async def _finish(self, frame: bytes, error: str | None) -> None:
        """End the stream with its last frame; `error` is the code of a FATAL one."""
        self.ending.begun = True
        # In a separate task: if the agent is cancelled meanwhile, the end must still be complete.
        self._closing = asyncio.ensure_future(self._store_turn_and_end(frame, error))
        await asyncio.shield(self._closing)

    async def _wait_for_end(self) -> None:
        """Wait until the written end is in the log."""
        if self._closing is not None:
            await asyncio.shield(self._closing)
        await self._appender.flush()

    def _answer(self) -> str:
        """Return the text written so far."""
        return "".join(self._text)

    async def _store_turn_and_end(self, frame: bytes, error: str | None) -> None:
        # The turn first: a reader that sees the end may send the next question at once. They are
        # two steps, because a conversation and a stream may be on different machines.
        self.ending.raise_error()
        try:
            await twice(self._log, lambda: self.turns.store(self._answer(), error))
        except LogError as failure:
            if error is None:
                raise
            # Readers must get the error even if the turn cannot be stored.
            logger.warning("the turn of stream %s was not stored: %s", self.stream_id, failure)
        op = StreamOpCode.CLOSE if error is None else StreamOpCode.ERROR
        await self._appender.finish(frame, COMPLETE if error is None else error, op)


async def until_it_answers(writer: StreamWriter, work: Callable[[], Awaitable[T]]) -> T:
    """Return the result of work on the log that an agent depends on before it does anything.

    While the log does not answer, it is repeated.

    Raises:
        LogError: the log refuses it, or the stream cannot be written any more.
    """
    while True:
        try:
            return await work()
        except LogUnavailable:
            if writer.ending.broken or writer.cancelled:
                raise
            await asyncio.sleep(_LOG_POLL)


def _check_code(error: StreamError) -> None:
    """Check the code of an error that an agent writes.

    Raises:
        ArgumentError: it is not in snake_case.
    """
    if not _SNAKE_CASE.fullmatch(error.code):
        rule = "must be in snake_case, such as rate_limit_exceeded"
        raise ArgumentError("code", rule, error.code)


class StreamTurns:
    """Reads and stores turns.

    `asked` is the question to the user with which the stream ends. `seal` refuses more messages for
    the stream, and returns what the last packet says of those that the agent did not get; `heard`
    then has the rest. It is called with the epoch of the stream if that has changed, otherwise 0.
    """

    __slots__ = (
        "_conversation",
        "_log",
        "_meta",
        "asked",
        "heard",
        "principal",
        "request",
        "seal",
    )

    def __init__(self, request: ServiceRequest, meta: StreamMeta, log: StreamLog) -> None:
        self.principal = meta.principal
        self.asked: StoredQuestion | None = None
        self.seal: Callable[[int], Awaitable[dict[str, Any]]] = _nothing_unread
        self.heard: Mapping[str, str] = {}
        self.request = request
        self._meta = meta
        self._log = log
        self._conversation = conversation_of(meta.principal, request)

    async def latest(self, limit: int) -> Sequence[bytes]:
        """Return the latest turns of the conversation, as they are stored."""
        given = given_turns(self.request, limit)
        return await self._log.turns(self._conversation, limit) if given is None else given

    async def store(self, answer: str, error: str | None) -> None:
        """Store the turn of the stream, and its question if it has not failed.

        Raises:
            LogError: the log did not accept it.
        """
        add, stream_id, epoch = self._log.add_turn, self._meta.stream_id, self._meta.epoch
        asked_by = None
        if self.asked is not None and error is None:
            asked_by = stream_id
            await add(asked_in(self.principal, stream_id), stream_id, dump_asked(self.asked), epoch)
        question = question_of(self.principal, self.request)
        if question.conversation is not None:
            messages = [*question.messages, *map(ChatMessage.user, self.heard.values())]
            turn = make_turn(messages, answer, error)
            stored = await _dump(turn, question.earlier, asked_by)
            await add(question.conversation, stream_id, stored, epoch)

    async def naming(self, error: StreamError, epoch: int = 0) -> StreamError:
        """Return an error with what is said of the messages that the agent did not get.

        If the log fails twice, it says nothing: readers must get an error in any case.
        """
        with suppress(LogError):
            unread = await twice(self._log, lambda: self.seal(epoch))
            details = {**(error.details or {}), **unread}
            return error.model_copy(update={"details": details}) if unread else error
        return error

    async def answers_approval(self) -> bool:
        """Return True if the request answers a question that `approve` has asked.

        Raises:
            LogError: the log does not answer.
        """
        found = await self._question()
        return found is not None and isinstance(found[1].state, dict) and APPROVAL in found[1].state

    async def is_late(self) -> bool:
        """Return True if the request names a question that another stream answers.

        Raises:
            LogError: the log does not answer.
        """
        found = await self._question() if names_question(self.request) else None
        if found is None or await self.answered_question() is not None:
            return False
        answering = await _answering_stream(self._log, found[0], retries=_retries(self.request))
        return answering not in (None, self._meta.stream_id)

    async def _question(self) -> tuple[Conversation, StoredQuestion] | None:
        """Return the question that the request answers, and where it is stored."""
        asker = named_asker(self.request)
        if not names_question(self.request):
            asker = await self._unnamed_asker()
        if asker is None:
            return None
        place = asked_in(self.principal, asker)
        asked = parse_asked(await self._log.turns(place, _MAX_CLAIMS))
        return None if asked is None else (place, asked)

    async def _unnamed_asker(self) -> UUID | None:
        """Return the stream that asked before this one was opened; none for a new task of A2A."""
        if "a2a" in self.request.payload.metadata:
            return None  # an answer to a task names its question
        latest = await self.latest(1)
        if latest and last_end(latest) is None:
            latest = await self.latest(_FAILED_TURNS)
        if (asker := last_asker(latest)) is None:
            return None
        with suppress(UnknownStream):
            ended_at = (await self._log.meta(asker)).ended_at
            if ended_at is None or ended_at > self._meta.opened_at + _CLOCK_ERROR:
                return None
        return asker

    async def answered_question(self) -> AnsweredQuestion | None:
        """Return the question that the request answers, None if another stream answers it.

        Raises:
            LogError: the log does not answer.
        """
        log, stream_id = self._log, self._meta.stream_id
        if (found := await self._question()) is None:
            return None
        place, asked = found
        answer = answer_to(asked, self.request)
        await log.add_turn(place, stream_id, dump_claim(stream_id, approves=answer.approved))
        return answer if await _answering_stream(log, place, stream_id) == stream_id else None


# The state of a question, and the words of the user.
with_limit(StreamTurns.answered_question, 2 * MAX_STATE_BYTES)


async def was_answered(log: StreamLog, principal: str, request: ServiceRequest) -> bool:
    """Return True if a new request names a question that is answered, or not there.

    A task of A2A may wait without a question that is stored.

    Raises:
        LogError: the log does not answer.
    """
    if not names_question(request):
        return False
    place = asked_in(principal, named_asker(request) or UUID(int=0))
    if not await _answering_stream(log, place, retries=_retries(request)) and (
        "a2a" in request.payload.metadata or parse_asked(await log.turns(place, _MAX_CLAIMS))
    ):
        return False
    return await log.find(principal, request.request_id) is None  # else it is sent again


def _retries(request: ServiceRequest) -> bool:
    """Return True if a request may follow an answer that has failed, even if that was a yes.

    The clients that bring their history send it again then; the agent gets no answer from it.
    """
    return isinstance(request, RequestWithHistory)


async def _answering_stream(
    log: StreamLog, place: Conversation, own: UUID | None = None, *, retries: bool = False
) -> UUID | None:
    """Return the stream that answers a question: the first that may, None if there is none yet.

    With `retries`, a yes whose turn has failed does not count.

    Raises:
        LogError: the log does not answer.
    """
    for claim, approves in parse_claims(await log.turns(place, _MAX_CLAIMS)):
        with suppress(UnknownStream):
            # What was approved may have been done, although the turn has failed.
            stays = approves and not retries
            if claim == own or stays or (await log.meta(claim)).outcome in (None, COMPLETE):
                return claim
    return None


async def _nothing_unread(_: int) -> dict[str, Any]:
    return {}


async def _dump(turn: Turn, earlier: Sequence[StoredTurn], asked_by: UUID | None) -> bytes:
    if earlier or is_large(turn.messages):
        return await off_loop(lambda: dump_turn(turn, earlier, asked_by=asked_by))
    return dump_turn(turn, asked_by=asked_by)
