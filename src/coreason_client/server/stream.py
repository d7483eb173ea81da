"""What an agent writes to."""

import asyncio
import logging
import mimetypes
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from coreason_manifest.definitions._base import utc_now
from coreason_manifest.definitions.presentation import (
    CitationBlock,
    CitationItem,
    ErrorSeverity,
    EventData,
    MediaCarousel,
    MediaItem,
    PresentationEvent,
    PresentationEventType,
    ProgressUpdate,
    StreamError,
    StreamOpCode,
)
from coreason_manifest.definitions.service import ServiceRequest

from ..errors import ArgumentError
from ._appender import Appender
from ._body_room import LARGE_BODY
from ._frames import Frames
from ._metrics import NOT_METERED, StreamMeter
from ._off_loop import off_loop
from ._turns import (
    COMPLETE,
    MOST_HISTORY_BYTES,
    History,
    Turn,
    conversation_of,
    dump_turn,
    is_large,
    last_question,
    latest_turns,
    make_turn,
    new_messages,
    parse_history,
)
from .errors import LogError, StreamEnded
from .log.base import StreamLog, StreamMeta

__all__ = ["AgentStream"]

logger = logging.getLogger("coreason_client.server")

_SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*", re.ASCII)


class AgentStream:
    """One answer in the making: what is written here is numbered, logged and then delivered.

    Every method that writes waits for the log alone, never for a reader. It is used from the
    event loop that the agent runs on.
    """

    def __init__(
        self,
        request: ServiceRequest,
        meta: StreamMeta,
        log: StreamLog,
        *,
        now: Callable[[], datetime] = utc_now,
        on_cancel: Callable[[], None] = lambda: None,
        meter: StreamMeter = NOT_METERED,
    ) -> None:
        self._request = request
        self._meta = meta
        self._log = log
        self._conversation = conversation_of(meta.principal, request)
        self._frames = Frames(meta.stream_id, now)
        self._appender = Appender(log, meta.stream_id, meta.epoch, on_cancel, meter)
        self._text: list[str] = []
        self._transient: StreamError | None = None
        self._ended = False
        self._closing: asyncio.Future[None] | None = None
        self._cancelled = False

    # What the agent may know.

    @property
    def request(self) -> ServiceRequest:
        """The request that this stream answers."""
        return self._request

    @property
    def question(self) -> str:
        """The text of the last user message of the request, an empty string if it has none."""
        return last_question(self._request)

    @property
    def stream_id(self) -> UUID:
        """The id of this generation."""
        return self._meta.stream_id

    @property
    def cancelled(self) -> bool:
        """Whether the stream is being cancelled; the agent's task is told by CancelledError."""
        return self._cancelled

    @property
    def ended(self) -> bool:
        """Whether the last packet has been written."""
        return self._ended

    async def history(self, limit: int = 50, *, max_bytes: int = MOST_HISTORY_BYTES) -> History:
        """Return the messages of the latest turns of this conversation, oldest first.

        A turn is what a request added to the conversation and the text that answered it. Turns
        that were cancelled or failed are kept with what was written; `history.turns` has the
        `outcome` of each. Only turns of the same key and agent are returned: at most `limit`, at
        most 1,000, and as many of the latest as have up to `max_bytes` bytes of JSON together. The
        last turn is returned whatever its size.
        """
        stored = latest_turns(await self._log.turns(self._conversation, limit), max_bytes)
        if sum(map(len, stored)) <= LARGE_BODY:
            return parse_history(stored)
        return await off_loop(lambda: parse_history(stored))

    # What the agent may write.

    async def write(self, text: str) -> None:
        """Write a piece of text, as a DELTA packet of its own.

        Raises:
            TypeError: it is not text.
            ValueError: it is not Unicode, or too long for one packet.
            StreamEnded: the stream has ended.
            LogError: the log did not take it.
        """
        self._check_open()
        appender = self._appender
        frame = self._frames.delta(appender.next_seq, text)
        self._text.append(text)
        await appender.add_delta(frame)

    async def write_packet(self, op: StreamOpCode | str, p: Any) -> None:
        """Write any packet. A FATAL error and a CLOSE end the stream.

        Raises:
            ValueError: the payload does not fit the op, or an error's code is not snake_case.
            StreamEnded: the stream has ended.
            LogError: the log did not take it.
        """
        op = StreamOpCode(op)
        if op is StreamOpCode.DELTA:
            await self.write(p)
            return
        self._check_open()
        frame, packet = self._frames.packet(self._appender.next_seq, op, p)
        if op is StreamOpCode.CLOSE:
            await self._close(frame)
        elif op is StreamOpCode.ERROR:
            await self._error(packet.p, frame)
        else:
            await self._appender.add(frame)

    async def thought(self, text: str) -> None:
        """Show what the agent is thinking."""
        await self._event(PresentationEventType.THOUGHT_TRACE, {"content": text})

    async def progress(
        self,
        label: str,
        percent: float | None = None,
        *,
        status: Literal["running", "complete", "failed"] = "running",
    ) -> None:
        """Show how far a step of the work has come."""
        data = ProgressUpdate(label=label, status=status, progress_percent=percent)
        await self._event(PresentationEventType.PROGRESS_INDICATOR, data)

    async def cite(
        self,
        *sources: str | CitationItem,
        title: str | None = None,
        snippet: str | None = None,
        confidence: float = 1.0,
    ) -> None:
        """Name sources: addresses, described by the other arguments, or whole citations."""
        citations = [
            CitationItem(
                source_id=source,
                uri=source,
                title=title or source,
                snippet=snippet,
                confidence=confidence,
            )
            if isinstance(source, str)
            else source
            for source in sources
        ]
        await self._event(PresentationEventType.CITATION_BLOCK, CitationBlock(citations=citations))

    async def media(
        self,
        *items: str | MediaItem,
        mime_type: str | None = None,
        alt_text: str | None = None,
    ) -> None:
        """Show media together: addresses, described by the other arguments, or whole items."""
        shown = [
            MediaItem(url=item, mime_type=mime_type or _mime_type(item), alt_text=alt_text)
            if isinstance(item, str)
            else item
            for item in items
        ]
        await self._event(PresentationEventType.MEDIA_CAROUSEL, MediaCarousel(items=shown))

    async def markdown(self, text: str) -> None:
        """Show a block of Markdown."""
        await self._event(PresentationEventType.MARKDOWN_BLOCK, {"content": text})

    async def warn(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        """Say that something minor failed; the stream goes on."""
        await self._write_error(ErrorSeverity.WARNING, code, message, details)

    async def fail(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        """End the stream in error; readers see the code, the message and the details."""
        await self._write_error(ErrorSeverity.FATAL, code, message, details)

    # What the server does with it.

    @property
    def packets(self) -> int:
        """How many packets are in the log."""
        return self._appender.acked

    @property
    def outcome(self) -> str | None:
        """How the stream ended; None while its last packet is not in the log."""
        return self._appender.outcome

    @property
    def broken(self) -> bool:
        """Whether the log has refused a packet, so that it takes no more of this stream."""
        try:
            self._appender.check_open()
        except StreamEnded:
            return False
        except Exception:  # noqa: BLE001 - whatever the log raised
            return True
        return False

    def mark_cancelled(self) -> None:
        """Let the agent see that it should stop."""
        self._cancelled = True

    def give_up(self, error: Exception) -> None:
        """Take no more packets: the stream belongs to somebody else now."""
        self._ended = True
        self._appender.give_up(error)

    async def complete(self) -> None:
        """End the stream after the agent returned; without effect if it has ended."""
        if self._ended:
            await self._settle()
        else:
            payload = {"reason": COMPLETE}
            frame, _ = self._frames.packet(self._appender.next_seq, StreamOpCode.CLOSE, payload)
            await self._close(frame)

    async def end_with(self, error: StreamError) -> None:
        """End the stream in error; without effect if it has ended."""
        if self._ended:
            await self._settle()
            return
        frame, _ = self._frames.packet(self._appender.next_seq, StreamOpCode.ERROR, error)
        await self._finish(frame, error.code)

    async def _event(self, kind: PresentationEventType, data: EventData) -> None:
        await self.write_packet(StreamOpCode.EVENT, PresentationEvent(type=kind, data=data))

    async def _write_error(
        self,
        severity: ErrorSeverity,
        code: str,
        message: str,
        details: Mapping[str, Any] | None,
    ) -> None:
        error = StreamError(
            code=code,
            message=message,
            severity=severity,
            details=None if details is None else dict(details),
        )
        await self.write_packet(StreamOpCode.ERROR, error)

    async def _error(self, error: StreamError, frame: bytes) -> None:
        if not _SNAKE_CASE.fullmatch(error.code):
            raise ArgumentError(
                "code", "must be in snake_case, such as rate_limit_exceeded", error.code
            )
        if error.severity is ErrorSeverity.FATAL:
            await self._finish(frame, error.code)
            return
        if error.severity is ErrorSeverity.TRANSIENT:
            self._transient = error
        await self._appender.add(frame, StreamOpCode.ERROR)

    async def _close(self, frame: bytes) -> None:
        if self._transient is not None:
            # The agent stopped at an error and did not finish its answer: a CLOSE would tell
            # readers that half an answer is a whole one.
            await self.end_with(
                self._transient.model_copy(update={"severity": ErrorSeverity.FATAL})
            )
            return
        await self._finish(frame, None)

    async def _finish(self, frame: bytes, error: str | None) -> None:
        """End the stream with its last frame; `error` is the code of a FATAL one."""
        self._ended = True
        # A task of its own: an agent that is cancelled meanwhile must not leave half an end.
        self._closing = asyncio.ensure_future(self._keep_turn_and_end(frame, error))
        await asyncio.shield(self._closing)

    async def _settle(self) -> None:
        """Wait until the end that was written is in the log."""
        if self._closing is not None:
            await asyncio.shield(self._closing)
        await self._appender.flush()

    def _check_open(self) -> None:
        self._appender.check_open()
        if self._ended:
            raise StreamEnded(self.stream_id)

    async def _keep_turn_and_end(self, frame: bytes, error: str | None) -> None:
        # The turn first: a reader that sees the end may ask the next question at once. The two
        # are not one step, since a conversation and a stream may live on two machines.
        self._appender.check_open()
        turn = make_turn(new_messages(self._request), "".join(self._text), error)
        try:
            stored = await _dump(turn)
            await self._log.add_turn(self._conversation, self.stream_id, stored)
        except LogError as failure:
            if error is None:
                raise
            # Readers must learn of the error, whatever becomes of the conversation.
            logger.warning("the turn of stream %s was not kept: %s", self.stream_id, failure)
        op = StreamOpCode.CLOSE if error is None else StreamOpCode.ERROR
        await self._appender.finish(frame, COMPLETE if error is None else error, op)


async def _dump(turn: Turn) -> bytes:
    if is_large(turn.messages):
        return await off_loop(lambda: dump_turn(turn))
    return dump_turn(turn)


def _mime_type(url: str) -> str:
    return mimetypes.guess_type(url)[0] or "application/octet-stream"
