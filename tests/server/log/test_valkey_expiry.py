"""Claims and expiry: each reply of the store, and several processes at once."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from coreason_client.server.errors import (
    Fenced,
    LogUnavailable,
)
from coreason_client.server.log import Claim, Conversation, LeaseState
from coreason_client.server.log.base import UNCLAIMED_SECONDS
from coreason_client.server.log.valkey import _scripts as scripts
from coreason_client.server.log.valkey._keys import KeyNames
from coreason_client.server.log.valkey._leases import Claims, drop_old

from ..aio import aio
from .backends import Clock
from .scripted_session import ScriptedSession
from .valkey_logs import everything, keys_of, logs, new
from .valkey_server import fresh_prefix


@pytest.mark.proves("RES2-10c", "RES2-10d")
@aio
async def test_exactly_one_replica_claims_and_the_old_producer_is_fenced() -> None:
    clock = Clock()
    async with logs(4, clock=clock) as (producer, *heirs):
        streams = [new() for _ in range(30)]
        for stream in streams:
            await producer.open(stream, "me")
            await producer.append(stream.stream_id, 1, 1, [b"x"])
        clock.forward(producer.lease)
        found = await asyncio.gather(*(heir.claim_lost("h", 100) for heir in heirs))
        claims = [claim for part in found for claim in part]
        assert sorted(claim.stream_id for claim in claims) == sorted(s.stream_id for s in streams)
        assert {claim.last_seq for claim in claims} == {1}
        metas = {claim.stream_id: await heirs[0].meta(claim.stream_id) for claim in claims}
        assert all(claim.epoch == metas[claim.stream_id].epoch > 1 for claim in claims)
        id_ = streams[0].stream_id
        with pytest.raises(Fenced):
            await producer.append(id_, 1, 2, [b"late"])
        with pytest.raises(Fenced):
            await producer.close(id_, 1, 2, [b"late"], "complete")
        assert await producer.renew({id_: 1}) == {id_: LeaseState.LOST}
        assert await everything(producer, id_) == [b"x"]


@aio
async def test_a_repeated_claim_gets_the_same_reply() -> None:
    clock = Clock()
    async with logs(2, clock=clock) as (one, two):
        stream = new()
        await one.open(stream, "me")
        clock.forward(one.lease)
        this, another = (Claims(log._session(), log._keys, log.lease) for log in (one, two))
        expected = await this.claim(stream.stream_id)
        epoch = (await one.meta(stream.stream_id)).epoch
        assert expected == Claim(stream.stream_id, epoch, 0)
        assert await this.claim(stream.stream_id) == expected
        assert await another.claim(stream.stream_id) is None


@aio
async def test_an_end_without_its_index_is_found_by_a_claim() -> None:
    clock = Clock()
    async with logs(prefix=(prefix := fresh_prefix()), clock=clock) as (log,):
        stream = new()
        await log.open(stream, "me")
        # The process dies between the script and the indexes.
        keys, id_ = log._keys, stream.stream_id
        await log._session().store.script(
            scripts.APPEND,
            [keys.meta(id_), keys.entries(id_), keys.question(id_), keys.journal(id_)],
            *(1, 1, b"%f complete" % clock(), b"", b"x"),
        )
        log._session().disown(id_)
        await log.expire(0, 0)
        assert await everything(log, stream.stream_id) == [b"x"]
        clock.forward(log.lease)
        assert list(await log.claim_lost("me", 10)) == []
        await log.expire(0, 0)
        assert keys_of(prefix) == []


@aio
async def test_nothing_is_left_behind() -> None:
    clock = Clock()
    async with logs(2, prefix=(prefix := fresh_prefix()), clock=clock) as (one, two):
        for number in range(10):
            stream = new()
            await one.open(stream, "me")
            await two.add_turn(Conversation("ann", f"{number % 3}"), stream.stream_id, b"t")
            await one.append(stream.stream_id, 1, 1, [b"x"])
            if number % 2:
                await one.close(stream.stream_id, 1, 2, [b"y"], "complete")
        clock.forward(100)
        for claim in await two.claim_lost("heir", 100):
            await two.close(claim.stream_id, claim.epoch, claim.last_seq + 1, [b"z"], "lost")
        assert keys_of(prefix)
        clock.forward(1000)
        await asyncio.gather(one.expire(10, 500), two.expire(10, 500))
        assert keys_of(prefix) == []


# Each reply of the store.

KEYS = KeyNames("p")
ID = UUID("00112233445566778899aabbccddee01")
REQUEST = "ab" * 20
MEMBER = (ID.hex + REQUEST).encode()
TALK = "cd" * 20


@pytest.mark.parametrize(
    ("reply", "found", "change"),
    [
        ([b"gone"], None, ("remove_lease", ID, "")),
        ([b"ended", b"97.5", b"abcd"], None, ("move_to_ended", ID, "abcd", 97.5, "")),
        ([b"held", b"103.5"], None, ("extend_leases", {ID: ""}, 103.5)),
        (
            [b"won", b"2", b"7", b"110.0", b"question"],
            Claim(ID, 2, 7, b"question"),
            ("extend_leases", {ID: ""}, 110.0),
        ),
    ],
)
@aio
async def test_a_claim_corrects_the_index(
    reply: list[bytes], found: Claim | None, change: tuple[object, ...]
) -> None:
    scripted = ScriptedSession(reply, None)
    claims = Claims(scripted.session, KEYS, 10.0)
    assert await claims.claim(ID) == found
    shown = [("show", ID), ("HGET",)] if reply[0] == b"ended" else []
    assert scripted.calls == [("CLAIM",), *shown, change]
    arguments = scripted.arguments[0]
    number = arguments[5]
    assert isinstance(number, int)
    assert number > 2**32
    waits = b"", "10.0", repr(UNCLAIMED_SECONDS)
    assert arguments == (
        *(KEYS.meta(ID), KEYS.question(ID)),
        *("100.0", "110.0", claims._name, number, *waits, ""),
    )


@aio
async def test_claims_continue_until_the_limit_or_until_nothing_is_due() -> None:
    ids = [UUID(int=number) for number in range(1, 6)]
    claimed = [[b"won", b"2", b"0", b"110.0", b""]] * 4
    scripted = ScriptedSession(*claimed, [b"gone"])
    # A store with several shards may return more members than it was asked for.
    scripted.indexes.members = [[id_.hex.encode() for id_ in ids[:4]], [ids[4].hex.encode()]]
    found = await Claims(scripted.session, KEYS, 10.0).claim_lost(3)
    assert [one.stream_id for one in found] == ids[:3]
    assert [call for call in scripted.calls if call[0] == "due"] == [("due", "leases", 100.0, 3)]
    scripted = ScriptedSession(*claimed[:1], [b"gone"])
    scripted.indexes.members = [[ids[0].hex.encode()], [ids[4].hex.encode()]]
    found = await Claims(scripted.session, KEYS, 10.0).claim_lost(3)
    assert [one.stream_id for one in found] == ids[:1]
    due = [call for call in scripted.calls if call[0] == "due"]
    assert due == [("due", "leases", 100.0, count) for count in (3, 2, 2)]
    names = {arguments[4] for arguments in scripted.arguments}
    assert len(names) == 1  # a repeated claim of one call is recognised by its name


@pytest.mark.parametrize(
    ("replies", "changes"),
    [
        ([[b"gone"], b""], [("FREE_REQUEST",), ("remove_ended", ID, REQUEST)]),
        ([[b"bare", b"97.5"]], [("move_to_without_entries", ID, REQUEST, 97.5)]),
        ([[b"kept", b"97.5"]], [("move_to_ended", ID, REQUEST, 97.5)]),
        # Restored from a backup: the lease is due at once, and the stream is ended as lost.
        (
            [[b"running"], None],
            [("HGET",), ("extend_leases", {ID: ""}, 100.0), ("remove_ended", ID, REQUEST)],
        ),
        (
            [[b"running"], b"abcd"],
            [("HGET",), ("extend_leases", {ID: "abcd"}, 100.0), ("remove_ended", ID, REQUEST)],
        ),
    ],
)
@aio
async def test_a_dropped_stream_moves_in_the_indexes(
    replies: list[Any], changes: list[object]
) -> None:
    scripted = ScriptedSession(*replies)
    scripted.indexes.members = [[MEMBER]]
    await drop_old(scripted.session, KEYS, 90.0, 50.0)
    names = [call for call in scripted.calls if call[0] != "due"]
    assert names == [("DROP",), *changes]
    assert scripted.arguments[0][-2:] == ("90.0", "50.0")
    if changes[0] == ("FREE_REQUEST",):
        assert scripted.arguments[1] == (KEYS.request(REQUEST), ID.hex)


@pytest.mark.parametrize(
    ("touched", "change"),
    [(b"", ("remove_conversation", TALK)), (b"60.5", ("correct_conversation", TALK, 60.5))],
)
@aio
async def test_a_conversation_expires_with_its_latest_turn(
    touched: bytes, change: tuple[object, ...]
) -> None:
    scripted = ScriptedSession(touched)
    scripted.indexes.members = [[], [], [TALK.encode()]]
    await drop_old(scripted.session, KEYS, 90.0, 50.0)
    assert scripted.calls[-3:-1] == [("FORGET_TURNS",), change]
    due = [call for call in scripted.calls if call[0] == "due"]
    assert due == [
        ("due", "bodies", 90.0, 100),
        ("due", "finals", 50.0, 100),
        ("due", "conversations", 50.0, 100),
        ("due", "conversations", 50.0, 100),
    ]


@aio
async def test_a_failure_in_one_index_does_not_stop_the_others() -> None:
    first, second = LogUnavailable("first"), LogUnavailable("second")
    scripted = ScriptedSession(first, b"")
    scripted.indexes.members = [[MEMBER], second, [TALK.encode()]]
    with pytest.raises(LogUnavailable, match="first"):
        await drop_old(scripted.session, KEYS, 90.0, 50.0)
    kinds = [call[1] for call in scripted.calls if call[0] == "due"]
    # An index with a failure is not asked again: it would return the same members.
    assert kinds == ["bodies", "finals", "conversations", "conversations"]
