"""Lists of tasks on Valkey while the index lags behind the tasks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from coreason_client.server.log import ValkeyStreamLog
from coreason_client.server.log.tasks import TaskChange, TaskQuery, TaskRecord, TaskStore
from coreason_client.server.log.valkey._task_store import ValkeyTasks

from ..aio import aio
from .task_stores import stored
from .test_tasks import record
from .valkey_server import fresh_prefix, shared_server

OVER = "TASK_STATE_COMPLETED"


@asynccontextmanager
async def lagging(
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[tuple[TaskStore, list[TaskRecord]]]:
    """Yield a store with five tasks whose index no longer changes."""

    async def late(self: ValkeyTasks, changed: TaskRecord) -> None:
        """The index is written later."""

    log = ValkeyStreamLog(shared_server().url, prefix=fresh_prefix())
    await log.start("me")
    try:
        records = [record(number) for number in range(1, 6)]
        await stored(log.tasks, *records)
        monkeypatch.setattr(ValkeyTasks, "_index", late)
        yield log.tasks, records
    finally:
        await log.stop("me")


@pytest.mark.parametrize("state", ["", OVER])
@aio
async def test_a_task_is_not_listed_with_a_state_that_it_no_longer_has(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lagging(monkeypatch) as (tasks, records):
        for one in (records[1], records[4]):
            assert await tasks.update(TaskChange(one, one.updated(state=state)))
        query = TaskQuery(records[0].principal, 2, state=records[0].state)
        page = await tasks.find(query)
        assert [one.task_id for one in page.records] == [records[3].task_id, records[2].task_id]
        assert all(one.state == records[0].state for one in page.records)
        assert page.total == 3
        after = TaskQuery(query.principal, 2, state=query.state, after=page.records[-1].position)
        assert [one.task_id for one in (await tasks.find(after)).records] == [records[0].task_id]


@aio
async def test_a_task_that_has_just_ended_is_the_first_on_its_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with lagging(monkeypatch) as (tasks, records):
        ended = records[1].updated(state=OVER, changed=9.0, open=False)
        assert await tasks.update(TaskChange(records[1], ended))
        assert (await tasks.find(TaskQuery("one", 9, state=OVER))).records == [ended]
        found: list[int] = []
        after = None
        for size in (2, 2, 1):
            page = await tasks.find(TaskQuery("one", 2, after=after))
            assert (len(page.records), page.total) == (size, 5)
            found += [one.task_id.int for one in page.records]
            after = page.records[-1].position
        assert found == [2, 5, 4, 3, 1]
