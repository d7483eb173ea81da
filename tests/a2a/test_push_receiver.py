"""The receiver behind a real server, with the official sender, and on a bare ASGI interface."""

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import httpx
import pytest
from a2a.server.context import ServerCallContext
from a2a.server.tasks import BasePushNotificationSender, InMemoryPushNotificationConfigStore
from a2a.types import a2a_pb2
from fastapi import FastAPI

from coreason_client.a2a import (
    Event,
    PushReceiver,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
)
from tests.a2a.serving import LIMIT, serving

TOKEN = "token-of-the-task"
CREDENTIALS = "credentials-of-the-agent"
HEADERS = {"X-A2A-Notification-Token": TOKEN}
TASK = {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}


async def send_with_the_official_sender(url: str, events: list[Any]) -> None:
    store = InMemoryPushNotificationConfigStore()
    config = a2a_pb2.TaskPushNotificationConfig(
        task_id="t",
        url=url,
        token=TOKEN,
        authentication={"scheme": "Bearer", "credentials": CREDENTIALS},
    )
    await store.set_info("t", config, ServerCallContext())
    async with httpx.AsyncClient() as client:
        sender = BasePushNotificationSender(client, store)
        for event in events:
            await sender.send_notification("t", event)


@pytest.mark.parametrize("path", ["", "/hooks/a2a"])
def test_the_notifications_of_the_official_sdk_arrive(path: str) -> None:
    received: list[Event] = []
    receiver = PushReceiver(received.append, token=TOKEN, authorization=f"Bearer {CREDENTIALS}")
    app: Any = receiver
    if path:
        app = FastAPI()
        app.mount(path, receiver)
    working = a2a_pb2.TaskStatus(state=a2a_pb2.TASK_STATE_WORKING)
    completed = a2a_pb2.TaskStatus(state=a2a_pb2.TASK_STATE_COMPLETED)
    artifact = a2a_pb2.Artifact(artifact_id="a", parts=[a2a_pb2.Part(text="Hello")])
    ids: Any = {"task_id": "t", "context_id": "c"}
    events = [
        a2a_pb2.Task(id="t", context_id="c", status=working),
        a2a_pb2.TaskArtifactUpdateEvent(**ids, artifact=artifact),
        a2a_pb2.TaskStatusUpdateEvent(**ids, status=completed),
    ]
    with serving(app) as url:
        asyncio.run(asyncio.wait_for(send_with_the_official_sender(f"{url}{path}/", events), LIMIT))
    task, update, status = received
    assert isinstance(task, Task)
    assert task.status.state is TaskState.WORKING
    assert isinstance(update, TaskArtifactUpdateEvent)
    assert update.text == "Hello"
    assert isinstance(status, TaskStatusUpdateEvent)
    assert status.status.state is TaskState.COMPLETED


