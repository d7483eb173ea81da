"""The rules of a log about epochs and positions: which entries a reader may take for its own."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import TypeAlias
from uuid import UUID

import pytest

from ...server.errors import Fenced, PositionGone
from ...server.log import EpochStart, LeaseState, Page, StreamLog
from ...server.log.base import Follower
from ._log_tests import (
    LONG,
    LogTests,
    check_claim,
    contract_test,
    entries,
    let_run,
    new_stream,
    open_stream,
    read,
)

Write: TypeAlias = Callable[[bytes], bool]


async def two_epochs(log: StreamLog, *, ended: bool = False) -> tuple[UUID, int]:
    """Open a stream with the entries 1 to 3 of epoch 1, and 4 and 5 of the returned epoch."""
    id_ = await open_stream(log)
    await log.append(id_, 1, 1, entries(1, 2, 3))
    epoch = (await log.claim_held(id_, 1, "me")).epoch
    await log.append(id_, epoch, 4, entries(4))
    if ended:
        await log.close(id_, epoch, 5, entries(5), "complete")
    else:
        await log.append(id_, epoch, 5, entries(5))
    return id_, epoch


async def first_entries(follower: Follower, write: Write | None = None) -> list[bytes]:
    """Return the next entries of a follower; a page without entries is not the last one."""
    while not (page := await follower.next(100, LONG, write)).entries:
        assert not page.ended
    return list(page.entries)


async def check_gone(log: StreamLog, id_: UUID, seq: int, epoch: int) -> None:
    """Check that neither a read nor a follower accepts a position."""
    with pytest.raises(PositionGone) as caught:
        await log.read(id_, seq, 100, 0, epoch)
    assert (caught.value.stream_id, caught.value.after_seq) == (id_, seq)
    for wait in (0, LONG):
        with closing(log.follow(id_, seq, epoch)) as follower:
            with pytest.raises(PositionGone):
                await follower.next(100, wait)
            assert (follower.position, follower.epoch) == (seq, epoch)


async def check_page(log: StreamLog, id_: UUID, position: tuple[int, int], page: Page) -> None:
    """Check that a read and a follower return this page after a position."""
    seq, epoch = position
    limit = len(page.entries) or 1
    got = await log.read(id_, seq, limit, 0, epoch)
    assert (list(got.entries), got.ended, got.epoch) == (list(page.entries), page.ended, page.epoch)
    with closing(log.follow(id_, seq, epoch)) as follower:
        got = await follower.next(limit, 0)
        assert (list(got.entries), got.ended) == (list(page.entries), page.ended)
        at = (seq + len(page.entries), page.epoch)
        assert (follower.position, follower.epoch) == at


class EpochRules(LogTests):
    """An epoch is the unique name of a claim, and its order."""

    @contract_test
    async def test_every_stream_has_the_beginnings_of_its_epochs(self, log: StreamLog) -> None:
        id_ = await open_stream(log)
        assert (await log.meta(id_)).epochs == ()
        await log.append(id_, 1, 1, entries(1, 2))
        self.clock.forward(log.lease + 1)
        second = await check_claim(log, await log.claim_lost("heir", 10), id_, 2)
        third = await check_claim(log, [await log.claim_held(id_, second, "heir")], id_, 2)
        await log.append(id_, third, 3, entries(3))
        self.clock.forward(log.lease + 1)
        fourth = await check_claim(log, await log.claim_lost("heir", 10), id_, 3)
        await log.close(id_, fourth, 4, entries(4), "producer_lost")
        meta = await log.meta(id_)
        starts = ((3, second), (3, third), (4, fourth))
        assert (meta.epoch, meta.epochs) == (fourth, tuple(EpochStart(*pair) for pair in starts))
        assert [meta.epoch_of(seq) for seq in (1, 2, 3, 4)] == [1, 1, third, fourth]

    @contract_test
    async def test_the_number_of_an_epoch_is_not_counted(self, log: StreamLog) -> None:
        """A store that has lost its latest state would count the same numbers again."""
        ids = [await open_stream(log) for _ in range(8)]
        self.clock.forward(log.lease + 1)
        claims = list(await log.claim_lost("heir", 10))
        assert {claim.stream_id for claim in claims} == set(ids)
        first = {claim.stream_id: claim.epoch for claim in claims}
        second = {id_: (await log.claim_held(id_, first[id_], "heir")).epoch for id_ in ids}
        for epochs in (first, second):
            assert len(set(epochs.values())) > 1
            assert all(2**32 < epoch < 2**53 for epoch in epochs.values())
        assert all(second[id_] > first[id_] for id_ in ids)

    @contract_test
    async def test_the_holder_claims_its_stream_at_once(self, log: StreamLog) -> None:
        stream = new_stream(question=b"question")
        id_ = await open_stream(log, stream)
        await log.append(id_, 1, 1, entries(1))
        self.clock.forward(log.lease - 1)
        claim = await log.claim_held(id_, 1, "me")
        epoch = await check_claim(log, [claim], id_, 1, b"question")
        with pytest.raises(Fenced):
            await log.append(id_, 1, 2, entries(2))
        with pytest.raises(Fenced):
            await log.close(id_, 1, 2, entries(2), "complete")
        assert await log.renew({id_: 1}) == {id_: LeaseState.LOST}
        self.clock.forward(log.lease - 1)  # it has a new lease
        assert list(await log.claim_lost("heir", 10)) == []
        assert await log.renew({id_: epoch}) == {id_: LeaseState.HELD}
        await log.close(id_, epoch, 2, entries(2), "producer_lost")
        assert await read(log, id_) == entries(1, 2)

    @contract_test
    async def test_only_the_holder_of_a_running_stream_claims_it(self, log: StreamLog) -> None:
        id_ = await open_stream(log)
        for other in (2, 3):
            with pytest.raises(Fenced) as caught:
                await log.claim_held(id_, other, "me")
            assert (caught.value.stream_id, caught.value.epoch) == (id_, other)
        results = await asyncio.gather(
            *(log.claim_held(id_, 1, "me") for _ in range(5)), return_exceptions=True
        )
        assert sum(isinstance(result, Fenced) for result in results) == 4
        [epoch] = [result.epoch for result in results if not isinstance(result, BaseException)]
        assert (await log.meta(id_)).epochs == (EpochStart(1, epoch),)
        await log.close(id_, epoch, 1, entries(1), "complete")
        with pytest.raises(Fenced):
            await log.claim_held(id_, epoch, "me")


class PositionRules(LogTests):
    """A position is a number and the epoch of that entry."""

    @contract_test
    async def test_a_position_of_another_epoch_is_gone(self, log: StreamLog) -> None:
        for ended in (False, True):
            id_, epoch = await two_epochs(log, ended=ended)
            for seq, wrong in (
                *((seq, epoch) for seq in (1, 3)),  # below the last entry
                *((seq, 1) for seq in (4, 5, 6, 100)),  # below, at and above it
                *((seq, other) for seq in (1, 3, 4, 5, 6) for other in (2, epoch - 1, epoch + 1)),
            ):
                await check_gone(log, id_, seq, wrong)

    @contract_test
    async def test_a_page_has_the_epoch_of_its_last_entry(self, log: StreamLog) -> None:
        id_, epoch = await two_epochs(log)
        for position, page in (
            ((0, 1), Page(entries(1, 2), False, 1)),
            ((0, 1), Page(entries(1, 2, 3), False, 1)),
            ((1, 1), Page(entries(2, 3, 4), False, epoch)),
            ((3, 1), Page(entries(4, 5), False, epoch)),
            ((4, epoch), Page(entries(5), False, epoch)),
            ((5, epoch), Page([], False, epoch)),
        ):
            await check_page(log, id_, position, page)
        await log.close(id_, epoch, 6, entries(6), "complete")
        await check_page(log, id_, (3, 1), Page(entries(4, 5, 6), True, epoch))
        await check_page(log, id_, (6, epoch), Page([], True, epoch))

    @contract_test
    async def test_the_beginning_is_never_gone(self, log: StreamLog) -> None:
        id_, epoch = await two_epochs(log)
        for any_epoch in (1, 2, epoch, epoch + 1):
            await check_page(log, id_, (0, any_epoch), Page(entries(1, 2, 3, 4, 5), False, epoch))

    @contract_test
    async def test_a_position_beyond_the_last_entry_waits_for_the_same_entries(
        self, log: StreamLog
    ) -> None:
        """The store has lost them, and their producer sends them again."""
        id_ = await open_stream(log)
        await log.append(id_, 1, 1, entries(1, 2, 3))
        await check_page(log, id_, (5, 1), Page([], False, 1))
        with closing(log.follow(id_, 5)) as follower:
            following = asyncio.ensure_future(first_entries(follower))
            await let_run()
            for number in (4, 5, 6):
                assert not following.done()
                await log.append(id_, 1, number, entries(number))
                await let_run()
            assert await following == entries(6)
            assert follower.position == 6

    @contract_test
    async def test_a_position_beyond_the_last_entry_is_gone_after_a_claim(
        self, log: StreamLog
    ) -> None:
        id_ = await open_stream(log)
        await log.append(id_, 1, 1, entries(1, 2, 3))
        epoch = (await log.claim_held(id_, 1, "me")).epoch
        for seq in (4, 5, 100):
            await check_gone(log, id_, seq, 1)
            await check_page(log, id_, (seq, epoch), Page([], False, epoch))
        await check_page(log, id_, (3, 1), Page([], False, 1))
        await log.close(id_, epoch, 4, entries(4), "complete")
        for seq in (5, 100):
            await check_gone(log, id_, seq, epoch)

    @contract_test
    async def test_a_position_beyond_the_end_is_gone(self, log: StreamLog) -> None:
        id_ = await open_stream(log)
        await log.append(id_, 1, 1, entries(1, 2))
        with closing(log.follow(id_, 9)) as follower:
            following = asyncio.ensure_future(first_entries(follower))
            await let_run()
            await log.close(id_, 1, 3, entries(3), "complete")
            with pytest.raises(PositionGone):
                await following
        for seq in (4, 9):
            await check_gone(log, id_, seq, 1)
        await check_page(log, id_, (3, 1), Page([], True, 1))

    @contract_test
    async def test_an_open_reader_gets_nothing_of_another_epoch(self, log: StreamLog) -> None:
        """The new entries have passed its position when it looks."""
        for count in (1, 2, 3, 9):
            id_ = await open_stream(log)
            await log.append(id_, 1, 1, entries(1, 2))
            written: list[bytes] = []

            def write(body: bytes, written: list[bytes] = written) -> bool:
                written.append(body)
                return True

            with closing(log.follow(id_, 4)) as follower:
                following = asyncio.ensure_future(first_entries(follower, write))
                await let_run()
                epoch = (await log.claim_held(id_, 1, "me")).epoch
                await log.append(id_, epoch, 3, entries(*range(3, 3 + count)))
                with pytest.raises(PositionGone):
                    await following
                assert (written, follower.position, follower.epoch) == ([], 4, 1)

    @contract_test
    async def test_an_open_reader_follows_into_the_next_epoch(self, log: StreamLog) -> None:
        id_ = await open_stream(log)
        await log.append(id_, 1, 1, entries(1, 2))
        with closing(log.follow(id_, 2)) as follower:
            for number in (3, 4):
                following = asyncio.ensure_future(first_entries(follower))
                await let_run()
                epoch = (await log.claim_held(id_, (await log.meta(id_)).epoch, "me")).epoch
                await log.append(id_, epoch, number, entries(number))
                assert await following == entries(number)
                assert (follower.position, follower.epoch) == (number, epoch)

    @contract_test
    async def test_a_position_at_the_end_is_checked_when_the_entries_have_expired(
        self, log: StreamLog
    ) -> None:
        id_, epoch = await two_epochs(log, ended=True)
        self.clock.forward(1000)
        await log.expire(900, 86_400)
        await check_page(log, id_, (5, epoch), Page([], True, epoch))
        for seq, of in ((5, 1), (5, epoch + 1), (6, epoch), (4, epoch), (3, 1), (0, 1)):
            await check_gone(log, id_, seq, of)
