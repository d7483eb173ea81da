"""Responses in the store: their ids, and the turns that are stored with each."""

import re
from typing import Final
from uuid import UUID

from pydantic_core import to_json

from coreason_manifest.definitions.message import ChatMessage

from ..engine._conversation import StoredTurn, stored_turns, turn_of
from ..http._chats import stream_in
from ..log.base import MAX_TURNS, Conversation, StreamLog, StreamMeta

RESPONSE_PREFIX: Final = "resp_"
"""The prefix of the ids of responses, and of the conversations that have their turns."""
_ITEM = re.compile(r"(msg|rs|mcp)_([0-9a-f]{32})_[0-9]{1,9}", re.ASCII)
_DELETED: Final[StoredTurn] = [{"role": "assistant", "parts": [], "deleted": True}]
_LAST_EPOCH: Final = 2**53 - 1  # no producer has a later one, so no turn replaces a deletion


def response_id(stream_id: UUID) -> str:
    """Return the id of the response that is this stream; its conversation has the same name."""
    return f"{RESPONSE_PREFIX}{stream_id.hex}"


def stream_of(given: str) -> UUID | None:
    """Return the stream of a response, None if the id has another form."""
    return stream_in("resp", given)


def item_stream(given: str) -> tuple[str, UUID] | None:
    """Return the kind and the stream of an item, None if the id has another form."""
    found = _ITEM.fullmatch(given)
    return None if found is None else (found[1], UUID(found[2]))


async def load_turns(log: StreamLog, principal: str, stream_id: UUID) -> list[StoredTurn] | None:
    """Return the turns up to a response and its own; None if there are none, or it was deleted."""
    stored = await log.turns(Conversation(principal, response_id(stream_id)), MAX_TURNS)
    turns = [turn for one in stored for turn in stored_turns(one)]
    return None if not turns or turns == [_DELETED] else turns


async def is_deleted(log: StreamLog, principal: str, stream_id: UUID) -> bool:
    """Return True if a response was deleted."""
    stored = await log.turns(Conversation(principal, response_id(stream_id)), 1)
    return any(stored_turns(one) == [_DELETED] for one in stored)


async def delete_turns(log: StreamLog, meta: StreamMeta) -> None:
    """Delete the turns of a response, and remember that it was deleted."""
    conversation = Conversation(meta.principal, response_id(meta.stream_id))
    await log.add_turn(conversation, meta.stream_id, to_json(_DELETED), _LAST_EPOCH)


def answer_of(turn: StoredTurn) -> ChatMessage | None:
    """Return the answer of a turn, None if it has none."""
    messages = turn_of(turn).messages
    return messages[-1] if messages and messages[-1].role == "assistant" else None


def asked_of(turn: StoredTurn) -> list[ChatMessage]:
    """Return the messages of a turn without its answer."""
    messages = turn_of(turn).messages
    return [message for message in messages if message.role != "assistant"]
