"""The streams that the clients return: packets and text, sync and async."""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping
from uuid import UUID

from coreason_manifest.definitions.presentation import Packet, PresentationEvent
from coreason_manifest.definitions.service import ServiceRequest

from .._closing_async import AsyncClosing
from .._closing_sync import Closing
from .._drive_async import AsyncOpener, drive_async
from .._drive_sync import SyncOpener, drive
from ._record import ChatRecord
from ._resume import ResumeMachine
from .answer import Answer
from .bookmark import Bookmark
from .errors import CAPConnectionError
from .position import Position

__all__ = ["AsyncChatStream", "AsyncPacketStream", "ChatStream", "PacketStream"]


class _Progress:
    """How far a stream was read, and over how many connections."""

    def __init__(self, machine: ResumeMachine, request: ServiceRequest) -> None:
        self._machine = machine
        self._request = request
        self._closed = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} for request {self._request.request_id}: {self._state()}>"

    def _state(self) -> str:
        """Return in words whether the request was sent and how far the answer was read."""
        if not (self._machine.started or self._closed):
            return "not sent yet, iterate to send it"
        state = "complete" if self.complete else "closed" if self._closed else "not complete"
        return f"{state}, read up to {self.position or 'no packet'}"

    def _check_complete(self) -> None:
        """Refuse to read on as if the stream had ended, when it was closed or has failed."""
        if not self._machine.complete:
            raise self._machine.ended_early(
                "the stream was closed before its end"
                if self._closed
                else "the stream has failed before its end"
            )

    @property
    def complete(self) -> bool:
        """Whether the answer was read to its end."""
        return self._machine.complete

    def bookmark(self) -> Bookmark:
        """Return the request and the position, for `resume` in this process or another."""
        machine = self._machine
        return Bookmark(request=self._request, position=machine.position, complete=machine.complete)

    @property
    def request(self) -> ServiceRequest:
        """The request that this stream answers."""
        return self._request

    @property
    def position(self) -> Position | None:
        """How far the stream was read; None before the first packet. `bookmark()` has it too."""
        return self._machine.position

    @property
    def stream_id(self) -> UUID | None:
        """The id of the stream, for `cancel`; None before the first packet."""
        position = self._machine.position
        return None if position is None else position.stream_id

    @property
    def reconnects(self) -> int:
        """The number of connections after the first."""
        return self._machine.reconnects

    @property
    def response_headers(self) -> Mapping[str, str]:
        """The headers of the last response; empty before there was one."""
        head = self._machine.response_head
        return {} if head is None else head.headers


class PacketStream(_Progress, Closing):
    """An iterator of packets that reconnects by itself; CLOSE comes last.

    Iterating raises `CAPConnectionError`, `CAPProtocolError`, `CAPRuntimeError` or
    `CAPTimeoutError`; also when the stream was closed before its end.
    """

    def __init__(self, machine: ResumeMachine, request: ServiceRequest, sender: SyncOpener) -> None:
        super().__init__(machine, request)
        self._packets = drive(machine, sender)

    def __iter__(self) -> Iterator[Packet]:
        return self

    def __next__(self) -> Packet:
        try:
            return next(self._packets)
        except StopIteration:
            self._check_complete()
            raise

    def close(self) -> None:
        """Stop reading and release the connection; may be called twice."""
        self._closed = True
        self._packets.close()


class AsyncPacketStream(_Progress, AsyncClosing):
    """An async iterator of packets that reconnects by itself; CLOSE comes last.

    Iterating raises `CAPConnectionError`, `CAPProtocolError`, `CAPRuntimeError` or
    `CAPTimeoutError`; also when the stream was closed before its end.
    """

    def __init__(
        self, machine: ResumeMachine, request: ServiceRequest, sender: AsyncOpener
    ) -> None:
        super().__init__(machine, request)
        self._packets = drive_async(machine, sender)

    def __aiter__(self) -> AsyncIterator[Packet]:
        return self

    async def __anext__(self) -> Packet:
        try:
            return await anext(self._packets)
        except StopAsyncIteration:
            self._check_complete()
            raise

    async def aclose(self) -> None:
        """Stop reading and release the connection; may be called twice."""
        self._closed = True
        await self._packets.aclose()


