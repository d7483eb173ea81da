"""The contract of a store of tasks: turns begin and end in one step with their task."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from coreason_client.server.errors import Fenced, RequestConflict, UnknownStream
from coreason_client.server.log import Conversation, NewStream
from coreason_client.server.log.tasks import StreamEnd, TaskChange, TaskRecord, TurnText

from ..aio import aio
from .task_stores import KINDS, TaskKeeper, maker, started

SESSION = Conversation("one", "c")


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], TaskKeeper]:
    return maker(request.param, tmp_path)


def stream(request_id: UUID, **fields: object) -> NewStream:
    return NewStream(uuid4(), "one", request_id, "print", b"asked", **fields)  # type: ignore[arg-type]


def task_of(new: NewStream) -> TaskRecord:
    return TaskRecord(new.stream_id, "one", "c", "working", 1.0, b"data")


def end_of(new: NewStream, epoch: int = 1, entry: bytes = b"end") -> StreamEnd:
    return StreamEnd(new.stream_id, epoch, 1, [entry], "complete", TurnText(SESSION, b"turn"))


@aio
async def test_a_stream_and_its_task_begin_together(make: Callable[[], TaskKeeper]) -> None:
    async with started(make()) as log:
        new = stream(uuid4())
        begun = await log.tasks.begin(new, task_of(new), {"message": b"hello"})
        assert (begun.stream_id, begun.record) == (new.stream_id, task_of(new))
        assert begun.opened == await log.meta(new.stream_id)
        assert await log.tasks.get(new.stream_id) == task_of(new)
        assert await log.tasks.value(new.stream_id, "message") == b"hello"


@aio
async def test_an_equal_request_gets_the_task_that_is_there(
    make: Callable[[], TaskKeeper],
) -> None:
    async with started(make()) as log:
        first = stream(uuid4())
        others = [stream(first.request_id) for _ in range(10)]
        begun = await asyncio.gather(
            *(log.tasks.begin(one, task_of(one), {}) for one in (first, *others))
        )
        [opened] = [one for one in begun if one.opened is not None]
        assert all((one.stream_id, one.record) == opened[:2] for one in begun)
        unused = [one for one in (first, *others) if one.stream_id != opened.stream_id]
        for one in unused:
            assert await log.tasks.get(one.stream_id) is None
            with pytest.raises(UnknownStream):
                await log.meta(one.stream_id)
        other = NewStream(uuid4(), "one", first.request_id, "another print")
        with pytest.raises(RequestConflict):
            await log.tasks.begin(other, task_of(other), {})


@aio
async def test_a_request_that_was_answered_long_ago_is_taken_by_one(
    make: Callable[[], TaskKeeper],
) -> None:
    async with started(make()) as log:
        old = stream(uuid4())
        await log.tasks.begin(old, task_of(old), {})
        new = [stream(old.request_id) for _ in range(10)]
        begun = await asyncio.gather(
            *(log.tasks.begin(one, task_of(one), {}, old.stream_id) for one in new)
        )
        [opened] = [one for one in begun if one.opened is not None]
        assert {one.stream_id for one in begun} == {opened.stream_id}
        found = await log.find("one", old.request_id)
        assert found is not None
        assert found.stream_id == opened.stream_id
        assert await log.tasks.get(old.stream_id) == task_of(old)  # it stays
        # The request still names the new stream when the old one has expired.
        await log.close(old.stream_id, 1, 1, [b"end"], "complete")
        for _ in range(2):  # first the entries, then the rest
            await log.expire(-60.0, -60.0)
        with pytest.raises(UnknownStream):
            await log.meta(old.stream_id)
        again = await log.find("one", old.request_id)
        assert again is not None
        assert again.stream_id == opened.stream_id


@aio
async def test_of_two_further_turns_one_is_opened(make: Callable[[], TaskKeeper]) -> None:
    async with started(make()) as log:
        first = stream(uuid4())
        record = task_of(first)
        await log.tasks.begin(first, record, {})
        new = [stream(uuid4()) for _ in range(5)]
        changes = [
            TaskChange(record, record.updated(state=f"turn {number}"), {"m": b"%d" % number})
            for number in range(5)
        ]
        opened = await asyncio.gather(*map(log.tasks.add_turn, new, changes))
        [winner] = [number for number, meta in enumerate(opened) if meta is not None]
        assert await log.tasks.get(first.stream_id) == changes[winner].new
        assert await log.tasks.value(first.stream_id, "m") == b"%d" % winner
        for number, one in enumerate(new):
            if number == winner:
                assert (await log.meta(one.stream_id)).outcome is None
            else:
                with pytest.raises(UnknownStream):
                    await log.meta(one.stream_id)


@aio
async def test_a_start_changes_the_question_and_is_fenced(
    make: Callable[[], TaskKeeper],
) -> None:
    async with started(make()) as log:
        log.lease = -1.0
        new = stream(uuid4())
        await log.open(new, "me")
        log.lease = 10.0
        await log.tasks.start(new.stream_id, 1, b"started")
        [claim] = await log.claim_lost("other", 10)
        assert claim.question == b"started"
        with pytest.raises(Fenced):
            await log.tasks.start(new.stream_id, 1, b"late")
        await log.tasks.start(new.stream_id, claim.epoch, b"again")
        await log.close(new.stream_id, claim.epoch, 1, [b"end"], "complete")
        with pytest.raises(Fenced):
            await log.tasks.start(new.stream_id, claim.epoch, b"late")
        with pytest.raises(UnknownStream):
            await log.tasks.start(uuid4(), 1, b"")


@pytest.mark.parametrize("further", [False, True])
@aio
async def test_a_stream_ends_with_the_state_of_its_task(
    make: Callable[[], TaskKeeper], further: bool
) -> None:
    async with started(make()) as log:
        new = stream(uuid4())
        record = task_of(new)
        await log.tasks.begin(new, record, {})
        if further:
            new, change = stream(uuid4()), TaskChange(record, record.updated(state="working"))
            assert await log.tasks.add_turn(new, change)
            record = change.new
        change = TaskChange(record, record.updated(state="done", open=False), {"snapshot": b"s"})
        with pytest.raises(Fenced):
            await log.tasks.end(end_of(new, epoch=7), change)
        assert await log.tasks.get(record.task_id) == record
        for _ in range(2):  # the second one is a repetition
            if log.shared:  # a conversation may be on another machine
                await log.add_turn(SESSION, new.stream_id, b"turn")
            assert await log.tasks.end(end_of(new), change)
            assert (await log.meta(new.stream_id)).outcome == "complete"
            assert list((await log.read(new.stream_id, 0, 10, 0)).entries) == [b"end"]
            assert await log.tasks.get(record.task_id) == change.new
            assert await log.tasks.value(record.task_id, "snapshot") == b"s"
            assert list(await log.turns(SESSION, 10)) == [b"turn"]


@aio
async def test_a_task_that_changed_meanwhile_is_not_overwritten_by_the_end(
    make: Callable[[], TaskKeeper],
) -> None:
    async with started(make()) as log:
        new = stream(uuid4())
        record = task_of(new)
        await log.tasks.begin(new, record, {})
        announced = TaskChange(record, record.updated(data=b"announced"))
        assert await log.tasks.update(announced)
        late = TaskChange(record, record.updated(state="done"))
        assert not await log.tasks.end(end_of(new), late)
        assert (await log.meta(new.stream_id)).outcome is None
        assert await log.tasks.get(record.task_id) == announced.new
        fits = TaskChange(announced.new, announced.new.updated(state="done"))
        assert await log.tasks.end(end_of(new), fits)
        assert await log.tasks.get(record.task_id) == fits.new
