"""Deliveries: in order, without a gap, with retries, and held by one process at a time."""

import asyncio
from typing import Any

import pytest

from coreason_client.server.a2a._protocol import V03
from coreason_client.server.a2a._push import _deliverer
from coreason_client.server.a2a._push._deliverer import LEASE
from coreason_client.server.a2a._push._progress import GIVE_UP_SECONDS, DeliveryProgress
from coreason_client.server.a2a._push._sender import WebhookError, WebhookResponse
from coreason_client.server.a2a._reading import EventPosition
from coreason_client.server.errors import LogUnavailable

from ..aio import LIMIT, aio, turns
from .pushes import ANN, check_no_gap, content, kinds, text_of, until, world
from .serving import written_anew

ALL = ["task", "artifactUpdate", "statusUpdate"]


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_deliverer, "retry_delay", lambda *_: 0.001)


@aio
async def test_events_are_delivered_in_order_until_the_end() -> None:
    async with world() as one:
        stored = await one.deliver(await one.begin("hello"))
        assert list(dict.fromkeys(kinds(one.sender.bodies))) == ALL
        check_no_gap(one.sender.bodies)
        assert text_of(one.sender.bodies) == "You said hello."
        state = content(one.sender.bodies[-1])["status"]["state"]
        assert state == "TASK_STATE_COMPLETED"
        assert stored.due is None
        progress = DeliveryProgress.load(stored.progress)
        assert (progress.position, progress.generation) == (EventPosition(1, 2), 4)
        assert one.sender.headers[0]["Authorization"] == "Bearer s3cret"
        assert one.sender.headers[0]["X-A2A-Notification-Token"] == "token"


@aio
async def test_without_a_position_it_begins_with_the_task_as_it_stands() -> None:
    async with world() as one:
        record = await one.begin("hello")
        await one.ended(record)
        stored = await one.deliver(record, DeliveryProgress())
        [body] = one.sender.bodies
        assert body["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert body["task"]["artifacts"][0]["parts"] == [{"text": "You said hello."}]
        assert stored.due is None


@aio
async def test_a_running_task_is_followed_after_what_it_is_now() -> None:
    async with world() as one:
        record = await one.begin("dictate")
        one.desk.say("a")
        held = await one.hold(record, DeliveryProgress())
        delivering = one.start(held)
        await one.sender.received(1)
        one.desk.say("b", None)
        await asyncio.wait_for(delivering, LIMIT)
        assert kinds(one.sender.bodies)[0] == "task"
        check_no_gap(one.sender.bodies, content(one.sender.bodies[0])["metadata"]["generation"])
        assert text_of(one.sender.bodies) == "ab"


@aio
async def test_the_message_of_an_agent_is_the_only_notification() -> None:
    async with world() as one:
        stored = await one.deliver(await one.begin("message"))
        assert kinds(one.sender.bodies) == ["message"]
        assert stored.due is None


@aio
async def test_text_is_merged_while_a_webhook_is_slow() -> None:
    async with world() as one:
        record = await one.begin("dictate")
        one.sender.gate.clear()
        delivering = one.start(await one.hold(record))
        one.desk.say("a")
        await one.sender.received(1)
        one.desk.say(*"bcdefg", None)
        await one.ended(record)
        one.sender.gate.set()
        await asyncio.wait_for(delivering, LIMIT)
        assert len(one.sender.bodies) <= 5
        check_no_gap(one.sender.bodies)
        assert text_of(one.sender.bodies) == "abcdefg"


FAILURES: list[Any] = [
    [WebhookResponse(500)],
    [WebhookResponse(404), WebhookResponse(429, 1.0)],
    [WebhookResponse(302)],
    [WebhookResponse(199)],
    [WebhookResponse(300)],
    [WebhookError("the connection failed")] * 3,
]


@pytest.mark.parametrize("failures", FAILURES)
@aio
async def test_a_notification_is_sent_again_until_it_is_accepted(failures: Any) -> None:
    async with world() as one:
        record = await one.begin("hello")
        await one.ended(record)
        one.sender.answers = [WebhookResponse(200), *failures]
        stored = await one.deliver(record)
        count = len(failures)
        assert kinds(one.sender.bodies) == [ALL[0], *[ALL[1]] * (count + 1), ALL[2]]
        assert one.sender.bodies[1] == one.sender.bodies[1 + count]
        assert DeliveryProgress.load(stored.progress).failures == 0


@aio
async def test_a_webhook_that_is_gone_gets_no_more() -> None:
    async with world() as one:
        one.sender.answers = [WebhookResponse(410)]
        stored = await one.deliver(await one.begin("hello"))
        assert len(one.sender.bodies) == 1
        assert stored.due is None
        assert DeliveryProgress.load(stored.progress).disabled


@aio
async def test_after_a_day_of_failures_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    async with world() as one:
        failing = DeliveryProgress(EventPosition(0, 0), 0, 300, one.clock.now - GIVE_UP_SECONDS)
        one.sender.answers = [WebhookResponse(503)]
        stored = await one.deliver(await one.begin("hello"), failing)
        assert stored.due is None
        assert DeliveryProgress.load(stored.progress).disabled
        assert "are disabled: it answered with 503" in caplog.text
        assert "s3cret" not in caplog.text
        assert "/hook" not in caplog.text


@aio
async def test_a_long_delay_is_left_to_whoever_finds_the_delivery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_deliverer, "retry_delay", lambda *_: 100.0)
    async with world() as one:
        record = await one.begin("hello")
        await one.ended(record)
        one.sender.answers = [WebhookResponse(204), WebhookResponse(500)]
        stored = await one.deliver(record)
        assert stored.due == one.clock.now + 100.0
        assert DeliveryProgress.load(stored.progress).generation == 1
        await asyncio.wait_for(one.start(stored), LIMIT)
        assert text_of(one.sender.bodies) == "You said hello."
        check_no_gap(one.sender.bodies)


