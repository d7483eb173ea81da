"""Our clients against the official SDK's server: every call, both dialects, all bindings."""

import socket
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any

import pytest
import trio

from coreason_client.a2a import (
    A2AClient,
    AgentCardResolver,
    AsyncA2AClient,
    AsyncAgentCardResolver,
    AsyncEventStream,
    AuthenticationInfo,
    EventStream,
    InternalError,
    Message,
    Part,
    PushNotificationNotSupportedError,
    Role,
    SendMessageConfiguration,
    Task,
    TaskArtifactUpdateEvent,
    TaskNotCancelableError,
    TaskNotFoundError,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatusUpdateEvent,
    UnsupportedOperationError,
)
from tests.a2a.peer.driving import LIMIT, Face, done, driven, each, every, opened
from tests.a2a.peer.facts import ARTIFACT, DATA, LINK, PICTURE, TENANT, chunks

CLIENTS = [A2AClient, AsyncA2AClient]
# Over HTTP+JSON in 0.3 the peer breaks the connection where it should refuse to subscribe.
FACES_THAT_REFUSE = ["jsonrpc-1.0", "rest-1.0", "grpc-1.0", "jsonrpc-0.3", "grpc-0.3"]
FACES = [*FACES_THAT_REFUSE, "rest-0.3"]


@pytest.fixture(params=CLIENTS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest, origin: str, kind: Any) -> Face:
    return Face(origin, request.param, kind)


@pytest.fixture(params=FACES_THAT_REFUSE)
def refusing_face(request: pytest.FixtureRequest, origin: str, kind: Any) -> Face:
    return Face(origin, request.param, kind)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that is taken, but where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


async def first_task(stream: Any) -> Task:
    """Read the first event of a stream, which is its task."""
    async with aclosing(each(stream)) as events:
        event = await anext(events)
    assert isinstance(event, Task)
    return event


async def until_text(stream: Any, text: str) -> None:
    """Read until the stream has assembled a text."""
    async with aclosing(each(stream)) as events:
        while stream.text != text:
            await anext(events)


async def raised(error: type[BaseException], call: Callable[..., Any], *args: Any) -> Any:
    """Return the error of a call, or of a stream that is read."""
    with pytest.raises(error) as caught:
        result = call(*args)
        streams = isinstance(result, EventStream | AsyncEventStream)
        await (every(result) if streams else done(result))
    assert type(caught.value) is error
    return caught.value


async def asked(client: Any, text: str, **config: Any) -> Any:
    """Send a message and return the answer."""
    return await done(client.send_message(text, SendMessageConfiguration(**config)))


# Cards.


@pytest.mark.proves("A2A-plan-client")
@driven
async def test_the_card_says_how_to_talk_to_the_agent(face: Face) -> None:
    kind: Any = AgentCardResolver if face.kind is A2AClient else AsyncAgentCardResolver
    async with opened(kind()) as resolver:
        card = await done(resolver.resolve(face.base_url))
    [interface] = card.supported_interfaces
    assert card.name == f"{face.path} peer"
    binding = "HTTP+JSON" if face.is_rest else "GRPC" if face.is_grpc else "JSONRPC"
    assert interface.protocol_binding == binding
    assert interface.protocol_version == ("0.3" if face.is_old else "1.0")
    assert interface.url.startswith("127.0.0.1:" if face.is_grpc else face.base_url)
    assert card.capabilities.streaming
    assert card.capabilities.push_notifications
    assert card.skills[0].id == "count"


@driven
async def test_the_card_at_the_old_address_is_found(origin: str, kind: Any) -> None:
    async with Face(origin, "plain-jsonrpc-0.3", kind).client() as client:
        assert (await asked(client, "hello you")).text == "Hello, you!"


@driven
async def test_the_extended_card(face: Face) -> None:
    async with face.client() as client:
        assert (await done(client.get_extended_card())).name == "extended peer"
    async with face.variant("plain").client() as client:
        await raised(UnsupportedOperationError, client.get_extended_card)


# Messages.


@driven
async def test_a_message_is_answered_with_a_message(face: Face) -> None:
    async with face.client() as client:
        answer = await done(client.send_message("hello you"))
        assert isinstance(answer, Message)
        assert answer.role == Role.AGENT
        assert answer.text == "Hello, you!"
        assert answer.message_id
        asking = Message.user("hello again", context_id=answer.context_id)
        again = await done(client.send_message(asking))
        assert again.text == "Hello, again!"
        assert again.context_id == answer.context_id


