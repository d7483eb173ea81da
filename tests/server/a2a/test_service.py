"""Tasks: begun, continued, joined, read and cancelled."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import time

import pytest

from coreason_client.a2a.errors import (
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from coreason_client.server.a2a import _turn_starter
from coreason_client.server.a2a._operations import TaskService
from coreason_client.server.a2a._turns import turns_of
from coreason_client.server.http._problems import Problem

from ...soak.faults import until
from ..aio import aio
from .serving import ANN, BOB, in_state, message, served


@asynccontextmanager
async def service() -> AsyncIterator[TaskService]:
    async with served() as app:
        yield app.service


@aio
async def test_a_message_begins_a_task() -> None:
    async with service() as tasks:
        record = (await tasks.turns.begin(ANN, message("hello"))).record
        task = await in_state(tasks, str(record.task_id), "COMPLETED")
        assert task["artifacts"][0]["parts"] == [{"text": "You said hello."}]
        assert task["history"][0]["parts"] == [{"text": "hello"}]
        assert task["contextId"] == record.context_id
        assert (await tasks.states.load(ANN, {"id": str(record.task_id)})).open is False


@aio
async def test_the_same_message_is_answered_once() -> None:
    async with service() as tasks:
        first = (await tasks.turns.begin(ANN, message("hello"))).record
        assert (await tasks.turns.begin(ANN, message("hello"))).record.task_id == first.task_id
        other = (await tasks.turns.begin(ANN, message("hello", "n"))).record
        assert other.task_id != first.task_id


@aio
async def test_a_question_of_the_agent_is_answered_in_the_same_task() -> None:
    async with service() as tasks:
        record = (await tasks.turns.begin(ANN, message("ask"))).record
        task_id = str(record.task_id)
        asked = await in_state(tasks, task_id, "INPUT_REQUIRED")
        assert asked["status"]["message"]["parts"] == [{"text": "Where?"}]
        await tasks.turns.begin(ANN, message("here", "n", taskId=task_id))
        task = await in_state(tasks, task_id, "COMPLETED")
        assert task["contextId"] == record.context_id
        texts = ["".join(p["text"] for p in m["parts"]) for m in task["history"]]
        assert texts == ["ask", "Where?", "here"]
        assert [a["parts"][0]["text"] for a in task["artifacts"]] == ["You said here."]


@aio
async def test_a_message_is_not_the_answer_to_the_question_that_follows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has begun a turn of the task, and is sent again when that has waited for an hour."""
    async with service() as tasks:
        task_id = str((await tasks.turns.begin(ANN, message("ask"))).record.task_id)
        sent = [message("ask"), message("ask", "n", taskId=task_id)]
        for one in sent:
            await in_state(tasks, task_id, "INPUT_REQUIRED")
            await tasks.turns.begin(ANN, one)
        await in_state(tasks, task_id, "INPUT_REQUIRED")
        monkeypatch.setattr(_turn_starter, "time", lambda: time() + 3600.0)
        for one in sent:
            known = (await tasks.turns.begin(ANN, one)).record
            assert (str(known.task_id), len(turns_of(known))) == (task_id, 2)


@pytest.mark.parametrize(("question", "state"), [("hello", "COMPLETED"), ("reject", "REJECTED")])
@aio
async def test_a_task_that_is_over_accepts_no_message(question: str, state: str) -> None:
    async with service() as tasks:
        task_id = str((await tasks.turns.begin(ANN, message(question))).record.task_id)
        await in_state(tasks, task_id, state)
        with pytest.raises(UnsupportedOperationError):
            await tasks.turns.begin(ANN, message("more", "n", taskId=task_id))
        with pytest.raises(TaskNotCancelableError):
            await tasks.cancel(ANN, {"id": task_id})


@aio
async def test_a_running_task_is_cancelled() -> None:
    async with service() as tasks:
        task_id = str((await tasks.turns.begin(ANN, message("wait"))).record.task_id)
        with pytest.raises(UnsupportedOperationError):
            await tasks.turns.begin(ANN, message("more", "n", taskId=task_id))
        task = await tasks.cancel(ANN, {"id": task_id})
        assert task["status"]["state"] == "TASK_STATE_CANCELED"


@aio
async def test_the_tasks_of_others_do_not_exist() -> None:
    async with service() as tasks:
        task_id = str((await tasks.turns.begin(ANN, message("hello"))).record.task_id)
        for call in (
            tasks.get(BOB, {"id": task_id}),
            tasks.cancel(BOB, {"id": task_id}),
            tasks.turns.begin(BOB, message("more", "n", taskId=task_id)),
            tasks.get(ANN, {"id": "unknown"}),
        ):
            with pytest.raises(TaskNotFoundError):
                await call


@aio
async def test_a_task_that_waits_for_its_user_is_cancelled() -> None:
    async with service() as tasks:
        task_id = (await tasks.send(ANN, message("ask")))["task"]["id"]
        task = await tasks.cancel(ANN, {"id": task_id})
        assert task["status"]["state"] == "TASK_STATE_CANCELED"
        assert task["history"][0]["messageId"] == "m"
        with pytest.raises(TaskNotCancelableError):
            await tasks.cancel(ANN, {"id": task_id})


@aio
async def test_equal_messages_at_the_same_time_begin_one_task() -> None:
    async with service() as tasks:
        sent = await asyncio.gather(*(tasks.send(ANN, message("hello")) for _ in range(5)))
        assert len({one["task"]["id"] for one in sent}) == 1
        assert (await tasks.list(ANN, {}))["totalSize"] == 1


@aio
async def test_a_list_is_paged_and_complete() -> None:
    async with service() as tasks:
        ids = [
            (await tasks.send(ANN, message("hello", f"m{number}")))["task"]["id"]
            for number in range(5)
        ]
        found, token = [], ""
        while True:
            page = await tasks.list(ANN, {"pageSize": 2, "pageToken": token})
            found += [task["id"] for task in page["tasks"]]
            assert (page["pageSize"], page["totalSize"]) == (2, 5)
            token = page["nextPageToken"]
            if not token:
                break
        assert sorted(found) == sorted(ids)
        assert (await tasks.list(BOB, {}))["tasks"] == []


@aio
async def test_a_call_that_waits_counts_as_a_reader() -> None:
    async with served(max_readers_per_key=1, drain_timeout=0.0) as app:
        first = asyncio.create_task(app.service.send(ANN, message("wait")))
        assert await until(lambda: app.runtime.producers.readers == 1)
        with pytest.raises(Problem, match="1 open responses"):
            await app.service.send(ANN, message("hello", "n"))
        first.cancel()
        await asyncio.wait({first})
        assert app.runtime.producers.readers == 0


@aio
async def test_a_drain_begins_no_task() -> None:
    async with served() as app:
        app.runtime.closing = True
        with pytest.raises(Problem, match="shutting down"):
            await app.service.send(ANN, message("hello"))
        app.runtime.closing = False
