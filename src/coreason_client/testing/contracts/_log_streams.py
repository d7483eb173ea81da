"""The rules of a log about requests, entries and readers."""

import asyncio
from uuid import uuid4

import pytest

from ...server.errors import Fenced, OutOfSequence, RequestConflict, UnknownStream
from ...server.log import LeaseState, StreamLog, StreamMeta
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


class RequestRules(LogTests):
    """A request has one stream."""

    @contract_test
    async def test_opens_reads_and_closes(self, log: StreamLog) -> None:
        stream = new_stream()
        first = await log.open(stream, "me")
        assert first.created
        assert first.meta == StreamMeta(
            stream_id=stream.stream_id,
            principal="ann",
            request_id=stream.request_id,
            fingerprint="b",
            epoch=1,
            last_seq=0,
            opened_at=self.clock.now,
            outcome=None,
            ended_at=None,
            cancel_requested=False,
            body_gone=False,
        )
        assert await log.append(stream.stream_id, 1, 1, entries(1, 2)) is False
        self.clock.forward(5)
        await log.close(stream.stream_id, 1, 3, entries(3), "complete")
        page = await log.read(stream.stream_id, 0, 100, LONG)
        assert list(page.entries) == entries(1, 2, 3)
        assert page.ended
        meta = await log.meta(stream.stream_id)
        assert (meta.last_seq, meta.outcome, meta.ended_at) == (3, "complete", self.clock.now)

    @contract_test
    async def test_a_known_request_gives_the_same_stream(self, log: StreamLog) -> None:
        request_id = uuid4()
        first = await log.open(new_stream(request_id=request_id), "me")
        second = await log.open(new_stream(request_id=request_id), "another")
        assert not second.created
        assert second.meta == first.meta
        assert await log.find("ann", request_id) == first.meta
        with pytest.raises(RequestConflict) as caught:
            await log.open(new_stream(request_id=request_id, body="other"), "me")
        assert caught.value.request_id == request_id

    @contract_test
    async def test_a_request_belongs_to_its_principal(self, log: StreamLog) -> None:
        request_id = uuid4()
        ann = await log.open(new_stream("ann", request_id), "me")
        bob = await log.open(new_stream("bob", request_id, body="other"), "me")
        assert bob.created
        assert ann.meta.stream_id != bob.meta.stream_id
        assert await log.find("eve", request_id) is None

    @contract_test
    async def test_two_openings_at_once_give_one_stream(self, log: StreamLog) -> None:
        request_id = uuid4()
        results = await asyncio.gather(
            *(log.open(new_stream(request_id=request_id), "me") for _ in range(10))
        )
        assert sum(result.created for result in results) == 1
        assert len({result.meta.stream_id for result in results}) == 1


