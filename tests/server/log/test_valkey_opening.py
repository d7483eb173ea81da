"""Opening the stream of a request: exactly one opener creates it."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from coreason_client.server.errors import (
    LogUnavailable,
    RequestConflict,
)
from coreason_client.server.log import Claim, NewStream, Opened
from coreason_client.server.log._rules import digest, new_meta
from coreason_client.server.log.valkey._keys import FIELDS, KeyNames
from coreason_client.server.log.valkey._opening import (
    _create,
    find_stream,
    open_in_one_script,
    open_in_steps,
)

from ..aio import aio
from .backends import Clock
from .scripted_session import ScriptedSession
from .valkey_logs import keys_of, logs, new
from .valkey_server import fresh_prefix, shared_server


@pytest.mark.proves("RES2-4e")
@aio
async def test_openings_at_once_on_several_replicas_give_one_stream() -> None:
    async with logs(3, prefix=(prefix := fresh_prefix())) as replicas:
        for _ in range(10):
            request = uuid4()
            results = await asyncio.gather(
                *(log.open(new(request), "me") for log in replicas for _ in range(4))
            )
            assert sum(result.created for result in results) == 1
            assert len({result.meta for result in results}) == 1
        # The streams of those who were late are gone again.
        assert sum(key.endswith(":meta") for key in keys_of(prefix)) == 10


@aio
async def test_an_opener_that_dies_before_the_request_is_taken_blocks_nobody() -> None:
    clock = Clock()
    async with logs(2, prefix=(prefix := fresh_prefix()), clock=clock) as (dying, other):
        request = uuid4()
        orphan = new(request)
        name = digest("ann", request.bytes)
        await _create(dying._session(), dying._keys, dying.lease, orphan, name, None)
        opened = await other.open(new(request), "me")
        assert opened.created
        assert (await dying.open(new(request), "me")).meta == opened.meta
        # What it left behind ends and expires like any lost stream.
        clock.forward(other.lease)
        await other.renew({opened.meta.stream_id: 1})
        claims = list(await other.claim_lost("me", 10))
        epoch = (await other.meta(orphan.stream_id)).epoch
        assert claims == [Claim(orphan.stream_id, epoch, 0)]
        await other.close(orphan.stream_id, epoch, 1, [b"lost"], "producer_lost")
        await other.close(opened.meta.stream_id, 1, 1, [b"end"], "complete")
        clock.forward(100)
        await other.expire(10, 50)
        assert keys_of(prefix) == []


@aio
async def test_an_opener_that_dies_after_the_request_is_taken_leaves_a_lost_stream() -> None:
    clock = Clock()
    async with logs(2, clock=clock) as (dying, other):
        request = uuid4()
        left = await dying.open(new(request), "me")  # and no producer ever starts
        joined = await other.open(new(request), "me")
        assert not joined.created
        clock.forward(other.lease + 1)
        claims = list(await other.claim_lost("me", 10))
        epoch = (await other.meta(left.meta.stream_id)).epoch
        assert claims == [Claim(left.meta.stream_id, epoch, 0)]


@aio
async def test_a_request_whose_stream_is_forgotten_is_free_for_exactly_one() -> None:
    clock = Clock()
    async with logs(3, prefix=(prefix := fresh_prefix()), clock=clock) as replicas:
        request = uuid4()
        old = (await replicas[0].open(new(request), "me")).meta.stream_id
        await replicas[0].close(old, 1, 1, [b"x"], "complete")
        # A replica dies after it has forgotten the stream and before it has freed the request.
        shared_server().command("DEL", f"{prefix}:{{{old.hex}}}:meta")
        assert await replicas[1].find("ann", request) is None
        results = await asyncio.gather(*(log.open(new(request), "me") for log in replicas * 3))
        assert sum(result.created for result in results) == 1
        (winner,) = {result.meta.stream_id for result in results}
        # The rest of that forgetting, done by somebody else, leaves the new stream alone.
        clock.forward(1000)
        await replicas[2].renew({winner: 1})
        await replicas[2].expire(10, 500)
        again = await replicas[1].open(new(request), "me")
        assert (again.created, again.meta.stream_id) == (False, winner)


@aio
async def test_the_same_opening_again_finds_what_it_made() -> None:
    async with logs() as (log,):
        stream = new()
        assert (await log.open(stream, "me")).created
        assert not (await log.open(stream, "me")).created
        other = NewStream(uuid4(), "ann", stream.request_id, "another body")
        with pytest.raises(RequestConflict):
            await log.open(other, "me")


@aio
async def test_a_repeated_opening_gets_the_same_reply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with logs(2) as (log, other):
        store = log._session().store
        script, answers = store.confirmed_script, []

        async def twice(*arguments: Any) -> Any:
            answers.append(await script(*arguments))  # and this one is lost
            return await script(*arguments)

        monkeypatch.setattr(store, "confirmed_script", twice)
        stream = new()
        opened = await log.open(stream, "me")
        assert (opened.created, opened.meta.stream_id) == (True, stream.stream_id)
        assert answers == [b""]  # one round trip
        assert not (await log.open(stream, "me")).created  # another opening of the same stream
        assert not (await other.open(stream, "me")).created
        assert (await other.find("ann", stream.request_id)) == opened.meta


# Each reply of the store.

KEYS = KeyNames("p")
STREAM = NewStream(UUID(int=1), "ann", UUID(int=2), "f", b"question")
OTHER = UUID(int=3)
OWN_ID, OTHER_ID = STREAM.stream_id.hex.encode(), OTHER.hex.encode()
NO_STREAM = [None] * len(FIELDS)
CREATED = [("add_new_stream", STREAM.stream_id, 110.0, ""), ("CREATE",)]
DELETED = [("DEL",), ("remove_lease", STREAM.stream_id, "")]


def described(fingerprint: bytes = b"f") -> list[bytes | None]:
    """Return the reply of HMGET for the stream of another opener."""
    values = {
        "principal": b"ann",
        "request": STREAM.request_id.hex.encode(),
        "print": fingerprint,
        "epoch": b"1",
        "last": b"0",
        "opened": b"90.0",
    }
    return [values.get(field) for field in FIELDS]


@aio
async def test_a_new_request_is_opened_in_one_script_and_owned_until_the_lease_ends() -> None:
    scripted = ScriptedSession(b"")
    opened = await open_in_one_script(scripted.session, KEYS, 10.0, STREAM)
    assert opened == Opened(new_meta(STREAM, 100.0), created=True)
    assert scripted.calls == [("OPEN",)]
    assert scripted.arguments[0][-7:] == (
        *(b"ann", STREAM.request_id.hex, b"f", "100.0", "110.0"),
        digest("ann", STREAM.request_id.bytes),
        b"question",
    )
    assert scripted.owned.owns(STREAM.stream_id)
    assert scripted.owned._until == {STREAM.stream_id: 60.0}  # by the clock of this process


@pytest.mark.parametrize(
    ("replies", "calls", "stream_id"),
    [
        pytest.param(
            [None, b"OK", OWN_ID],
            [("GET",), *CREATED, ("TAKE_REQUEST",)],
            STREAM.stream_id,
            id="a new request",
        ),
        pytest.param(
            [OTHER_ID, described()],
            [("GET",), ("HMGET",)],
            OTHER,
            id="a known request",
        ),
        pytest.param(
            [None, b"OK", OTHER_ID, described(), 1],
            [("GET",), *CREATED, ("TAKE_REQUEST",), ("HMGET",), *DELETED],
            OTHER,
            id="another opener was faster",
        ),
        pytest.param(
            [OTHER_ID, NO_STREAM, b"OK", OWN_ID],
            [("GET",), ("HMGET",), *CREATED, ("TAKE_REQUEST",)],
            STREAM.stream_id,
            id="the stream of the request has expired",
        ),
        pytest.param(
            [None, b"OK", OTHER_ID, NO_STREAM, OWN_ID],
            [("GET",), *CREATED, ("TAKE_REQUEST",), ("HMGET",), ("TAKE_REQUEST",)],
            STREAM.stream_id,
            id="the faster opener is gone",
        ),
        pytest.param(
            [None, b"OK", OTHER_ID, described(), LogUnavailable("no")],
            [("GET",), *CREATED, ("TAKE_REQUEST",), ("HMGET",), ("DEL",)],
            OTHER,
            id="an unused stream that cannot be deleted",
        ),
    ],
)
@aio
async def test_a_request_gets_one_stream_in_steps(
    replies: list[Any], calls: list[object], stream_id: UUID
) -> None:
    scripted = ScriptedSession(*replies)
    opened = await open_in_steps(scripted.session, KEYS, 10.0, STREAM)
    assert scripted.calls == calls
    created = stream_id == STREAM.stream_id
    assert (opened.meta.stream_id, opened.created) == (stream_id, created)
    assert scripted.owned.owns(STREAM.stream_id) is created


@pytest.mark.parametrize("late", [False, True])
@aio
async def test_a_request_id_with_another_body_is_a_conflict(late: bool) -> None:
    replies = [None, b"OK", OTHER_ID] if late else [OTHER_ID]
    scripted = ScriptedSession(*replies, described(b"another"), 1)
    with pytest.raises(RequestConflict):
        await open_in_steps(scripted.session, KEYS, 10.0, STREAM)
    assert (scripted.calls[-2:] == DELETED) is late  # nothing is left behind


@pytest.mark.parametrize(("seconds", "repeated"), [(9.9, False), (10.0, True)])
@aio
async def test_a_stream_that_was_created_slowly_is_added_to_the_index_again(
    monkeypatch: pytest.MonkeyPatch, seconds: float, repeated: bool
) -> None:
    scripted = ScriptedSession(None, b"OK", OWN_ID)
    script = scripted.confirmed_script

    async def slow(*arguments: Any) -> Any:
        scripted.clock.forward(seconds)
        return await script(*arguments)

    monkeypatch.setattr(scripted, "confirmed_script", slow)
    await open_in_steps(scripted.session, KEYS, 10.0, STREAM)
    # Otherwise a claim may have removed it before the stream existed, and nobody would end it.
    again = ("extend_leases", {STREAM.stream_id: ""}, 110.0)
    assert (again in scripted.calls) is repeated


@pytest.mark.parametrize(
    ("replies", "found"),
    [([None], None), ([OTHER_ID, NO_STREAM], None), ([OTHER_ID, described()], OTHER)],
)
@aio
async def test_the_stream_of_a_request_is_found(replies: list[Any], found: UUID | None) -> None:
    scripted = ScriptedSession(*replies)
    meta = await find_stream(scripted.session, KEYS, "ann", STREAM.request_id)
    assert (None if meta is None else meta.stream_id) == found
    assert scripted.arguments[0] == (KEYS.request(digest("ann", STREAM.request_id.bytes)),)
