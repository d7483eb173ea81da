"""A message to a working task goes to its running agent, if the agent takes messages."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from time import time
from typing import Any
from uuid import uuid4

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory, client_factory
from a2a.compat.v0_3.grpc_transport import CompatGrpcTransport
from a2a.types import GetTaskRequest, Message, Part, Role, SendMessageRequest, TaskState
from a2a.utils.errors import UnsupportedOperationError

from coreason_client.server import AgentApp, AgentStream, InboxMessage, ServiceRequest, running
from coreason_client.server.a2a import A2A, _turn_starter
from coreason_client.server.a2a._turns import turns_of
from coreason_client.server.engine._inbox import InboxStore, PutResult
from tests.preloaded import PROJECT, PipedProcess

from ..aio import LIMIT, aio
from ..log.task_stores import KINDS, maker
from ..peer import Gate
from .clients.test_sdk import INTERFACES, connected
from .serving import ANN, in_state, message, served


async def talking(_: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("ready ")
    async for heard in stream.inbox:
        await stream.write(f"{heard.text} ")
        if heard.text == "stop":
            return


def said(text: str, task: Any = None, name: str | None = None) -> SendMessageRequest:
    ids = {} if task is None else {"task_id": task.id, "context_id": task.context_id}
    message = Message(
        message_id=name or uuid4().hex, role=Role.ROLE_USER, parts=[Part(text=text)], **ids
    )
    return SendMessageRequest(message=message)


async def client_of(url: str, http: httpx.AsyncClient, *, streaming: bool) -> Any:
    card = await A2ACardResolver(http, url).get_agent_card()
    config = ClientConfig(httpx_client=http, streaming=streaming, polling=not streaming)
    return ClientFactory(config).create(card)


@pytest.mark.parametrize("store", ["memory", "sqlite", "valkey", "postgres"])
def test_the_official_client_talks_to_a_working_task(store: str, tmp_path: Path) -> None:
    log: Callable[[], Any] = maker(store, tmp_path)

    async def talk(url: str) -> str:
        async with httpx.AsyncClient(timeout=LIMIT) as http:
            reader = await client_of(url, http, streaming=True)
            sender = await client_of(url, http, streaming=False)
            events = reader.send_message(said("hello"))
            task = await _task_of(events)
            for word in ("a", "b", "a", "stop"):  # one is sent again
                [_ async for _ in sender.send_message(said(word, task, f"message {word}"))]
            text = "".join([part async for part in _texts(events)])
            with pytest.raises(UnsupportedOperationError):
                [_ async for _ in sender.send_message(said("late", task))]
            return text

    with running(AgentApp(talking, log=log(), a2a=True, inbox=True)) as server:
        assert asyncio.run(asyncio.wait_for(talk(server.url), LIMIT)).endswith("a b stop ")


@pytest.mark.parametrize(("binding", "version"), INTERFACES)
def test_a_working_task_gets_messages_over_every_interface(
    binding: str, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The imports of the package are circular, so it is missing if another module came first.
    monkeypatch.setattr(client_factory, "CompatGrpcTransport", CompatGrpcTransport)

    async def talk(url: str) -> str:
        async with connected(url, binding, version) as client:
            events = client.send_message(said("hello"))
            task = await _task_of(events)
            for word in ("a", "b", "a", "stop"):  # one is sent again
                sent: Any = client.send_message(said(word, task, f"message {word}"))
                await anext(sent)
                await sent.aclose()
            return "".join([part async for part in _texts(events)])

    settings = A2A(grpc_address="127.0.0.1:0")
    app = AgentApp(talking, a2a=settings, inbox=True, api_keys=["ann-key"])
    with running(app) as server:
        assert asyncio.run(asyncio.wait_for(talk(server.url), LIMIT)).endswith("a b stop ")


@pytest.mark.parametrize("ends", ["asks", "returns"])
def test_a_message_to_a_task_whose_turn_has_just_ended(
    ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task still says that it works: the message is its next turn, or it is refused."""
    gate, put = Gate(), InboxStore.put

    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        if stream.question != "hello":
            await stream.write(f"answered {stream.question}")
            return
        await stream.write("ready ")
        await gate.wait()
        if ends == "asks":
            await stream.ask("More?")

    async def put_late(store: InboxStore, message: InboxMessage) -> PutResult:
        gate.open()
        while (await store._log.meta(store._stream_id)).outcome is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return await put(store, message)

    async def talk(url: str) -> str:
        async with httpx.AsyncClient(timeout=LIMIT) as http:
            events = (await client_of(url, http, streaming=True)).send_message(said("hello"))
            task = await _task_of(events)
            sender = await client_of(url, http, streaming=False)
            [_ async for _ in sender.send_message(said("more", task))]
            [_ async for _ in events]
            while True:
                found = await sender.get_task(GetTaskRequest(id=task.id))
                if found.status.state == TaskState.TASK_STATE_COMPLETED:
                    return "".join(part.text for one in found.artifacts for part in one.parts)
                await asyncio.sleep(0.01)

    monkeypatch.setattr(InboxStore, "put", put_late)
    with running(AgentApp(agent, a2a=True, inbox=True)) as server:
        if ends == "asks":
            assert asyncio.run(asyncio.wait_for(talk(server.url), LIMIT)).endswith("answered more")
        else:
            with pytest.raises(UnsupportedOperationError, match="The task is COMPLETED"):
                asyncio.run(asyncio.wait_for(talk(server.url), LIMIT))