@aio
async def test_what_was_taken_over_is_left_alone() -> None:
    async with world() as one:
        record = await one.begin("hello")
        one.sender.gate.clear()
        held = await one.hold(record)
        delivering = one.start(held)
        await one.sender.received(1)
        taken = held.changed(due=one.clock.now + LEASE)
        assert await one.log.tasks.deliveries.replace(held, taken)
        one.sender.gate.set()
        await asyncio.wait_for(delivering, LIMIT)
        assert len(one.sender.bodies) == 1
        assert await one.stored(record) == taken


@aio
async def test_a_configuration_that_was_deleted_gets_no_more() -> None:
    async with world() as one:
        record = await one.begin("hello")
        one.sender.gate.clear()
        delivering = one.start(await one.hold(record))
        await one.sender.received(1)
        await one.log.tasks.deliveries.delete(record.task_id, "a")
        one.sender.gate.set()
        await asyncio.wait_for(delivering, LIMIT)
        assert len(one.sender.bodies) == 1
        assert await one.log.tasks.deliveries.all(record.task_id) == []


@pytest.mark.parametrize("interrupted_at", [1, 2, 3, 4, 5])
@aio
async def test_another_process_continues_without_a_gap(interrupted_at: int) -> None:
    """The first one is cancelled during a request, which may have been received."""
    async with world() as one:
        record = await one.begin("dictate")
        for word in "abc":
            one.desk.say(word)
        delivering = one.start(await one.hold(record))
        for number in range(1, interrupted_at + 1):
            if number == interrupted_at:
                one.sender.gate.clear()
            one.desk.say(str(number))
            await one.sender.received(number)
        delivering.cancel()
        await asyncio.wait({delivering})
        released = await one.stored(record)
        assert released.due == one.clock.now  # at once, not at the end of the lease
        one.sender.gate.set()
        one.desk.say(None)
        taken = released.changed(due=one.clock.now + LEASE)
        assert await one.log.tasks.deliveries.replace(released, taken)
        await asyncio.wait_for(one.start(taken), LIMIT)
        check_no_gap(one.sender.bodies)
        assert (await one.stored(record)).due is None
        expected = "abc" + "".join(map(str, range(1, interrupted_at + 1)))
        assert text_of(one.sender.bodies) == expected


