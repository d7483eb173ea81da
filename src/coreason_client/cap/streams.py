"""The streams that the clients return: packets, text and conversations, sync and async."""

from ._streams_async import AsyncChatStream, AsyncConversationStream, AsyncPacketStream
from ._streams_sync import ChatStream, ConversationStream, PacketStream

__all__ = [
    "AsyncChatStream",
    "AsyncConversationStream",
    "AsyncPacketStream",
    "ChatStream",
    "ConversationStream",
    "PacketStream",
]
