"""Snapshots of tasks."""

from typing import Any

from coreason_client.server.a2a._fold import TaskFold
from coreason_client.server.a2a._reading import Snapshot, shortened

from ..aio import aio
from .serving import ANN, in_state, message, served

TASK: dict[str, Any] = {
    "id": "t",
    "contextId": "c",
    "status": {"state": "TASK_STATE_INPUT_REQUIRED"},
    "metadata": {"generation": 7},
    "artifacts": [{"artifactId": "a", "name": "n", "parts": [{"text": "x"}, {"data": 1}]}],
    "history": [{"messageId": "1"}, {"messageId": "2"}, {"messageId": "3"}],
}


def test_a_snapshot_is_read_as_it_was_written() -> None:
    assert Snapshot.parse(Snapshot(2, 9, TASK, 3).dump()) == (2, 9, TASK, 3)


def test_a_large_task_is_stored_without_its_artifacts() -> None:
    large = {**TASK, "artifacts": [{"artifactId": "a", "parts": [{"text": "x" * 1_100_000}]}]}
    task = Snapshot.parse(Snapshot(1, 2, large).dump()).task
    assert "artifacts" not in task
    assert task["metadata"] == {"generation": 7, "truncated": True}


def test_a_task_is_shortened() -> None:
    assert shortened(TASK, None, artifacts=True) == TASK
    short = shortened(TASK, 2, artifacts=False)
    assert [one["messageId"] for one in short["history"]] == ["2", "3"]
    assert "artifacts" not in short
    assert "history" not in shortened(TASK, 0, artifacts=True)
    assert len(TASK["history"]) == 3


def test_a_fold_continues_where_the_snapshot_ends() -> None:
    fold = TaskFold.restored(TASK, as_task=False)
    assert fold.task() == TASK


@aio
async def test_a_user_may_answer_long_after_the_entries_have_expired() -> None:
    async with served(retention=0.0) as app:
        task_id = (await app.service.send(ANN, message("tell and ask")))["task"]["id"]
        asked = await in_state(app.service, task_id, "INPUT_REQUIRED")
        await app.runtime.log.expire(0.0, 86400.0)
        answer = message("here", "n", taskId=task_id)
        task = (await app.service.send(ANN, answer))["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert task["artifacts"][0] == asked["artifacts"][0]
        assert [one["messageId"] for one in task["history"]][::2] == ["m", "n"]
        assert task["metadata"]["generation"] > asked["metadata"]["generation"]
        assert await in_state(app.service, task_id, "COMPLETED") == task


@aio
async def test_a_subscription_survives_the_entries_of_earlier_turns() -> None:
    async with served(retention=0.0) as app:
        task_id = (await app.service.send(ANN, message("tell and ask")))["task"]["id"]
        await in_state(app.service, task_id, "INPUT_REQUIRED")
        await app.runtime.log.expire(0.0, 86400.0)
        subscription = await app.service.subscribe(ANN, {"id": task_id}, "1:1")
        [first] = await subscription.next(1.0)
        assert first.event["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        subscription.close()
