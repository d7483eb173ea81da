"""The contract of `coreason_client.server.log.base`, held against every log."""

import asyncio
import tempfile
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coreason_client.server.errors import (
    Fenced,
    OutOfSequence,
    PositionGone,
    RequestConflict,
    UnknownStream,
)
from coreason_client.server.log import (
    Claim,
    Conversation,
    LeaseState,
    NewStream,
    StreamLog,
    StreamMeta,
)
from coreason_client.server.log.base import MAX_TURN_BYTES, MAX_TURNS

from ..aio import aio, turns
from .backends import BACKENDS, Clock, Opener, opener

LONG = 60.0  # a wait that no test sits out: it would run out of its own time first


@pytest.fixture(params=list(BACKENDS.values()), ids=list(BACKENDS))
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    return opener(request.param, tmp_path)


def new(
    principal: str = "ann",
    request_id: UUID | None = None,
    body: str = "b",
    question: bytes = b"",
) -> NewStream:
    return NewStream(uuid4(), principal, request_id or uuid4(), body, question)


async def start(log: StreamLog, stream: NewStream | None = None) -> UUID:
    return (await log.open(stream or new(), "me")).meta.stream_id


def entries(*numbers: int) -> list[bytes]:
    return [b"entry %d" % number for number in numbers]


async def read(log: StreamLog, id_: UUID, after: int = 0, limit: int = 100) -> list[bytes]:
    return list((await log.read(id_, after, limit, 0)).entries)


# Requests.


@pytest.mark.proves("RES2-4a", "RES2-4b")
@aio
async def test_opens_reads_and_closes(opened: Opener) -> None:
    async with opened() as (log, clock):
        stream = new()
        first = await log.open(stream, "me")
        assert first.created
        assert first.meta == StreamMeta(
            stream_id=stream.stream_id,
            principal="ann",
            request_id=stream.request_id,
            fingerprint="b",
            epoch=1,
            last_seq=0,
            opened_at=clock.now,
            outcome=None,
            ended_at=None,
            cancel_requested=False,
            body_gone=False,
        )
        assert await log.append(stream.stream_id, 1, 1, entries(1, 2)) is False
        clock.forward(5)
        await log.close(stream.stream_id, 1, 3, entries(3), "complete")
        page = await log.read(stream.stream_id, 0, 100, LONG)
        assert list(page.entries) == entries(1, 2, 3)
        assert page.ended
        meta = await log.meta(stream.stream_id)
        assert (meta.last_seq, meta.outcome, meta.ended_at) == (3, "complete", clock.now)


@pytest.mark.proves("R02g", "RES2-1d")
@aio
async def test_a_known_request_gives_the_same_stream(opened: Opener) -> None:
    async with opened() as (log, _):
        request_id = uuid4()
        first = await log.open(new(request_id=request_id), "me")
        second = await log.open(new(request_id=request_id), "another")
        assert not second.created
        assert second.meta == first.meta
        assert await log.find("ann", request_id) == first.meta
        with pytest.raises(RequestConflict) as caught:
            await log.open(new(request_id=request_id, body="other"), "me")
        assert caught.value.request_id == request_id


@aio
async def test_a_request_belongs_to_its_principal(opened: Opener) -> None:
    async with opened() as (log, _):
        request_id = uuid4()
        ann = await log.open(new("ann", request_id), "me")
        bob = await log.open(new("bob", request_id, body="other"), "me")
        assert bob.created
        assert ann.meta.stream_id != bob.meta.stream_id
        assert await log.find("eve", request_id) is None


@aio
async def test_two_openings_at_once_give_one_stream(opened: Opener) -> None:
    async with opened() as (log, _):
        request_id = uuid4()
        results = await asyncio.gather(
            *(log.open(new(request_id=request_id), "me") for _ in range(10))
        )
        assert sum(result.created for result in results) == 1
        assert len({result.meta.stream_id for result in results}) == 1


# Numbers.


