"""The order of the streams of a conversation: agents run, and readers follow, one after the other.

The log keeps a list of streams for each conversation, as turns without messages: a stream enters it
when it is started, once, whichever process starts it. It may run when every stream before it has
its end in the log. A stream that has written more than its end was allowed to run, so all streams
before it have ended, and the list is read only up to there.

The log has the whole request of an agent that waits, so that another process can start it if this
one dies. When its turn comes, the question replaces the request: that is fenced like an append, so
of several processes one starts it.

The messages that an agent did not read become a turn. It is opened before the end of that agent's
stream is written, and waits for it like any other: so it exists whoever dies. Only the last packet
says which messages it has. If that names none, because another process has gone on with the agent
meanwhile, there is nothing to do.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing, suppress
from hashlib import sha256
from time import monotonic
from typing import Any, Final
from uuid import UUID

from coreason_manifest.definitions.message import ChatMessage
from coreason_manifest.definitions.presentation import StreamOpCode
from coreason_manifest.definitions.service import ServiceRequest

from .._options import OnBusy
from ..durable._packets import logged_packets
from ..durable._replay import Logged
from ..errors import LogUnavailable, PositionGone, UnknownStream
from ..log.base import Conversation, NewStream, StreamLog, StreamMeta
from ..log.tasks import TaskLog
from ..observe._spans import StoredHeaders
from ..stream import AgentStream
from ._agent import Runner
from ._conversation import (
    RequestWithHistory,
    UnreadTurn,
    dump_mark,
    dump_question,
    dump_request,
    last_question,
    marks_in,
    thread_of,
    unread_turn,
)
from ._inbox import InboxStore
from ._packets import CANCELLED, CONVERSATION_BUSY
from ._producer import Producer
from ._writer import until_it_answers

_POLL_SECONDS: Final = 1.0  # a stream that ends in this process is noticed at once
_FEW, _ALL = 20, 1_000
_STREAM: Final = "stream"
_MAX_TEXT: Final = 4_000  # characters of a message: the list is read often


class Order:
    """Lets the streams of a conversation run one after the other, in all processes.

    `find` returns the producer of a stream, None if it is not in this process.
    """

    def __init__(
        self,
        log: StreamLog,
        policy: OnBusy,
        find: Callable[[UUID], Producer | None],
        cancel: Callable[[StreamMeta], Awaitable[None]],
    ) -> None:
        self._log = log
        self._policy = policy
        self._find = find
        self._cancel = cancel
        self._entered = asyncio.Event()
        self.unstarted: dict[UUID, bytes] = {}
        """The streams of this process of which the log has the whole request.

        Each has the question that replaces it, empty for the usual one.
        """

    @property
    def keeps_requests(self) -> bool:
        """True if another process can start an agent that waits."""
        log = self._log
        return log.outlives_process and self._policy != "reject" and isinstance(log, TaskLog)

    def add_unstarted(self, stream_id: UUID, question: bytes = b"") -> bool:
        """Record a stream that was opened with its whole request; return False if none is here."""
        if self.keeps_requests:
            self.unstarted[stream_id] = question
        return self.keeps_requests

    def ordered(self, runner: Runner) -> Runner:
        """Return an agent that waits until it may run."""

        async def run(_: ServiceRequest, stream: AgentStream) -> None:
            refused = await until_it_answers(stream._writer, lambda: self._wait_for_turn(stream))
            request = stream._writer.request
            await (stream.fail(*refused) if refused else runner(request, stream))

        return run

    async def _wait_for_turn(self, stream: AgentStream) -> tuple[str, str] | None:
        """Wait until an agent may begin; return an error if it must not.

        Raises:
            Fenced: another process has the stream.
            LogError: the log does not answer.
        """
        principal, own = stream._writer.turns.principal, stream.stream_id
        request = stream._writer.request
        place = await self.enter(principal, request, own)
        if isinstance(request, UnreadTurn) and not request.payload.messages:
            request = await self._with_messages(principal, request, stream)
            if not request.payload.messages:
                return CANCELLED.code, "The agent has read all messages after all."
        while earlier := await self._unfinished(place, own):
            if self._policy == "reject":
                return CONVERSATION_BUSY.code, CONVERSATION_BUSY.message
            if self._policy == "interrupt":
                for meta in earlier:
                    await self._cancel(meta)
            await stream._steps.waits()
            await self._wait(earlier)
        await self._start(principal, request, stream)
        return None

    async def enter(
        self, principal: str, request: ServiceRequest, own: UUID, text: str = ""
    ) -> Conversation:
        """Add a stream to the list of its conversation, once, and return the list.

        `text` is the message that it answers, by default that of the request.

        A sender that gets a response may send the next message at once, to another process: so the
        stream enters before that, and not only when its agent begins.

        Raises:
            LogError: the log does not answer.
        """
        place = place_of(principal, thread_of(request))
        text = text or last_question(request)
        shown = text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"
        await self._log.add_turn(place, own, dump_mark(_STREAM, own.hex, text=shown))
        self._entered.set()
        self._entered = asyncio.Event()
        return place

    async def _start(self, principal: str, request: ServiceRequest, stream: AgentStream) -> None:
        """Record that the agent of a stream is started now.

        Raises:
            Fenced: another process has the stream.
        """
        stream_id, log = stream.stream_id, self._log
        if stream_id in self.unstarted and isinstance(log, TaskLog):
            # From here on another process would end it, so a drain does not leave it to one.
            replaces = self.unstarted.pop(stream_id)
            question = replaces or dump_question(principal, request)
            try:
                await log.tasks.start(stream_id, stream._writer._meta.epoch, question)
            except LogUnavailable:
                self.unstarted[stream_id] = replaces
                raise

    async def _with_messages(
        self, principal: str, request: UnreadTurn, stream: AgentStream
    ) -> UnreadTurn:
        """Wait for the end of the stream before, and return the request with its unread messages.

        They are stored with the request: that end may be dropped before the turn comes.

        Raises:
            Fenced: another process has the stream.
            LogError: the log does not answer.
        """
        log, own = self._log, stream._writer._meta
        messages: list[ChatMessage] = []
        with suppress(UnknownStream):
            while (meta := await log.meta(request.unread_of)).outcome is None:
                await stream._steps.waits()
                await self._wait([meta])
            before = meta.last_seq - 1
            with closing(log.follow(meta.stream_id, before, meta.epoch_of(before))) as follower:
                entries = (await follower.next(1, 0)).entries
            named = [id_ for end in logged_packets(meta.last_seq, entries) for id_ in _unread(end)]
            found = await InboxStore(log, meta).messages()
            messages = [ChatMessage.user(one.text) for one in found if one.id in named]
        payload = request.payload.model_copy(update={"messages": messages})
        request = request.model_copy(update={"payload": payload})
        if messages and log.outlives_process and isinstance(log, TaskLog):
            waits = own.agent is None
            question = dump_request(principal, request, {}, waits=waits)
            await log.tasks.start(own.stream_id, own.epoch, question)
        stream._request = stream._writer.request = stream._writer.turns.request = request
        return request

    async def busy(self, principal: str, request: ServiceRequest) -> list[UUID]:
        """Return the streams of the conversation of a request that have not ended.

        Raises:
            LogError: the log does not answer.
        """
        unfinished = await self._unfinished(place_of(principal, thread_of(request)), None)
        return [meta.stream_id for meta in unfinished]

    async def ends(self, place: Conversation) -> tuple[UUID | None, UUID | None]:
        """Return the oldest stream of a conversation that has not ended, and the newest of all."""
        listed, unfinished = await self._listed(place, 1), await self._unfinished(place, None)
        return unfinished[-1].stream_id if unfinished else None, listed[-1] if listed else None

    async def next(self, place: Conversation, after: UUID | None) -> UUID | None:
        """Return the stream that follows one, or the first of all; None if there is none yet.

        Raises:
            PositionGone: the conversation does not have the stream, or no longer.
        """
        for limit in (_ALL,) if after is None else (_FEW, _ALL):
            listed = await self._listed(place, limit)
            if after is None or after in listed:
                follow = 0 if after is None else listed.index(after) + 1
                return listed[follow] if follow < len(listed) else None
        assert after is not None  # noqa: S101 - that has returned
        raise PositionGone(after, 0)

    async def message(self, place: Conversation, stream_id: UUID) -> str:
        """Return the message that a stream answers, empty if it is not known."""
        for limit in (_FEW, _ALL):
            for mark in map(marks_in, await self._log.turns(place, limit)):
                if mark[_STREAM] == stream_id.hex:
                    return str(mark.get("text", ""))
        return ""

    async def entered(self, seconds: float) -> None:
        """Wait until a stream begins in this process, or for a part of some time."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._entered.wait(), min(seconds, _POLL_SECONDS))

    async def _listed(self, place: Conversation, limit: int) -> list[UUID]:
        """Return the latest streams of a conversation, the oldest first."""
        return [UUID(marks_in(one)[_STREAM]) for one in await self._log.turns(place, limit)]

    async def _unfinished(self, place: Conversation, own: UUID | None) -> list[StreamMeta]:
        """Return the streams before one, or all, that have not ended."""
        found: list[StreamMeta] = []
        for limit in (_FEW, _ALL):
            found, listed = [], await self._listed(place, limit)
            for stream_id in _before(listed, own):
                try:
                    meta = await self._log.meta(stream_id)
                except UnknownStream:
                    continue
                if meta.outcome is None:
                    found.append(meta)
                elif meta.last_seq > 1:
                    return found
            if len(listed) < limit:
                break  # that was the whole list
        return found

    async def _wait(self, metas: Sequence[StreamMeta]) -> None:
        """Wait for the end of one of the streams in this process, or for some time."""
        here = {one.task for meta in metas if (one := self._find(meta.stream_id)) is not None}
        if here:
            wait = asyncio.FIRST_COMPLETED
            await asyncio.wait(here, timeout=_POLL_SECONDS, return_when=wait)
        else:
            await asyncio.sleep(_POLL_SECONDS)


