"""Push configurations as clients use them, and deliveries as a process runs them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from coreason_client.a2a.errors import (
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotFoundError,
)
from coreason_client.server import AgentApp, MemoryStreamLog
from coreason_client.server.a2a import A2A, Operations
from coreason_client.server.a2a._operations import TaskService
from coreason_client.server.a2a._protocol import V03
from coreason_client.server.a2a._push import _service
from coreason_client.server.a2a._push._deliverer import LEASE
from coreason_client.server.a2a._push._progress import DeliveryProgress
from coreason_client.server.a2a._push._sender import WebhookResponse
from coreason_client.server.a2a._push._service import PushService
from coreason_client.server.a2a._push._urls import URLRules
from coreason_client.server.engine._runtime import Runtime
from coreason_client.server.errors import LogUnavailable
from coreason_client.server.observe._metrics import NO_METRICS

from ..aio import LIMIT, aio
from ..faulty_log import runtime_of
from ..log.backends import Clock
from .pushes import (
    ANN,
    BOB,
    URL,
    Desk,
    FakeSender,
    check_no_gap,
    content,
    kinds,
    message,
    text_of,
    until,
)

CONFIG = {
    "id": "mine",
    "url": URL,
    "token": "t0ken",
    "authentication": {"scheme": "Bearer", "credentials": "s3cret"},
}


class Replica:
    """An application, its operations and its webhook."""

    def __init__(self, log: MemoryStreamLog, runtime: Runtime, desk: Desk, clock: Clock) -> None:
        self.log = log
        self.desk = desk
        self.clock = clock
        self.sender = FakeSender()
        self.tasks = TaskService(runtime, log.tasks, None)
        self.push = PushService(
            *(runtime, log.tasks, self.tasks.states, URLRules(), NO_METRICS),
            clock=clock,
            sender=self.sender,
        )
        self.tasks.turns.push = self.push
        self.runtime = runtime

    async def send(self, text: str, config: Any = CONFIG, **more: Any) -> str:
        """Send a message; return the id of the task."""
        configuration = {"returnImmediately": True, "taskPushNotificationConfig": config}
        params = {**message(text, **more), "configuration": configuration}
        return str((await self.tasks.send(ANN, params))["task"]["id"])

    async def over(self, task_id: str) -> None:
        async with asyncio.timeout(LIMIT):
            while True:
                task = await self.tasks.get(ANN, {"id": task_id})
                if task["status"]["state"] != "TASK_STATE_WORKING":
                    return
                await asyncio.sleep(0.005)

    async def quiet(self) -> None:
        """Wait until this process works on no delivery."""
        await until(lambda: not self.push.deliverers)

    async def kill(self) -> None:
        """End all deliveries without a chance to store anything."""
        methods = vars(self.log.tasks.deliveries)
        methods["replace"] = _dead
        running = list(self.push._deliverers.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        del methods["replace"]


async def _dead(*_: Any) -> bool:
    raise LogUnavailable("the process is dead")


@asynccontextmanager
async def replicas(count: int = 1, grace: float = 0.5) -> AsyncIterator[list[Replica]]:
    """Applications that share a log."""
    desk, log, clock = Desk(), MemoryStreamLog(), Clock()
    app = AgentApp(desk.agent, log=log, drain_timeout=0.0, cancel_grace=grace)
    async with app.lifespan():
        made = [Replica(log, runtime_of(app), desk, clock) for _ in range(count)]
        try:
            yield made
        finally:
            for one in made:
                await one.push._stop()


@asynccontextmanager
async def replica() -> AsyncIterator[Replica]:
    async with replicas() as [one]:
        yield one


# Configurations.


@aio
async def test_a_configuration_is_created_read_listed_and_deleted() -> None:
    async with replica() as one:
        task_id = await one.send("hello", None)
        shown = {
            "taskId": task_id,
            "id": "mine",
            "url": URL,
            "authentication": {"scheme": "Bearer"},
        }
        where = {"taskId": task_id}
        assert await one.push.create(ANN, {**CONFIG, **where}) == shown
        assert await one.push.get(ANN, {**where, "id": "mine"}) == shown
        assert await one.push.get(ANN, where) == shown  # 0.3 may leave out the id
        listed = await one.push.list(ANN, where)
        assert listed == {"configs": [shown], "nextPageToken": ""}
        for _ in range(2):
            assert await one.push.delete(ANN, {**where, "id": "mine"}) == {}
        with pytest.raises(TaskNotFoundError):
            await one.push.get(ANN, {**where, "id": "mine"})
        assert await one.push.list(ANN, where) == {"configs": [], "nextPageToken": ""}


@aio
async def test_nothing_of_other_peoples_tasks_is_shown() -> None:
    async with replica() as one:
        task_id = await one.send("hello")
        where = {"taskId": task_id, "id": "mine"}
        for call in (
            one.push.create(BOB, {**CONFIG, **where}),
            one.push.get(BOB, where),
            one.push.list(BOB, where),
            one.push.delete(BOB, where),
            one.push.get(ANN, {"taskId": "unknown", "id": "mine"}),
        ):
            with pytest.raises(TaskNotFoundError):
                await call
        assert (await one.push.get(ANN, where))["url"] == URL


@aio
async def test_a_task_has_at_most_ten() -> None:
    async with replica() as one:
        task_id = await one.send("hello", None)
        for number in range(10):
            await one.push.create(ANN, {**CONFIG, "taskId": task_id, "id": f"{number}"})
        with pytest.raises(InvalidParamsError, match="at most 10"):
            await one.push.create(ANN, {**CONFIG, "taskId": task_id, "id": "more"})
        await one.push.create(ANN, {**CONFIG, "taskId": task_id, "id": "3"})
        assert len((await one.push.list(ANN, {"taskId": task_id}))["configs"]) == 10


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"url": "http://example.org/"}, "url"),
        ({"url": "https://127.0.0.1/"}, "url"),
        ({"token": "a\r\nb"}, "token"),
        ({"id": 7}, "id"),
    ],
)
@aio
async def test_a_wrong_configuration_starts_nothing(change: Any, field: str) -> None:
    async with replica() as one:
        with pytest.raises(InvalidParamsError) as caught:
            await one.send("hello", {**CONFIG, **change})
        path = f"configuration.taskPushNotificationConfig.{field} "
        assert caught.value.message.startswith(path)
        assert (await one.tasks.list(ANN, {}))["tasks"] == []
        with pytest.raises(InvalidParamsError, match=f"message={field} "):
            await one.push.create(ANN, {**CONFIG, **change, "taskId": "t"})


@aio
async def test_an_id_is_required_to_delete() -> None:
    async with replica() as one:
        with pytest.raises(InvalidParamsError, match="id is required"):
            await one.push.delete(ANN, {"taskId": "t"})


# The configuration of a message.


@aio
async def test_the_configuration_of_a_message_gets_all_events() -> None:
    async with replica() as one:
        await one.send("hello")
        await one.quiet()
        sent = list(dict.fromkeys(kinds(one.sender.bodies)))
        assert sent == ["task", "artifactUpdate", "statusUpdate"]
        check_no_gap(one.sender.bodies)


@pytest.mark.parametrize("config", [CONFIG, {"url": URL}])
@aio
async def test_a_message_that_is_sent_again_registers_once(config: Any) -> None:
    async with replica() as one:
        first = await one.send("hello", config)
        await one.quiet()
        delivered = len(one.sender.bodies)
        assert await one.send("hello", config) == first
        await one.quiet()
        assert len(one.sender.bodies) == delivered  # what was delivered is not delivered again
        assert len((await one.push.list(ANN, {"taskId": first}))["configs"]) == 1


@aio
async def test_a_join_registers_its_own_configuration() -> None:
    async with replica() as one:
        first = await one.send("dictate", None)
        assert await one.send("dictate", CONFIG) == first
        one.desk.say("a", None)
        await one.quiet()
        assert text_of(one.sender.bodies) == "a"


@aio
async def test_the_configuration_of_a_later_turn_begins_with_the_task() -> None:
    async with replica() as one:
        task_id = await one.send("ask", None)
        await one.over(task_id)
        await one.send("here", CONFIG, message_id="n", taskId=task_id)
        await one.quiet()
        assert kinds(one.sender.bodies)[0] == "task"
        assert content(one.sender.bodies[0])["history"][0]["parts"] == [{"text": "ask"}]
        assert content(one.sender.bodies[-1])["status"]["state"] == "TASK_STATE_COMPLETED"


@aio
async def test_a_delivery_continues_with_the_next_turn_at_once() -> None:
    async with replica() as one:
        task_id = await one.send("ask")
        await one.over(task_id)
        await one.quiet()
        [stored] = await one.log.tasks.deliveries.all(UUID(task_id))
        assert DeliveryProgress.load(stored.progress).idle
        seen = len(one.sender.bodies)
        await one.send("here", None, message_id="n", taskId=task_id)
        await one.quiet()
        assert len(one.sender.bodies) > seen
        check_no_gap(one.sender.bodies)
        assert content(one.sender.bodies[-1])["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("name", ["all", "replace"])
@aio
async def test_the_next_turn_is_delivered_at_once_although_the_log_did_not_answer_once(
    name: str, done: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its client got an error, and the webhook nothing for five minutes."""
    async with replica() as one:
        task_id = await one.send("ask")
        await one.over(task_id)
        await one.quiet()
        deliveries = one.log.tasks.deliveries
        method = getattr(deliveries, name)

        async def fail(*given: Any) -> Any:
            monkeypatch.undo()
            if done:
                await method(*given)
            raise LogUnavailable("not now")

        monkeypatch.setattr(deliveries, name, fail)
        await one.send("here", None, message_id="n", taskId=task_id)
        await one.quiet()
        assert content(one.sender.bodies[-1])["status"]["state"] == "TASK_STATE_COMPLETED"


