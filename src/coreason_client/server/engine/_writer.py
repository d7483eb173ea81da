"""The writer of one stream: it numbers packets, appends them to the log and ends the stream.

An agent gets an `AgentStream`, which only writes. The producer holds the writer itself.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from coreason_manifest.definitions._base import utc_now
from coreason_manifest.definitions.presentation import (
    ErrorSeverity,
    StreamError,
    StreamOpCode,
    StreamPacket,
)
from coreason_manifest.definitions.service import ServiceRequest

from ...errors import ArgumentError
from .._off_loop import off_loop
from ..errors import Fenced, LogError
from ..log.base import StreamLog, StreamMeta
from ..observe._metrics import NOT_METERED, StreamMeter
from ._appender import Appender
from ._conversation import (
    COMPLETE,
    StoredTurn,
    Turn,
    conversation_of,
    dump_turn,
    given_turns,
    is_large,
    make_turn,
    question_of,
)
from ._frames import Frames

__all__ = ["StreamWriter"]

logger = logging.getLogger("coreason_client.server")

_SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*", re.ASCII)


class StreamWriter:
    """Writes the packets of one stream and its end.

    `ending` is the state of its end. `cancelled` is set when the agent should stop.
    """

    __slots__ = (
        "_appender",
        "_closing",
        "_conversation",
        "_frames",
        "_log",
        "_meta",
        "_text",
        "agent",
        "cancelled",
        "ending",
        "request",
        "transient_error",
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
        self._meta = meta
        self._log = log
        self._conversation = conversation_of(meta.principal, request)
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

    async def turns(self, limit: int) -> Sequence[bytes]:
        """Return the latest stored turns of the conversation."""
        given = given_turns(self.request, limit)
        return await self._log.turns(self._conversation, limit) if given is None else given

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
            payload = {"reason": COMPLETE}
            seq = self._appender.last_seq + 1
            frame, _ = self._frames.packet(seq, StreamOpCode.CLOSE, payload)
            await self._close(frame)

    async def end_with(self, error: StreamError) -> None:
        """End the stream in error; if it has ended, wait for that end."""
        if self.ending.ended:
            await self._wait_for_end()
            return
        frame, _ = self._frames.packet(self._appender.last_seq + 1, StreamOpCode.ERROR, error)
        await self._finish(frame, error.code)

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
            asked = question_of(self._meta.principal, self.request)
            if asked.conversation is not None:
                turn = make_turn(asked.messages, self._answer(), error)
                stored = await _dump(turn, asked.earlier)
                epoch = self._meta.epoch
                await self._log.add_turn(asked.conversation, self.stream_id, stored, epoch)
        except LogError as failure:
            if error is None:
                raise
            # Readers must get the error even if the turn cannot be stored.
            logger.warning("the turn of stream %s was not stored: %s", self.stream_id, failure)
        op = StreamOpCode.CLOSE if error is None else StreamOpCode.ERROR
        await self._appender.finish(frame, COMPLETE if error is None else error, op)


def _check_code(error: StreamError) -> None:
    """Check the code of an error that an agent writes.

    Raises:
        ArgumentError: it is not in snake_case.
    """
    if not _SNAKE_CASE.fullmatch(error.code):
        rule = "must be in snake_case, such as rate_limit_exceeded"
        raise ArgumentError("code", rule, error.code)


async def _dump(turn: Turn, earlier: Sequence[StoredTurn]) -> bytes:
    if earlier or is_large(turn.messages):
        return await off_loop(lambda: dump_turn(turn, earlier))
    return dump_turn(turn)
