"""Push notifications from a real server to a real receiver, through every kind of trouble."""

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coreason_client import A2AClient
from coreason_client.a2a import (
    AuthenticationInfo,
    PushReceiver,
    SendMessageConfiguration,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskStatusUpdateEvent,
)
from coreason_client.a2a.errors import (
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotFoundError,
)
from coreason_client.a2a.transport import GrpcTransport, JsonRpcTransport, RestTransport
from coreason_client.server import AgentApp, AgentStream, SQLiteStreamLog, running
from coreason_client.server.a2a import A2A
from coreason_client.server.a2a._push import _deliverer
from coreason_client.server.a2a._push._sender import WebhookSender
from coreason_manifest.definitions.service import ServiceRequest

from ..aio import LIMIT
from ..log.valkey_server import fresh_prefix, shared_server
from ..program import Program
from .pushes import check_no_gap, text_of

OPEN = A2A(allow_http_webhooks=True, allow_private_webhooks=True)
NAMES = {
    Task: "task",
    TaskArtifactUpdateEvent: "artifactUpdate",
    TaskStatusUpdateEvent: "statusUpdate",
}


class Inbox:
    """The events that a receiver has accepted; `trouble` is called for each event before that."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.requests = 0
        self.trouble: Callable[[int], None] = lambda number: None
        self._changed = threading.Condition()
        self.app = PushReceiver(self._take, token="t0ken", authorization="Bearer s3cret")

    def _take(self, event: Any) -> None:  # in a worker thread, so it may block
        with self._changed:
            self.requests += 1
            number = self.requests
            self._changed.notify_all()
        self.trouble(number)
        with self._changed:
            self.events.append({NAMES[type(event)]: event.dump()})
            self._changed.notify_all()

    def wait(self, condition: Callable[["Inbox"], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self), LIMIT), self.events[-3:]

    @property
    def state(self) -> str:
        """The last state of the task."""
        for event in reversed(self.events):
            for content in event.values():
                if "status" in content:
                    return str(content["status"]["state"])
        return ""

    @property
    def over(self) -> bool:
        return self.state in ("TASK_STATE_COMPLETED", "TASK_STATE_FAILED")


@contextmanager
def receiving() -> Iterator[tuple[Inbox, TaskPushNotificationConfig]]:
    inbox = Inbox()
    with running(inbox.app) as server:
        yield inbox, config(server.url)


def config(url: str) -> TaskPushNotificationConfig:
    return TaskPushNotificationConfig(
        id="mine",
        url=f"{url}/hook",
        token="t0ken",
        authentication=AuthenticationInfo(scheme="Bearer", credentials="s3cret"),
    )


def at_once(push: TaskPushNotificationConfig | None = None) -> SendMessageConfiguration:
    return SendMessageConfiguration(return_immediately=True, task_push_notification_config=push)


async def count(request: ServiceRequest, stream: AgentStream) -> None:
    for number in range(30):
        await stream.write(f"{number} ")
        await asyncio.sleep(0.005)


COUNTED = "".join(f"{number} " for number in range(30))


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_deliverer, "retry_delay", lambda *_: 0.02)


@contextmanager
def serving(a2a: A2A = OPEN, **options: Any) -> Iterator[A2AClient]:
    app = AgentApp(count, a2a=a2a, **options)
    with running(app) as server, A2AClient(f"{server.url}/a2a") as client:
        yield client


def check(inbox: Inbox) -> None:
    inbox.wait(lambda one: one.over)
    check_no_gap(inbox.events)
    assert text_of(inbox.events) == COUNTED
    assert inbox.state == "TASK_STATE_COMPLETED"


@pytest.mark.conforms("PUSH-DELIVER-001", "PUSH-DELIVER-002")
def test_a_receiver_gets_everything_in_order() -> None:
    with receiving() as (inbox, push), serving() as client:
        client.send_message("go", at_once(push))
        check(inbox)


@pytest.mark.conforms("PUSH-DELIVER-002")
def test_a_receiver_that_fails_gets_everything() -> None:
    with receiving() as (inbox, push), serving() as client:

        def fail(number: int) -> None:
            if number % 2:
                raise ValueError("not now")

        inbox.trouble = fail
        client.send_message("go", at_once(push))
        check(inbox)
        assert inbox.requests == 2 * len(inbox.events)


def test_a_receiver_that_answers_late_gets_merged_text() -> None:
    with receiving() as (inbox, push), serving() as client:
        released = threading.Event()
        inbox.trouble = lambda number: None if number != 2 else _wait(released)
        sent = client.send_message("go", at_once(push))
        assert isinstance(sent, Task)
        inbox.wait(lambda one: one.requests == 2)
        deadline = time.monotonic() + LIMIT
        while client.get_task(sent.id).status.state != "TASK_STATE_COMPLETED":
            assert time.monotonic() < deadline
        released.set()
        check(inbox)
        assert len(inbox.events) <= 6


def _wait(released: threading.Event) -> None:
    assert released.wait(LIMIT)


def test_a_receiver_that_hangs_gets_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first request is left when its time is over; what it brought comes again."""
    monkeypatch.setattr(
        "coreason_client.server.a2a._push._service.WebhookSender",
        lambda rules: WebhookSender(rules, timeout=0.2),
    )
    with receiving() as (inbox, push), serving() as client:
        released = threading.Event()
        inbox.trouble = lambda number: None if number != 1 else _wait(released)
        client.send_message("go", at_once(push))
        inbox.wait(lambda one: one.over)
        released.set()
        inbox.wait(lambda one: len(one.events) == one.requests)
        late = inbox.events.pop()  # the answer to it came too late, so it was sent again
        assert late == inbox.events[0]
        check(inbox)