@aio
async def test_a_stop_lets_a_request_finish_and_gives_the_rest_to_others() -> None:
    async with world() as one:
        record = await one.begin("dictate")
        one.desk.say("a")
        one.sender.gate.clear()
        delivering = one.start(await one.hold(record))
        await one.sender.received(1)
        one.stopping.set()
        one.sender.gate.set()
        await asyncio.wait_for(delivering, LIMIT)
        stored = await one.stored(record)
        assert stored.due == one.clock.now
        assert text_of(one.sender.bodies) == "a"


@aio
async def test_a_stop_ends_the_wait_for_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_deliverer, "retry_delay", lambda *_: 50.0)
    async with world() as one:
        record = await one.begin("hello")
        one.sender.answers = [WebhookResponse(500)]
        delivering = one.start(await one.hold(record))
        await one.sender.received(1)
        await turns()
        one.stopping.set()
        await asyncio.wait_for(delivering, LIMIT)
        assert (await one.stored(record)).due == one.clock.now + 50.0


@aio
async def test_a_delivery_is_held_while_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_deliverer, "_WAIT", 0.01)
    async with world() as one:
        record = await one.begin("dictate")
        held = await one.hold(record)
        delivering = one.start(held)
        one.desk.say("a")
        await one.sender.received(2)
        for _ in range(3):
            one.clock.forward(LEASE / 2)
            now = one.clock.now
            async with asyncio.timeout(LIMIT):
                while (await one.stored(record)).due != now + LEASE:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
        one.desk.say(None)
        await asyncio.wait_for(delivering, LIMIT)
        check_no_gap(one.sender.bodies)


@pytest.mark.parametrize(
    ("question", "expected"), [("ask", "INPUT_REQUIRED"), ("sign in", "AUTH_REQUIRED")]
)
@aio
async def test_a_question_pauses_it_until_the_next_turn(question: str, expected: str) -> None:
    async with world() as one:
        record = await one.begin(question)
        stored = await one.deliver(record)
        state = content(one.sender.bodies[-1])["status"]["state"]
        assert state == f"TASK_STATE_{expected}"
        assert DeliveryProgress.load(stored.progress).idle
        assert stored.due is not None
        await one.ended(record)
        await one.begin("here", "n", taskId=str(record.task_id))
        await asyncio.wait_for(one.start(stored), LIMIT)
        check_no_gap(one.sender.bodies)
        state = content(one.sender.bodies[-1])["status"]["state"]
        assert state == "TASK_STATE_COMPLETED"
        assert (await one.stored(record)).due is None


@aio
async def test_a_turn_that_is_added_while_it_pauses_is_not_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as one:
        record = await one.begin("ask")
        deliveries = one.log.tasks.deliveries
        replace = deliveries.replace

        async def late(old: Any, new: Any) -> bool:
            if DeliveryProgress.load(new.progress).idle:  # just before that is stored
                monkeypatch.setattr(deliveries, "replace", replace)
                await one.ended(record)
                await one.begin("here", "n", taskId=str(record.task_id))
            return await replace(old, new)

        monkeypatch.setattr(deliveries, "replace", late)
        stored = await one.deliver(record)
        assert stored.due is None
        check_no_gap(one.sender.bodies)
        assert content(one.sender.bodies[-1])["status"]["state"] == "TASK_STATE_COMPLETED"