class _Chat:
    """What both chat streams offer beside the text."""

    _packets: _Progress | None
    _record: ChatRecord
    conversation_id: str

    def __repr__(self) -> str:
        state = "made by hand" if self._packets is None else self._packets._state()
        return f"<{type(self).__name__} of conversation {self.conversation_id}: {state}>"

    def _check_complete(self) -> None:
        if self._packets is None:
            self._record.exhausted = True
        else:
            self._packets._check_complete()

    def _answer(self) -> Answer:
        return Answer(self.text, conversation_id=self.conversation_id, events=self.events)

    @property
    def complete(self) -> bool:
        """Whether the answer was read to its end."""
        return self._record.exhausted if self._packets is None else self._packets.complete

    def bookmark(self) -> Bookmark:
        """Return the request and the position, for `resume_chat` in this process or another.

        Raises:
            CAPConnectionError: the stream was made by hand, so there is no request.
        """
        if self._packets is None:
            raise CAPConnectionError("a stream that was made by hand has no bookmark")
        return self._packets.bookmark()

    @property
    def text(self) -> str:
        """The text so far."""
        return self._record.text

    @property
    def events(self) -> list[PresentationEvent | dict[str, object]]:
        """The events so far: citations, progress, media and the like."""
        return list(self._record.events)

    @property
    def request(self) -> ServiceRequest | None:
        """The request that this stream answers; None if the stream was made by hand."""
        return None if self._packets is None else self._packets.request

    @property
    def position(self) -> Position | None:
        """How far the stream was read; None before the first packet. `bookmark()` has it too."""
        return None if self._packets is None else self._packets.position

    @property
    def stream_id(self) -> UUID | None:
        """The id of the stream, for `cancel`; None before the first packet."""
        return None if self._packets is None else self._packets.stream_id

    @property
    def reconnects(self) -> int:
        """The number of connections after the first."""
        return 0 if self._packets is None else self._packets.reconnects

    @property
    def response_headers(self) -> Mapping[str, str]:
        """The headers of the last response; empty before there was one."""
        return {} if self._packets is None else self._packets.response_headers


class ChatStream(_Chat, Closing):
    """Iterate for the pieces of the answer's text.

    Iterating raises `CAPConnectionError`, `CAPProtocolError`, `CAPRuntimeError` or
    `CAPTimeoutError`; also when the stream was closed before its end.
    """

    def __init__(
        self,
        generator: Iterator[str],
        conversation_id: str,
        *,
        packets: PacketStream | None = None,
        record: ChatRecord | None = None,
    ) -> None:
        self._generator = generator
        self.conversation_id = conversation_id
        self._packets = packets
        self._record = record or ChatRecord()

    @classmethod
    def _of(cls, packets: PacketStream, conversation_id: str) -> "ChatStream":
        """Make a chat of a stream of packets."""
        record = ChatRecord()
        return cls(_texts(packets, record), conversation_id, packets=packets, record=record)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        try:
            return self._record.add_text(next(self._generator))
        except StopIteration:
            self._check_complete()
            raise

    def close(self) -> None:
        """Stop reading and release the connection; may be called twice."""
        if isinstance(self._generator, Generator):
            self._generator.close()
        if isinstance(self._packets, PacketStream):
            self._packets.close()


class AsyncChatStream(_Chat, AsyncClosing):
    """Iterate with `async for` for the pieces of the answer's text.

    It can also be awaited, which gives the stream itself: `await client.chat(...)` and
    `async for text in client.chat(...)` both work. Iterating raises `CAPConnectionError`,
    `CAPProtocolError`, `CAPRuntimeError` or `CAPTimeoutError`; also when the stream was closed
    before its end.
    """

    def __init__(
        self,
        generator: AsyncIterator[str],
        conversation_id: str,
        *,
        packets: AsyncPacketStream | None = None,
        record: ChatRecord | None = None,
    ) -> None:
        self._generator = generator
        self.conversation_id = conversation_id
        self._packets = packets
        self._record = record or ChatRecord()

    @classmethod
    def _of(cls, packets: AsyncPacketStream, conversation_id: str) -> "AsyncChatStream":
        """Make a chat of a stream of packets."""
        record = ChatRecord()
        return cls(_texts_async(packets, record), conversation_id, packets=packets, record=record)

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        try:
            return self._record.add_text(await anext(self._generator))
        except StopAsyncIteration:
            self._check_complete()
            raise

    def __await__(self) -> Generator[None, None, "AsyncChatStream"]:
        return self
        yield  # makes this a generator, which is what `await` asks for

    async def aclose(self) -> None:
        """Stop reading and release the connection; may be called twice."""
        if isinstance(self._generator, AsyncGenerator):
            await self._generator.aclose()
        if isinstance(self._packets, AsyncPacketStream):
            await self._packets.aclose()


def _texts(packets: PacketStream, record: ChatRecord) -> Generator[str]:
    for packet in packets:
        text = record.text_of(packet)
        if text is not None:
            yield text


async def _texts_async(packets: AsyncPacketStream, record: ChatRecord) -> AsyncGenerator[str]:
    async for packet in packets:
        text = record.text_of(packet)
        if text is not None:
            yield text