class EntryRules(LogTests):
    """Entries are numbered and appended once."""

    @contract_test
    async def test_an_append_follows_the_last_entry(self, log: StreamLog) -> None:
        id_ = await open_stream(log)
        await log.append(id_, 1, 1, entries(1, 2, 3))
        for first_seq in (3, 5, 100):
            with pytest.raises(OutOfSequence) as caught:
                await log.append(id_, 1, first_seq, entries(first_seq, first_seq + 1))
            assert (caught.value.first_seq, caught.value.last_seq) == (first_seq, 3)
            assert await read(log, id_) == entries(1, 2, 3)

    @contract_test
    async def test_a_repeated_append_is_acknowledged_without_a_second_copy(
        self, log: StreamLog
    ) -> None:
        id_ = await open_stream(log)
        await log.append(id_, 1, 1, entries(1, 2))
        await log.append(id_, 1, 1, entries(1, 2))
        await log.append(id_, 1, 2, entries(2))
        await log.close(id_, 1, 3, entries(3), "complete")
        await log.close(id_, 1, 3, entries(3), "complete")
        assert await read(log, id_) == entries(1, 2, 3)

    @contract_test
    async def test_a_repeated_append_of_another_epoch_is_refused(self, log: StreamLog) -> None:
        """It is held in full, but the acknowledgement would be somebody else's."""
        id_ = await open_stream(log)
        await log.append(id_, 1, 1, entries(1, 2))
        self.clock.forward(log.lease + 1)
        epoch = await check_claim(log, await log.claim_lost("heir", 10), id_, 2)
        for other in (1, 2, epoch - 1, epoch + 1):
            with pytest.raises(Fenced):
                await log.append(id_, other, 1, entries(1, 2))
            with pytest.raises(Fenced):
                await log.close(id_, other, 2, entries(2), "complete")
        for first in (1, 2):
            with pytest.raises(OutOfSequence):  # the earlier epoch may have written other bytes
                await log.append(id_, epoch, first, entries(*range(first, 3)))
        await log.append(id_, epoch, 3, entries(3))
        await log.append(id_, epoch, 3, entries(3))
        for other in (1, 2, epoch - 1, epoch + 1):
            with pytest.raises(Fenced):  # held, but this epoch did not write it
                await log.append(id_, other, 3, entries(3))
        assert (await log.meta(id_)).outcome is None

    @contract_test
    async def test_nothing_follows_the_end(self, log: StreamLog) -> None:
        id_ = await open_stream(log)
        await log.close(id_, 1, 1, entries(1), "complete")
        with pytest.raises(Fenced):
            await log.append(id_, 1, 2, entries(2))
        with pytest.raises(Fenced):
            await log.close(id_, 1, 2, entries(2), "again")
        assert (await log.meta(id_)).outcome == "complete"

    @contract_test
    async def test_a_stream_ends_with_an_entry(self, log: StreamLog) -> None:
        id_ = await open_stream(log)
        with pytest.raises(ValueError, match="must end with an entry"):
            await log.close(id_, 1, 1, [], "complete")
        assert (await log.meta(id_)).outcome is None

    @contract_test
    async def test_an_unknown_stream_is_unknown_to_all(self, log: StreamLog) -> None:
        id_ = uuid4()
        for call in (
            log.append(id_, 1, 1, entries(1)),
            log.close(id_, 1, 1, entries(1), "complete"),
            log.read(id_, 0, 1, 0),
            log.meta(id_),
            log.request_cancel(id_),
            log.claim_held(id_, 1, "me"),
        ):
            with pytest.raises(UnknownStream) as caught:
                await call
            assert caught.value.stream_id == id_
        assert await log.renew({id_: 1}) == {id_: LeaseState.LOST}


class ReaderRules(LogTests):
    """Readers get pages, and wait for new entries."""

    @contract_test
    async def test_reads_pages(self, log: StreamLog) -> None:
        id_ = await open_stream(log)
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

    @contract_test
    async def test_large_entries_make_short_pages(self, log: StreamLog) -> None:
        id_ = await open_stream(log)
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

    @contract_test
    async def test_a_waiting_read_wakes_with_the_append(self, log: StreamLog) -> None:
        id_, other = await open_stream(log), await open_stream(log)
        waiting = [asyncio.ensure_future(log.read(id_, 0, 100, LONG)) for _ in range(3)]
        await let_run()
        await log.append(other, 1, 1, entries(1))
        await let_run()
        assert not any(task.done() for task in waiting)
        await log.append(id_, 1, 1, entries(1))
        for page in await asyncio.gather(*waiting):
            assert list(page.entries) == entries(1)
            assert not page.ended

    @contract_test
    async def test_a_waiting_read_wakes_with_the_end(self, log: StreamLog) -> None:
        id_ = await open_stream(log)
        await log.append(id_, 1, 1, entries(1))
        waiting = asyncio.ensure_future(log.read(id_, 1, 100, LONG))
        await let_run()
        await log.close(id_, 1, 2, entries(2), "complete")
        page = await waiting
        assert (list(page.entries), page.ended) == (entries(2), True)

    @contract_test
    async def test_a_wait_has_an_end(self, log: StreamLog) -> None:
        id_ = await open_stream(log)
        page = await log.read(id_, 0, 100, 0.01)
        assert (list(page.entries), page.ended) == ([], False)

    @contract_test
    async def test_wake_readers_ends_every_wait(self, log: StreamLog) -> None:
        ids = [await open_stream(log) for _ in range(3)]
        waiting = [asyncio.ensure_future(log.read(id_, 0, 100, LONG)) for id_ in ids]
        for id_ in ids:  # behind the looks of the reads at their store
            await log.meta(id_)
        await let_run()
        log.wake_readers()
        for page in await asyncio.gather(*waiting):
            assert (list(page.entries), page.ended) == ([], False)

    @contract_test
    async def test_a_cancelled_read_leaves_nothing_behind(self, log: StreamLog) -> None:
        id_ = await open_stream(log)
        waiting = asyncio.ensure_future(log.read(id_, 0, 100, LONG))
        await let_run()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await log.append(id_, 1, 1, entries(1))
        assert await read(log, id_) == entries(1)