@aio
async def test_the_cancellation_of_a_waiting_task_is_delivered() -> None:
    async with replica() as one:
        task_id = await one.send("ask")
        await one.over(task_id)
        await one.quiet()
        await one.tasks.cancel(ANN, {"id": task_id})
        await one.quiet()
        assert content(one.sender.bodies[-1])["status"]["state"] == "TASK_STATE_CANCELED"


@aio
async def test_a_client_of_the_older_version_gets_tasks() -> None:
    async with replica() as one:
        task_id = await one.send("hello", None)
        await one.over(task_id)
        await one.push.create(replace(ANN, version=V03), {**CONFIG, "taskId": task_id})
        await one.quiet()
        [body] = one.sender.bodies
        assert (body["kind"], body["status"]["state"]) == ("task", "completed")


# Deliveries.


@aio
async def test_a_configuration_that_is_replaced_is_delivered_to_once() -> None:
    async with replica() as one:
        task_id = await one.send("dictate")
        await one.sender.received(1)
        await one.push.create(ANN, {**CONFIG, "taskId": task_id, "token": "other"})
        one.desk.say("a", None)
        await one.quiet()
        assert {h["X-A2A-Notification-Token"] for h in one.sender.headers[1:]} == {"other"}
        check_no_gap(one.sender.bodies[1:])


