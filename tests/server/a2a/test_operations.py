"""The operations by their names, for every binding."""

import logging
from time import time
from typing import Any

import pytest

from coreason_client.a2a.errors import (
    ExtensionSupportRequiredError,
    InternalError,
    PushNotificationNotSupportedError,
)
from coreason_client.a2a.types import AgentCard
from coreason_client.server import LogUnavailable, MemoryStreamLog
from coreason_client.server.a2a import A2A, Operations, _operations
from coreason_client.server.http._problems import Problem

from ..aio import aio
from .serving import ANN, events_of, message, served

REQUIRED, OPTIONAL = "https://x.example/required", "https://x.example/optional"


def operations(**required: bool) -> Operations:
    extensions = [{"uri": uri, "required": needed} for uri, needed in required.items()]
    card = AgentCard.model_validate({"name": "a", "capabilities": {"extensions": extensions}})

    async def runtime() -> Any:
        raise AssertionError("not started")

    return Operations(A2A(card=card), MemoryStreamLog().tasks, runtime)


def test_extensions_that_both_know_are_used() -> None:
    known = operations(**{REQUIRED: True, OPTIONAL: False})
    assert known.used_extensions(["x", REQUIRED]) == [REQUIRED]
    assert known.used_extensions([OPTIONAL, REQUIRED]) == [REQUIRED, OPTIONAL]
    with pytest.raises(ExtensionSupportRequiredError, match=REQUIRED):
        known.used_extensions([OPTIONAL])


@aio
async def test_operations_are_called_by_name() -> None:
    async with served() as app:
        call = app.operations.call
        sent = await call("send_message", ANN, message("hello"))
        task_id = sent["task"]["id"]
        assert (await call("get_task", ANN, {"id": task_id}))["id"] == task_id
        assert (await call("list_tasks", ANN, {}))["totalSize"] == 1
        configs = await call("list_push_configs", ANN, {"taskId": task_id})
        assert configs["configs"] == []


@aio
async def test_a_server_without_push_notifications_says_so() -> None:
    async with served(a2a=A2A(push=False)) as app:
        with pytest.raises(PushNotificationNotSupportedError):
            await app.operations.call("list_push_configs", ANN, {"taskId": "t"})


@aio
async def test_a_stream_is_a_reader_until_it_is_removed() -> None:
    async with served(max_readers_per_key=1) as app:
        stream = await app.operations.open("send_message_stream", ANN, message("hello"))
        with pytest.raises(Problem, match="1 open responses"):
            await app.operations.open("send_message_stream", ANN, message("hello", "n"))
        await events_of(stream)
        app.runtime.producers.remove_reader(stream)
        assert app.runtime.producers.readers == 0


@aio
async def test_a_bug_is_logged_and_its_reason_not_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with served() as app:

        async def fail(*_: object) -> None:
            raise KeyError("secret")

        monkeypatch.setitem(app.calls, "get_task", fail)
        with pytest.raises(InternalError) as caught:
            await app.operations.call("get_task", ANN, {"id": "x"})
        assert "secret" not in str(caught.value)
    [line] = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert line.getMessage() == "the operation get_task of A2A failed"


@aio
async def test_a_log_that_does_not_work_is_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as app:

        async def fail(*_: object) -> None:
            raise LogUnavailable("full")

        monkeypatch.setitem(app.calls, "get_task", fail)
        with pytest.raises(LogUnavailable):
            await app.operations.call("get_task", ANN, {"id": "x"})


@aio
async def test_old_tasks_are_dropped_with_the_upkeep() -> None:
    async with served(retention=0.0, final_retention=0.0) as app:
        task_id = (await app.service.send(ANN, message("hello")))["task"]["id"]
        await app.service.states.load(ANN, {"id": task_id})  # settles it
        waiting = (await app.service.send(ANN, message("ask", "n")))["task"]["id"]
        await app.service.states.load(ANN, {"id": waiting})
        assert app.runtime.upkeep.on_expire is not None
        await app.runtime.upkeep.on_expire()
        left = await app.service.list(ANN, {})
        assert [task["id"] for task in left["tasks"]] == [waiting]


@pytest.mark.parametrize(("days", "kept"), [(6.9, True), (7.1, False)])
@aio
async def test_a_task_that_waits_for_its_user_is_kept_for_a_week(
    days: float, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(retention=0.0, final_retention=0.0) as app:
        waiting = (await app.service.send(ANN, message("ask")))["task"]["id"]
        await app.service.states.load(ANN, {"id": waiting})
        monkeypatch.setattr(_operations, "time", lambda: time() + days * 86400)
        assert app.runtime.upkeep.on_expire is not None
        await app.runtime.upkeep.on_expire()
        left = await app.service.list(ANN, {})
        assert [task["id"] for task in left["tasks"]] == ([waiting] if kept else [])