@driven
async def test_a_stream_may_be_one_message(face: Face) -> None:
    async with face.client() as client:
        stream = client.send_message_stream("hello you")
        [event] = await every(stream)
        assert isinstance(event, Message)
        assert event.text == stream.text == "Hello, you!"
        assert stream.task is None


@driven
async def test_parts_of_every_kind_arrive(face: Face) -> None:
    async with face.client() as client:
        text, raw, url, data = (await asked(client, "parts")).parts
    assert text.text == "See:"
    assert raw.content == PICTURE
    assert url.url == LINK
    assert {part.media_type for part in (raw, url)} == {"image/png"}
    assert {part.filename for part in (raw, url)} == {"picture.png"}
    assert data.data == DATA


@driven
async def test_parts_of_every_kind_are_sent(face: Face) -> None:
    parts = [
        Part(text="count 1"),
        Part.from_bytes(PICTURE, filename="picture.png", media_type="image/png"),
        Part(url=LINK, media_type="image/png", filename="picture.png"),
        Part(data=DATA),
    ]
    async with face.client() as client:
        message = Message(role=Role.USER, parts=parts)
        task = await done(client.send_message(message))
    [first] = task.history
    assert first.message_id == message.message_id
    text, raw, url, data = first.parts
    assert text.text == "count 1"
    assert raw.content == PICTURE
    assert url.url == LINK
    assert data.data == DATA


# Tasks.


@driven
async def test_a_task_comes_with_its_artifacts_and_history(face: Face) -> None:
    async with face.client() as client:
        task = await done(client.send_message("count 5"))
        assert isinstance(task, Task)
        assert task.status.state is TaskState.COMPLETED
        assert task.text == "".join(chunks(5))
        assert [message.text for message in task.history] == ["count 5"]
        assert {message.task_id for message in task.history} == {task.id}
        assert {message.context_id for message in task.history} == {task.context_id}
        same = await done(client.get_task(task.id))
        assert same == task


@driven
async def test_a_stream_of_a_task(face: Face) -> None:
    async with face.client() as client:
        stream = client.send_message_stream("count 5")
        task, *updates = await every(stream)
        assert isinstance(task, Task)
        assert task.status.state is TaskState.SUBMITTED
        assert {update.task_id for update in updates} == {task.id}
        assert {update.context_id for update in updates} == {task.context_id}
        pieces = [item for item in updates if isinstance(item, TaskArtifactUpdateEvent)]
        states = [item for item in updates if isinstance(item, TaskStatusUpdateEvent)]
        assert [item.text for item in pieces] == chunks(5)
        assert {item.artifact.artifact_id for item in pieces} == {ARTIFACT}
        assert [item.append for item in pieces] == [False, True, True, True, True]
        assert [item.last_chunk for item in pieces] == [False, False, False, False, True]
        assert [item.status.state for item in states] == [TaskState.WORKING, TaskState.COMPLETED]
        assert stream.text == "".join(chunks(5))
        assert stream.task.status.state is TaskState.COMPLETED
        assert stream.task.text == (await done(client.get_task(task.id))).text


@driven
async def test_a_task_that_runs_is_seen_by_all(face: Face) -> None:
    half, whole = "".join(chunks(3)), "".join(chunks(6))
    async with face.client() as client:
        stream = client.send_message_stream("hold 6")
        task = await first_task(stream)
        await until_text(stream, half)

        now = await done(client.get_task(task.id))
        assert now.status.state is TaskState.WORKING
        assert now.text == half

        second = client.resubscribe(task.id)
        snapshot = await first_task(second)
        assert snapshot.text == half
        assert snapshot.context_id == task.context_id

        assert (await asked(client, f"release {task.id}")).text == "Released."
        rest = [item.text for item in await every(stream) if item.text]
        assert rest == chunks(6)[3:]
        # In 0.3 the second one is made of the task itself, which has no pieces.
        assert "".join([item.text for item in await every(second)]) == "".join(rest)
        for each_stream in (stream, second):
            assert each_stream.text == whole
            assert each_stream.task.status.state is TaskState.COMPLETED


@driven
async def test_a_task_goes_on_when_its_stream_is_closed(refusing_face: Face) -> None:
    async with refusing_face.client() as client:
        async with opened(client.send_message_stream("hold 4")) as stream:
            task = await first_task(stream)
        await asked(client, f"release {task.id}")
        found = await done(client.wait_for_task(task.id))
        assert found.status.state is TaskState.COMPLETED
        assert found.text == "".join(chunks(4))


