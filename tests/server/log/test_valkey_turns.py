"""The turns of a conversation in the store: their bounds, and those of an earlier release."""

from uuid import uuid4

import pytest

from coreason_client.server.log import Conversation, ValkeyStreamLog
from coreason_client.server.log.base import MAX_TURN_BYTES, MAX_TURNS
from coreason_client.server.log.valkey._log import _conversation_digest

from ..aio import aio
from .valkey_server import fresh_prefix, shared_server

TALK = Conversation("ann", "s")


@pytest.mark.parametrize("counted", [True, False], ids=["this release", "an earlier release"])
@aio
async def test_the_store_holds_no_more_bytes_than_are_kept(counted: bool) -> None:
    log = ValkeyStreamLog(shared_server().url, prefix=fresh_prefix())
    await log.start("me")
    turns, order = (key(_conversation_digest(TALK)) for key in (log._keys.turns, log._keys.order))
    store = log._session().store
    quarter = bytes(MAX_TURN_BYTES // 4)
    for _ in range(4):
        await log.add_turn(TALK, uuid4(), quarter)
    if not counted:
        await store.command("HDEL", turns, "bytes")
    for size in (MAX_TURN_BYTES // 2, MAX_TURN_BYTES // 4, 2 * MAX_TURN_BYTES, 10):
        await log.add_turn(TALK, uuid4(), bytes(size))
        kept = await log.turns(TALK, 100)
        assert len(kept[-1]) == size
        assert len(kept) == 1 or sum(map(len, kept)) <= MAX_TURN_BYTES
        assert await store.command("LLEN", order) == len(kept)
        assert await store.command("HLEN", turns) == len(kept) + 2
        assert int(await store.command("HGET", turns, "bytes")) == sum(map(len, kept))
    await log.stop("me")


@aio
async def test_more_turns_of_an_earlier_release_are_not_returned_at_once() -> None:
    """It bounded the number of turns and not their bytes."""
    log = ValkeyStreamLog(shared_server().url, prefix=fresh_prefix())
    await log.start("me")
    turns, order = (key(_conversation_digest(TALK)) for key in (log._keys.turns, log._keys.order))
    store = log._session().store
    for number in range(4):
        await store.command("HSET", turns, str(number), bytes([number]) * (MAX_TURN_BYTES // 2))
        await store.command("RPUSH", order, str(number))
    assert [turn[0] for turn in await log.turns(TALK, MAX_TURNS)] == [2, 3]
    assert [turn[0] for turn in await log.turns(TALK, 1)] == [3]
    await log.stop("me")
