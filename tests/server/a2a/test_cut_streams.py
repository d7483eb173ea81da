"""Our own client against our own server, with connections that are cut at every event."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Self
from weakref import WeakKeyDictionary

import pytest

from coreason_client._retry import Backoff
from coreason_client.a2a import (
    A2AClient,
    AgentCard,
    AgentCardResolver,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
    _options,
)
from coreason_client.a2a import _client_base as _polling
from coreason_client.server import AgentApp, AgentStream, ServiceRequest, running
from coreason_client.server.a2a import A2A
from coreason_client.server.a2a._grpc_server import GrpcCalls, _ClientGone
from coreason_client.server.a2a._reading import TaskStream
from coreason_client.server.http._problems import Problem

SHUTTING_DOWN = Problem(503, "shutting-down", "Shutting down.", headers={"Retry-After": "0"})
WORDS = [f"word{number} " for number in range(8)]


@pytest.fixture(autouse=True, scope="module")
def quick_retries() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_options, "Backoff", lambda **given: Backoff(0.001, 0.002, **given))
        patch.setattr(_polling, "Backoff", lambda: Backoff(0.001, 0.002))
        yield


class Cutting:
    """An agent whose streams are cut after some events.

    With `half`, half of the next event arrives too; over gRPC, the call then ends with a failure.
    """

    def __init__(self) -> None:
        settings = A2A(grpc_address="127.0.0.1:0")
        self.app = AgentApp(self.agent, a2a=settings, drain_timeout=0.0)
        self.versions: list[bytes | None] = []
        self.set_up(0)

    def set_up(self, after: int, *, half: bool = False) -> Self:
        """Cut the following streams after so many events."""
        self.after, self.half, self.streams = after, half, 0
        self.sent = asyncio.Semaphore()
        return self

    async def agent(self, request: ServiceRequest, stream: AgentStream) -> None:
        """Write words; on request only one for each event that the client gets."""
        for word in WORDS:
            if stream.question == "One by one.":
                await self.sent.acquire()
            await stream.write(word)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/a2a"):
            self.versions.append(dict(scope["headers"]).get(b"a2a-version"))
            await self._cut(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _cut(self, scope: Any, receive: Any, send: Any) -> None:
        left: int | None = None  # how many events may still pass; None for all

        async def pass_on(message: Any) -> None:
            nonlocal left
            if message["type"] == "http.response.start":
                if b"text/event-stream" in dict(message["headers"]).get(b"content-type", b""):
                    left = self.after
                    self.streams += 1
                await send(message)
                return
            *events, _ = message.get("body", b"").split(b"\n\n")
            data = [event + b"\n\n" for event in events if b"data: " in event]
            if left is None or len(data) <= left:
                left = None if left is None else left - len(data)
                await send(message)
                return
            rest = data[left][: len(data[left]) // 2] if self.half else b""
            kept = b"".join(data[:left]) + rest
            await send({"type": "http.response.body", "body": kept, "more_body": False})
            raise ConnectionError

        with suppress(ConnectionError):
            await self.app(scope, receive, pass_on)

    def cut_calls(self, patch: pytest.MonkeyPatch) -> None:
        """Cut the streams over gRPC too."""
        write = GrpcCalls._write
        counts: WeakKeyDictionary[TaskStream, int] = WeakKeyDictionary()  # of events

        async def write_and_cut(
            calls: GrpcCalls, call: Any, stream: TaskStream, event: dict[str, Any]
        ) -> None:
            count = counts[stream] = counts.get(stream, 0) + 1
            self.streams += count == 1
            await write(calls, call, stream, event)
            self.sent.release()
            if count == self.after:
                raise SHUTTING_DOWN if self.half else _ClientGone

        patch.setattr(GrpcCalls, "_write", write_and_cut)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Cutting, AgentCard]]:
    """An application that all tests share, one after the other, and its card."""
    app = Cutting()
    with pytest.MonkeyPatch.context() as patch:
        app.cut_calls(patch)
        with running(app) as server, AgentCardResolver() as resolver:
            yield app, resolver.resolve(server.url)


def connect(card: AgentCard, binding: str) -> A2AClient:
    """Return a client over one binding."""
    interfaces = [
        interface
        for interface in card.supported_interfaces
        if (interface.protocol_binding, interface.protocol_version) == (binding, "1.0")
    ]
    card = card.model_copy(update={"supported_interfaces": interfaces})
    return A2AClient.from_agent_card(card, max_retries=30)


@pytest.fixture(scope="module", params=["JSONRPC", "HTTP+JSON"])
def client(
    request: pytest.FixtureRequest, served: tuple[Cutting, AgentCard]
) -> Iterator[A2AClient]:
    """A client over each binding that has ids of events."""
    with connect(served[1], request.param) as client:
        yield client


@pytest.fixture(scope="module")
def grpc_client(served: tuple[Cutting, AgentCard]) -> Iterator[A2AClient]:
    with connect(served[1], "GRPC") as client:
        yield client


def generations(events: Sequence[Any]) -> list[int]:
    """Return the generations of the events that have one."""
    metadata = [event.metadata or {} for event in events]
    return [int(one["generation"]) for one in metadata if "generation" in one]


@pytest.mark.conforms("VER-CLIENT-001")
@pytest.mark.parametrize("half", [False, True], ids=["whole", "half"])
@pytest.mark.parametrize("after", range(1, len(WORDS) + 4))
def test_a_stream_that_is_cut_at_every_event_is_exact(
    served: tuple[Cutting, AgentCard], client: A2AClient, after: int, half: bool
) -> None:
    app = served[0].set_up(after, half=half)
    stream = client.send_message_stream("Hello.")
    events: list[Any] = list(stream)
    counted = check_exact(client, stream.task_id, events)
    if after > 2:  # a task, a last chunk that is repeated, and a status
        assert counted == list(range(1, len(WORDS) + 4))  # no event is missing or merged
    assert (app.streams == 1) is (after >= len(WORDS) + 3)  # a task, a last chunk, a status
    assert set(app.versions) == {b"1.0"}


def check_exact(client: A2AClient, task_id: str | None, events: Sequence[Any]) -> list[int]:
    """Check that nothing is lost and nothing is repeated; return the generations of the events."""
    assert task_id is not None
    assert client.get_task(task_id).status.state is TaskState.COMPLETED
    updates = [event for event in events if isinstance(event, TaskArtifactUpdateEvent)]
    assert "".join(update.artifact.text for update in updates) == "".join(WORDS)
    last = events[-1]
    assert isinstance(last, TaskStatusUpdateEvent)
    assert last.status.state is TaskState.COMPLETED
    counted = generations(events)
    assert counted == sorted(set(counted))
    return counted


@pytest.mark.parametrize("half", [False, True], ids=["ended", "failed"])
@pytest.mark.parametrize("after", range(1, len(WORDS) + 4))
def test_a_stream_over_grpc_that_is_cut_at_every_event_is_exact(
    served: tuple[Cutting, AgentCard], grpc_client: A2AClient, after: int, half: bool
) -> None:
    """Events over gRPC have no ids: each connection begins with the whole task as it stands."""
    app = served[0].set_up(after, half=half)
    stream = grpc_client.send_message_stream("One by one.")
    events = list(stream)
    check_exact(grpc_client, stream.task_id, events)
    if after < len(WORDS) - 1:  # so the agent has not written everything at the first cut
        assert app.streams > 1
    if after >= len(WORDS) + 3:
        assert app.streams == 1


def test_a_stream_that_is_not_cut_has_every_generation_once(
    served: tuple[Cutting, AgentCard], client: A2AClient
) -> None:
    app = served[0].set_up(after=100)
    events = list(client.send_message_stream("Hello."))
    assert app.streams == 1
    assert generations(events) == list(range(1, len(events) + 1))
