"""The events of a task for one reader."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from coreason_client.a2a.errors import UnsupportedOperationError
from coreason_client.server import LogUnavailable
from coreason_client.server.a2a import _reading as _task_stream

from ..aio import aio
from . import serving
from .serving import ANN, events_of, in_state, message, served


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [next(iter(event)) for event in events]


@aio
async def test_a_turn_begins_with_the_task_and_ends_with_its_state() -> None:
    async with served() as app:
        events = await events_of(await app.service.send_stream(ANN, message("hello")))
        assert kinds(events) == ["task", "artifactUpdate", "artifactUpdate", "statusUpdate"]
        assert events[0]["task"]["status"]["state"] == "TASK_STATE_WORKING"
        assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


@aio
async def test_an_answer_that_is_a_message_is_the_only_event() -> None:
    async with served() as app:
        [event] = await events_of(await app.service.send_stream(ANN, message("message")))
        assert event["message"]["parts"] == [{"text": "Just this."}]
        listed = await app.service.list(ANN, {})
        assert (listed["tasks"], listed["totalSize"]) == ([], 0)


@aio
async def test_every_event_but_those_inside_a_packet_has_a_position() -> None:
    async with served() as app:
        stream = await app.service.send_stream(ANN, message("hello"))
        found = []
        while not stream.ended:
            found += await stream.next(1.0)
        stream.close()
        assert [str(one.position) for one in found] == ["1:0", "1:1", "None", "1:2"]


ASKING = pytest.mark.parametrize(
    ("question", "state"), [("ask", "INPUT_REQUIRED"), ("sign in", "AUTH_REQUIRED")]
)


@ASKING
@aio
async def test_a_stream_of_a_message_ends_when_the_agent_asks(question: str, state: str) -> None:
    async with served() as app:
        events = await events_of(await app.service.send_stream(ANN, message(question)))
        assert events[-1]["statusUpdate"]["status"]["state"] == f"TASK_STATE_{state}"
        task_id = events[0]["task"]["id"]
        answer = message("here", "n", taskId=task_id)
        events = await events_of(await app.service.send_stream(ANN, answer))
        # The second turn begins with everything that the task has.
        assert [m["messageId"] for m in events[0]["task"]["history"]][::2] == ["m", "n"]
        assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


@ASKING
@aio
async def test_a_subscription_waits_for_the_user_and_ends_with_the_task(
    question: str, state: str
) -> None:
    async with served() as app:
        sent = await app.service.send(ANN, message(question))
        task_id = sent["task"]["id"]
        subscription = await app.service.subscribe(ANN, {"id": task_id})
        [first] = await subscription.next(1.0)
        assert first.event["task"]["status"]["state"] == f"TASK_STATE_{state}"
        reading = asyncio.create_task(events_of(subscription))
        await app.service.send(ANN, message("here", "n", taskId=task_id))
        events = await reading
        assert kinds(events) == ["task", "artifactUpdate", "artifactUpdate", "statusUpdate"]
        with pytest.raises(UnsupportedOperationError, match="The task is over"):
            await app.service.subscribe(ANN, {"id": task_id})


OLDER = replace(ANN, version="0.3")


@aio
async def test_a_subscription_of_0_3_has_one_task_and_ends_with_the_turn() -> None:
    async with served() as app:
        sent = await app.service.send(ANN, message("tell and ask"))
        task_id = sent["task"]["id"]
        subscription = await app.service.subscribe(OLDER, {"id": task_id})
        [first] = await subscription.next(1.0)
        assert first.event["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        reading = asyncio.create_task(events_of(subscription))
        await app.service.send(ANN, message("ask", "n", taskId=task_id))
        # Not the task again: clients of 0.3 refuse a second one.
        again, working, asked = await reading
        assert again["artifactUpdate"]["artifact"] == sent["task"]["artifacts"][0]
        assert working["statusUpdate"]["status"]["state"] == "TASK_STATE_WORKING"
        assert asked["statusUpdate"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"


@aio
async def test_a_subscription_of_0_3_ends_with_a_cancel() -> None:
    async with served() as app:
        sent = await app.service.send(ANN, message("ask"))
        subscription = await app.service.subscribe(OLDER, {"id": sent["task"]["id"]})
        reading = asyncio.create_task(events_of(subscription))
        await app.service.cancel(ANN, {"id": sent["task"]["id"]})
        assert kinds(await reading) == ["task", "statusUpdate", "statusUpdate"]


@aio
async def test_a_position_of_any_event_continues_after_it() -> None:
    async with served() as app:
        stream = await app.service.send_stream(ANN, message("many"))
        whole = []
        while not stream.ended:
            whole += await stream.next(1.0)
        task_id = str(stream.task_id)
        await in_state(app.service, task_id, "COMPLETED")
        for index, (_, position) in enumerate(whole):
            if position is None:
                continue
            resumed = await app.service.subscribe(ANN, {"id": task_id}, str(position))
            [task, *rest] = await events_of(resumed)
            assert task["task"]["id"] == task_id
            assert rest == [one.event for one in whole[index + 1 :]]


@pytest.mark.parametrize("position", ["9:1", "1:99", "nonsense", "0:0"])
@aio
async def test_another_position_gives_the_whole_task(position: str) -> None:
    async with served() as app:
        sent = await app.service.send_stream(ANN, message("wait"))
        while not any("artifactUpdate" in one.event for one in await sent.next(1.0)):
            pass
        sent.close()
        params = {"id": str(sent.task_id)}
        subscription = await app.service.subscribe(ANN, params, position)
        [first] = await subscription.next(1.0)
        assert first.event["task"]["artifacts"]
        subscription.close()
        await app.service.cancel(ANN, params)


@aio
async def test_a_reader_learns_that_nobody_can_write(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(drain_timeout=0.0) as app:
        stream = await app.service.send_stream(ANN, message("wait"))

        def fail(_: object) -> None:
            raise LogUnavailable("no producer")

        monkeypatch.setattr(app.runtime, "check_producer", fail)
        with pytest.raises(LogUnavailable):
            stream.check_producer(app.runtime)
        stream.close()


@aio
async def test_a_message_that_comes_late_is_the_last_status_of_its_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_task_stream, "_HOLD", 0.0)
    doors = asyncio.Event()
    monkeypatch.setattr(serving, "LATE", doors)
    async with served() as app:
        stream = await app.service.send_stream(ANN, message("late message"))
        [first] = await stream.next(1.0)
        doors.set()
        events = await events_of(stream)
        assert events[-1]["statusUpdate"]["status"]["message"]["parts"] == [{"text": "At last."}]
        task = await in_state(app.service, first.event["task"]["id"], "COMPLETED")
        assert task["status"]["message"]["parts"] == [{"text": "At last."}]
        assert (await app.service.list(ANN, {}))["totalSize"] == 1
