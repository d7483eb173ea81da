"""The rules of a log about leases, retention, questions and conversations."""

import asyncio
from uuid import uuid4

import pytest

from ...server.errors import Fenced, PositionGone, UnknownStream
from ...server.log import Conversation, LeaseState, StreamLog
from ...server.log.base import MAX_TURN_BYTES, MAX_TURNS
from ._log_tests import (
    LONG,
    LogTests,
    check_claim,
    contract_test,
    entries,
    new_stream,
    open_stream,
    read,
)

# Sizes of turns in quarters of the maximum, and how many of the turns are kept.
KEPT_TURNS = [
    ([3, 1], 2),
    ([2, 2], 2),
    ([2, 2, 1], 2),
    ([1, 1, 4], 1),
    ([5], 1),
    ([5, 5], 1),
    ([5, 1], 1),
    ([1, 5, 1, 1], 2),
    ([4, 1, 1, 1, 1], 4),
]


class LeaseRules(LogTests):
    """A producer holds its stream by a lease and an epoch."""

    @contract_test
    async def test_a_lost_stream_is_claimed_once_and_its_producer_fenced(
        self, log: StreamLog
    ) -> None:
        id_ = await open_stream(log)
        await log.append(id_, 1, 1, entries(1))
        self.clock.forward(log.lease - 0.1)
        assert list(await log.claim_lost("heir", 10)) == []
        self.clock.forward(0.2)
        results = await asyncio.gather(*(log.claim_lost(f"heir {i}", 10) for i in range(5)))
        epoch = await check_claim(log, [claim for claims in results for claim in claims], id_, 1)
        with pytest.raises(Fenced) as caught:
            await log.append(id_, 1, 2, entries(2))
        assert (caught.value.stream_id, caught.value.epoch) == (id_, 1)
        with pytest.raises(Fenced):
            await log.close(id_, 1, 2, entries(2), "complete")
        assert await log.renew({id_: 1}) == {id_: LeaseState.LOST}
        assert await log.renew({id_: epoch}) == {id_: LeaseState.HELD}
        await log.close(id_, epoch, 2, entries(2), "producer_lost")
        assert await read(log, id_) == entries(1, 2)
        assert (await log.meta(id_)).outcome == "producer_lost"

    @contract_test
    async def test_a_renewed_lease_is_not_claimed(self, log: StreamLog) -> None:
        id_ = await open_stream(log)
        for _ in range(5):
            self.clock.forward(log.lease - 0.1)
            assert await log.renew({id_: 1}) == {id_: LeaseState.HELD}
        assert list(await log.claim_lost("heir", 10)) == []

    @contract_test
    async def test_a_lease_that_ran_out_is_good_until_it_is_claimed(self, log: StreamLog) -> None:
        id_ = await open_stream(log)
        self.clock.forward(10 * log.lease)
        await log.append(id_, 1, 1, entries(1))
        assert await log.renew({id_: 1}) == {id_: LeaseState.HELD}
        assert list(await log.claim_lost("heir", 10)) == []

    @contract_test
    async def test_a_claim_can_itself_be_lost(self, log: StreamLog) -> None:
        id_ = await open_stream(log)
        epochs = [1]
        for _ in range(3):
            self.clock.forward(log.lease + 1)
            epochs.append(await check_claim(log, await log.claim_lost("heir", 10), id_, 0))
        assert epochs == sorted(set(epochs))
        for over in epochs[:-1]:
            with pytest.raises(Fenced):
                await log.close(id_, over, 1, entries(1), "producer_lost")
        await log.close(id_, epochs[-1], 1, entries(1), "producer_lost")

    @contract_test
    async def test_claims_come_in_portions_and_without_ended_streams(self, log: StreamLog) -> None:
        lost = {await open_stream(log) for _ in range(5)}
        ended = await open_stream(log)
        await log.close(ended, 1, 1, entries(1), "complete")
        self.clock.forward(log.lease + 1)
        sizes, seen = [], set()
        while claims := await log.claim_lost("heir", 2):
            sizes.append(len(claims))
            seen |= {claim.stream_id for claim in claims}
        assert sizes == [2, 2, 1]
        assert seen == lost

    @contract_test
    async def test_a_cancel_reaches_the_producer_both_ways(self, log: StreamLog) -> None:
        id_ = await open_stream(log)
        assert await log.append(id_, 1, 1, entries(1)) is False
        await log.request_cancel(id_)
        assert (await log.meta(id_)).cancel_requested
        assert await log.append(id_, 1, 2, entries(2)) is True
        assert await log.renew({id_: 1}) == {id_: LeaseState.CANCEL_REQUESTED}
        await log.close(id_, 1, 3, entries(3), "cancelled")
        await log.request_cancel(id_)
        assert await log.renew({id_: 1}) == {id_: LeaseState.LOST}