@aio
async def test_the_task_is_sent_when_entries_have_expired() -> None:
    async with world() as one:
        record = await one.begin("hello")
        await one.ended(record)
        await one.log.expire(-1.0, 1e9)
        stored = await one.deliver(record, DeliveryProgress(EventPosition(1, 0), 1))
        [body] = one.sender.bodies
        assert body["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert body["task"]["artifacts"][0]["parts"] == [{"text": "You said hello."}]
        assert stored.due is None
        # It is not sent again.
        await one.deliver(record, DeliveryProgress.load(stored.progress))
        assert len(one.sender.bodies) == 1


@aio
async def test_a_running_task_whose_earlier_entries_have_expired_is_followed() -> None:
    async with world() as one:
        record = await one.begin("ask")
        stored = await one.deliver(record)
        await one.ended(record)
        await one.log.expire(-1.0, 1e9)
        seen = DeliveryProgress.load(stored.progress).generation
        delivered = len(one.sender.bodies)
        await one.begin("dictate", "n", taskId=str(record.task_id))
        delivering = one.start(stored)
        one.desk.say("a", None)
        await asyncio.wait_for(delivering, LIMIT)
        assert (await one.stored(record)).due is None
        check_no_gap(one.sender.bodies[delivered:], seen)
        state = content(one.sender.bodies[-1])["status"]["state"]
        assert state == "TASK_STATE_COMPLETED"


@aio
async def test_the_delivery_of_a_task_that_is_gone_is_deleted() -> None:
    async with world() as one:
        record = await one.begin("hello")
        await one.ended(record)
        held = await one.hold(record)
        await one.log.tasks.drop(1e12, 1e12)
        await one.log.tasks.deliveries.put(held, 10)
        await asyncio.wait_for(one.start(held), LIMIT)
        assert await one.log.tasks.deliveries.all(record.task_id) == []
        assert one.sender.bodies == []


@aio
async def test_a_log_that_lost_entries_starts_over() -> None:
    async with world() as one:
        record = await one.begin("hello")
        await one.ended(record)
        stored = await one.deliver(record, DeliveryProgress(EventPosition(1, 99), 1))
        assert kinds(one.sender.bodies) == ["task"]
        assert stored.due is None


@pytest.mark.parametrize("open_", [True, False], ids=["while it is delivered", "in between"])
@aio
async def test_a_task_that_was_written_anew_is_sent_with_a_smaller_generation(
    open_: bool,
) -> None:
    async with world() as one:
        record = await one.begin("dictate")
        one.desk.say("a", "b", "c")
        delivering = one.start(await one.hold(record))
        await one.delivered(record, 4)
        if not open_:
            delivering.cancel()
            await asyncio.wait({delivering})
        epoch = await written_anew(one.log, record.task_id, 1, "x")
        count = len(one.sender.bodies)
        if not open_:
            delivering = one.start(await one.stored(record))
        await one.sender.received(count + 1)
        task = one.sender.bodies[count]["task"]
        assert task["artifacts"][0]["parts"] == [{"text": "ax"}]
        assert task["metadata"] == {"generation": 3, "coreason": {"epoch": epoch}}
        await one.delivered(record, 3)
        delivering.cancel()
        await asyncio.wait({delivering})


@aio
async def test_a_client_of_the_older_version_gets_tasks() -> None:
    async with world() as one:
        stored = await one.deliver(await one.begin("hello"), version=V03)
        assert {body["kind"] for body in one.sender.bodies} == {"task"}
        last = one.sender.bodies[-1]
        assert last["status"]["state"] == "completed"
        assert last["artifacts"][0]["parts"] == [{"kind": "text", "text": "You said hello."}]
        assert one.sender.headers[0]["Content-Type"] == "application/json"
        assert stored.due is None


@aio
async def test_a_cancelled_task_is_delivered_too() -> None:
    async with world() as one:
        record = await one.begin("dictate")
        delivering = one.start(await one.hold(record))
        await one.sender.received(1)
        await one.service.cancel(ANN, {"id": str(record.task_id)})
        await asyncio.wait_for(delivering, LIMIT)
        assert content(one.sender.bodies[-1])["status"]["state"] == "TASK_STATE_CANCELED"


@aio
async def test_an_error_of_the_log_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world() as one:
        record = await one.begin("hello")

        async def fail(*_: Any) -> bool:
            raise LogUnavailable("the store is full")

        held = await one.hold(record)
        monkeypatch.setattr(one.log.tasks.deliveries, "replace", fail)
        with pytest.raises(LogUnavailable):
            await asyncio.wait_for(one.start(held), LIMIT)
        assert len(one.sender.bodies) == 1
        await until(lambda: one.sender.in_flight == 0)
