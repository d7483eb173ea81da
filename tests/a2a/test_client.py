"""The two A2A clients as their users meet them, over real sockets."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, TypeVar

import httpx
import httpx2
import pytest

from coreason_client._http._types import timeouts_from
from coreason_client._retry import Backoff
from coreason_client.a2a import (
    A2AClient,
    A2AConnectionError,
    A2AEmptyResultError,
    A2AError,
    A2AHTTPError,
    A2AJSONError,
    A2AJSONRPCError,
    A2ANoSupportedInterfaceError,
    A2AResponseTooLargeError,
    A2ASSEParseError,
    A2AStreamClosedError,
    A2ATimeoutError,
    AgentCard,
    AgentInterface,
    AsyncA2AClient,
    AsyncJsonRpcTransport,
    AsyncRestTransport,
    Event,
    EventStream,
    InternalError,
    JsonRpcTransport,
    Message,
    MethodNotFoundError,
    Part,
    RestTransport,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskNotCancelableError,
    TaskNotFoundError,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatusUpdateEvent,
    Transport,
    UnsupportedOperationError,
    _options,
)
from coreason_client.a2a import _client_base as _polling
from coreason_client.server.a2a._v03._conversions import task_to_v03
from tests.a2a.loopback import CUT, HANG, Agent, Answer, Seen, as_json, serve, stream_of
from tests.dripping import BODY, ERROR_BODY, HEAD_WITHOUT_END, dripping

T = TypeVar("T")
TEXT = "1\u20282\u20283\u20284\u2028"
WAYS = ("sync", "async")
FACES = ("1.0", "0.3", "rest")


@pytest.fixture
def agent() -> Iterator[Agent]:
    with serve() as agent:
        yield agent


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_options, "Backoff", lambda **given: Backoff(0.01, 0.02, **given))
    monkeypatch.setattr(_polling, "Backoff", lambda: Backoff(0.001, 0.002))


class Both:
    """One of the two clients, used in the same words."""

    def __init__(self, way: str, make: Callable[[], Any]) -> None:
        self._way = way
        self._make = make

    def __call__(self, use: Callable[[Any], Any]) -> Any:
        """Do something with a client: `use` returns what it returns, or an awaitable."""
        if self._way == "sync":
            with self._make() as client:
                return use(client)

        async def main() -> Any:
            async with self._make() as client:
                found = use(client)
                return await found if isinstance(found, Awaitable) else found

        return asyncio.run(main(), debug=True)

    def all(self, use: Callable[[Any], Any]) -> tuple[list[Event], Any]:
        """Return the events of a stream, and the stream."""

        def read(client: Any) -> Any:
            stream = use(client)
            if self._way == "sync":
                return list(stream), stream

            async def read_async() -> Any:
                return [event async for event in stream], stream

            return read_async()

        found: tuple[list[Event], Any] = self(read)
        return found


def both(way: str, agent: Agent, face: str = "1.0", **options: Any) -> Both:
    def make() -> Any:
        if face == "rest":
            kind: Any = RestTransport if way == "sync" else AsyncRestTransport
            transport = kind(f"{agent.url}/rest", **options)
        else:
            kind = JsonRpcTransport if way == "sync" else AsyncJsonRpcTransport
            transport = kind(f"{agent.url}/rpc", version=face, **options)
        return (A2AClient if way == "sync" else AsyncA2AClient).with_transport(transport)

    return Both(way, make)


def from_url(way: str, agent: Agent, **options: Any) -> Both:
    kind: Any = A2AClient if way == "sync" else AsyncA2AClient
    return Both(way, lambda: kind(f"{agent.url}/rpc", **options))


def from_card(way: str, card: AgentCard, **options: Any) -> Both:
    kind: Any = A2AClient if way == "sync" else AsyncA2AClient
    return Both(way, lambda: kind.from_agent_card(card, **options))


def methods(agent: Agent) -> list[str]:
    return [seen.json["method"] for seen in agent.seen if seen.path == "/rpc"]


# Messages


@pytest.mark.proves("A2A-client-send", "A2A-jsonrpc-send", "A2A-jsonrpc-result", "R20a", "R20b")
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("way", WAYS)
def test_a_message_is_answered_with_a_task_or_a_message(agent: Agent, way: str, face: str) -> None:
    client = both(way, agent, face)
    task = client(lambda c: c.send_message("count"))
    assert isinstance(task, Task)
    assert task.text == TEXT
    assert task.status.state is TaskState.COMPLETED
    message = client(lambda c: c.send_message("say"))
    assert isinstance(message, Message)
    assert (message.text, message.role) == ("Said.", Role.AGENT)
    sent = {"1.0": ["SendMessage"] * 2, "0.3": ["message/send"] * 2, "rest": []}
    assert methods(agent) == sent[face]


@pytest.mark.proves(
    "A2A-client-send-stream",
    "A2A-jsonrpc-send-stream",
    "A2A-jsonrpc-stream",
    "A2A-sse-response",
    "A2A-sse-response-result",
    "A2A-transport-stream",
    "R22c",
)
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("way", WAYS)
def test_a_stream_gives_typed_events_and_the_task(agent: Agent, way: str, face: str) -> None:
    events, stream = both(way, agent, face).all(lambda c: c.send_message_stream("count"))
    assert [type(event) for event in events] == [
        Task,
        *[TaskArtifactUpdateEvent] * 4,
        TaskStatusUpdateEvent,
    ]
    assert "".join(event.text for event in events) == TEXT == stream.text == stream.task.text
    assert stream.task.status.state is TaskState.COMPLETED
    assert stream.complete_artifacts == {"a"}
    assert (stream.task_id, stream.context_id, stream.reconnects) == ("task-1", "context-1", 0)
    assert stream.response_headers["content-type"] == "text/event-stream"
    sent = {"1.0": ["SendStreamingMessage"], "0.3": ["message/stream"], "rest": []}
    assert methods(agent) == sent[face]


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_may_be_one_message(agent: Agent, way: str) -> None:
    events, stream = both(way, agent).all(lambda c: c.send_message_stream("say"))
    assert [event.text for event in events] == ["Said."]
    assert stream.text == "Said."
    assert stream.message == events[0]
    assert stream.task is None


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("way", WAYS)
def test_a_task_that_asks_back_ends_the_stream(agent: Agent, way: str, face: str) -> None:
    events, stream = both(way, agent, face).all(lambda c: c.send_message_stream("ask"))
    assert events[-1].text == "Which?" == stream.text
    assert stream.task.status.state is TaskState.INPUT_REQUIRED
    assert stream.task.status.is_interrupted


@pytest.mark.proves("A2A-jsonrpc-request", "A2A-jsonrpc-ids")
@pytest.mark.parametrize("way", WAYS)
def test_requests_are_json_rpc_with_increasing_ids(agent: Agent, way: str) -> None:
    def use(client: Any) -> Any:
        if way == "sync":
            for _ in range(3):
                client.send_message("say")
            return None

        async def send() -> None:
            for _ in range(3):
                await client.send_message("say")

        return send()

    from_url(way, agent)(use)
    for number, seen in enumerate(agent.seen, 1):
        assert (seen.method, seen.path) == ("POST", "/rpc")
        call = seen.json
        assert set(call) == {"jsonrpc", "id", "method", "params"}
        assert (call["jsonrpc"], call["id"]) == ("2.0", number)
        assert seen.headers["a2a-version"] == "1.0"
        assert seen.headers["content-type"] == "application/json"
        message = call["params"]["message"]
        assert message.pop("messageId")
        assert message == {"role": "ROLE_USER", "parts": [{"text": "say"}]}


@pytest.mark.proves("A2A-transport-shared", "A2A-jsonrpc-ids")
def test_a_transport_is_shared_by_threads(agent: Agent) -> None:
    with A2AClient(f"{agent.url}/rpc") as client, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.send_message("say").text, range(40)))
    assert answers == ["Said."] * 40
    assert sorted(seen.json["id"] for seen in agent.seen) == list(range(1, 41))


@pytest.mark.proves("A2A-transport-shared")
def test_a_transport_is_shared_by_tasks(agent: Agent) -> None:
    async def main() -> list[str]:
        async with AsyncA2AClient(f"{agent.url}/rpc") as client:
            events = await asyncio.gather(*[client.send_message("say") for _ in range(20)])
            return [event.text for event in events]

    assert asyncio.run(main()) == ["Said."] * 20


@pytest.mark.proves("A2A-client-send-config")
@pytest.mark.parametrize("way", WAYS)
def test_a_configuration_goes_along_in_either_dialect(agent: Agent, way: str) -> None:
    push = TaskPushNotificationConfig(url="https://me.example/push", token="t")
    config = SendMessageConfiguration(
        return_immediately=True, history_length=0, task_push_notification_config=push
    )
    both(way, agent, "1.0")(lambda c: c.send_message_with_config("say", config))
    assert agent.seen[-1].json["params"]["configuration"] == {
        "returnImmediately": True,
        "historyLength": 0,
        "taskPushNotificationConfig": {"url": "https://me.example/push", "token": "t"},
    }
    both(way, agent, "0.3")(lambda c: c.send_message("say", config))
    assert agent.seen[-1].json["params"]["configuration"] == {
        "blocking": False,
        "historyLength": 0,
        "pushNotificationConfig": {"url": "https://me.example/push", "token": "t"},
    }


# Conversations


@pytest.mark.parametrize("way", WAYS)
def test_a_reply_carries_task_and_context(agent: Agent, way: str) -> None:
    client = both(way, agent)
    asked = client(lambda c: c.send_message("ask"))
    client(lambda c: c.send_message("count", reply_to=asked))
    message = agent.seen[-1].json["params"]["message"]
    assert (message["taskId"], message["contextId"]) == ("task-1", "context-1")
    done = client(lambda c: c.get_task("task-1"))
    client(lambda c: c.send_message("say", reply_to=done))
    message = agent.seen[-1].json["params"]["message"]
    assert "taskId" not in message  # a task that is over cannot be continued
    assert message["contextId"] == "context-1"


def test_the_context_of_a_known_task_is_remembered(agent: Agent) -> None:
    with A2AClient(f"{agent.url}/rpc") as client:
        stream = client.send_message_stream("ask")
        list(stream)
        client.send_message(Message.user("say", task_id="task-1"))
        message = agent.seen[-1].json["params"]["message"]
        assert (message["taskId"], message["contextId"]) == ("task-1", "context-1")
        client.send_message("say", reply_to=stream)
        message = agent.seen[-1].json["params"]["message"]
        assert (message["taskId"], message["contextId"]) == ("task-1", "context-1")
        with pytest.raises(TypeError, match="got int"):
            client.send_message(7)  # type: ignore[arg-type]


# Tasks


@pytest.mark.proves(
    "A2A-client-get", "A2A-client-cancel", "A2A-jsonrpc-get", "A2A-jsonrpc-cancel", "R21c"
)
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("way", WAYS)
def test_tasks_are_got_and_cancelled(agent: Agent, way: str, face: str) -> None:
    client = both(way, agent, face)
    client(lambda c: c.send_message("ask"))
    task = client(lambda c: c.get_task("task-1", history_length=2))
    assert (task.id, task.status.state) == ("task-1", TaskState.INPUT_REQUIRED)
    assert task.text == "Which?"
    assert client(lambda c: c.cancel_task("task-1")).status.state is TaskState.CANCELED
    with pytest.raises(TaskNotFoundError) as missing:
        client(lambda c: c.get_task("no / such?"))
    assert (missing.value.code, missing.value.reason) == (-32001, "TASK_NOT_FOUND")
    client(lambda c: c.send_message("count"))
    with pytest.raises(TaskNotCancelableError):
        client(lambda c: c.cancel_task("task-2"))
    if face == "rest":
        assert agent.seen[1].query == {"historyLength": "2"}


@pytest.mark.parametrize("face", ["1.0", "rest"])
@pytest.mark.parametrize("way", WAYS)
def test_tasks_are_listed_page_by_page(agent: Agent, way: str, face: str) -> None:
    client = both(way, agent, face)
    for _ in range(5):
        client(lambda c: c.send_message("ask"))
    page = client(lambda c: c.list_tasks(page_size=2, status=TaskState.WORKING))
    assert [task.id for task in page.tasks] == ["task-1", "task-2"]
    assert (page.next_page_token, page.total_size) == ("2", 5)
    tasks, _ = client.all(lambda c: c.iter_tasks(page_size=2))
    assert [task.id for task in tasks if isinstance(task, Task)] == [
        f"task-{number}" for number in range(1, 6)
    ]


@pytest.mark.parametrize("way", WAYS)
def test_the_older_version_has_no_list(agent: Agent, way: str) -> None:
    with pytest.raises(UnsupportedOperationError, match=r"0\.3 of the protocol has no list_tasks"):
        both(way, agent, "0.3")(lambda c: c.list_tasks())
    assert agent.seen == []


@pytest.mark.proves("A2A-client-resubscribe", "A2A-jsonrpc-resubscribe")
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("way", WAYS)
def test_resubscribing_gives_the_task_also_when_it_is_over(
    agent: Agent, way: str, face: str
) -> None:
    client = both(way, agent, face)
    client(lambda c: c.send_message("ask"))
    events, stream = client.all(lambda c: c.resubscribe("task-1"))
    assert [type(event) for event in events] == [Task]
    client(lambda c: c.send_message("count"))
    events, stream = client.all(lambda c: c.resubscribe("task-2"))
    assert [event.text for event in events] == [TEXT]
    assert stream.text == TEXT
    with pytest.raises(UnsupportedOperationError):
        client.all(lambda c: c.resubscribe("task-2", resume=False))
    with pytest.raises(TaskNotFoundError):
        client.all(lambda c: c.resubscribe("task-9"))
    if face == "1.0":
        assert methods(agent).count("SubscribeToTask") == 4
    elif face == "0.3":  # where the task is fetched unless that is not wanted
        assert methods(agent).count("tasks/resubscribe") == 1
        assert methods(agent).count("tasks/get") == 3


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_a_task_is_waited_for(agent: Agent, way: str, streaming: bool) -> None:
    list(agent.stream({"message": {"parts": [{"text": "ask"}]}}))
    task = agent.tasks["task-1"]
    task["status"] = {"state": "TASK_STATE_WORKING"}
    asked: list[str] = []

    def rule(seen: Seen) -> Answer | None:
        asked.append(seen.json["method"])
        if len(asked) == 3:
            task["status"] = {"state": "TASK_STATE_COMPLETED"}
        return None

    agent.rules.append(rule)
    card = AgentCard.model_validate(agent.card())
    if not streaming:
        card = card.model_copy(
            update={"capabilities": card.capabilities.model_copy(update={"streaming": False})}
        )
    found = from_card(way, card)(lambda c: c.wait_for_task("task-1"))
    assert found.status.state is TaskState.COMPLETED
    if streaming:
        assert asked == [*["SubscribeToTask"] * 3, "GetTask"]
    else:
        assert asked == ["GetTask"] * 3


@pytest.mark.parametrize("way", WAYS)
def test_a_task_that_is_joined_late_has_its_beginning(agent: Agent, way: str) -> None:
    list(agent.stream({"message": {"parts": [{"text": "count"}]}}))
    ids = {"taskId": "task-1", "contextId": "context-1"}

    def rule(seen: Seen) -> Answer | None:
        if seen.json["method"] != "SubscribeToTask":
            return None
        artifact = {"artifactId": "a", "parts": [{"text": "4\u2028"}]}
        done = {**ids, "status": {"state": "TASK_STATE_COMPLETED"}}
        return stream_of(
            [
                rpc(seen, result={"artifactUpdate": {**ids, "artifact": artifact, "append": True}}),
                rpc(seen, result={"statusUpdate": done}),
            ]
        )

    agent.rules.append(rule)
    client = both(way, agent)
    assert client(lambda c: c.wait_for_task("task-1")).text == TEXT
    events, stream = client.all(lambda c: c.resubscribe("task-1"))
    assert "".join(event.text for event in events) == stream.text == TEXT


@pytest.mark.parametrize("face", ["1.0", "0.3"])
@pytest.mark.parametrize("way", WAYS)
def test_an_agent_that_does_not_stream_gives_the_events_of_its_task(
    agent: Agent, way: str, face: str
) -> None:
    texts = ["1", "12", "123"]

    def task(seen: Seen) -> dict[str, Any]:
        text = texts[min(len(agent.seen), len(texts)) - 1]
        found: dict[str, Any] = {"id": "t", "contextId": "c"}
        state = "COMPLETED" if text == texts[-1] else "WORKING"
        found["status"] = {"state": f"TASK_STATE_{state}"}
        found["artifacts"] = [{"artifactId": "a", "parts": [{"text": text}]}]
        return found

    def rule(seen: Seen) -> Answer:
        sends = seen.json["method"] in ("SendMessage", "message/send")
        if face == "0.3":
            return as_json(rpc(seen, result=task_to_v03(task(seen))))
        return as_json(rpc(seen, result={"task": task(seen)} if sends else task(seen)))

    agent.rules.append(rule)
    agent.card_extra["capabilities"] = {"streaming": False}
    agent.card_extra["supportedInterfaces"] = [
        {"url": f"{agent.url}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": face}
    ]
    card = AgentCard.model_validate(agent.card())
    events, stream = from_card(way, card).all(lambda c: c.send_message_stream("count"))
    assert [event.text for event in events] == ["1", "2", "3", ""]
    assert stream.text == "123"
    assert stream.task.status.state is TaskState.COMPLETED
    sent = agent.seen[0].json["params"]["configuration"]
    assert sent == ({"returnImmediately": True} if face == "1.0" else {"blocking": False})
    own = SendMessageConfiguration(return_immediately=False)
    agent.seen.clear()
    from_card(way, card).all(lambda c: c.send_message_stream("count", own))
    sent = agent.seen[0].json["params"]["configuration"]
    assert sent == ({"returnImmediately": False} if face == "1.0" else {"blocking": True})


# Push notifications and the extended card


@pytest.mark.proves("R23a", "R23b")
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("way", WAYS)
def test_push_configurations(agent: Agent, way: str, face: str) -> None:
    client = both(way, agent, face)
    made = client(lambda c: c.create_push_config("task-1", "https://me.example/push"))
    assert (made.id, made.task_id, made.url) == ("push-1", "task-1", "https://me.example/push")
    assert client(lambda c: c.get_push_config("task-1", "push-1")) == made
    assert client(lambda c: c.list_push_configs("task-1")) == [made]
    assert client(lambda c: c.delete_push_config("task-1", "push-1")) is None
    assert client(lambda c: c.list_push_configs("task-1")) == []


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("way", WAYS)
def test_the_extended_card(agent: Agent, way: str, face: str) -> None:
    card = both(way, agent, face)(lambda c: c.get_extended_card())
    assert card.name == "Counter for friends"
    assert card.supported_interfaces[0].protocol_binding == "JSONRPC"


# Which version, which interface


@pytest.mark.proves("R20d", "R20e", "A2A-client-new", "A2A-jsonrpc-url")
@pytest.mark.parametrize("way", WAYS)
def test_an_older_agent_is_found_out_once(agent: Agent, way: str) -> None:
    agent.versions = {"0.3"}

    def use(client: Any) -> Any:
        if way == "sync":
            return [client.send_message("say").text, list(client.send_message_stream("count"))]

        async def talk() -> Any:
            said = (await client.send_message("say")).text
            return [said, [event async for event in client.send_message_stream("count")]]

        return talk()

    said, events = from_url(way, agent)(use)
    assert said == "Said."
    assert "".join(event.text for event in events) == TEXT
    assert methods(agent) == ["SendMessage", "message/send", "message/stream"]
    assert [seen.headers["a2a-version"] for seen in agent.seen] == ["1.0", "0.3", "0.3"]


@pytest.mark.proves("R20d")
@pytest.mark.parametrize("way", WAYS)
def test_an_older_agent_is_found_out_by_a_stream_too(agent: Agent, way: str) -> None:
    agent.versions = {"0.3"}
    events, _ = from_url(way, agent).all(lambda c: c.send_message_stream("count"))
    assert "".join(event.text for event in events) == TEXT
    assert methods(agent) == ["SendStreamingMessage", "message/stream"]


@pytest.mark.proves("R20e")
def test_an_agent_that_answered_is_not_taken_for_an_older_one(agent: Agent) -> None:
    with A2AClient(f"{agent.url}/rpc") as client:
        client.send_message("say")
        agent.versions = set()
        with pytest.raises(MethodNotFoundError):
            client.send_message("say")
        assert methods(agent) == ["SendMessage", "SendMessage"]


def test_a_method_that_no_version_knows_settles_nothing(agent: Agent) -> None:
    agent.versions = set()
    with A2AClient(f"{agent.url}/rpc") as client:
        with pytest.raises(MethodNotFoundError):
            client.list_tasks()  # 0.3 has none, so it is not even tried
        with pytest.raises(MethodNotFoundError):
            client.send_message("say")
        agent.versions = {"1.0"}
        assert client.send_message("say").text == "Said."
    assert methods(agent) == ["ListTasks", "SendMessage", "message/send", "SendMessage"]


def interface(url: str, binding: str = "JSONRPC", version: str = "1.0") -> AgentInterface:
    return AgentInterface(url=url, protocol_binding=binding, protocol_version=version)


@pytest.mark.proves("R20c", "A2A-client-from-card")
@pytest.mark.parametrize("way", WAYS)
def test_the_version_of_the_interface_decides(agent: Agent, way: str) -> None:
    for version in ("1.0", "0.3.0"):
        card = AgentCard(
            name="x", supported_interfaces=[interface(f"{agent.url}/rpc", "JSONRPC", version)]
        )
        from_card(way, card)(lambda c: c.send_message("say"))
    card = AgentCard(name="x", supported_interfaces=[interface(f"{agent.url}/rest", "HTTP+JSON")])
    from_card(way, card)(lambda c: c.send_message("say"))
    assert methods(agent) == ["SendMessage", "message/send"]
    assert [seen.path for seen in agent.seen] == ["/rpc", "/rpc", "/rest/message:send"]


@pytest.mark.proves("A2A-client-from-card-none", "A2A-error-no-interface")
@pytest.mark.parametrize("way", WAYS)
def test_a_card_without_an_interface_that_we_speak(way: str) -> None:
    card = AgentCard(
        name="x",
        supported_interfaces=[
            interface("agent.example:443", "GRPC", "2.0"),
            interface("https://a.example", "HTTP+JSON", "2.0"),
            interface("https://a.example", "JSONRPC", "2.0"),
        ],
    )
    with pytest.raises(A2ANoSupportedInterfaceError, match=r"GRPC 2\.0, HTTP\+JSON 2\.0"):
        from_card(way, card)(lambda c: None)
    with pytest.raises(A2ANoSupportedInterfaceError, match="no interface"):
        from_card(way, AgentCard(name="x"))(lambda c: None)


@pytest.mark.parametrize("way", WAYS)
def test_the_next_interface_when_one_cannot_be_reached(agent: Agent, way: str) -> None:
    card = AgentCard(
        name="x",
        supported_interfaces=[
            interface("http://127.0.0.1:9/rpc"),
            interface(f"{agent.url}/rest", "HTTP+JSON"),
        ],
    )
    assert from_card(way, card)(lambda c: c.send_message("say")).text == "Said."
    events, _ = from_card(way, card).all(lambda c: c.send_message_stream("count"))
    assert "".join(event.text for event in events) == TEXT
    gone = AgentCard(
        name="x",
        supported_interfaces=[
            interface("http://127.0.0.1:9/rpc"),
            interface("http://127.0.0.1:9/rest", "HTTP+JSON"),
        ],
    )
    with pytest.raises(A2AConnectionError):
        from_card(way, gone)(lambda c: c.send_message("say"))
    with pytest.raises(A2AConnectionError):
        from_card(way, gone).all(lambda c: c.send_message_stream("say"))


@pytest.mark.parametrize("way", WAYS)
def test_tenant_and_extensions_go_along(agent: Agent, way: str) -> None:
    extensions = ["https://x.example/one", "https://x.example/two"]
    for url, binding, version in (
        ("/rpc", "JSONRPC", "1.0"),
        ("/rest", "HTTP+JSON", "1.0"),
        ("/rpc", "JSONRPC", "0.3"),
    ):
        place = interface(agent.url + url, binding, version)
        card = AgentCard(
            name="x", supported_interfaces=[place.model_copy(update={"tenant": "tenant-1"})]
        )
        from_card(way, card, extensions=extensions)(lambda c: c.send_message("say"))
    rpc, rest, old = agent.seen
    assert rpc.json["params"]["tenant"] == "tenant-1"
    assert rest.path == "/rest/tenant-1/message:send"
    assert "tenant" not in rest.json
    assert "tenant" not in old.json["params"]
    for seen in agent.seen:
        assert seen.headers["a2a-extensions"] == ",".join(extensions)
    assert "x-a2a-extensions" not in rpc.headers
    assert old.headers["x-a2a-extensions"] == ",".join(extensions)


@pytest.mark.parametrize("refusal", [404, 405])
@pytest.mark.parametrize("way", WAYS)
def test_subscribing_with_the_other_verb(agent: Agent, way: str, refusal: int) -> None:
    def rule(seen: Seen) -> Answer | None:
        if not seen.path.endswith(":subscribe"):
            return None
        if seen.method == "POST":
            return Answer(refusal)
        return stream_of([{"task": {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}}}])

    agent.rules.append(rule)
    events, _ = both(way, agent, "rest").all(lambda c: c.resubscribe("t"))
    assert [type(event) for event in events] == [Task]
    assert [seen.method for seen in agent.seen] == ["POST", "GET"]


# Transports of one's own


class Parrot:
    """A transport that says what it hears."""

    def __init__(self) -> None:
        self.requests: list[Any] = []

    def send_message(self, request: SendMessageRequest) -> Event:
        self.requests.append(request)
        return request.message

    def send_message_stream(self, request: SendMessageRequest) -> Any:
        return iter([Task(id="t", context_id="c"), self.send_message(request)])

    def get_task(self, request: Any) -> Task:
        return Task(id=request.id)

    cancel_task = get_task

    def resubscribe(self, request: Any) -> Any:
        raise UnsupportedOperationError("no")


@pytest.mark.proves(
    "A2A-client-with-transport", "A2A-transport-methods", "R21a", "R21b", "A2A-transport-stream"
)
def test_any_object_that_fits_is_a_transport() -> None:
    parrot: Any = Parrot()
    with A2AClient.with_transport(parrot) as client:
        assert client.transport is parrot
        assert client.send_message("Hello").text == "Hello"
        stream = client.send_message_stream("Hello")
        assert isinstance(stream, EventStream)
        assert iter(stream) is stream
        assert next(stream) == Task(id="t", context_id="c")
        assert stream.task_id == "t"
        stream.close()
        stream.close()
        assert list(stream) == []
        assert client.get_task("7").id == "7"
        assert client.cancel_task("7").id == "7"
        with pytest.raises(UnsupportedOperationError):
            client.resubscribe("7")
    for kind in (JsonRpcTransport, RestTransport):
        assert isinstance(kind("http://a.example"), Transport)
    with pytest.raises(TypeError, match="unknown option: colour"):
        JsonRpcTransport("http://a.example", colour="red")  # type: ignore[call-arg]


@pytest.mark.proves("R21a")
def test_any_object_that_fits_is_an_async_transport() -> None:
    class Async:
        async def send_message(self, request: SendMessageRequest) -> Event:
            return request.message

        async def send_message_stream(self, request: SendMessageRequest) -> Any:
            yield request.message

        async def get_task(self, request: Any) -> Task:
            status: Any = {"state": TaskState.COMPLETED}
            return Task(id=request.id, status=status)

        async def resubscribe(self, request: Any) -> Any:
            raise UnsupportedOperationError("no")
            yield

    async def main() -> None:
        transport: Any = Async()
        async with AsyncA2AClient.with_transport(transport) as client:
            assert (await client.send_message("Hello")).text == "Hello"
            async with client.send_message_stream("Hello") as stream:
                assert [event.text async for event in stream] == ["Hello"]
            assert (await client.wait_for_task("7")).id == "7"

    asyncio.run(main(), debug=True)


# What goes wrong


def rpc(seen: Seen, **members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": seen.json["id"], **members}


BODIES: dict[str, tuple[Callable[[Seen], Answer], type[A2AError]]] = {
    "not JSON": (lambda seen: Answer(200, {}, b"<html>"), A2AJSONError),
    "not an object": (lambda seen: as_json([1]), A2AJSONError),
    "of another request": (lambda seen: as_json({"id": 99, "result": {}}), A2AJSONError),
    "id as other text": (
        lambda seen: as_json({"id": "01", "result": {"task": {"id": "t"}}}),
        A2AJSONError,
    ),
    "a task without an id": (lambda seen: as_json(rpc(seen, result={"task": {}})), A2AJSONError),
    "no result": (lambda seen: as_json(rpc(seen)), A2AEmptyResultError),
    "null": (lambda seen: as_json(rpc(seen, result=None)), A2AEmptyResultError),
    "error without a code": (lambda seen: as_json(rpc(seen, error={})), A2AJSONError),
    "error as text": (lambda seen: as_json(rpc(seen, error="no")), A2AJSONRPCError),
    "error": (lambda seen: as_json(rpc(seen, error={"code": -32603})), InternalError),
    "error of no request": (
        lambda seen: as_json({"id": None, "error": {"code": -32603}}),
        InternalError,
    ),
    "error with a status": (
        lambda seen: as_json(rpc(seen, error={"code": -32603}), 500),
        InternalError,
    ),
    "refused": (lambda seen: Answer(418), A2AHTTPError),
    "too large": (lambda seen: Answer(200, {}, b" " * 200_000), A2AResponseTooLargeError),
    "cut": (lambda seen: Answer(200, {}, pieces=[b"{", CUT]), A2AConnectionError),
}


@pytest.mark.proves(
    "A2A-error-json",
    "A2A-error-empty",
    "A2A-error-http",
    "A2A-error-jsonrpc",
    "A2A-jsonrpc-error",
    "A2A-plan-jsonrpc",
)
@pytest.mark.parametrize("what", BODIES)
@pytest.mark.parametrize("way", WAYS)
def test_answers_that_are_none(agent: Agent, way: str, what: str) -> None:
    make, kind = BODIES[what]
    agent.rules.append(make)
    with pytest.raises(A2AError) as caught:
        both(way, agent, max_body_bytes=100_000)(lambda c: c.send_message("say"))
    assert type(caught.value) is kind
    assert len(agent.seen) == 1, "a message is never sent twice"
    if kind is A2AConnectionError:
        assert caught.value.__cause__ is not None


def test_the_number_of_a_call_may_come_back_as_text(agent: Agent) -> None:
    agent.rules.append(lambda seen: as_json({"id": "1", "result": {"task": {"id": "t"}}}))
    assert both("sync", agent)(lambda c: c.send_message("say")) == Task(id="t")


@pytest.mark.proves("A2A-error-jsonrpc")
@pytest.mark.parametrize("way", WAYS)
def test_an_error_without_a_name_keeps_all_it_says(agent: Agent, way: str) -> None:
    data = {"why": ["because"]}
    error = {"code": -31999, "message": "Odd.", "data": data}
    agent.rules.append(lambda seen: as_json(rpc(seen, error=error)))
    with pytest.raises(A2AJSONRPCError, match="code=-31999, message=Odd") as caught:
        both(way, agent)(lambda c: c.send_message("say"))
    assert type(caught.value) is A2AJSONRPCError
    assert (caught.value.code, caught.value.message, caught.value.data) == (-31999, "Odd.", data)


@pytest.mark.proves("A2A-error-http")
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("way", WAYS)
def test_a_refusal_keeps_status_headers_and_body(agent: Agent, way: str, face: str) -> None:
    agent.rules.append(lambda seen: as_json({"detail": "Later."}, 503, retry_after="7"))
    client = both(way, agent, face)
    calls: list[Callable[[], Any]] = [
        lambda: client(lambda c: c.send_message("say")),
        lambda: client.all(lambda c: c.send_message_stream("say")),
    ]
    for call in calls:
        with pytest.raises(A2AHTTPError, match=r"HTTP 503: Later\.") as caught:
            call()
        error = caught.value
        assert (error.status, error.retry_after, error.body) == (503, 7.0, b'{"detail": "Later."}')
        assert error.headers is not None
        assert error.headers["Retry-After"] == "7"
    assert len(agent.seen) == 2


@pytest.mark.parametrize("way", WAYS)
def test_what_does_no_harm_is_asked_again(agent: Agent, way: str) -> None:
    refusals = iter([Answer(503), Answer(200, {}, pieces=[b"{", CUT])])
    agent.rules.append(lambda seen: next(refusals, None))
    agent.tasks["t"] = {"id": "t"}
    assert both(way, agent)(lambda c: c.get_task("t")).id == "t"
    assert len(agent.seen) == 3
    agent.rules[:] = [lambda seen: Answer(503)]
    agent.seen.clear()
    with pytest.raises(A2AHTTPError):
        both(way, agent, max_retries=2)(lambda c: c.get_task("t"))
    assert len(agent.seen) == 3


@pytest.mark.proves("R24a", "A2A-plan-jsonrpc")
@pytest.mark.parametrize("drips", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_a_unary_call_has_a_limit(agent: Agent, way: str, drips: bool) -> None:
    def drip() -> Iterator[Any]:
        while drips and not agent.stopped.wait(0.02):
            yield b" "
        yield HANG

    agent.rules.append(lambda seen: Answer(200, {}, pieces=drip()))
    with pytest.raises(A2ATimeoutError) as caught:
        both(way, agent, timeout=0.5)(lambda c: c.send_message("say"))
    assert isinstance(caught.value, TimeoutError)
    assert len(agent.seen) == 1


@pytest.mark.proves("A2A-jsonrpc-timeout", "R24a", "R24b", "A2A-stream-timeout")
def test_the_limits_are_180_seconds_and_60_of_silence() -> None:
    route = _options.jsonrpc_route("https://a.example", None, None, {})
    unary = route.call("send_message", {}).request.timeouts
    stream = route.call("send_message_stream", {}).request.timeouts
    assert unary == timeouts_from(180.0)
    assert stream == timeouts_from(60.0)
    assert stream is not None
    assert unary == replace(stream, read=180.0, write=180.0)


@pytest.mark.proves("R24b", "R24c", "R24d", "A2A-stream-timeout")
@pytest.mark.parametrize("way", WAYS)
def test_a_silent_stream_is_resubscribed_as_often_as_it_takes(agent: Agent, way: str) -> None:
    task = {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}
    done = {**task, "status": {"state": "TASK_STATE_COMPLETED"}}

    def rule(seen: Seen) -> Answer:
        if len(agent.seen) <= 5:  # silent for longer than the budget has losses
            return stream_of([rpc(seen, result={"task": task}), HANG])
        return stream_of([rpc(seen, result={"task": done})])

    agent.rules.append(rule)
    options: Any = {"timeout": 0.2, "stream_timeout": 0.4, "max_retries": 1}
    events, stream = both(way, agent, **options).all(lambda c: c.send_message_stream("go"))
    assert [type(event) for event in events] == [Task, TaskStatusUpdateEvent]
    assert stream.reconnects == 5
    assert methods(agent) == ["SendStreamingMessage", *["SubscribeToTask"] * 5]


@pytest.mark.proves("A2A-error-closed")
@pytest.mark.parametrize("way", WAYS)
def test_a_cut_stream_heals_or_says_how_far_it_came(agent: Agent, way: str) -> None:
    def cut_at(position: int, end: Any) -> Callable[[Seen], Answer | None]:
        def rule(seen: Seen) -> Answer | None:
            if seen.json.get("method") != "SendStreamingMessage":
                return None
            events = list(agent.stream(seen.json["params"]))
            return stream_of([*[rpc(seen, result=e) for e in events[:position]], *end])

        return rule

    for end in ([CUT], []):
        for position in range(1, 6):
            agent.rules[:] = [cut_at(position, end)]
            events, stream = both(way, agent).all(lambda c: c.send_message_stream("count"))
            assert "".join(event.text for event in events) == TEXT == stream.text
            assert stream.reconnects == 2  # a subscription, refused, and the task itself
    agent.rules[:] = [cut_at(3, [CUT])]
    with pytest.raises(A2AStreamClosedError) as caught:
        both(way, agent).all(lambda c: c.send_message_stream("count", resume=False))
    assert caught.value.task_id == f"task-{len(agent.tasks)}"
    assert caught.value.text == "1\u20282\u2028"
    agent.rules[:] = [cut_at(0, [CUT])]
    with pytest.raises(A2AStreamClosedError) as caught:
        both(way, agent).all(lambda c: c.send_message_stream("count"))
    assert (caught.value.task_id, caught.value.task) == (None, None)


def _given(answer: Answer, seen: Seen) -> Answer:
    return answer


@pytest.mark.proves("A2A-error-sse", "A2A-sse-response-error")
@pytest.mark.parametrize("way", WAYS)
def test_events_that_are_none(agent: Agent, way: str) -> None:
    answers: list[tuple[Any, type[A2AError]]] = [
        ([b"data: {bad\n\n"], A2ASSEParseError),
        ([b'data: {"id":77,"result":{}}\n\n'], A2ASSEParseError),
        ([b"data: " + b"x" * 60_000], A2ASSEParseError),
        ([b'event: error\ndata: {"id":1,"error":{"code":-32603}}\n\n'], InternalError),
        ([b'data: {"id":null,"error":{"code":-32603}}\n\n'], InternalError),
    ]
    for pieces, kind in answers:
        answer = Answer(200, {"content-type": "text/event-stream"}, pieces=pieces)
        agent.rules[:] = [partial(_given, answer)]
        with pytest.raises(A2AError) as caught:
            both(way, agent, max_event_bytes=50_000).all(lambda c: c.send_message_stream("x"))
        assert type(caught.value) is kind
        if isinstance(caught.value, A2ASSEParseError):
            assert caught.value.data
            assert caught.value.data in pieces[0]
            assert len(caught.value.data) <= 1000


@pytest.mark.parametrize("way", WAYS)
def test_what_is_not_known_is_kept(agent: Agent, way: str) -> None:
    state = {"state": "TASK_STATE_DREAMING", "mood": 7}
    done = {"taskId": "t", "status": {"state": "TASK_STATE_COMPLETED"}}
    agent.rules.append(
        lambda seen: stream_of(
            rpc(seen, result=result)
            for result in (
                {"task": {"id": "t", "status": state, "colour": "red"}},
                {"dreamUpdate": {"of": "sheep"}},
                {"statusUpdate": done},
            )
        )
    )
    events, _ = both(way, agent).all(lambda c: c.send_message_stream("x"))
    first, unknown, _ = events
    assert isinstance(first, Task)
    assert first.status.state == "TASK_STATE_DREAMING"
    assert first.model_extra == {"colour": "red"}
    assert first.status.model_extra == {"mood": 7}
    assert unknown.dump() == {"dreamUpdate": {"of": "sheep"}}
    assert unknown.text == ""


# Credentials


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_refused_credential_is_refreshed_once(agent: Agent, way: str, stream: bool) -> None:
    tokens = iter(["old", "new", "newer"])
    wanted = {"Bearer new"}

    def rule(seen: Seen) -> Answer | None:
        return None if seen.headers.get("authorization") in wanted else Answer(401)

    async def later() -> str:
        return next(tokens)

    agent.rules.append(rule)
    client = both(way, agent, auth=(lambda: next(tokens)) if way == "sync" else later)
    if stream:
        client.all(lambda c: c.send_message_stream("count"))
    else:
        client(lambda c: c.send_message("say"))
    assert [seen.headers["authorization"] for seen in agent.seen] == ["Bearer old", "Bearer new"]
    wanted.clear()
    with pytest.raises(A2AHTTPError) as caught:
        both(way, agent, auth="fixed")(lambda c: c.send_message("say"))
    assert caught.value.status == 401
    assert len(agent.seen) == 3


def test_an_async_credential_needs_the_async_client(agent: Agent) -> None:
    async def later() -> str:
        return "token"

    client = A2AClient(f"{agent.url}/rpc", auth=later)
    with client, pytest.raises(TypeError, match="AsyncA2AClient"):
        client.send_message("say")
    assert "token" not in repr(A2AClient(f"{agent.url}/rpc", auth="token"))


# The rest


@pytest.mark.parametrize("library", [httpx2, httpx])
def test_a_client_of_the_callers_own(agent: Agent, library: Any) -> None:
    with library.Client(headers={"X-Team": "blue"}) as own:
        with A2AClient.connect(agent.url, http_client=own) as client:
            assert client.send_message("say").text == "Said."
        assert not own.is_closed
    assert [seen.headers["x-team"] for seen in agent.seen] == ["blue", "blue"]


@pytest.mark.proves("R21d")
@pytest.mark.parametrize("way", WAYS)
def test_connecting_finds_the_card(agent: Agent, way: str) -> None:
    """The name, address and version of the card are used."""
    agent.card_extra = {"name": "Old counter", "supportedInterfaces": []}
    agent.card_extra |= {"url": f"{agent.url}/rpc", "protocolVersion": "0.3.0"}
    if way == "sync":
        with A2AClient.connect(agent.url) as client:
            assert client.send_message("say").text == "Said."
            card, transport = client.card, client.transport
    else:

        async def main() -> Any:
            async with await AsyncA2AClient.connect(agent.url) as client:
                assert (await client.send_message("say")).text == "Said."
                return client.card, client.transport

        card, transport = asyncio.run(main(), debug=True)
    assert card is not None
    assert card.name == "Old counter"
    assert getattr(transport, "version", None) == "0.3"
    assert [seen.path for seen in agent.seen] == ["/.well-known/agent-card.json", "/rpc"]
    assert methods(agent) == ["message/send"]


@pytest.mark.parametrize("way", WAYS)
def test_connecting_again_asks_for_the_card_as_its_server_says(agent: Agent, way: str) -> None:
    """Fresh for max-age, else revalidated with its ETag: three connections, two requests."""

    def rule(seen: Seen) -> Answer | None:
        if not seen.path.endswith("agent-card.json"):
            return None
        if seen.headers.get("if-none-match") == '"v1"':
            return Answer(304, {"cache-control": "max-age=60"})
        return as_json(agent.card(), cache_control="max-age=0", etag='"v1"')

    agent.rules.append(rule)

    def connect_and_say(**options: Any) -> None:
        if way == "sync":
            with A2AClient.connect(agent.url, **options) as client:
                assert client.send_message("say").text == "Said."
        else:

            async def main() -> None:
                async with await AsyncA2AClient.connect(agent.url, **options) as client:
                    assert (await client.send_message("say")).text == "Said."

            asyncio.run(main(), debug=True)

    for _ in range(3):
        connect_and_say()
    asked = [s.headers.get("if-none-match") for s in agent.seen if s.path != "/rpc"]
    assert asked == [None, '"v1"']
    # Who sends other headers may be shown another card.
    connect_and_say(headers={"X-Tenant": "blue"})
    asked = [s.headers.get("if-none-match") for s in agent.seen if s.path != "/rpc"]
    assert asked == [None, '"v1"', None]


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("way", WAYS)
def test_redirects_keep_credentials_at_home(agent: Agent, way: str, status: int) -> None:
    with serve() as other:
        agent.rules.append(lambda seen: Answer(status, {"location": f"{other.url}/rpc"}))
        client = both(way, agent, auth="secret", headers={"X-Key": "secret"})
        assert client(lambda c: c.send_message("say")).text == "Said."
        events, _ = client.all(lambda c: c.send_message_stream("count"))
        assert "".join(event.text for event in events) == TEXT
        assert "secret" in str(agent.seen[0].headers)
        for seen in other.seen:
            assert "secret" not in str(seen.headers)
            assert seen.headers["a2a-version"] == "1.0"


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_that_is_left_lets_its_connection_go(agent: Agent, way: str) -> None:
    gone = threading.Event()

    def endless(seen: Seen) -> Iterator[Any]:
        try:
            yield rpc(seen, result={"task": {"id": "t"}})
            while True:
                status = {"state": "TASK_STATE_WORKING"}
                yield rpc(seen, result={"statusUpdate": {"taskId": "t", "status": status}})
        finally:
            gone.set()

    agent.rules.append(lambda seen: stream_of(endless(seen)))

    def use(client: Any) -> Any:
        if way == "sync":
            with client.send_message_stream("x") as stream:
                next(stream)
            return None

        async def leave() -> None:
            async with client.send_message_stream("x") as stream:
                await anext(stream)

        return leave()

    both(way, agent)(use)
    assert gone.wait(10)


def test_files_and_data_go_out_in_either_dialect(agent: Agent) -> None:
    parts = [
        Part(text="say"),
        Part.from_bytes(b"\0\1", filename="f.bin", media_type="application/x"),
        Part(url="https://f.example/f", media_type="text/x"),
        Part(data={"a": 1}),
        Part(data=None),
    ]
    message = Message(role=Role.USER, parts=parts)
    for version in ("1.0", "0.3"):
        both("sync", agent, version)(lambda c: c.send_message(message))
    new, old = (seen.json["params"]["message"]["parts"] for seen in agent.seen)
    assert new == [
        {"text": "say"},
        {"raw": "AAE=", "filename": "f.bin", "mediaType": "application/x"},
        {"url": "https://f.example/f", "mediaType": "text/x"},
        {"data": {"a": 1}},
        {"data": None},
    ]
    assert old == [
        {"kind": "text", "text": "say"},
        {
            "kind": "file",
            "file": {"bytes": "AAE=", "name": "f.bin", "mimeType": "application/x"},
        },
        {"kind": "file", "file": {"uri": "https://f.example/f", "mimeType": "text/x"}},
        {"kind": "data", "data": {"a": 1}},
        {"kind": "data", "data": {"value": None}, "metadata": {"data_part_compat": True}},
    ]
    assert parts[1].content == b"\0\1"


# Bytes that drip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("beginning", "call"),
    [
        *product([HEAD_WITHOUT_END, ERROR_BODY, BODY], ["get_task"]),
        *product([HEAD_WITHOUT_END, ERROR_BODY], ["resubscribe"]),
    ],
)
def test_a_timeout_holds_while_bytes_drip(way: str, beginning: bytes, call: str) -> None:
    """That of a call is for the whole of it, that of a stream for its head."""
    options: dict[str, Any] = {"timeout": 0.6, "stream_timeout": 0.6, "max_retries": 0}

    kind: Any = A2AClient if way == "sync" else AsyncA2AClient
    with dripping(beginning) as url:
        client = Both(way, lambda: kind(url, **options))
        start = time.monotonic()
        with pytest.raises(A2AError):
            if call == "get_task":
                client(lambda client: client.get_task("t"))
            client.all(lambda client: client.resubscribe("t"))
        assert time.monotonic() - start < 1.6