@aio
async def test_a_deletion_ends_the_request_that_is_being_sent() -> None:
    async with replica() as one:
        one.sender.gate.clear()
        task_id = await one.send("hello")
        await one.sender.received(1)
        await one.push.delete(ANN, {"taskId": task_id, "id": "mine"})
        await until(lambda: one.sender.in_flight == 0)
        assert one.push.deliverers == 0


@aio
async def test_another_replica_continues_when_one_dies() -> None:
    async with replicas(2) as [one, two]:
        await one.send("dictate")
        one.desk.say("a")
        await one.sender.received(2)
        await one.kill()
        one.desk.say("b", None)
        await two.push._claim_due(two.clock.now)
        assert two.push.deliverers == 0  # the first one may be alive
        two.clock.forward(LEASE + 1)
        await two.push._claim_due(two.clock.now)
        assert two.push.deliverers == 1
        await two.quiet()
        bodies = one.sender.bodies + two.sender.bodies
        check_no_gap(bodies)
        assert text_of(bodies) == "ab"


@aio
async def test_of_two_replicas_one_continues() -> None:
    async with replicas(3) as [one, two, three]:
        await one.send("dictate")
        await one.sender.received(1)
        await one.kill()
        one.clock.forward(LEASE + 1)
        await asyncio.gather(*(r.push._claim_due(one.clock.now) for r in (two, three)))
        assert two.push.deliverers + three.push.deliverers == 1
        one.desk.say("a", None)
        await two.quiet()
        await three.quiet()
        assert not (two.sender.bodies and three.sender.bodies)