@pytest.mark.proves("RES2-1b")
@pytest.mark.parametrize("first_seq", [3, 5, 100])
@aio
async def test_an_append_follows_the_last_entry(opened: Opener, first_seq: int) -> None:
    async with opened() as (log, _):
        id_ = await start(log)
        await log.append(id_, 1, 1, entries(1, 2, 3))
        with pytest.raises(OutOfSequence) as caught:
            await log.append(id_, 1, first_seq, entries(first_seq, first_seq + 1))
        assert (caught.value.first_seq, caught.value.last_seq) == (first_seq, 3)
        assert await read(log, id_) == entries(1, 2, 3)


@aio
async def test_a_repeated_append_is_acknowledged_without_a_second_copy(opened: Opener) -> None:
    async with opened() as (log, _):
        id_ = await start(log)
        await log.append(id_, 1, 1, entries(1, 2))
        await log.append(id_, 1, 1, entries(1, 2))
        await log.append(id_, 1, 2, entries(2))
        await log.close(id_, 1, 3, entries(3), "complete")
        await log.close(id_, 1, 3, entries(3), "complete")
        assert await read(log, id_) == entries(1, 2, 3)


@pytest.mark.proves("DUR-9-epochs")
@aio
async def test_a_repeated_append_of_another_epoch_is_refused(opened: Opener) -> None:
    """It is held in full, but the acknowledgement would be somebody else's."""
    async with opened() as (log, clock):
        id_ = await start(log)
        await log.append(id_, 1, 1, entries(1, 2))
        clock.forward(log.lease + 1)
        assert list(await log.claim_lost("heir", 10)) == [Claim(id_, 2, 2)]
        for epoch in (1, 3):
            with pytest.raises(Fenced):
                await log.append(id_, epoch, 1, entries(1, 2))
            with pytest.raises(Fenced):
                await log.close(id_, epoch, 2, entries(2), "complete")
        for first in (1, 2):
            with pytest.raises(OutOfSequence):  # the earlier epoch may have written other bytes
                await log.append(id_, 2, first, entries(*range(first, 3)))
        await log.append(id_, 2, 3, entries(3))
        await log.append(id_, 2, 3, entries(3))
        assert (await log.meta(id_)).outcome is None


@aio
async def test_nothing_follows_the_end(opened: Opener) -> None:
    async with opened() as (log, _):
        id_ = await start(log)
        await log.close(id_, 1, 1, entries(1), "complete")
        with pytest.raises(Fenced):
            await log.append(id_, 1, 2, entries(2))
        with pytest.raises(Fenced):
            await log.close(id_, 1, 2, entries(2), "again")
        assert (await log.meta(id_)).outcome == "complete"


@aio
async def test_a_stream_does_not_end_without_a_word(opened: Opener) -> None:
    async with opened() as (log, _):
        id_ = await start(log)
        with pytest.raises(ValueError, match="must end with an entry"):
            await log.close(id_, 1, 1, [], "complete")
        assert (await log.meta(id_)).outcome is None


@aio
async def test_an_unknown_stream_is_unknown_to_all(opened: Opener) -> None:
    async with opened() as (log, _):
        id_ = uuid4()
        for call in (
            log.append(id_, 1, 1, entries(1)),
            log.close(id_, 1, 1, entries(1), "complete"),
            log.read(id_, 0, 1, 0),
            log.meta(id_),
            log.request_cancel(id_),
        ):
            with pytest.raises(UnknownStream) as caught:
                await call
            assert caught.value.stream_id == id_
        assert await log.renew({id_: 1}) == {id_: LeaseState.LOST}


# Reading.


@pytest.mark.proves("RES2-3")
@aio
async def test_reads_pages(opened: Opener) -> None:
    async with opened() as (log, _):
        id_ = await start(log)
        await log.append(id_, 1, 1, entries(*range(1, 8)))
        assert await read(log, id_, 0, 3) == entries(1, 2, 3)
        assert await read(log, id_, 3, 3) == entries(4, 5, 6)
        assert await read(log, id_, 6, 3) == entries(7)
        assert await read(log, id_, 7, 3) == []
        assert await read(log, id_, 100, 3) == []
        await log.close(id_, 1, 8, entries(8), "complete")
        assert not (await log.read(id_, 0, 3, 0)).ended
        assert (await log.read(id_, 5, 3, 0)).ended
        last = await log.read(id_, 8, 3, LONG)
        assert (list(last.entries), last.ended) == ([], True)