def test_a_task_of_0_3_arrives_and_wrong_requests_do_not(caplog: pytest.LogCaptureFixture) -> None:
    received: list[Any] = []
    old = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "completed"}}
    receiver = PushReceiver(received.append, token=TOKEN, max_body_bytes=1000)
    with serving(receiver) as url, httpx.Client(timeout=LIMIT) as client:
        accepted = client.post(url, json=old, headers=HEADERS)
        answers = [
            client.get(url),
            client.post(url, json=old),
            client.post(url, json=old, headers={"X-A2A-Notification-Token": "another-token"}),
            client.post(url, content=b"<html>", headers=HEADERS),
            client.post(url, data={"a": "b"}, headers=HEADERS),
            client.post(url, content=b" " * 1001, headers=HEADERS),
            client.post(url, content=iter([b" " * 600] * 2), headers=HEADERS),  # without a length
        ]
    assert (accepted.status_code, accepted.content) == (204, b"")
    assert [task.status.state for task in received] == [TaskState.COMPLETED]
    assert [answer.status_code for answer in answers] == [405, 403, 403, 400, 415, 413, 413]
    assert answers[0].headers["allow"] == "POST"
    assert answers[1].json() == {"error": "the X-A2A-Notification-Token header is missing"}
    assert TOKEN not in caplog.text


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_handler_that_raises_is_a_500_so_that_the_sender_repeats(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    attempts: list[Event] = []

    def handle(event: Event) -> None:
        attempts.append(event)
        if len(attempts) == 1:
            raise RuntimeError("the database is away")

    async def handle_async(event: Event) -> None:
        handle(event)

    receiver = PushReceiver(handle_async if kind == "async" else handle, token=TOKEN)
    with serving(receiver) as url, httpx.Client(timeout=LIMIT) as client:
        first = client.post(url, json=TASK, headers=HEADERS)
        second = client.post(url, json=TASK, headers=HEADERS)
    assert (first.status_code, second.status_code) == (500, 204)
    assert first.json() == {"error": "the notification could not be processed"}
    assert "the database is away" in caplog.text
    assert len(attempts) == 2


# The bare interface, on both event loops


def scope(**changes: Any) -> dict[str, Any]:
    headers = [(b"x-a2a-notification-token", TOKEN.encode())]
    return {"type": "http", "method": "POST", "path": "/", "headers": headers, **changes}


def call(app: Any, scope: dict[str, Any], messages: list[Any], backend: str = "asyncio") -> Any:
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    async def main() -> None:
        with anyio.fail_after(LIMIT):
            await app(scope, receive, send)

    anyio.run(main, backend=backend)
    return sent


def body_in_pieces() -> list[Any]:
    data = json.dumps(TASK).encode()
    return [
        {"type": "http.request", "body": data[:5], "more_body": True},
        {"type": "http.request", "more_body": True},
        {"type": "http.request", "body": data[5:]},
    ]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_it_runs_on_both_event_loops_and_a_plain_function_in_a_thread(backend: str) -> None:
    threads: list[Any] = []
    receiver = PushReceiver(lambda event: threads.append(threading.get_ident()), token=TOKEN)
    start, end = call(receiver, scope(), body_in_pieces(), backend)
    assert (start["status"], end["body"]) == (204, b"")
    [thread] = threads
    assert thread != threading.get_ident()


class _AsyncObject:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.thread = 0

    async def __call__(self, event: Event) -> None:
        self.events.append(event)
        self.thread = threading.get_ident()


def test_every_kind_of_async_handler_is_awaited() -> None:
    handler = _AsyncObject()
    kinds: list[Callable[[Event], Any]] = [
        handler,
        handler.__call__,
        partial(handler.__call__),
        lambda event: handler(event),
    ]
    for number, kind in enumerate(kinds, 1):
        call(PushReceiver(kind, token=TOKEN), scope(), body_in_pieces())
        assert len(handler.events) == number
        assert handler.thread == threading.get_ident()


def test_a_sender_that_disconnects_is_not_an_event(caplog: pytest.LogCaptureFixture) -> None:
    received: list[Event] = []
    messages = [*body_in_pieces()[:1], {"type": "http.disconnect"}]
    assert call(PushReceiver(received.append, token=TOKEN), scope(), messages) == []
    assert received == []
    assert caplog.text == ""


def test_wrong_credentials_are_refused_before_the_body_is_read() -> None:
    receiver = PushReceiver(print, token="another-token")
    assert call(receiver, scope(), messages=[])[0]["status"] == 403


def test_a_body_is_read_no_further_than_its_limit() -> None:
    pieces = [{"type": "http.request", "body": b" " * 600, "more_body": True}] * 9
    receiver = PushReceiver(print, token=TOKEN, max_body_bytes=1000)
    assert call(receiver, scope(), pieces)[0]["status"] == 413
    assert len(pieces) == 7


def test_lifespan_and_websockets() -> None:
    receiver = PushReceiver(print, token=TOKEN)
    steps = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    assert [m["type"] for m in call(receiver, {"type": "lifespan"}, list(steps))] == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]
    [closed] = call(receiver, {"type": "websocket"}, [])
    assert closed["type"] == "websocket.close"


def test_arguments_and_repr() -> None:
    wrong: Any = "print"
    with pytest.raises(TypeError, match="on_event must be a function, got str"):
        PushReceiver(wrong, token=TOKEN)
    with pytest.raises(TypeError, match="token or authorization is required"):
        PushReceiver(print)
    assert TOKEN not in repr(PushReceiver(print, token=TOKEN))


def test_a_refused_request_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    receiver = PushReceiver(print, token="another-token")
    with caplog.at_level(logging.WARNING, "coreason_client.a2a"):
        call(receiver, scope(), [])
    [record] = caplog.records
    assert "403" in record.getMessage()