class RetentionRules(LogTests):
    """Ended streams expire, and a log can be started again."""

    @contract_test
    async def test_a_log_can_be_started_again(self, log: StreamLog) -> None:
        id_ = await open_stream(log)
        await log.close(id_, 1, 1, entries(1), "complete")
        await log.start("me")
        await log.start("you")
        await log.stop("you")
        assert await read(log, id_) == entries(1)
        await log.stop("me")
        await log.start("me")
        assert await read(log, id_) == entries(1)

    @contract_test
    async def test_a_claim_returns_the_question_until_the_end_drops_it(
        self, log: StreamLog
    ) -> None:
        question = bytes(range(256)) * 20
        stream = new_stream(question=question)
        await open_stream(log, stream)
        joined = new_stream(request_id=stream.request_id, question=b"another")
        assert not (await log.open(joined, "me")).created
        without, epoch = await open_stream(log), 1
        for _ in range(2):
            self.clock.forward(log.lease + 1)
            claims = {claim.stream_id: claim for claim in await log.claim_lost("heir", 10)}
            assert len(claims) == 2
            epoch = await check_claim(
                log, [claims[stream.stream_id]], stream.stream_id, 0, question
            )
            await check_claim(log, [claims[without]], without, 0)
        await log.close(stream.stream_id, epoch, 1, entries(1), "producer_lost")
        assert list((await log.read(stream.stream_id, 0, 10, 0)).entries) == entries(1)

    @contract_test
    async def test_entries_expire_before_the_description(self, log: StreamLog) -> None:
        request_id = uuid4()
        id_ = await open_stream(log, new_stream(request_id=request_id))
        await log.append(id_, 1, 1, entries(1))
        self.clock.forward(100_000)
        await log.expire(900, 86_400)  # it counts from the end, and this has none
        await log.close(id_, 1, 2, entries(2), "complete")
        self.clock.forward(899)
        await log.expire(900, 86_400)
        assert await read(log, id_) == entries(1, 2)
        self.clock.forward(2)
        await log.expire(900, 86_400)
        for after in (0, 1):
            with pytest.raises(PositionGone) as caught:
                await log.read(id_, after, 10, LONG)
            assert (caught.value.stream_id, caught.value.after_seq) == (id_, after)
        assert (await log.read(id_, 2, 10, LONG)).ended
        meta = await log.meta(id_)
        assert (meta.body_gone, meta.outcome, meta.last_seq) == (True, "complete", 2)
        again = await log.open(new_stream(request_id=request_id), "me")
        assert (again.created, again.meta) == (False, meta)
        self.clock.forward(86_400)
        await log.expire(900, 86_400)
        with pytest.raises(UnknownStream):
            await log.meta(id_)
        assert (await log.open(new_stream(request_id=request_id, body="new"), "me")).created

    @contract_test
    async def test_the_shorter_retention_counts(self, log: StreamLog) -> None:
        """A stream that is forgotten takes its entries with it."""
        id_ = await open_stream(log)
        await log.close(id_, 1, 1, entries(1), "complete")
        self.clock.forward(20)
        await log.expire(1000, 10)
        with pytest.raises(UnknownStream):
            await log.read(id_, 0, 10, 0)

    @contract_test
    async def test_many_streams_expire_at_once(self, log: StreamLog) -> None:
        ids = [await open_stream(log) for _ in range(120)]
        await asyncio.gather(*(log.close(id_, 1, 1, entries(1), "complete") for id_ in ids))
        self.clock.forward(10)
        await log.expire(5, 1000)
        metas = await asyncio.gather(*(log.meta(id_) for id_ in ids))
        assert all(meta.body_gone for meta in metas)


class ConversationRules(LogTests):
    """Turns of a conversation are kept."""

    @contract_test
    async def test_turns_are_kept_in_order_and_once(self, log: StreamLog) -> None:
        talk = Conversation("ann", "s")
        ids = [uuid4() for _ in range(4)]
        for number, id_ in enumerate(ids):
            self.clock.forward(1)
            await log.add_turn(talk, id_, b"turn %d" % number)
        await log.add_turn(talk, ids[1], b"again")
        assert list(await log.turns(talk, 10)) == [b"turn 0", b"turn 1", b"turn 2", b"turn 3"]
        assert list(await log.turns(talk, 2)) == [b"turn 2", b"turn 3"]
        assert list(await log.turns(Conversation("bob", "s"), 10)) == []
        assert list(await log.turns(Conversation("ann", "t"), 10)) == []

    @contract_test
    async def test_no_turns_are_returned_for_a_limit_below_one(self, log: StreamLog) -> None:
        talk = Conversation("ann", "s")
        for number in range(3):
            await log.add_turn(talk, uuid4(), b"turn %d" % number)
        for limit in (0, -1, -5):
            assert list(await log.turns(talk, limit)) == []

    @contract_test
    async def test_a_conversation_keeps_its_latest_turns(self, log: StreamLog) -> None:
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

    @contract_test
    async def test_a_conversation_keeps_a_bounded_number_of_bytes(self, log: StreamLog) -> None:
        """The oldest turns are dropped first, and the newest one stays."""
        other = Conversation("ann", "other")
        await log.add_turn(other, uuid4(), b"of another conversation")
        for case, (sizes, kept) in enumerate(KEPT_TURNS):
            talk = Conversation("ann", f"s{case}")
            turns = [bytes([n]) * (size * MAX_TURN_BYTES // 4) for n, size in enumerate(sizes)]
            for turn in turns:
                await log.add_turn(talk, uuid4(), turn)
            assert list(await log.turns(talk, 100)) == turns[-kept:]
            assert list(await log.turns(talk, 1)) == turns[-1:]
        assert list(await log.turns(other, 10)) == [b"of another conversation"]

    @contract_test
    async def test_a_conversation_expires_when_nothing_is_added(self, log: StreamLog) -> None:
        talk = Conversation("ann", "s")
        await log.add_turn(talk, uuid4(), b"1")
        self.clock.forward(600)
        await log.add_turn(talk, uuid4(), b"2")
        self.clock.forward(600)
        await log.expire(10, 1000)
        assert list(await log.turns(talk, 10)) == [b"1", b"2"]
        self.clock.forward(600)
        await log.expire(10, 1000)
        assert list(await log.turns(talk, 10)) == []