@driven
async def test_a_finished_task_can_be_subscribed_to(refusing_face: Face) -> None:
    async with refusing_face.client() as client:
        task = await done(client.send_message("count 3"))
        stream = client.resubscribe(task.id)
        text = "".join([event.text for event in await every(stream)])
        assert text == stream.text == "".join(chunks(3))
        assert stream.task.status.state is TaskState.COMPLETED


@driven
async def test_an_input_continues_the_task(face: Face) -> None:
    async with face.client() as client:
        stream = client.send_message_stream("ask")
        await every(stream)
        task = stream.task
        assert task.status.state is TaskState.INPUT_REQUIRED
        assert task.status.text == "Which colour?"
        answer = Message.user("blue", task_id=task.id, context_id=task.context_id)
        stream = client.send_message_stream(answer)
        await every(stream)
        assert stream.task.id == task.id
        assert stream.task.context_id == task.context_id
        assert stream.task.status.state is TaskState.COMPLETED
        assert stream.task.text == "You said blue."
        history = (await done(client.get_task(task.id))).history
        said = [message.text for message in history if message.role == Role.USER]
        assert said == ["ask", "blue"]
        assert "Which colour?" in [message.text for message in history]


@driven
async def test_a_reply_belongs_to_what_it_answers(face: Face) -> None:
    async with face.client() as client:
        stream = client.send_message_stream("ask")
        await every(stream)
        task = await done(client.send_message("blue", reply_to=stream))
        assert (task.id, task.context_id) == (stream.task.id, stream.task.context_id)
        assert task.text == "You said blue."
        # The task is over: what is said next belongs to its context.
        after = await done(client.send_message("count 1", reply_to=task))
        assert after.id != task.id
        assert after.context_id == task.context_id

        task = await asked(client, "ask")
        # Who names the task alone is in its context all the same.
        known = await done(client.send_message(Message.user("red", task_id=task.id)))
        assert (known.id, known.context_id) == (task.id, task.context_id)


@driven
async def test_an_input_in_a_unary_call_continues_the_task(face: Face) -> None:
    async with face.client() as client:
        task = await asked(client, "ask")
        assert task.status.state is TaskState.INPUT_REQUIRED
        answer = Message.user("red", task_id=task.id, context_id=task.context_id)
        done_task = await done(client.send_message(answer))
        assert (done_task.id, done_task.context_id) == (task.id, task.context_id)
        assert done_task.text == "You said red."


@pytest.mark.parametrize(
    ("text", "state", "words"),
    [
        ("fail", TaskState.FAILED, "It broke."),
        ("reject", TaskState.REJECTED, "Not for me."),
        ("login", TaskState.AUTH_REQUIRED, "Who are you?"),
    ],
)
@driven
async def test_other_ends(face: Face, text: str, state: TaskState, words: str) -> None:
    async with face.client() as client:
        task = await asked(client, text)
        assert task.status.state is state
        assert task.status.text == words
        stream = client.send_message_stream(text)
        events = await every(stream)
        assert events[-1].text == events[-1].status_text == words
        assert stream.task.status.state is state


@driven
async def test_a_task_is_cancelled(face: Face) -> None:
    async with face.client() as client:
        stream = client.send_message_stream("wait")
        task = await first_task(stream)
        cancelled = await done(client.cancel_task(task.id))
        assert (cancelled.id, cancelled.context_id) == (task.id, task.context_id)
        assert cancelled.status.state is TaskState.CANCELED
        await every(stream)
        assert stream.task.status.state is TaskState.CANCELED


@driven
async def test_a_call_that_does_not_wait(refusing_face: Face) -> None:
    async with refusing_face.client() as client:
        task = await asked(client, "hold 4", return_immediately=True)
        assert not task.status.is_terminal
        await asked(client, f"release {task.id}")
        finished = await done(client.wait_for_task(task.id))
        assert finished.status.state is TaskState.COMPLETED
        assert finished.text == "".join(chunks(4))


@driven
async def test_an_agent_that_does_not_stream_is_polled(face: Face) -> None:
    async with face.variant("plain").client() as client:
        task = await asked(client, "hold 4", return_immediately=True)
        await asked(client, f"release {task.id}")
        finished = await done(client.wait_for_task(task.id))
        assert finished.text == "".join(chunks(4))