@aio
async def test_large_entries_make_short_pages(opened: Opener) -> None:
    async with opened() as (log, _):
        id_ = await start(log)
        large = [bytes([number]) * 100_000 for number in range(1, 11)]
        await log.append(id_, 1, 1, large)
        await log.close(id_, 1, 11, entries(11), "complete")
        got: list[bytes] = []
        ended = False
        while not ended:
            page = await log.read(id_, len(got), 100, 0)
            assert 1 <= len(page.entries) < 11
            got += page.entries
            ended = page.ended
        assert got == [*large, *entries(11)]


@aio
async def test_a_waiting_read_wakes_with_the_append(opened: Opener) -> None:
    async with opened() as (log, _):
        id_, other = await start(log), await start(log)
        waiting = [asyncio.ensure_future(log.read(id_, 0, 100, LONG)) for _ in range(3)]
        await turns()
        await log.append(other, 1, 1, entries(1))
        await turns()
        assert not any(task.done() for task in waiting)
        await log.append(id_, 1, 1, entries(1))
        for page in await asyncio.gather(*waiting):
            assert list(page.entries) == entries(1)
            assert not page.ended


@aio
async def test_a_waiting_read_wakes_with_the_end(opened: Opener) -> None:
    async with opened() as (log, _):
        id_ = await start(log)
        await log.append(id_, 1, 1, entries(1))
        waiting = asyncio.ensure_future(log.read(id_, 1, 100, LONG))
        await turns()
        await log.close(id_, 1, 2, entries(2), "complete")
        page = await waiting
        assert (list(page.entries), page.ended) == (entries(2), True)


@aio
async def test_a_wait_has_an_end(opened: Opener) -> None:
    async with opened() as (log, _):
        id_ = await start(log)
        page = await log.read(id_, 0, 100, 0.01)
        assert (list(page.entries), page.ended) == ([], False)


@aio
async def test_wake_readers_ends_every_wait(opened: Opener) -> None:
    async with opened() as (log, _):
        ids = [await start(log) for _ in range(3)]
        waiting = [asyncio.ensure_future(log.read(id_, 0, 100, LONG)) for id_ in ids]
        for id_ in ids:  # behind the looks of the reads at their store
            await log.meta(id_)
        await turns()
        log.wake_readers()
        for page in await asyncio.gather(*waiting):
            assert (list(page.entries), page.ended) == ([], False)


@aio
async def test_a_cancelled_read_leaves_nothing_behind(opened: Opener) -> None:
    async with opened() as (log, _):
        id_ = await start(log)
        waiting = asyncio.ensure_future(log.read(id_, 0, 100, LONG))
        await turns()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await log.append(id_, 1, 1, entries(1))
        assert await read(log, id_) == entries(1)


# Epochs.


@pytest.mark.proves("RES2-4a")
@aio
async def test_a_lost_stream_is_claimed_once_and_its_producer_fenced(opened: Opener) -> None:
    async with opened() as (log, clock):
        id_ = await start(log)
        await log.append(id_, 1, 1, entries(1))
        clock.forward(log.lease - 0.1)
        assert list(await log.claim_lost("heir", 10)) == []
        clock.forward(0.2)
        results = await asyncio.gather(*(log.claim_lost(f"heir {i}", 10) for i in range(5)))
        assert [claim for claims in results for claim in claims] == [Claim(id_, 2, 1)]
        with pytest.raises(Fenced) as caught:
            await log.append(id_, 1, 2, entries(2))
        assert (caught.value.stream_id, caught.value.epoch) == (id_, 1)
        with pytest.raises(Fenced):
            await log.close(id_, 1, 2, entries(2), "complete")
        assert await log.renew({id_: 1}) == {id_: LeaseState.LOST}
        assert await log.renew({id_: 2}) == {id_: LeaseState.HELD}
        await log.close(id_, 2, 2, entries(2), "producer_lost")
        assert await read(log, id_) == entries(1, 2)
        assert (await log.meta(id_)).outcome == "producer_lost"