@aio
async def test_a_process_that_starts_on_its_own_log_continues_at_once() -> None:
    async with replicas(2) as [one, two]:
        await one.send("dictate")
        await one.sender.received(1)
        await one.kill()
        one.desk.say("a", None)
        running = asyncio.create_task(two.push.run())  # nobody else can have the lease
        await two.sender.received(1)
        await two.quiet()
        check_no_gap(one.sender.bodies + two.sender.bodies)
        running.cancel()
        await asyncio.wait({running})


@aio
async def test_a_webhook_that_failed_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_service, "_POLL", 0.01)
    async with replica() as one:
        one.sender.answers = [WebhookResponse(503, 3600.0)]
        await one.send("hello")
        await one.quiet()
        running = asyncio.create_task(one.push.run())
        one.clock.forward(3600.0)
        await one.sender.received(4)
        await one.quiet()
        check_no_gap(one.sender.bodies)
        running.cancel()
        await asyncio.wait({running})


@aio
async def test_a_stop_waits_for_a_request_for_a_limited_time() -> None:
    async with replica() as one:
        running = asyncio.create_task(one.push.run())
        one.sender.gate.clear()
        task_id = await one.send("hello")
        await one.sender.received(1)
        running.cancel()
        await asyncio.wait_for(asyncio.wait({running}), LIMIT)
        assert one.push.deliverers == 0
        [stored] = await one.log.tasks.deliveries.all(UUID(task_id))
        assert stored.due == one.clock.now  # whoever starts next continues


@aio
async def test_a_stop_does_not_wait_for_events() -> None:
    async with replicas(grace=LIMIT) as [one]:
        running = asyncio.create_task(one.push.run())
        await one.send("dictate")
        one.desk.say("a")
        await one.sender.received(2)
        [delivering] = one.push._deliverers.values()
        running.cancel()
        await asyncio.wait({running})
        assert not delivering.cancelled()  # it ended by itself, before its time was over
        one.desk.say(None)


@aio
async def test_nothing_is_begun_during_a_shutdown() -> None:
    async with replica() as one:
        task_id = await one.send("hello", None)
        await one.over(task_id)
        one.runtime.closing = True
        await one.push.create(ANN, {**CONFIG, "taskId": task_id})
        await one.push._claim_due(one.clock.now)
        assert one.push.deliverers == 0
        one.runtime.closing = False
        await one.push._claim_due(one.clock.now)
        await one.quiet()
        assert kinds(one.sender.bodies) == ["task"]


@aio
async def test_errors_of_the_log_do_not_end_the_service(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replica() as one:
        monkeypatch.setattr(one.log.tasks.deliveries, "due", _dead)
        for _ in range(3):
            await one.push._claim_due(1e12)
        assert caplog.text.count("looking for push notifications to send failed") == 1
        monkeypatch.setattr(one.log.tasks.deliveries, "replace", _dead)
        await one.send("hello")
        await one.quiet()
        assert "are continued later: the process is dead" in caplog.text


# The application.


@aio
async def test_without_push_every_operation_says_so() -> None:
    log, desk = MemoryStreamLog(), Desk()
    app = AgentApp(desk.agent, log=log)
    async with app.lifespan():
        operations = Operations(A2A(push=False), log.tasks, app._ready)
        for name in ("create", "get", "list", "delete"):
            operation = f"{name}_push_config{'s' if name == 'list' else ''}"
            with pytest.raises(PushNotificationNotSupportedError):
                await operations.call(operation, ANN, {})
        params = {**message("hello"), "configuration": {"taskPushNotificationConfig": CONFIG}}
        with pytest.raises(PushNotificationNotSupportedError):
            await operations.call("send_message", ANN, params)
        await operations.call("send_message", ANN, message("hello"))
        await asyncio.wait_for(operations.run_push(runtime_of(app)), LIMIT)
