"""A question of a task is answered once, whoever answers it and through whichever protocol."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from coreason_client import A2AClient, CAPClient
from coreason_client.a2a import Message, Part, Role, TaskState, UnsupportedOperationError
from coreason_client.server import A2A, AgentApp, AgentStream, ServiceRequest, running

from ..peer import wait_for
from .test_authorization import TRANSPORTS, Addresses

REFUSED = "was already answered"


async def cleaner(_: ServiceRequest, stream: AgentStream) -> None:
    """Delete two files, after a question for each."""
    if stream.question == "aside":
        await stream.write("You said aside.")
        return
    answered = await stream.answered_question()
    left = ["x", "y"] if answered is None else answered.state
    if answered is not None:
        await stream.write(f"{left.pop(0)}: {answered.approved}. ")
    if left:
        await stream.ask(f"Delete {left[0]}?", state=left)


@pytest.fixture(scope="module")
def agent() -> Iterator[Addresses]:
    """The URL of an agent, and its address for gRPC."""
    app = AgentApp(cleaner, a2a=A2A(grpc_address="127.0.0.1:0"), inbox=True)
    with running(app) as server:
        yield server.url, f"127.0.0.1:{app.grpc_port}"


def named(task: Any, *, approved: bool) -> dict[str, Any]:
    """Return the metadata of an answer to the question of a task."""
    question = task.status.message.message_id
    return {"answer": {"question_id": question, "approved": approved}}


@pytest.mark.proves("A2A-answer-once")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_second_answer_is_refused(agent: Addresses, transport: str) -> None:
    make = TRANSPORTS[transport]
    with (
        A2AClient.with_transport(make(*agent)) as one,
        A2AClient.with_transport(make(*agent)) as two,
    ):
        first: Any = one.send_message("clean")
        answer = named(first, approved=True)
        second: Any = one.send_message("go on", reply_to=first, metadata=answer)
        assert second.status.text == "Delete y?"
        late = named(first, approved=False)
        with pytest.raises(UnsupportedOperationError, match=REFUSED):
            two.send_message("no", reply_to=first, metadata=late)  # it does not answer the next one
        with pytest.raises(UnsupportedOperationError, match=REFUSED):
            two.send_message("no", metadata=late)  # nor begin another task
        assert two.get_task(first.id).status.text == "Delete y?"
        done: Any = two.send_message("no", reply_to=second)
        assert (done.status.state, done.text) == (TaskState.COMPLETED, "x: True. y: False. ")
        with pytest.raises(UnsupportedOperationError, match="The task is COMPLETED"):
            one.send_message("yes", reply_to=second)


def test_an_answer_belongs_to_the_question_of_its_task(agent: Addresses) -> None:
    """Also if the conversation has gone on; an answer over CAP counts as well."""
    with (
        A2AClient.with_transport(TRANSPORTS["jsonrpc-1.0"](*agent)) as a2a,
        CAPClient(agent[0], "any-key") as cap,
    ):
        task: Any = a2a.send_message("clean")
        assert str(cap.ask("aside", task.context_id)) == "You said aside."
        task = a2a.send_message("yes", reply_to=task)
        assert (task.text, task.status.text) == ("x: True. ", "Delete y?")
        assert str(cap.ask("yes", task.context_id)) == "y: True. "
        with pytest.raises(UnsupportedOperationError, match=REFUSED):
            a2a.send_message("no", reply_to=task)


def test_a_message_while_another_is_answered_is_refused_and_begins_no_task() -> None:
    begun, go_on = threading.Event(), threading.Event()

    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        await stream.write(f"{[one.text for one in await stream.history()]}")
        begun.set()
        await asyncio.to_thread(wait_for, go_on)

    with (
        running(AgentApp(agent, a2a=True, on_busy="reject")) as server,
        A2AClient(server.url) as client,
        ThreadPoolExecutor(1) as threads,
    ):
        first = Message(message_id="1", context_id="c", role=Role.USER, parts=[Part(text="a")])
        running_ = threads.submit(client.send_message, first)
        wait_for(begun)
        second = Message(message_id="2", context_id="c", role=Role.USER, parts=[Part(text="b")])
        with pytest.raises(UnsupportedOperationError, match="An earlier message"):
            client.send_message(second)
        go_on.set()
        done: Any = running_.result(20)
        again: Any = client.send_message(first)
        assert again.id == done.id
        last: Any = client.send_message(second.model_copy(update={"message_id": "3"}))
    assert last.text == "['a', '[]']"


def in_context(task: Any, text: str) -> Message:
    """Return a message of the same context that does not name the task."""
    parts = [Part(text=text)]
    return Message(message_id=str(uuid4()), context_id=task.context_id, role=Role.USER, parts=parts)


def test_a_new_task_does_not_answer_the_question_of_another(agent: Addresses) -> None:
    with A2AClient.with_transport(TRANSPORTS["jsonrpc-1.0"](*agent)) as client:
        asking: Any = client.send_message("clean")
        other: Any = client.send_message(in_context(asking, "yes"))
        assert other.status.text == "Delete x?"
        again: Any = client.send_message("yes", reply_to=asking)
        assert again.text == "x: True. "


@pytest.mark.parametrize("way", ["task", "context", "named", "CAP"])
def test_a_cancelled_question_is_not_answered(agent: Addresses, way: str) -> None:
    with (
        A2AClient.with_transport(TRANSPORTS["jsonrpc-1.0"](*agent)) as client,
        CAPClient(agent[0], "any-key") as cap,
    ):
        asking: Any = client.send_message("clean")
        assert client.cancel_task(asking.id).status.state == TaskState.CANCELED
        if way == "CAP":
            assert str(cap.ask("yes", asking.context_id)) == "Delete x?"  # it begins again
        elif way == "context":
            begun: Any = client.send_message(in_context(asking, "yes"))
            assert begun.status.text == "Delete x?"
        else:
            options: Any = {"reply_to": asking}
            if way == "named":
                options = {"metadata": named(asking, approved=True)}
            with pytest.raises(UnsupportedOperationError):
                client.send_message("yes", **options)
