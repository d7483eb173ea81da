"""The streams that the clients return: packets and text, sync and async."""

from ._streams_async import AsyncChatStream, AsyncPacketStream
from ._streams_sync import ChatStream, PacketStream

__all__ = ["AsyncChatStream", "AsyncPacketStream", "ChatStream", "PacketStream"]