async def asking(_: ServiceRequest, stream: AgentStream) -> None:
    """Repeat messages until one says to ask or to stop."""
    answered = await stream.answered_question()
    if answered is not None:
        await stream.write(f"approved: {answered.approved} ")
    async for heard in stream.inbox:
        await stream.write(f"{heard.text} ")
        if heard.text == "ask":
            await stream.ask("Delete it?")
        if heard.text in ("ask", "stop"):
            return


@pytest.mark.parametrize("store", KINDS)
@aio
async def test_a_message_to_a_working_task_is_not_the_answer_to_a_later_question(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sender may send it again at any time: the agent gets it once."""
    async with served(maker(store, tmp_path)(), asking, inbox=True) as app:
        send = app.service.turns.begin
        task_id = str((await send(ANN, message("hello", "m0"))).record.task_id)
        earlier = [message("yes", "m1", taskId=task_id), message("ask", "m2", taskId=task_id)]
        for one in earlier:
            await send(ANN, one)
        await in_state(app.service, task_id, "INPUT_REQUIRED")
        for one in earlier:
            known = (await send(ANN, one)).record
            assert (str(known.task_id), len(turns_of(known))) == (task_id, 1)
        await send(ANN, message("no", "m3", taskId=task_id))
        monkeypatch.setattr(_turn_starter, "time", lambda: time() + 3600.0)
        for one in (*earlier, message("stop", "m4", taskId=task_id)):
            await send(ANN, one)
        task = await in_state(app.service, task_id, "COMPLETED")
        texts = ["".join(part["text"] for part in one["parts"]) for one in task["artifacts"]]
        assert texts == ["yes ask ", "approved: False stop "]


@aio
async def test_a_copy_of_a_message_begins_the_next_turn_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both copies belong to that turn, although one was sent to the turn before."""
    put = InboxStore.put

    async def put_late(store: InboxStore, late: InboxMessage) -> PutResult:
        if late.text == "copied":
            await put(store, InboxMessage("m1", "ask"))
            await in_state(app.service, task_id, "INPUT_REQUIRED")
            await send(ANN, copied)
        return await put(store, late)

    monkeypatch.setattr(InboxStore, "put", put_late)
    async with served(assist=asking, inbox=True) as app:
        send = app.service.turns.begin
        task_id = str((await send(ANN, message("hello", "m0"))).record.task_id)
        copied = message("copied", "m2", taskId=task_id)
        assert len(turns_of((await send(ANN, copied)).record)) == 2
        await send(ANN, message("stop", "m3", taskId=task_id))
        task = await in_state(app.service, task_id, "COMPLETED")
        assert task["artifacts"][1]["parts"] == [{"text": "approved: False stop "}]


@pytest.mark.parametrize("question", [{}, {"approved": True}])
@aio
async def test_a_message_that_came_before_the_question_does_not_answer_it(
    question: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task worked when it was sent, but its agent takes no more messages: it asks."""
    put = InboxStore.put

    async def put_late(store: InboxStore, late: InboxMessage) -> PutResult:
        if late.text == "yes":
            await put(store, InboxMessage("m1", "ask"))
            await in_state(app.service, task_id, "INPUT_REQUIRED")
        return await put(store, late)

    monkeypatch.setattr(InboxStore, "put", put_late)
    async with served(assist=asking, inbox=True) as app:
        send = app.service.turns.begin
        task_id = str((await send(ANN, message("hello", "m0"))).record.task_id)
        metadata = {"answer": question} if question else {}
        sent = await send(ANN, message("yes", "m2", taskId=task_id) | {"metadata": metadata})
        assert len(turns_of(sent.record)) == 2
        await send(ANN, message("stop", "m3", taskId=task_id))
        task = await in_state(app.service, task_id, "COMPLETED")
        assert task["artifacts"][1]["parts"] == [{"text": "stop "}]


PROGRAM = """
import sys
from coreason_client.server import AgentApp, SQLiteStreamLog, running
from tests.server.a2a.test_inbox import talking

log = SQLiteStreamLog(sys.argv[1], lease=1.0)
app = AgentApp(talking, log=log, durable=True, inbox=True, a2a=True, agent_id="a", version="1")
with running(app) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


def test_messages_to_a_working_task_survive_the_death_of_its_server(tmp_path: Path) -> None:
    """Those before the kill and those after it are read once, in order."""

    async def begin(url: str) -> Any:
        async with httpx.AsyncClient(timeout=LIMIT) as http:
            events = (await client_of(url, http, streaming=True)).send_message(said("hello"))
            task = await _task_of(events)
            sender = await client_of(url, http, streaming=False)
            for word in "ab":
                [_ async for _ in sender.send_message(said(word, task, word))]
            await events.aclose()
            return task

    async def go_on(url: str, task: Any) -> str:
        async with httpx.AsyncClient(timeout=LIMIT) as http:
            sender = await client_of(url, http, streaming=False)
            for word in ("b", "c", "stop"):  # one is sent again
                [_ async for _ in sender.send_message(said(word, task, word))]
            while True:
                found = await sender.get_task(GetTaskRequest(id=task.id))
                if found.status.state == TaskState.TASK_STATE_COMPLETED:
                    return "".join(part.text for one in found.artifacts for part in one.parts)
                await asyncio.sleep(0.05)

    def served(act: Callable[[str], Any]) -> Any:
        process = PipedProcess(["-c", PROGRAM, str(tmp_path / "log.db")], libraries=PROJECT)
        try:
            return asyncio.run(asyncio.wait_for(act(process.line()), LIMIT))
        finally:
            process.close(LIMIT)  # with SIGKILL

    task = served(begin)
    assert served(lambda url: go_on(url, task)) == "ready a b c stop "


async def _task_of(events: Any) -> Any:
    async for event in events:
        if event.HasField("task"):
            return event.task
    raise AssertionError("there is no task")


async def _texts(events: Any) -> Any:
    async for event in events:
        if event.HasField("artifact_update"):
            for part in event.artifact_update.artifact.parts:
                yield part.text


def test_a_working_task_of_an_agent_without_an_inbox_refuses_messages() -> None:
    async def silent(_: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("ready ")
        await asyncio.sleep(LIMIT)

    async def talk(url: str) -> None:
        async with httpx.AsyncClient(timeout=LIMIT) as http:
            events = (await client_of(url, http, streaming=True)).send_message(said("hello"))
            task = await _task_of(events)
            sender = await client_of(url, http, streaming=False)
            with pytest.raises(UnsupportedOperationError):
                [_ async for _ in sender.send_message(said("a", task))]
            await events.aclose()

    app = AgentApp(silent, a2a=True, drain_timeout=0.0, cancel_grace=1.0)
    with running(app) as server:
        asyncio.run(asyncio.wait_for(talk(server.url), LIMIT))