@aio
async def test_a_renewed_lease_is_not_claimed(opened: Opener) -> None:
    async with opened() as (log, clock):
        id_ = await start(log)
        for _ in range(5):
            clock.forward(log.lease - 0.1)
            assert await log.renew({id_: 1}) == {id_: LeaseState.HELD}
        assert list(await log.claim_lost("heir", 10)) == []


@aio
async def test_a_lease_that_ran_out_is_good_until_it_is_claimed(opened: Opener) -> None:
    async with opened() as (log, clock):
        id_ = await start(log)
        clock.forward(10 * log.lease)
        await log.append(id_, 1, 1, entries(1))
        assert await log.renew({id_: 1}) == {id_: LeaseState.HELD}
        assert list(await log.claim_lost("heir", 10)) == []


@aio
async def test_a_claim_can_itself_be_lost(opened: Opener) -> None:
    async with opened() as (log, clock):
        id_ = await start(log)
        for epoch in (2, 3):
            clock.forward(log.lease + 1)
            assert list(await log.claim_lost("heir", 10)) == [Claim(id_, epoch, 0)]
        with pytest.raises(Fenced):
            await log.close(id_, 2, 1, entries(1), "producer_lost")


@aio
async def test_claims_come_in_portions_and_without_ended_streams(opened: Opener) -> None:
    async with opened() as (log, clock):
        lost = {await start(log) for _ in range(5)}
        ended = await start(log)
        await log.close(ended, 1, 1, entries(1), "complete")
        clock.forward(log.lease + 1)
        sizes, seen = [], set()
        while claims := await log.claim_lost("heir", 2):
            sizes.append(len(claims))
            seen |= {claim.stream_id for claim in claims}
        assert sizes == [2, 2, 1]
        assert seen == lost


@pytest.mark.proves("RES2-9d")
@aio
async def test_a_cancel_reaches_the_producer_both_ways(opened: Opener) -> None:
    async with opened() as (log, _):
        id_ = await start(log)
        assert await log.append(id_, 1, 1, entries(1)) is False
        await log.request_cancel(id_)
        assert (await log.meta(id_)).cancel_requested
        assert await log.append(id_, 1, 2, entries(2)) is True
        assert await log.renew({id_: 1}) == {id_: LeaseState.CANCEL_REQUESTED}
        await log.close(id_, 1, 3, entries(3), "cancelled")
        await log.request_cancel(id_)
        assert await log.renew({id_: 1}) == {id_: LeaseState.LOST}


# Retention.


@pytest.mark.proves("RES2-7a", "RES2-7b", "RES2-7c")
@aio
async def test_first_the_entries_go_and_then_the_rest(opened: Opener) -> None:
    async with opened() as (log, clock):
        request_id = uuid4()
        id_ = await start(log, new(request_id=request_id))
        await log.append(id_, 1, 1, entries(1))
        clock.forward(100_000)
        await log.expire(900, 86_400)  # it counts from the end, and this has none
        await log.close(id_, 1, 2, entries(2), "complete")
        clock.forward(899)
        await log.expire(900, 86_400)
        assert await read(log, id_) == entries(1, 2)
        clock.forward(2)
        await log.expire(900, 86_400)
        for after in (0, 1):
            with pytest.raises(PositionGone) as caught:
                await log.read(id_, after, 10, LONG)
            assert (caught.value.stream_id, caught.value.after_seq) == (id_, after)
        assert (await log.read(id_, 2, 10, LONG)).ended
        meta = await log.meta(id_)
        assert (meta.body_gone, meta.outcome, meta.last_seq) == (True, "complete", 2)
        again = await log.open(new(request_id=request_id), "me")
        assert (again.created, again.meta) == (False, meta)
        clock.forward(86_400)
        await log.expire(900, 86_400)
        with pytest.raises(UnknownStream):
            await log.meta(id_)
        assert (await log.open(new(request_id=request_id, body="new"), "me")).created


