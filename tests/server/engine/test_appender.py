"""Batches: what goes out at once, what waits, and that nothing is lost on the way."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest

from coreason_client.server.engine import _appender
from coreason_client.server.engine._appender import (
    FLUSH_BYTES,
    FLUSH_EVERY,
    KEEP_SECONDS,
    Appender,
    KeptBatches,
)
from coreason_client.server.engine._limits import WRITERS
from coreason_client.server.errors import Fenced, LogUnavailable, OutOfSequence, StreamEnded
from coreason_client.server.log import MemoryStreamLog, NewStream, Notes

from ..aio import aio, turns
from ..cut_back import CutBackLog, CutBackStore
from .test_pace import Iterations


class Recorder(MemoryStreamLog):
    """A memory log that notes the batches and can be told to take its time or to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[bytes]] = []
        self.before: asyncio.Event | None = None
        self.busy: asyncio.Event | None = None
        self.failure: Exception | None = None

    async def append(
        self,
        stream_id: UUID,
        epoch: int,
        first_seq: int,
        entries: Sequence[bytes],
        notes: Notes | None = None,
    ) -> bool:
        self.batches.append(list(entries))
        if self.failure is not None:
            raise self.failure
        if self.before is not None:
            await self.before.wait()
        answer = await super().append(stream_id, epoch, first_seq, entries, notes)
        if self.busy is not None:
            await self.busy.wait()
        return answer

    async def close(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], outcome: str
    ) -> None:
        self.batches.append([*entries, b"END"])
        await super().close(stream_id, epoch, first_seq, entries, outcome)


async def begin(*, first_waits: bool = False) -> tuple[Recorder, Appender, UUID]:
    log = Recorder()
    meta = (await log.open(NewStream(uuid4(), "p", uuid4(), "f"), "me")).meta
    known = (log, meta.stream_id, meta.epoch, lambda: None)
    return log, Appender(*known, first_waits=first_waits), meta.stream_id


def gather(appender: Appender) -> None:
    """Let entries gather, however long this machine takes between two of them."""
    appender._due = float("inf")


async def stored(log: Recorder, stream_id: UUID) -> list[bytes]:
    return list((await log.read(stream_id, 0, 1000, 0)).entries)