@driven
async def test_an_agent_that_does_not_stream_gives_events(face: Face) -> None:
    async with face.variant("plain").client() as client:
        stream = client.send_message_stream("count 4")
        text = "".join([event.text for event in await every(stream)])
        assert text == stream.text == "".join(chunks(4))
        assert stream.task.status.state is TaskState.COMPLETED


@driven
async def test_the_length_of_the_history(face: Face) -> None:
    async with face.client() as client:
        task = await asked(client, "ask")
        answer = Message.user("blue", task_id=task.id, context_id=task.context_id)
        configuration = SendMessageConfiguration(history_length=1)
        assert len((await done(client.send_message(answer, configuration))).history) == 1
        whole = (await done(client.get_task(task.id))).history
        assert len(whole) > 2
        last = (await done(client.get_task(task.id, history_length=2))).history
        assert last == whole[-2:]
        if not face.is_old:  # there the peer takes 0 for no limit
            assert (await done(client.get_task(task.id, history_length=0))).history == []
            assert (await asked(client, "count 1", history_length=0)).history == []


# Errors.


@driven
async def test_errors_have_types(face: Face) -> None:
    async with face.client() as client:
        calls = [client.get_task, client.cancel_task]
        for call in calls if face.path == "rest-0.3" else [*calls, client.resubscribe]:
            error = await raised(TaskNotFoundError, call, "nobody")
            assert error.code == -32001
            assert error.message
            if not face.is_old:
                assert error.reason == "TASK_NOT_FOUND"
        task = await asked(client, "count 1")
        await raised(TaskNotCancelableError, client.cancel_task, task.id)
        error = await raised(InternalError, client.send_message, "raise it")
        assert error.code == -32603
        unknown = Message.user("hello", task_id="nobody", context_id="nothing")
        await raised(TaskNotFoundError, client.send_message, unknown)
        if face.path != "rest-0.3":
            await raised(TaskNotFoundError, client.send_message_stream, unknown)


@driven
async def test_what_an_agent_cannot_do(face: Face) -> None:
    async with face.variant("plain").client() as client:
        task = await asked(client, "count 1")
        await raised(PushNotificationNotSupportedError, client.list_push_configs, task.id)


# Lists.


@driven
async def test_tasks_are_listed(face: Face) -> None:
    async with face.client() as client:
        first = await asked(client, "count 2")
        said = [Message.user(f"count {n}", context_id=first.context_id) for n in range(3, 7)]
        others = [await done(client.send_message(message)) for message in said]
        ids = [task.id for task in (first, *others)][::-1]
        if face.is_old:
            await raised(UnsupportedOperationError, client.list_tasks)
            return
        page = await done(client.list_tasks(context_id=first.context_id, page_size=2))
        assert [task.id for task in page.tasks] == ids[:2]
        assert page.total_size == 5
        assert page.next_page_token
        assert all(task.artifacts == [] for task in page.tasks)
        found = await every(
            client.iter_tasks(
                context_id=first.context_id, page_size=2, include_artifacts=True, history_length=0
            )
        )
        assert [task.id for task in found] == ids
        assert [task.text for task in found] == ["".join(chunks(n)) for n in range(6, 1, -1)]
        assert all(task.history == [] for task in found)
        working = await done(
            client.list_tasks(context_id=first.context_id, status=TaskState.WORKING)
        )
        assert working.tasks == []


# Push notifications.


@driven
async def test_push_configurations(face: Face) -> None:
    async with face.client() as client:
        task = await asked(client, "count 1")
        made = TaskPushNotificationConfig(
            id="mine",
            task_id=task.id,
            url="https://example.com/hook",
            token="tell-no-one",
            authentication=AuthenticationInfo(scheme="Bearer", credentials="secret"),
        )
        created = await done(client.create_push_config(task.id, made))
        assert created.dump() == made.dump()
        found = await done(client.get_push_config(task.id, "mine"))
        assert found.dump() == made.dump()
        other = TaskPushNotificationConfig(task_id=task.id, url="https://example.com/other")
        second = await done(client.create_push_config(task.id, other))
        assert second.id
        listed = await done(client.list_push_configs(task.id))
        assert {config.id: config.url for config in listed} == {
            "mine": made.url,
            second.id: other.url,
        }
        if face.path == "rest-0.3":  # the peer has no route for it
            await raised(UnsupportedOperationError, client.delete_push_config, task.id, "mine")
            return
        assert await done(client.delete_push_config(task.id, "mine")) is None
        listed = await done(client.list_push_configs(task.id))
        assert [config.id for config in listed] == [second.id]
        await raised(TaskNotFoundError, client.get_push_config, task.id, "mine")


