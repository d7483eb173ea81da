"""Lists of tasks on Valkey while the index lags behind the tasks."""

import pytest

from coreason_client.server.log import ValkeyStreamLog
from coreason_client.server.log.tasks import TaskQuery, TaskRecord
from coreason_client.server.log.valkey._task_store import ValkeyTasks

from ..aio import aio
from .test_tasks import record
from .valkey_server import fresh_prefix, shared_server

OVER = "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("state", ["", OVER])
@aio
async def test_a_task_is_not_listed_with_a_state_that_it_no_longer_has(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def late(self: ValkeyTasks, changed: TaskRecord) -> None:
        """The index is written later."""

    log = ValkeyStreamLog(shared_server().url, prefix=fresh_prefix())
    await log.start("me")
    try:
        tasks = log.tasks
        records = [record(number) for number in range(1, 6)]
        for one in records:
            assert await tasks.create(one)
        monkeypatch.setattr(ValkeyTasks, "_index", late)
        for one in (records[1], records[4]):
            assert await tasks.update(one.updated(state=state))
        query = TaskQuery(records[0].principal, 2, state=records[0].state)
        page = await tasks.find(query)
        assert [one.task_id for one in page.records] == [records[3].task_id, records[2].task_id]
        assert all(one.state == records[0].state for one in page.records)
        assert page.total >= 3
        after = TaskQuery(query.principal, 2, state=query.state, after=page.records[-1].position)
        assert [one.task_id for one in (await tasks.find(after)).records] == [records[0].task_id]
    finally:
        await log.stop("me")