@aio
async def test_the_shorter_retention_counts(opened: Opener) -> None:
    """A stream that is forgotten takes its entries with it."""
    async with opened() as (log, clock):
        id_ = await start(log)
        await log.close(id_, 1, 1, entries(1), "complete")
        clock.forward(20)
        await log.expire(1000, 10)
        with pytest.raises(UnknownStream):
            await log.read(id_, 0, 10, 0)


@aio
async def test_many_streams_expire_at_once(opened: Opener) -> None:
    async with opened() as (log, clock):
        ids = [await start(log) for _ in range(120)]
        await asyncio.gather(*(log.close(id_, 1, 1, entries(1), "complete") for id_ in ids))
        clock.forward(10)
        await log.expire(5, 1000)
        metas = await asyncio.gather(*(log.meta(id_) for id_ in ids))
        assert all(meta.body_gone for meta in metas)


# Questions.


@aio
async def test_a_claim_returns_the_question_until_the_end_drops_it(opened: Opener) -> None:
    async with opened() as (log, clock):
        question = bytes(range(256)) * 20
        stream = new(question=question)
        await start(log, stream)
        joined = new(request_id=stream.request_id, question=b"another")
        assert not (await log.open(joined, "me")).created
        without = await start(log)
        for epoch in (2, 3):
            clock.forward(log.lease + 1)
            claims = {claim.stream_id: claim for claim in await log.claim_lost("heir", 10)}
            assert claims[stream.stream_id] == Claim(stream.stream_id, epoch, 0, question)
            assert claims[without] == Claim(without, epoch, 0)
        await log.close(stream.stream_id, 3, 1, entries(1), "producer_lost")
        assert list((await log.read(stream.stream_id, 0, 10, 0)).entries) == entries(1)


# Conversations.


@aio
async def test_turns_are_kept_in_order_and_once(opened: Opener) -> None:
    async with opened() as (log, clock):
        talk = Conversation("ann", "s")
        ids = [uuid4() for _ in range(4)]
        for number, id_ in enumerate(ids):
            clock.forward(1)
            await log.add_turn(talk, id_, b"turn %d" % number)
        await log.add_turn(talk, ids[1], b"again")
        assert list(await log.turns(talk, 10)) == [b"turn 0", b"turn 1", b"turn 2", b"turn 3"]
        assert list(await log.turns(talk, 2)) == [b"turn 2", b"turn 3"]
        assert list(await log.turns(Conversation("bob", "s"), 10)) == []
        assert list(await log.turns(Conversation("ann", "t"), 10)) == []


@pytest.mark.parametrize("limit", [0, -1, -5])
@aio
async def test_no_turns_are_returned_for_a_limit_below_one(opened: Opener, limit: int) -> None:
    async with opened() as (log, _):
        talk = Conversation("ann", "s")
        for number in range(3):
            await log.add_turn(talk, uuid4(), b"turn %d" % number)
        assert list(await log.turns(talk, limit)) == []