@driven
async def test_a_push_configuration_comes_with_a_message(face: Face) -> None:
    config = TaskPushNotificationConfig(id="early", url="https://example.com/hook")
    async with face.client() as client:
        task = await asked(client, "count 1", task_push_notification_config=config)
        found = await done(client.get_push_config(task.id, "early"))
        assert found.url == config.url


# What travels beside the message.


@driven
async def test_the_tenant_of_the_interface_is_sent(origin: str, kind: Any) -> None:
    for path in ("jsonrpc-1.0", "rest-1.0", "grpc-1.0"):
        async with Face(origin, f"tenant-{path}", kind).client() as client:
            assert (await asked(client, "echo tenant")).text == TENANT
            task = await asked(client, "count 1")
            assert (await done(client.get_task(task.id))).id == task.id
        async with Face(origin, path, kind).client() as client:
            assert (await asked(client, "echo tenant")).text == "nothing"


@driven
async def test_extensions_are_named(face: Face) -> None:
    uris = ["https://example.com/a", "https://example.com/b"]
    async with face.client(extensions=uris) as client:
        assert (await asked(client, "echo extensions")).text == " ".join(uris)


# Without a card, and with a choice.


@driven
async def test_without_a_card_the_dialect_is_found(origin: str, kind: Any) -> None:
    for path in ("jsonrpc-1.0", "jsonrpc-0.3", "both"):
        async with opened(kind(f"{origin}/{path}/rpc")) as client:
            assert (await asked(client, "hello you")).text == "Hello, you!"
            stream = client.send_message_stream("count 3")
            await every(stream)
            assert stream.text == "".join(chunks(3))
            assert (await done(client.get_task(stream.task.id))).text == stream.text


@driven
async def test_a_stream_finds_the_dialect_too(origin: str, kind: Any) -> None:
    async with opened(kind(f"{origin}/jsonrpc-0.3/rpc")) as client:
        stream = client.send_message_stream("count 3")
        await every(stream)
        assert stream.text == "".join(chunks(3))


@driven
async def test_a_card_with_both_dialects(origin: str, kind: Any) -> None:
    async with Face(origin, "both", kind).client() as client:
        stream = client.send_message_stream("count 3")
        await every(stream)
        assert stream.text == "".join(chunks(3))


@driven
async def test_the_next_interface_is_used_when_one_cannot_be_reached(
    face: Face, kind: Any, closed_port: int
) -> None:
    async with face.client() as client:
        card = client.card
    path = "" if face.is_grpc else "/rpc"
    nobody = card.supported_interfaces[0].model_copy(
        update={"url": f"http://127.0.0.1:{closed_port}{path}"}
    )
    card = card.model_copy(update={"supported_interfaces": [nobody, *card.supported_interfaces]})
    async with opened(kind.from_agent_card(card)) as client:
        stream = client.send_message_stream("count 3")
        await every(stream)
        assert stream.text == "".join(chunks(3))
        assert (await asked(client, "hello you")).text == "Hello, you!"
    async with opened(kind.from_agent_card(card)) as client:
        assert (await asked(client, "hello you")).text == "Hello, you!"


# The other event loop.


# A stream that ends with its task leaves the end of its body unread, of which trio warns.
@pytest.mark.filterwarnings(r"ignore:Async generator 'http\S+\.__aiter__' was:ResourceWarning")
@pytest.mark.parametrize("path", ["jsonrpc-1.0", "rest-1.0", "jsonrpc-0.3"])
def test_the_async_client_runs_on_trio(path: str, origin: str) -> None:
    async def main() -> None:
        face = Face(origin, path, AsyncA2AClient)
        with trio.fail_after(LIMIT):
            async with face.client() as client:
                assert (await client.send_message("hello you")).text == "Hello, you!"
                stream = client.send_message_stream("hold 6")
                task = await first_task(stream)
                await until_text(stream, "".join(chunks(3)))
                second = client.resubscribe(task.id)
                await first_task(second)
                await client.send_message(f"release {task.id}")
                await every(stream)
                await every(second)
                assert stream.text == second.text == "".join(chunks(6))
                task = await client.send_message("count 2")
                assert (await client.wait_for_task(task.id)).text == task.text

    trio.run(main)