def test_a_receiver_that_comes_back_gets_everything() -> None:
    first = Inbox()
    with serving() as client:
        with running(first.app) as server:
            port, push = server.port, config(server.url)
            client.send_message("go", at_once(push))
            first.wait(lambda one: len(one.events) >= 2)
        second = Inbox()
        second.events = list(first.events)
        with _running_at(second, port):
            check(second)


@contextmanager
def _running_at(inbox: Inbox, port: int) -> Iterator[None]:
    """Serve at a port that was free a moment ago."""
    import uvicorn

    started = threading.Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            started.set()

    server = Server(uvicorn.Config(inbox.app, port=port, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert started.wait(LIMIT)
        yield
    finally:
        server.should_exit = True
        thread.join(LIMIT)


TRANSPORTS = [
    pytest.param(lambda url, _: JsonRpcTransport(url, version="1.0"), id="jsonrpc"),
    pytest.param(lambda url, _: RestTransport(url), id="rest"),
    pytest.param(lambda _, address: GrpcTransport(address), id="grpc"),
    pytest.param(lambda url, _: JsonRpcTransport(url, version="0.3"), id="jsonrpc-0.3"),
    pytest.param(lambda url, _: RestTransport(url, version="0.3"), id="rest-0.3"),
    pytest.param(lambda _, address: GrpcTransport(address, version="0.3"), id="grpc-0.3"),
]


@pytest.mark.conforms(
    "PUSH-CREATE-001", "PUSH-GET-001", "PUSH-GET-002", "PUSH-LIST-001", "PUSH-DEL-002"
)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_configurations_over_every_binding(transport: Callable[[str, str], Any]) -> None:
    app = AgentApp(count, a2a=replace(OPEN, grpc_address="127.0.0.1:0"))
    with (
        receiving() as (inbox, push),
        running(app) as server,
        A2AClient.with_transport(
            transport(f"{server.url}/a2a", f"127.0.0.1:{app.grpc_port}")
        ) as client,
    ):
        sent = client.send_message("go", at_once())
        assert isinstance(sent, Task)
        created = client.create_push_config(sent.id, push)
        assert (created.id, created.url) == ("mine", push.url)
        assert created.token is None
        assert created.authentication is not None
        assert (created.authentication.scheme, created.authentication.credentials) == (
            "Bearer",
            None,
        )
        assert client.get_push_config(sent.id, "mine") == created
        assert client.list_push_configs(sent.id) == [created]
        inbox.wait(lambda one: one.over)
        assert inbox.events[0].keys() == {"task"}
        for _ in range(2):
            client.delete_push_config(sent.id, "mine")
        assert client.list_push_configs(sent.id) == []
        with pytest.raises(TaskNotFoundError):
            client.get_push_config(sent.id, "mine")


def test_without_the_switches_a_private_webhook_is_refused() -> None:
    with receiving() as (inbox, push), serving(A2A()) as client:
        sent = client.send_message("go")
        assert isinstance(sent, Task)
        with pytest.raises(InvalidParamsError, match="url must start with https://"):
            client.create_push_config(sent.id, push)
        private = push.model_copy(update={"url": push.url.replace("http:", "https:")})
        with pytest.raises(InvalidParamsError, match="url must have a public host"):
            client.create_push_config(sent.id, private)
        assert inbox.requests == 0


@pytest.mark.parametrize("push", [True, False])
def test_the_card_says_whether_there_are_notifications(push: bool) -> None:
    app = AgentApp(count, a2a=A2A(push=push))
    with running(app) as server, A2AClient.connect(server.url) as client:
        assert client.card is not None
        assert client.card.capabilities.push_notifications is push
        if not push:
            with pytest.raises(PushNotificationNotSupportedError):
                client.create_push_config("t", "https://example.org/")


@pytest.mark.conforms("PUSH-CREATE-002")
def test_a_restart_on_the_same_file_continues(tmp_path: Path) -> None:
    """The task is over and the receiver was down: the next process delivers what is left."""
    inbox = Inbox()
    inbox.trouble = lambda number: _refuse(inbox)
    path = tmp_path / "log.db"
    with running(inbox.app) as receiver:
        with serving(log=SQLiteStreamLog(path)) as client:
            sent = client.send_message("go", at_once(config(receiver.url)))
            assert isinstance(sent, Task)
            inbox.wait(lambda one: one.requests >= 2)
        assert inbox.events == []
        inbox.trouble = lambda number: None
        with serving(log=SQLiteStreamLog(path)):
            inbox.wait(lambda one: one.over)
            check(inbox)


def _refuse(inbox: Inbox) -> None:
    raise ValueError("the receiver is down")


REPLICA = """
import asyncio, signal, sys
from coreason_client.server import AgentApp, SQLiteStreamLog, ValkeyStreamLog, running
from coreason_client.server.a2a import A2A
from coreason_client.server.a2a._push import _deliverer, _service

kind, place, prefix = sys.argv[1:]
_deliverer.LEASE = _service.LEASE = 2.0
_service._POLL = 0.1

async def count(request, stream):
    number = 0
    while True:
        await stream.write(f"{number} ")
        number += 1
        await asyncio.sleep(0.01)

if kind == "sqlite":
    log = SQLiteStreamLog(place)
else:
    log = ValkeyStreamLog(place, prefix=prefix, lease=1.5)
a2a = A2A(allow_http_webhooks=True, allow_private_webhooks=True)
with running(AgentApp(count, log=log, agent_id="count", a2a=a2a)) as server:
    print(server.url, file=sys.stderr, flush=True)
    signal.pause()
"""


@pytest.mark.parametrize("kind", ["sqlite", "valkey"])
def test_another_process_continues_after_a_kill(kind: str, tmp_path: Path) -> None:
    place = str(tmp_path / "log.db") if kind == "sqlite" else shared_server().url
    arguments = (kind, place, fresh_prefix())
    with receiving() as (inbox, push), Program(REPLICA, *arguments) as first:
        first_url = first.url()
        second = Program(REPLICA, *arguments) if kind == "valkey" else None
        if second is not None:
            second.url()
        with A2AClient(f"{first_url}/a2a") as client:
            client.send_message("go", at_once(push))
        inbox.wait(lambda one: len(one.events) >= 5)
        first.signal(signal.SIGKILL)
        with second or Program(REPLICA, *arguments):
            inbox.wait(lambda one: one.over)
    check_no_gap(inbox.events)
    assert inbox.state == "TASK_STATE_FAILED"  # its agent died with the process
    numbers = [int(word) for word in text_of(inbox.events).split()]
    assert numbers == list(range(len(numbers)))
