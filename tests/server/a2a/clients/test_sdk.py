"""The client of a2a-sdk 1.3, with both versions of the protocol and all bindings."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import grpc.aio  # type: ignore[import-untyped]
import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory, client_factory
from a2a.compat.v0_3.grpc_transport import CompatGrpcTransport
from a2a.types import (
    AuthenticationInfo,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from tests.server.aio import aio

from ..conformance.sites import Site
from ..conformance.webhooks import Webhooks

BINDINGS = ["JSONRPC", "HTTP+JSON", "GRPC"]
INTERFACES = [(binding, version) for version in ("1.0", "0.3") for binding in BINDINGS]

pytestmark = pytest.mark.parametrize(("binding", "version"), INTERFACES)


@pytest.fixture(autouse=True)
def _transport_of_0_3(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the factory its transport for gRPC in 0.3, or else it uses that of 1.0.

    The imports of the package are circular, so it is missing if another module came first.
    """
    monkeypatch.setattr(client_factory, "CompatGrpcTransport", CompatGrpcTransport)


@asynccontextmanager
async def connected(
    server: Site | str, binding: str, version: str, *, streaming: bool = True
) -> AsyncIterator[Client]:
    """Connect the client over one interface of the card."""
    url = server if isinstance(server, str) else server.url
    headers = {"Authorization": "Bearer ann-key"}
    async with httpx.AsyncClient(headers=headers, timeout=15) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        kept = [
            interface
            for interface in card.supported_interfaces
            if (interface.protocol_binding, interface.protocol_version) == (binding, version)
        ]
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(kept)
        config = ClientConfig(
            streaming=streaming,
            httpx_client=http,
            supported_protocol_bindings=[binding],
            grpc_channel_factory=channel,
        )
        async with ClientFactory(config).create(card) as client:
            yield client


class KeyForCalls(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]
    """Adds the key to the calls of gRPC."""

    async def intercept_unary_unary(self, call: Any, details: Any, request: Any) -> Any:
        return await call(with_key(details), request)


class KeyForStreams(grpc.aio.UnaryStreamClientInterceptor):  # type: ignore[misc]
    """Adds the key to the streams of gRPC."""

    async def intercept_unary_stream(self, call: Any, details: Any, request: Any) -> Any:
        return await call(with_key(details), request)


def with_key(details: Any) -> Any:
    key = ("authorization", "Bearer ann-key")
    return details._replace(metadata=grpc.aio.Metadata(*(details.metadata or ()), key))


def channel(address: str) -> Any:
    return grpc.aio.insecure_channel(address, interceptors=[KeyForCalls(), KeyForStreams()])


def request(behaviour: str = "tck-complete-task", text: str = "Hello.", **ids: str) -> Any:
    message = Message(
        message_id=f"{behaviour}-{uuid4()}", role=Role.ROLE_USER, parts=[Part(text=text)], **ids
    )
    return SendMessageRequest(message=message)


async def sent(client: Client, params: Any) -> list[Any]:
    return [event async for event in client.send_message(params)]


def kinds(events: list[Any]) -> list[str]:
    return [event.WhichOneof("payload") for event in events]


def text_of(artifacts: Any) -> str:
    return "".join(part.text for artifact in artifacts for part in artifact.parts)


@aio
async def test_send_get_and_cancel(server: Site, binding: str, version: str) -> None:
    async with connected(server, binding, version, streaming=False) as client:
        [event] = await sent(client, request())
        assert event.task.status.state == TaskState.TASK_STATE_COMPLETED
        assert text_of(event.task.artifacts) == "Hello from TCK"
        read = await client.get_task(GetTaskRequest(id=event.task.id))
        assert (read.id, text_of(read.artifacts)) == (event.task.id, "Hello from TCK")
        assert [message.parts[0].text for message in read.history] == ["Hello."]
        [asked] = await sent(client, request("tck-input-required"))
        cancelled = await client.cancel_task(CancelTaskRequest(id=asked.task.id))
        assert cancelled.status.state == TaskState.TASK_STATE_CANCELED


@aio
async def test_a_message_answers(server: Site, binding: str, version: str) -> None:
    for streaming in (False, True):
        async with connected(server, binding, version, streaming=streaming) as client:
            [event] = await sent(client, request("tck-message-response"))
            assert event.message.parts[0].text == "Direct message response"


@aio
async def test_stream(server: Site, binding: str, version: str) -> None:
    async with connected(server, binding, version) as client:
        events = await sent(client, request("tck-stream-artifact-chunked"))
    assert kinds(events)[0] == "task"
    updates = [event.artifact_update for event in events if event.HasField("artifact_update")]
    assert text_of([update.artifact for update in updates]) == "chunk-1 chunk-2"
    assert [update.append for update in updates] == [False, True]
    assert [update.last_chunk for update in updates] == [False, True]
    assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED


@pytest.mark.parametrize("behaviour", ["file", "file-url", "data"])
@aio
async def test_artifacts(server: Site, binding: str, version: str, behaviour: str) -> None:
    async with connected(server, binding, version, streaming=False) as client:
        [event] = await sent(client, request(f"tck-artifact-{behaviour}"))
    [part] = event.task.artifacts[0].parts
    if behaviour == "file":
        assert (part.raw, part.filename, part.media_type) == (b"tck", "output.txt", "text/plain")
    elif behaviour == "file-url":
        assert (part.url, part.media_type) == ("https://example.com/output.txt", "text/plain")
    else:
        fields = part.data.struct_value.fields
        assert (fields["key"].string_value, fields["count"].number_value) == ("value", 42)


@pytest.mark.parametrize(
    ("behaviour", "state", "question"),
    [
        ("tck-input-required", TaskState.TASK_STATE_INPUT_REQUIRED, "What else?"),
        ("tck-auth-required", TaskState.TASK_STATE_AUTH_REQUIRED, "Please log in"),
        ("sign-in", TaskState.TASK_STATE_AUTH_REQUIRED, "Sign in at https://example.com/login."),
    ],
)
@aio
async def test_the_agent_asks(
    server: Site, binding: str, version: str, behaviour: str, state: Any, question: str
) -> None:
    async with connected(server, binding, version) as client:
        events = await sent(client, request(behaviour))
        status = events[-1].status_update.status
        assert status.state == state
        assert status.message.parts[0].text == question
        task = events[0].task
        more = await sent(client, request(task_id=task.id, context_id=task.context_id))
        assert more[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
        assert more[0].task.id == task.id


@aio
async def test_subscribe(server: Site, binding: str, version: str) -> None:
    async with connected(server, binding, version) as client:
        params = request("held")
        message_id = params.message.message_id
        server.stage.say(message_id, "one ")
        stream = client.send_message(params)
        task_id = (await anext(stream)).task.id
        subscription = client.subscribe(SubscribeToTaskRequest(id=task_id))
        first = await anext(subscription)
        assert first.task.id == task_id
        server.stage.say(message_id, "two ")
        server.stage.finish(message_id)
        events = [first] + [event async for event in subscription]
        rest = [event async for event in stream]
    states = [event.status_update.status.state for event in (events[-1], rest[-1])]
    assert states == [TaskState.TASK_STATE_COMPLETED] * 2
    updates = [event.artifact_update.artifact for event in events if kinds([event])[0] != "task"]
    assert (text_of(first.task.artifacts) + text_of(updates)).endswith("two ")


@aio
async def test_list(server: Site, binding: str, version: str) -> None:
    if version != "1.0":  # 0.3 has no lists
        return
    context = str(uuid4())
    async with connected(server, binding, version, streaming=False) as client:
        ids = [(await sent(client, request(context_id=context)))[0].task.id for _ in range(3)]
        page = await client.list_tasks(ListTasksRequest(context_id=context, page_size=2))
        assert [task.id for task in page.tasks] == ids[:0:-1]
        assert page.total_size == 3
        query = ListTasksRequest(context_id=context, page_size=2, page_token=page.next_page_token)
        page = await client.list_tasks(query)
        assert [task.id for task in page.tasks] == ids[:1]
        assert page.next_page_token == ""


@aio
async def test_push_notifications(
    server: Site, webhooks: Webhooks, binding: str, version: str
) -> None:
    path, waits = f"/{uuid4()}", {"1.0": "TASK_STATE_INPUT_REQUIRED", "0.3": "input-required"}
    async with connected(server, binding, version, streaming=False) as client:
        [asked] = await sent(client, request("tck-input-required"))
        task_id = asked.task.id
        config = TaskPushNotificationConfig(
            task_id=task_id,
            id="mine",
            url=webhooks.url(path),
            token="t0ken",
            authentication=AuthenticationInfo(scheme="Bearer", credentials="s3cret"),
        )
        created = await client.create_task_push_notification_config(config)
        assert (created.task_id, created.id, created.url) == (task_id, "mine", config.url)
        received = await asyncio.to_thread(webhooks.until, path, waits[version])
        assert received[-1].headers["Authorization"] == "Bearer s3cret"
        assert received[-1].headers["X-A2A-Notification-Token"] == "t0ken"
        named = GetTaskPushNotificationConfigRequest(task_id=task_id, id="mine")
        assert await client.get_task_push_notification_config(named) == created
        if (binding, version) == ("HTTP+JSON", "0.3"):  # the client has no other operations there
            return
        every = ListTaskPushNotificationConfigsRequest(task_id=task_id)
        assert list((await client.list_task_push_notification_configs(every)).configs) == [created]
        deleted = DeleteTaskPushNotificationConfigRequest(task_id=task_id, id="mine")
        await client.delete_task_push_notification_config(deleted)
        assert not (await client.list_task_push_notification_configs(every)).configs


@aio
async def test_extended_card(server: Site, binding: str, version: str) -> None:
    async with connected(server, binding, version) as client:
        card = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
    assert card.name == "Extended"


@aio
async def test_errors(server: Site, binding: str, version: str) -> None:
    async with connected(server, binding, version, streaming=False) as client:
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id="unknown"))
        [done] = await sent(client, request())
        with pytest.raises(TaskNotCancelableError):
            await client.cancel_task(CancelTaskRequest(id=done.task.id))
        with pytest.raises(UnsupportedOperationError):
            await sent(client, request(task_id=done.task.id))
