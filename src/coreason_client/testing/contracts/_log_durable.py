"""The rules of a log that keeps the journals of durable agents."""

from uuid import UUID, uuid4

import pytest

from ...server.errors import Fenced, OutOfSequence, UnknownStream
from ...server.log import AgentVersion, Conversation, DurableLog, EpochStart, NewStream, Notes
from ...server.log.base import PAGE_BYTES, UNCLAIMED_SECONDS
from ._log_tests import LogTests, check_claim, contract_test

AGENT = AgentVersion("writer", "1")


async def open_durable(log: DurableLog, agent: AgentVersion | None = AGENT) -> UUID:
    """Open a stream of an agent, and return its id."""
    stream = NewStream(uuid4(), "ann", uuid4(), "print", b"question", agent)
    return (await log.open(stream, "me")).meta.stream_id


async def all_notes(log: DurableLog, id_: UUID) -> list[bytes]:
    """Return the whole journal of a stream."""
    notes: list[bytes] = []
    while more := await log.journal(id_, len(notes)):
        notes += more
    return notes


class JournalRules(LogTests):
    """Notes are stored in one step with entries."""

    @contract_test
    async def test_notes_and_entries_are_stored_together_and_in_order(
        self, log: DurableLog
    ) -> None:
        id_ = await open_durable(log)
        await log.append(id_, 1, 1, [b"one"], Notes(1, [b"a", b"b"]))
        await log.append(id_, 1, 2, [], Notes(3, [b"c"]))
        await log.append(id_, 1, 2, [b"two"])
        assert await all_notes(log, id_) == [b"a", b"b", b"c"]
        assert list(await log.journal(id_, 2)) == [b"c"]
        assert list((await log.read(id_, 0, 10, 0)).entries) == [b"one", b"two"]
        assert (await log.meta(id_)).last_seq == 2

    @contract_test
    async def test_a_repeated_append_with_notes_has_no_effect(self, log: DurableLog) -> None:
        id_ = await open_durable(log)
        for _ in range(2):
            await log.append(id_, 1, 1, [b"one"], Notes(1, [b"a"]))
        for _ in range(2):
            await log.append(id_, 1, 2, [], Notes(2, [b"b"]))
        assert await all_notes(log, id_) == [b"a", b"b"]
        assert list((await log.read(id_, 0, 10, 0)).entries) == [b"one"]

    @contract_test
    async def test_notes_must_follow_the_last_one(self, log: DurableLog) -> None:
        id_ = await open_durable(log)
        await log.append(id_, 1, 1, [b"one"], Notes(1, [b"a"]))
        for first in (0, 3, 9):
            with pytest.raises(OutOfSequence):
                await log.append(id_, 1, 2, [b"two"], Notes(first, [b"b"]))
            assert await all_notes(log, id_) == [b"a"]
            assert (await log.meta(id_)).last_seq == 1  # nothing of the append is stored

    @contract_test
    async def test_an_append_without_notes_may_name_the_next_one(self, log: DurableLog) -> None:
        """So a producer learns that a store has lost notes which came without entries."""
        id_ = await open_durable(log)
        await log.append(id_, 1, 1, [b"one"], Notes(1, []))
        await log.append(id_, 1, 2, [], Notes(1, [b"a"]))
        for first in (0, 3):
            with pytest.raises(OutOfSequence) as caught:
                await log.append(id_, 1, 2, [b"two"], Notes(first, []))
            assert caught.value.last_seq == 1
        for _ in range(2):
            await log.append(id_, 1, 2, [b"two"], Notes(2, []))
        self.clock.forward(log.lease + 1)
        [claim] = await log.claim_durable("heir", AGENT, 10)
        with pytest.raises(OutOfSequence):
            await log.append(id_, claim.epoch, 3, [b"three"], Notes(1, []))
        await log.append(id_, claim.epoch, 3, [b"three"], Notes(2, []))
        assert await all_notes(log, id_) == [b"a"]
        assert list((await log.read(id_, 0, 10, 0)).entries) == [b"one", b"two", b"three"]

    @contract_test
    async def test_notes_are_fenced_and_never_overtake_packets(self, log: DurableLog) -> None:
        id_ = await open_durable(log)
        with pytest.raises(OutOfSequence):  # the packet before it is missing
            await log.append(id_, 1, 2, [], Notes(1, [b"a"]))
        self.clock.forward(log.lease + 1)
        [claim] = await log.claim_durable("heir", AGENT, 10)
        with pytest.raises(Fenced):
            await log.append(id_, 1, 1, [], Notes(1, [b"a"]))
        await log.append(id_, claim.epoch, 1, [], Notes(1, [b"mine"]))
        assert await all_notes(log, id_) == [b"mine"]

    @contract_test
    async def test_notes_of_an_earlier_epoch_are_not_acknowledged_again(
        self, log: DurableLog
    ) -> None:
        id_ = await open_durable(log)
        await log.append(id_, 1, 1, [], Notes(1, [b"a"]))
        self.clock.forward(log.lease + 1)
        [claim] = await log.claim_durable("heir", AGENT, 10)
        with pytest.raises(OutOfSequence):
            await log.append(id_, claim.epoch, 1, [], Notes(1, [b"other"]))
        await log.append(id_, claim.epoch, 1, [], Notes(2, [b"b"]))
        assert await all_notes(log, id_) == [b"a", b"b"]

    @contract_test
    async def test_a_journal_has_several_pages(self, log: DurableLog) -> None:
        id_ = await open_durable(log)
        notes = [bytes([number]) * (PAGE_BYTES // 2) for number in range(5)]
        await log.append(id_, 1, 1, [], Notes(1, notes))
        assert len(await log.journal(id_)) >= 1
        assert await all_notes(log, id_) == notes

    @contract_test
    async def test_the_end_drops_the_journal(self, log: DurableLog) -> None:
        id_ = await open_durable(log)
        await log.append(id_, 1, 1, [], Notes(1, [b"a"]))
        await log.close(id_, 1, 1, [b"end"], "complete")
        assert await all_notes(log, id_) == []
        with pytest.raises(Fenced):
            await log.append(id_, 1, 2, [], Notes(2, [b"b"]))
        self.clock.forward(10 * UNCLAIMED_SECONDS)
        assert list(await log.claim_durable("heir", AGENT, 10)) == []
        assert list(await log.claim_lost("heir", 10)) == []

    @contract_test
    async def test_an_unknown_stream_has_no_journal(self, log: DurableLog) -> None:
        with pytest.raises(UnknownStream):
            await log.journal(uuid4())
        with pytest.raises(UnknownStream):
            await log.release(uuid4(), 1)


class ClaimRules(LogTests):
    """Another process of the same agent continues a stream."""

    @contract_test
    async def test_only_a_process_of_the_same_agent_continues_a_stream(
        self, log: DurableLog
    ) -> None:
        id_ = await open_durable(log)
        plain = await open_durable(log, None)
        await log.append(id_, 1, 1, [b"one", b"two"])
        assert list(await log.claim_durable("heir", AGENT, 10)) == []  # the lease holds
        self.clock.forward(log.lease + 1)
        assert list(await log.claim_durable("heir", AgentVersion("reader", "1"), 10)) == []
        await check_claim(log, await log.claim_lost("heir", 10), plain, 0, b"question")
        claims = await log.claim_durable("heir", AGENT, 10)
        epoch = await check_claim(log, claims, id_, 2, b"question")
        assert list(await log.claim_durable("third", AGENT, 10)) == []
        meta = await log.meta(id_)
        assert (meta.agent, meta.epochs) == (AGENT, (EpochStart(3, epoch),))
        assert [meta.epoch_of(seq) for seq in (1, 2, 3, 9)] == [1, 1, epoch, epoch]
        assert (await log.meta(plain)).agent is None

    @contract_test
    async def test_another_version_waits_one_lease_longer(self, log: DurableLog) -> None:
        id_ = await open_durable(log)
        other = AgentVersion("writer", "2")
        self.clock.forward(log.lease + 1)
        assert list(await log.claim_durable("heir", other, 10)) == []
        self.clock.forward(log.lease)
        assert [claim.stream_id for claim in await log.claim_durable("heir", other, 10)] == [id_]

    @contract_test
    async def test_a_claim_has_a_limit(self, log: DurableLog) -> None:
        ids = {await open_durable(log) for _ in range(6)}
        self.clock.forward(log.lease + 1)
        first = await log.claim_durable("heir", AGENT, 4)
        rest = await log.claim_durable("heir", AGENT, 4)
        assert (len(first), len(rest)) == (4, 2)
        assert {claim.stream_id for claim in (*first, *rest)} == ids

    @contract_test
    async def test_any_process_ends_a_stream_that_is_not_continued(self, log: DurableLog) -> None:
        id_ = await open_durable(log)
        self.clock.forward(log.lease + UNCLAIMED_SECONDS - 1)
        assert list(await log.claim_lost("heir", 10)) == []
        self.clock.forward(2)
        await check_claim(log, await log.claim_lost("heir", 10), id_, 0, b"question")

    @contract_test
    async def test_a_claimed_stream_can_be_renewed_and_written(self, log: DurableLog) -> None:
        id_ = await open_durable(log)
        self.clock.forward(log.lease + 1)
        [claim] = await log.claim_durable("heir", AGENT, 10)
        for _ in range(3):
            self.clock.forward(log.lease - 1)
            await log.renew({id_: claim.epoch})
        assert list(await log.claim_durable("third", AGENT, 10)) == []
        await log.request_cancel(id_)
        assert await log.append(id_, claim.epoch, 1, [b"one"], Notes(1, [b"a"])) is True

    @contract_test
    async def test_a_released_stream_is_claimed_at_once(self, log: DurableLog) -> None:
        id_ = await open_durable(log)
        await log.append(id_, 1, 1, [b"one"])
        await log.renew({id_: 1})
        await log.release(id_, 1)
        with pytest.raises(Fenced):
            await log.append(id_, 1, 2, [b"two"])
        released = (await log.meta(id_)).epoch
        self.clock.forward(0.001)
        claims = await log.claim_durable("heir", AGENT, 10)
        epoch = await check_claim(log, claims, id_, 1, b"question")
        assert epoch > released > 1
        await log.append(id_, epoch, 2, [b"two"])
        assert (await log.meta(id_)).epochs == (EpochStart(2, released), EpochStart(2, epoch))

    @contract_test
    async def test_a_repeated_release_has_no_effect_until_the_stream_is_claimed(
        self, log: DurableLog
    ) -> None:
        """The reply to the first one was lost."""
        id_ = await open_durable(log)
        await log.append(id_, 1, 1, [b"one"])
        for other in (2, 3):
            with pytest.raises(Fenced):
                await log.release(id_, other)
        await log.release(id_, 1)
        once = await log.meta(id_)
        await log.release(id_, 1)
        assert await log.meta(id_) == once
        with pytest.raises(Fenced):  # nobody holds the epoch in between
            await log.claim_held(id_, 1, "me")
        self.clock.forward(0.001)
        [claim] = await log.claim_durable("heir", AGENT, 10)
        for over in (1, once.epoch):
            with pytest.raises(Fenced):
                await log.release(id_, over)
        assert list(await log.claim_durable("third", AGENT, 10)) == []
        await log.append(id_, claim.epoch, 2, [b"two"])
        await log.release(id_, claim.epoch)  # the next owner can give it away as well
        await log.release(id_, claim.epoch)
        with pytest.raises(Fenced):
            await log.release(id_, 1)
        self.clock.forward(0.001)
        assert len(await log.claim_durable("third", AGENT, 10)) == 1

    @contract_test
    async def test_the_holder_of_a_durable_stream_claims_it_with_its_question(
        self, log: DurableLog
    ) -> None:
        id_ = await open_durable(log)
        await log.append(id_, 1, 1, [b"one"], Notes(1, [b"a"]))
        claim = await log.claim_held(id_, 1, "me")
        await check_claim(log, [claim], id_, 1, b"question")
        assert list(await log.claim_durable("heir", AGENT, 10)) == []  # it holds the lease
        with pytest.raises(OutOfSequence):  # notes of the earlier epoch
            await log.append(id_, claim.epoch, 2, [b"two"], Notes(1, [b"a"]))
        await log.append(id_, claim.epoch, 2, [b"two"], Notes(2, [b"b"]))
        assert await all_notes(log, id_) == [b"a", b"b"]

    @contract_test
    async def test_an_ended_stream_is_not_released(self, log: DurableLog) -> None:
        id_ = await open_durable(log)
        await log.close(id_, 1, 1, [b"end"], "complete")
        with pytest.raises(Fenced):
            await log.release(id_, 1)

    @contract_test
    async def test_the_turn_of_the_latest_epoch_counts(self, log: DurableLog) -> None:
        talk = Conversation("ann", "session")
        first, second = uuid4(), uuid4()
        await log.add_turn(talk, first, b"1", 1)
        await log.add_turn(talk, second, b"2", 2)
        await log.add_turn(talk, first, b"of the heir, longer", 2)
        await log.add_turn(talk, first, b"of a fenced producer", 1)
        await log.add_turn(talk, second, b"again", 2)
        assert list(await log.turns(talk, 10)) == [b"of the heir, longer", b"2"]
