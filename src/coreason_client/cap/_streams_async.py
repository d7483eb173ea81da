"""The async streams that the async client returns: packets and text."""

from collections.abc import AsyncGenerator, AsyncIterator, Generator
from typing import Self

from coreason_manifest.definitions.presentation import Packet
from coreason_manifest.definitions.service import ServiceRequest

from .._closing_async import AsyncClosing
from .._drive_async import AsyncOpener, drive_async
from ._chat_record import ChatRecord
from ._progress import ChatProgress, PacketProgress
from ._resume import ResumeMachine

__all__ = ["AsyncChatStream", "AsyncPacketStream"]


class AsyncPacketStream(PacketProgress, AsyncClosing):
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


class AsyncChatStream(ChatProgress, AsyncClosing):
    """An async iterator of the pieces of the answer's text; it reconnects by itself.

    Iterating raises `CAPConnectionError`, `CAPProtocolError`, `CAPRuntimeError` or
    `CAPTimeoutError`; also when the stream was closed before its end.
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
    def _from_packets(cls, packets: AsyncPacketStream, conversation_id: str) -> Self:
        """Return a chat stream that reads a stream of packets."""
        record = ChatRecord()
        return cls(_texts(packets, record), conversation_id, packets=packets, record=record)

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        try:
            return self._record.add_text(await anext(self._generator))
        except StopAsyncIteration:
            self._check_complete()
            raise

    # async only: begin
    def __await__(self) -> Generator[None, None, Self]:
        """Return the stream itself.

        So `await client.chat(...)` and `async for text in client.chat(...)` both work.
        """
        return self
        yield  # makes this a generator, which `await` requires

    # async only: end
    async def aclose(self) -> None:
        """Stop reading and release the connection; may be called twice."""
        if isinstance(self._generator, AsyncGenerator):
            await self._generator.aclose()
        if isinstance(self._packets, AsyncPacketStream):
            await self._packets.aclose()


async def _texts(packets: AsyncPacketStream, record: ChatRecord) -> AsyncGenerator[str]:
    async for packet in packets:
        text = record.text_of(packet)
        if text is not None:
            yield text