@pytest.mark.parametrize("kind", ["delta", "event"])
@aio
async def test_an_agent_that_only_writes_lets_others_run(kind: str) -> None:
    """A log in memory acknowledges at once, so nothing else would suspend such an agent."""
    log = MemoryStreamLog()  # a Recorder makes a task of each append
    meta = (await log.open(NewStream(uuid4(), "p", uuid4(), "f"), "me")).meta
    appender = Appender(log, meta.stream_id, meta.epoch, lambda: None)
    iterations = 0

    def count() -> None:
        nonlocal iterations
        iterations += 1
        asyncio.get_running_loop().call_soon(count)

    count()
    for _ in range(100):
        if kind == "delta":
            await appender.add_delta(bytes(FLUSH_BYTES // 2))
        else:
            await appender.add(b"event")
    assert iterations > 40


@pytest.mark.parametrize("kind", ["delta", "event"])
@pytest.mark.parametrize("log", [MemoryStreamLog, Recorder])  # it acknowledges at once, or later
@aio
async def test_few_of_many_agents_that_only_write_go_on_in_one_iteration(
    log: type[MemoryStreamLog], kind: str
) -> None:
    """Otherwise an iteration would take as long as all of them, and a request needs many."""
    store, agents, writes = log(), 12 * WRITERS, 5
    begun = Counter[int]()

    async def write(iterations: Iterations) -> None:
        meta = (await store.open(NewStream(uuid4(), "p", uuid4(), "f"), "me")).meta
        appender = Appender(store, meta.stream_id, meta.epoch, lambda: None)
        for number in range(writes):
            if number:  # all begin in the same iteration
                begun[iterations.count] += 1
            if kind == "delta":
                appender.enqueue(b"first")
                await appender.add_delta(bytes(FLUSH_BYTES))
            else:
                await appender.add(b"event")

    with Iterations() as iterations:
        await asyncio.gather(*(write(iterations) for _ in range(agents)))
    assert sum(begun.values()) == agents * (writes - 1)
    assert max(begun.values()) == WRITERS
    # And no iteration is wasted, apart from those in which the log works.
    assert len(begun) <= agents * (writes - 1) / WRITERS + 10 * writes


@pytest.mark.proves("RES2-6c")
@aio
async def test_the_first_entry_is_in_the_log_when_add_returns() -> None:
    log, appender, _ = await begin()
    await appender.add_delta(b"1")
    assert log.batches == [[b"1"]]


@aio
async def test_the_first_entry_may_wait_for_those_that_follow_at_once() -> None:
    log, appender, _ = await begin(first_waits=True)
    await appender.add_delta(b"1")
    assert log.batches == []
    assert appender._timer is not None  # which sends it if nothing follows
    await appender.add_delta(b"2")
    await appender.flush()
    assert log.batches == [[b"1", b"2"]]


@pytest.mark.proves("RES2-6a")
@aio
async def test_deltas_gather_until_the_time_is_over() -> None:
    log, appender, id_ = await begin()
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await appender.add_delta(b"1")
    assert begun + FLUSH_EVERY <= appender._due <= loop.time() + FLUSH_EVERY
    appender._due = loop.time() + 1000  # as if the time stood still
    for entry in (b"2", b"3", b"4"):
        await appender.add_delta(entry)
        await turns()
    assert log.batches == [[b"1"]]
    assert appender._timer is not None
    assert appender._timer.when() == pytest.approx(appender._due, abs=0.01)
    appender._start()  # what the timer calls
    await turns()
    assert log.batches == [[b"1"], [b"2", b"3", b"4"]]
    assert await stored(log, id_) == [b"1", b"2", b"3", b"4"]
    assert 0.02 <= FLUSH_EVERY <= 0.05


@pytest.mark.proves("RES2-6a")
@aio
async def test_the_time_passes_by_itself() -> None:
    log, appender, id_ = await begin()
    await appender.add_delta(b"1")
    await appender.add_delta(b"2")
    page = await log.read(id_, 1, 10, 60.0)
    assert list(page.entries) == [b"2"]


@aio
async def test_a_delta_after_a_pause_does_not_wait() -> None:
    log, appender, _ = await begin()
    await appender.add_delta(b"1")
    appender._due = 0.0  # as if the pause had passed
    await appender.add_delta(b"2")
    await turns()
    assert log.batches == [[b"1"], [b"2"]]


@pytest.mark.proves("RES2-6a")
@aio
async def test_deltas_go_out_when_enough_have_gathered() -> None:
    log, appender, _ = await begin()
    await appender.add_delta(b"1")
    gather(appender)
    entry = b"x" * (FLUSH_BYTES // 4)
    for _ in range(3):
        await appender.add_delta(entry)
    assert log.batches == [[b"1"]]
    await appender.add_delta(entry)
    assert log.batches == [[b"1"], [entry] * 4]
    gather(appender)
    await appender.add_delta(b"the first of the next 4 KiB")  # it returns without the log
    assert len(log.batches) == 2


@pytest.mark.proves("RES2-6b")
@aio
async def test_anything_but_a_delta_goes_out_at_once_with_what_waits() -> None:
    log, appender, _ = await begin()
    await appender.add_delta(b"1")
    gather(appender)
    await appender.add_delta(b"2")
    await appender.add(b"event")
    assert log.batches == [[b"1"], [b"2", b"event"]]
    await appender.add(b"event")
    assert log.batches[2:] == [[b"event"]]


@aio
async def test_the_end_goes_out_with_what_waits() -> None:
    log, appender, id_ = await begin()
    await appender.add_delta(b"1")
    gather(appender)
    await appender.add_delta(b"2")
    await appender.finish(b"3", "complete")
    assert log.batches == [[b"1"], [b"2", b"3", b"END"]]
    with pytest.raises(StreamEnded):
        appender.ending.check_open()
    assert (await log.meta(id_)).outcome == "complete"


@pytest.mark.proves("RES2-8a")
@aio
async def test_a_busy_log_holds_the_writer_back() -> None:
    log, appender, id_ = await begin()
    await appender.add_delta(b"1")
    log.busy = asyncio.Event()
    writer = asyncio.ensure_future(appender.add(b"2"))
    await turns()
    assert not writer.done()
    for entry in (b"3", b"4"):  # those who need not wait gather behind it
        await appender.add_delta(entry)
    await turns()
    assert len(log.batches) == 2
    log.busy.set()
    await writer
    await appender.flush()
    assert await stored(log, id_) == [b"1", b"2", b"3", b"4"]


@aio
async def test_a_cancelled_writer_leaves_the_order_intact() -> None:
    log, appender, id_ = await begin()
    log.busy = asyncio.Event()
    writer = asyncio.ensure_future(appender.add(b"1"))
    await turns()
    writer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writer
    log.busy.set()
    await appender.finish(b"2", "cancelled")
    assert await stored(log, id_) == [b"1", b"2"]
    assert log.batches == [[b"1"], [b"2", b"END"]]  # the append was neither cut nor repeated


@aio
async def test_a_cancelled_append_is_sent_again_as_it_was() -> None:
    log, appender, id_ = await begin()
    log.busy = asyncio.Event()
    writer = asyncio.ensure_future(appender.add(b"1"))
    await turns()
    assert appender._running_append is not None
    appender._running_append.cancel()  # as asyncio.run does at its end; the entry is in the log
    await turns()
    log.busy.set()
    await writer
    assert log.batches == [[b"1"], [b"1"]]
    await appender.finish(b"2", "server_stopped")
    assert await stored(log, id_) == [b"1", b"2"]


@aio
async def test_a_batch_that_is_sent_again_does_not_end_the_stream_before_its_last_entry() -> None:
    log, appender, id_ = await begin()
    log.before = asyncio.Event()
    writer = asyncio.ensure_future(appender.add(b"1"))
    await turns()
    assert appender._running_append is not None
    appender._running_append.cancel()  # as asyncio.run does at its end; the log has no entry
    writer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writer
    log.before = None
    await appender.finish(b"2", "server_stopped")
    assert await stored(log, id_) == [b"1", b"2"]
    assert log.batches == [[b"1"], [b"1"], [b"2", b"END"]]
    assert (await log.meta(id_)).outcome == appender.ending.outcome == "server_stopped"


@aio
async def test_entries_that_gather_behind_a_busy_log_follow_by_themselves() -> None:
    log, appender, id_ = await begin()
    log.busy = asyncio.Event()
    writer = asyncio.ensure_future(appender.add_delta(b"1"))
    await turns()
    await appender.add_delta(b"2")  # the writer returns, and no later call sends it
    log.busy.set()
    await writer
    assert list((await log.read(id_, 1, 10, 60.0)).entries) == [b"2"]


@aio
async def test_an_append_that_reports_a_cancel_passes_it_on() -> None:
    log, cancels = Recorder(), list[bool]()
    meta = (await log.open(NewStream(uuid4(), "p", uuid4(), "f"), "me")).meta
    appender = Appender(log, meta.stream_id, meta.epoch, lambda: cancels.append(True))
    await appender.add(b"1")
    assert cancels == []
    await log.request_cancel(meta.stream_id)
    await appender.add(b"2")
    assert cancels == [True]
    await appender.finish(b"3", "cancelled")


@aio
async def test_a_failing_log_fails_the_writer_and_all_later_ones() -> None:
    log, appender, _ = await begin()
    await appender.add_delta(b"1")
    log.failure = LogUnavailable("no room")
    with pytest.raises(LogUnavailable):
        await appender.add(b"2")
    with pytest.raises(LogUnavailable):
        appender.ending.check_open()
    log.failure = None
    with pytest.raises(LogUnavailable):
        await appender.finish(b"3", "complete")
    assert len(log.batches) == 2


@aio
async def test_a_failure_behind_the_back_of_the_writer_is_told_next_time() -> None:
    log, appender, _ = await begin()
    await appender.add_delta(b"1")
    log.failure = LogUnavailable("no room")
    appender._due = 0.0
    await appender.add_delta(b"2")
    await turns()
    with pytest.raises(LogUnavailable):
        appender.ending.check_open()


@aio
async def test_a_stream_that_was_taken_away_takes_nothing() -> None:
    log, appender, id_ = await begin()
    await appender.add_delta(b"1")
    gather(appender)
    await appender.add_delta(b"2")
    assert appender._timer is not None
    appender.give_up(Fenced(id_, 1))
    assert appender._timer is None  # it would send one more batch
    with pytest.raises(Fenced):
        await appender.flush()
    assert log.batches == [[b"1"]]


@aio
async def test_many_writers_at_once_keep_the_numbers() -> None:
    log, appender, id_ = await begin()

    async def write(name: int) -> None:
        for _ in range(50):
            await appender.add_delta(b"%d " % (appender.last_seq + 1))
            if name % 2:
                await asyncio.sleep(0)

    await asyncio.gather(*(write(name) for name in range(4)))
    await appender.flush()
    assert b"".join(await stored(log, id_)).split() == [b"%d" % n for n in range(1, 201)]


# A store that has lost its latest state.


class Kept:
    """An appender on a store that can be cut back."""

    def __init__(self) -> None:
        self.store = CutBackStore(lambda: 0.0, 10.0)
        self.log = CutBackLog(self.store)
        self.id = uuid4()

    async def begin(self) -> Appender:
        await self.log.open(NewStream(self.id, "p", uuid4(), "f"), "me")
        return Appender(self.log, self.id, 1, lambda: None, notes=0)

    async def notes(self) -> list[bytes]:
        return list(await self.log.journal(self.id))

    async def entries(self) -> list[bytes]:
        assert self.store.doubled == []
        return list((await self.log.read(self.id, 0, 1000, 0)).entries)


@pytest.mark.parametrize("lost", range(8))
@aio
async def test_entries_and_notes_that_the_log_has_lost_are_sent_again_in_order(lost: int) -> None:
    kept = Kept()
    appender, states = await kept.begin(), []
    for number in range(6):
        states.append(kept.store.save())
        if number % 2:
            appender.add_note(b"note %d" % number)
        if number == 3:
            await appender.flush()  # a batch without entries
            states.append(kept.store.save())
        await appender.add(b"%d" % number)
    states.append(kept.store.save())
    kept.store.cut_back(states[-1 - lost])
    await appender.add(b"6")
    assert await kept.entries() == [b"%d" % number for number in range(7)]
    assert await kept.notes() == [b"note 1", b"note 3", b"note 5"]


@aio
async def test_a_lost_note_is_noticed_by_the_next_entry() -> None:
    """Otherwise the entry that the note led to would be stored without it."""
    kept = Kept()
    appender = await kept.begin()
    await appender.add(b"0")
    state = kept.store.save()
    appender.add_note(b"note")
    await appender.flush()
    kept.store.cut_back(state)
    await appender.add(b"1")
    assert (await kept.entries(), await kept.notes()) == ([b"0", b"1"], [b"note"])


@pytest.mark.parametrize("limit", ["KEEP_BYTES", "_KEEP_BYTES_IN_ALL"])
@aio
async def test_what_is_not_kept_any_more_ends_the_epoch(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = KeptBatches.in_all
    monkeypatch.setattr(_appender, limit, 25 + (before if limit == "_KEEP_BYTES_IN_ALL" else 0))
    for lost, fails in ((2, False), (3, True)):
        kept = Kept()
        appender, states = await kept.begin(), []
        for number in range(6):
            states.append(kept.store.save())
            await appender.add(b"%010d" % number)
            assert KeptBatches.in_all <= before + 25
        kept.store.cut_back(states[-lost])
        if not fails:
            await appender.add(b"last")
            assert len(await kept.entries()) == 7
            appender.give_up(Fenced(kept.id, 1))
        else:
            with pytest.raises(OutOfSequence):
                await appender.add(b"last")
            assert len(await kept.entries()) == 3  # and nothing else was written
        assert KeptBatches.in_all == before
        del appender


@aio
async def test_batches_are_kept_for_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(_appender, "monotonic", lambda: now[0])
    kept = Kept()
    appender = await kept.begin()
    await appender.add(b"0")
    state = kept.store.save()
    await appender.add(b"1")
    now[0] += KEEP_SECONDS
    await appender.add(b"2")
    kept.store.cut_back(state)
    await appender.add(b"3")
    assert await kept.entries() == [b"0", b"1", b"2", b"3"]
    now[0] += KEEP_SECONDS + 0.1
    await appender.add(b"4")
    kept.store.cut_back(state)
    with pytest.raises(OutOfSequence):
        await appender.add(b"5")


@aio
async def test_a_store_that_loses_everything_again_and_again_ends_the_epoch() -> None:
    kept = Kept()
    appender = await kept.begin()
    await appender.add(b"0")
    state = kept.store.save()
    await appender.add(b"1")

    class Losing(CutBackLog):
        tries = 0

        def _append_now(self, stream_id: UUID, epoch: int, first_seq: int, *rest: Any) -> bool:
            if first_seq > 2:
                self.tries += 1
                kept.store.cut_back(state)
            return super()._append_now(stream_id, epoch, first_seq, *rest)

    appender._log = log = Losing(kept.store)
    with pytest.raises(OutOfSequence):
        await appender.add(b"2")
    assert 2 < log.tries < 20


@aio
async def test_a_log_of_one_process_keeps_nothing() -> None:
    before = KeptBatches.in_all
    _, appender, _ = await begin()
    await appender.add(b"1")
    assert KeptBatches.in_all == before
