"""The async streams that the async client returns: packets and text."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from typing import Any, Generic, Self, TypeVar

from coreason_manifest.definitions.presentation import Packet
from coreason_manifest.definitions.service import ServiceRequest

from .._drive import OtherLoopError, Reading
from .._drive_async import AsyncClosing, AsyncOpener, close_items_async, drive_async
from ._resume import ResumeMachine
from .answer import (
    ChatProgress,
    ChatRecord,
    PacketProgress,
    Rewound,
    accepts_rewinds,
    failed_packet,
)
from .errors import CAPRuntimeError
from .position import Position

Piece = TypeVar("Piece", bound="str | Rewound")


class AsyncPacketStream(PacketProgress, AsyncClosing):
    """An async iterator of packets that reconnects by itself; CLOSE comes last.

    Iterating raises `CAPConnectionError`, `CAPProtocolError`, `CAPRuntimeError` or
    `CAPTimeoutError`; also when the stream was closed before its end.
    """

    def __init__(
        self, machine: ResumeMachine, request: ServiceRequest | None, sender: AsyncOpener
    ) -> None:
        super().__init__(machine, request)
        self._packets = drive_async(machine, sender, reading=self._reading)

    def __aiter__(self) -> AsyncIterator[Packet]:
        return self

    async def __anext__(self) -> Packet:
        try:
            packet = await anext(self._packets)
            # async only: begin
            if packet is None:  # this is another event loop
                raise StopAsyncIteration
            # async only: end
        except StopAsyncIteration:
            self._check_complete()
            raise
        return packet

    async def aclose(self) -> None:
        """Stop reading and release the connection; may be called twice.

        While another thread or task is reading, its read ends with the next bytes.
        """
        await close_items_async(self._packets, self._reading)


class AsyncConversationStream(AsyncClosing):
    """An async iterator of the packets of a conversation, one answer after the other, without end.

    It waits for answers that have not begun, and reconnects by itself. The last packet of an answer
    is CLOSE, or the ERROR with which it failed; the next one has another `stream_id`.

    Iterating raises `CAPConnectionError`, `CAPProtocolError` or `CAPRuntimeError`.
    """

    def __init__(
        self,
        follow: Callable[[Position | None], ResumeMachine],
        after: Position | None,
        sender: AsyncOpener,
    ) -> None:
        self._follow = follow
        self._sender = sender
        self._before = after
        self._closed = False
        self._answer = AsyncPacketStream(follow(after), None, sender)

    @property
    def position(self) -> Position | None:
        """The position after the last packet, for `follow_conversation`; None before the first."""
        return self._answer.position or self._before

    def __aiter__(self) -> AsyncIterator[Packet]:
        return self

    async def __anext__(self) -> Packet:
        while True:
            if self._closed:  # perhaps between two answers
                raise self._answer._machine.ended_early("the conversation was closed")
            try:
                return await anext(self._answer)
            except StopAsyncIteration:
                failed = None
            except CAPRuntimeError as error:
                failed = failed_packet(self._answer.position, error)
            self._before = self.position
            self._answer = AsyncPacketStream(self._follow(self._before), None, self._sender)
            if failed is not None:
                return failed

    async def aclose(self) -> None:
        """Stop following and release the connection; may be called twice.

        While another thread or task is reading, its read ends with the next bytes.
        """
        self._closed = True
        await self._answer.aclose()


class AsyncChatStream(ChatProgress, AsyncClosing, Generic[Piece]):
    """An async iterator of the pieces of the answer's text; it reconnects by itself.

    With `rewinds=True` it also yields `Rewound` where text became void. `text` has only valid text.

    Iterating raises `CAPConnectionError`, `CAPProtocolError`, `CAPRuntimeError` or
    `CAPTimeoutError`; also when the stream was closed before its end.
    """

    def __init__(
        self,
        generator: AsyncIterator[Piece],
        conversation_id: str,
        *,
        source: "_Source | None" = None,
    ) -> None:
        self._generator = generator
        self.conversation_id = conversation_id
        self._source = source
        self._record = ChatRecord() if source is None else source.record

    @classmethod
    def _from_packets(
        cls,
        packets: AsyncPacketStream,
        conversation_id: str,
        read_again: Callable[[Position], AsyncPacketStream],
    ) -> Self:
        """Return a chat stream that reads a stream of packets.

        `read_again` reads the stream again from a position.
        """
        source = _Source(packets, read_again)
        return cls(_pieces(source), conversation_id, source=source)

    @property
    def _packets(self) -> AsyncPacketStream | None:  # type: ignore[override]
        return None if self._source is None else self._source.packets

    def __aiter__(self) -> AsyncIterator[Piece]:
        return self

    async def __anext__(self) -> Piece:
        try:
            piece = await anext(self._generator)
        except StopAsyncIteration:
            self._check_complete()
            raise
        # async only: begin
        except OtherLoopError:  # has ended the generator of the pieces, but not that of the packets
            if self._source is not None:
                self._generator = _pieces(self._source)
            raise
        # async only: end
        self._record.add(piece)
        return piece

    # async only: begin
    def __await__(self) -> Generator[None, None, Self]:
        """Return the stream itself.

        So `await client.chat(...)` and `async for text in client.chat(...)` both work.
        """
        return self
        yield  # makes this a generator, which `await` requires

    # async only: end
    async def aclose(self) -> None:
        """Stop reading and release the connection; may be called twice.

        While another thread or task is reading, its read ends with the next bytes.
        """
        if self._source is not None:
            await self._source.packets.aclose()
        if isinstance(self._generator, AsyncGenerator):
            await close_items_async(self._generator, Reading())


class _Source:
    """The packets that a chat stream reads, and what it has received of them.

    It is apart from the stream: the generator refers to it, and must not keep its stream alive.
    """

    def __init__(
        self, packets: AsyncPacketStream, read_again: Callable[[Position], AsyncPacketStream]
    ) -> None:
        start = packets.position
        packets._machine.text_only = not accepts_rewinds(packets.request)
        self.packets = packets
        self.read_again = read_again
        self.record = ChatRecord(0 if start is None else start.seq)


async def _pieces(source: _Source) -> AsyncGenerator[Any]:
    """Yield the text, and a `Rewound` where text became void."""
    again: Position | None = None
    while True:
        async for packet in source.packets:
            piece = source.record.piece_of(packet)
            if piece is not None:
                yield piece
            if isinstance(piece, Rewound) and source.record.reads_again:
                stream_id = packet.stream_id
                again = Position(stream_id=stream_id, seq=0, cursor=str(stream_id))
                break
        if again is None:
            return
        await source.packets.aclose()
        source.packets, again = source.read_again(again), None
