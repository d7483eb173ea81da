"""The state of a task follows its last turn, whichever process has written that."""

from pathlib import Path
from time import time
from uuid import uuid4

import pytest

from coreason_client.a2a.errors import TaskNotFoundError
from coreason_client.server import SQLiteStreamLog
from coreason_client.server.a2a._turns import TurnRef, dump_turns
from coreason_client.server.log.tasks import TaskQuery, TaskRecord

from ...soak.faults import until
from ..aio import aio
from .serving import ANN, Served, in_state, message, served

WORKING = "TASK_STATE_WORKING"


def record(opened: float, context: str = "c") -> TaskRecord:
    turn = TurnRef(uuid4(), uuid4(), uuid4(), opened)
    return TaskRecord(turn.stream_id, ANN.principal, context, WORKING, opened, dump_turns([turn]))


async def without_streams(app: Served, *records: TaskRecord) -> None:
    """Store tasks whose streams are not in the log."""
    for record in records:
        app.tasks._records[record.task_id] = record  # type: ignore[attr-defined]


async def all_settled(app: Served) -> None:
    """Wait until the agents have ended, and what follows."""
    assert await until(lambda: not len(app.runtime.producers))


@aio
async def test_the_state_of_a_task_is_stored_with_its_end() -> None:
    async with served() as app:
        task_id = (await app.service.send(ANN, message("hello")))["task"]["id"]
        [stored] = (await app.tasks.find(_query())).records
        assert (str(stored.task_id), stored.state) == (task_id, "TASK_STATE_COMPLETED")
        assert stored.open is False


@aio
async def test_a_task_is_settled_before_the_log_stops(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    async with served(SQLiteStreamLog(path), drain_timeout=0.0) as app:
        sent = await app.service.send(
            ANN, {**message("wait"), "configuration": {"returnImmediately": True}}
        )
    async with served(SQLiteStreamLog(path)) as app:
        [stored] = (await app.tasks.find(_query())).records
        assert (str(stored.task_id), stored.state) == (sent["task"]["id"], "TASK_STATE_FAILED")


@aio
async def test_the_snapshot_outlives_the_entries() -> None:
    async with served(retention=0.0) as app:
        task_id = (await app.service.send(ANN, message("hello")))["task"]["id"]
        before = await in_state(app.service, task_id, "COMPLETED")
        await app.runtime.log.expire(0.0, 86400.0)
        assert await app.service.get(ANN, {"id": task_id}) == before
        short = await app.service.get(ANN, {"id": task_id, "historyLength": 0})
        assert "history" not in short


@aio
async def test_a_large_task_is_stored_without_its_artifacts() -> None:
    async with served() as app:
        task_id = (await app.service.send(ANN, message("large")))["task"]["id"]
        task = await in_state(app.service, task_id, "COMPLETED")
        assert "artifacts" not in task
        assert task["metadata"]["truncated"] is True


@aio
async def test_a_turn_whose_stream_was_never_opened_fails_after_a_while() -> None:
    async with served() as app:
        old, young = record(time() - 61), record(time())
        await without_streams(app, old, young)
        assert (await app.service.states.settled(old)).state == "TASK_STATE_FAILED"
        assert (await app.service.states.settled(young)).state == WORKING


@pytest.mark.parametrize("question", ["ask", "sign in"])
@aio
async def test_a_task_that_waits_for_its_user_is_kept_like_an_open_one(question: str) -> None:
    async with served() as app:
        await app.service.send(ANN, message(question))
        await all_settled(app)
        [stored] = (await app.tasks.find(_query())).records
        assert stored.open is True


@aio
async def test_a_record_that_changes_meanwhile_is_read_again() -> None:
    async with served() as app:
        task_id = (await app.service.send(ANN, message("ask")))["task"]["id"]
        await all_settled(app)
        [stored] = (await app.tasks.find(_query())).records
        stale = stored.updated(state=WORKING)  # as if this process had read it earlier
        assert (await app.service.states.settled(stale)).state == stored.state
        assert str(stored.task_id) == task_id


@aio
async def test_an_answer_that_is_a_message_has_no_task() -> None:
    async with served() as app:
        sent = await app.service.send(ANN, message("message"))
        assert sent["message"]["parts"] == [{"text": "Just this."}]
        [stored] = app.tasks._records.values()  # type: ignore[attr-defined]
        for operation in ("get_task", "cancel_task"):
            with pytest.raises(TaskNotFoundError):
                await app.operations.call(operation, ANN, {"id": str(stored.task_id)})
        with pytest.raises(TaskNotFoundError):
            await app.operations.open("resubscribe", ANN, {"id": str(stored.task_id)})


def _query() -> TaskQuery:
    return TaskQuery(ANN.principal, 10)