class UnreadTurns:
    """Opens the turns for messages that agents did not read, if messages wait in an `order`.

    `start` starts the agent of a stream.
    """

    def __init__(
        self, log: StreamLog, owner: str, order: Order | None, start: Callable[..., object]
    ) -> None:
        self._log = log
        self._owner = owner
        self._order = order
        self._start = start

    def name_of(self, producer: Producer, unread: Sequence[str]) -> Awaitable[dict[str, Any]]:
        """Return what the last packet says of messages that an agent here did not read.

        If the agent asks the user, they have no turn: they are not the answer to that.
        """
        asks = producer._writer.turns.asked is not None
        return self.name(producer.request, producer.meta, unread, asks=asks)

    async def name(
        self,
        request: ServiceRequest,
        meta: StreamMeta,
        unread: Sequence[str],
        *,
        asks: bool = False,
    ) -> dict[str, Any]:
        """Return what the last packet says of messages that the agent of a stream did not read.

        A task of A2A, and a client that brings its history, have turns only when their client asks
        for them.

        Raises:
            LogError: the log does not answer.
        """
        if not unread:
            return {}
        named: dict[str, Any] = {"not_delivered": [*unread]}
        is_own = isinstance(request, RequestWithHistory) or "a2a" in request.payload.metadata
        if self._order is not None and not (asks or is_own):
            named["next_stream"] = str(await self._open(self._order, request, meta, unread))
        return named

    async def _open(
        self, order: Order, request: ServiceRequest, meta: StreamMeta, unread: Sequence[str]
    ) -> UUID:
        """Open the stream for the messages, once for each agent that did not read them."""
        asked, is_durable = unread_turn(request, meta.stream_id), meta.agent is not None
        question = b""
        if self._log.outlives_process:
            question = dump_request(meta.principal, asked, {}, waits=not is_durable)
        new = NewStream(
            *(asked.request_id, meta.principal, asked.request_id, meta.fingerprint),
            *(question, meta.agent),
        )
        found = await InboxStore(self._log, meta).messages()
        opened = await self._log.open(new, self._owner)
        text = "\n\n".join(one.text for one in found if one.id in unread)
        try:
            await order.enter(meta.principal, asked, asked.request_id, text)
        finally:  # its agent enters too
            if opened.created:
                if not is_durable:
                    order.add_unstarted(asked.request_id)
                self._start(asked, opened.meta, StoredHeaders({}), monotonic())
        return asked.request_id


def _unread(end: Logged) -> list[str]:
    """Return the ids of messages that the last packet of a stream names."""
    said = end.content.get("details") if end.op == StreamOpCode.ERROR else end.content
    found: list[str] = said.get("not_delivered", []) if isinstance(said, dict) else []
    return found


def place_of(principal: str, thread: str) -> Conversation:
    """Return the conversation that has the list of the streams of another one."""
    return Conversation(principal, f"order:{sha256(thread.encode()).hexdigest()}")


def _before(streams: Sequence[UUID], own: UUID | None) -> Sequence[UUID]:
    """Return streams, the newest first; only those before one, if it is given and among them."""
    end = streams.index(own) if own in streams else len(streams)
    return streams[:end][::-1]