@aio
async def test_a_conversation_keeps_its_latest_turns(opened: Opener) -> None:
    async with opened() as (log, _):
        talk, other = Conversation("ann", "s"), Conversation("ann", "t")
        first = uuid4()
        await log.add_turn(talk, first, b"the first")
        await log.add_turn(other, uuid4(), b"of another conversation")
        await asyncio.gather(*(log.add_turn(talk, uuid4(), b"x") for _ in range(MAX_TURNS - 3)))
        latest = [b"turn %d" % number for number in range(2)]
        for turn in latest:
            await log.add_turn(talk, uuid4(), turn)
        await log.add_turn(talk, first, b"again")
        kept = list(await log.turns(talk, 2 * MAX_TURNS))
        assert (len(kept), kept[0], kept[-2:]) == (MAX_TURNS, b"the first", latest)
        await log.add_turn(talk, uuid4(), b"one more")
        kept = list(await log.turns(talk, 2 * MAX_TURNS))
        assert (len(kept), kept[0], kept[-3:]) == (MAX_TURNS, b"x", [*latest, b"one more"])
        assert list(await log.turns(other, 10)) == [b"of another conversation"]


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ([3, 1], 2),
        ([2, 2], 2),
        ([2, 2, 1], 2),
        ([1, 1, 4], 1),
        ([5], 1),
        ([5, 5], 1),
        ([5, 1], 1),
        ([1, 5, 1, 1], 2),
        ([4, 1, 1, 1, 1], 4),
    ],
)
@aio
async def test_a_conversation_keeps_a_bounded_number_of_bytes(
    opened: Opener, sizes: list[int], kept: int
) -> None:
    """Sizes in quarters of the bound: the oldest turns go first, and the newest one stays."""
    async with opened() as (log, _):
        talk, other = Conversation("ann", "s"), Conversation("ann", "t")
        await log.add_turn(other, uuid4(), b"of another conversation")
        turns = [bytes([n]) * (size * MAX_TURN_BYTES // 4) for n, size in enumerate(sizes)]
        for turn in turns:
            await log.add_turn(talk, uuid4(), turn)
        assert list(await log.turns(talk, 100)) == turns[-kept:]
        assert list(await log.turns(talk, 1)) == turns[-1:]
        assert list(await log.turns(other, 10)) == [b"of another conversation"]


@aio
async def test_a_conversation_expires_when_nothing_is_added(opened: Opener) -> None:
    async with opened() as (log, clock):
        talk = Conversation("ann", "s")
        await log.add_turn(talk, uuid4(), b"1")
        clock.forward(600)
        await log.add_turn(talk, uuid4(), b"2")
        clock.forward(600)
        await log.expire(10, 1000)
        assert list(await log.turns(talk, 10)) == [b"1", b"2"]
        clock.forward(600)
        await log.expire(10, 1000)
        assert list(await log.turns(talk, 10)) == []


@aio
async def test_a_log_can_be_started_again(opened: Opener) -> None:
    async with opened() as (log, _):
        id_ = await start(log)
        await log.close(id_, 1, 1, entries(1), "complete")
        await log.start("me")
        await log.start("you")
        await log.stop("you")
        assert await read(log, id_) == entries(1)
        await log.stop("me")
        await log.start("me")
        assert await read(log, id_) == entries(1)


# Whatever happens, in whatever order: a log is a list with an owner.


class _Model:
    def __init__(self, fingerprint: str, request: UUID) -> None:
        self.fingerprint = fingerprint
        self.request = request
        self.entries: list[bytes] = []
        self.epoch = 1
        self.lease_until = 0.0
        self.ended_at: float | None = None
        self.cancel = False
        self.gone = False


class LogMachine(RuleBasedStateMachine):
    """Does anything to a log and to a model of it, and compares what they say."""

    backend = "memory"
    RETENTION, FINAL = 50.0, 200.0

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.clock = Clock()
        self.log = BACKENDS[self.backend](self.clock, Path(self.folder.name))
        self.runner = asyncio.Runner()
        self.runner.run(self.log.start("me"))
        self.model: dict[UUID, _Model] = {}
        self.by_request: dict[UUID, UUID] = {}

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.run(self.log.stop("me"))
            self.runner.close()
            self.folder.cleanup()

    requests = st.sampled_from([UUID(int=number) for number in range(1, 5)])

    @rule(request=requests, body=st.sampled_from("ab"))
    def open(self, request: UUID, body: str) -> None:
        stream = new(request_id=request, body=body, question=request.bytes)
        known = self.by_request.get(request)
        if known is not None and self.model[known].fingerprint != body:
            with pytest.raises(RequestConflict):
                self.runner.run(self.log.open(stream, "me"))
            return
        opened = self.runner.run(self.log.open(stream, "me"))
        assert opened.created == (known is None)
        if known is None:
            self.by_request[request] = stream.stream_id
            self.model[stream.stream_id] = made = _Model(body, request)
            made.lease_until = self.clock.now + self.log.lease
        else:
            assert opened.meta.stream_id == known

    @rule(
        request=requests,
        back=st.integers(0, 1),
        first=st.integers(-1, 1),
        count=st.integers(1, 3),
        ends=st.booleans(),
    )
    def append(self, request: UUID, back: int, first: int, count: int, ends: bool) -> None:
        id_ = self.by_request.get(request)
        if id_ is None:
            return
        model = self.model[id_]
        last = len(model.entries)
        epoch, first_seq = model.epoch - back, last + 1 + first
        if first_seq < 1:
            return
        batch = entries(*range(first_seq, first_seq + count))
        call = (
            self.log.close(id_, epoch, first_seq, batch, "done")
            if ends
            else self.log.append(id_, epoch, first_seq, batch)
        )
        repeated = first_seq + count - 1 <= last
        if back or (model.ended_at is not None and not repeated):
            with pytest.raises(Fenced):
                self.runner.run(call)
        elif repeated:
            self.runner.run(call)
        elif first_seq != last + 1:
            with pytest.raises(OutOfSequence):
                self.runner.run(call)
        else:
            cancel = self.runner.run(call)
            model.entries += batch
            if ends:
                model.ended_at = self.clock.now
            else:
                assert cancel == model.cancel

    @rule(request=requests)
    def cancel(self, request: UUID) -> None:
        if (id_ := self.by_request.get(request)) is not None:
            self.runner.run(self.log.request_cancel(id_))
            if self.model[id_].ended_at is None:
                self.model[id_].cancel = True

    @rule(request=requests)
    def renew(self, request: UUID) -> None:
        if (id_ := self.by_request.get(request)) is None:
            return
        model = self.model[id_]
        states = self.runner.run(self.log.renew({id_: model.epoch}))
        if model.ended_at is not None:
            assert states == {id_: LeaseState.LOST}
        else:
            model.lease_until = self.clock.now + self.log.lease
            wanted = LeaseState.CANCEL_REQUESTED if model.cancel else LeaseState.HELD
            assert states == {id_: wanted}

    @rule()
    def claim(self) -> None:
        claims = {claim.stream_id: claim for claim in self.runner.run(self.log.claim_lost("h", 99))}
        for id_, model in self.model.items():
            lost = model.ended_at is None and model.lease_until <= self.clock.now
            assert (id_ in claims) == lost
            if lost:
                model.epoch += 1
                model.lease_until = self.clock.now + self.log.lease
                question = model.request.bytes
                assert claims[id_] == Claim(id_, model.epoch, len(model.entries), question)

    @rule(seconds=st.sampled_from([1.0, 6.0, 60.0, 150.0]))
    def wait(self, seconds: float) -> None:
        self.clock.forward(seconds)

    @rule()
    def expire(self) -> None:
        self.runner.run(self.log.expire(self.RETENTION, self.FINAL))
        for request, id_ in list(self.by_request.items()):
            model = self.model[id_]
            age = 0.0 if model.ended_at is None else self.clock.now - model.ended_at
            model.gone = model.gone or age >= self.RETENTION
            if age >= self.FINAL:
                del self.by_request[request], self.model[id_]
                with pytest.raises(UnknownStream):
                    self.runner.run(self.log.meta(id_))

    @rule()
    def restart(self) -> None:
        self.runner.run(self.log.stop("me"))
        self.runner.run(self.log.start("me"))
        if self.backend == "sqlite":  # another process might have been the one before
            for model in self.model.values():
                model.lease_until = 0.0

    @invariant()
    def reads_what_was_appended(self) -> None:
        for id_, model in getattr(self, "model", {}).items():
            for after in {0, len(model.entries) // 2, len(model.entries)}:
                call = self.log.read(id_, after, 100, 0)
                if model.gone and after < len(model.entries):
                    with pytest.raises(PositionGone):
                        self.runner.run(call)
                    continue
                page = self.runner.run(call)
                assert list(page.entries) == model.entries[after:]
                assert page.ended == (model.ended_at is not None)


class SQLiteMachine(LogMachine):
    backend = "sqlite"


class ValkeyMachine(LogMachine):
    backend = "valkey"


MACHINE_SETTINGS = settings(
    max_examples=30,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestMemoryMachine = LogMachine.TestCase
TestMemoryMachine.settings = MACHINE_SETTINGS
TestSQLiteMachine = SQLiteMachine.TestCase
TestSQLiteMachine.settings = MACHINE_SETTINGS
TestValkeyMachine = ValkeyMachine.TestCase
TestValkeyMachine.settings = MACHINE_SETTINGS
