"""The clients that others have written see the questions of an agent, and answer them.

Each asks an agent with a tool that needs an approval, shows its question in its own form, answers
with its own API, and gets the rest of the answer; also from a server that was killed meanwhile.
"""

import asyncio
import json
import select
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

import pytest
from a2a.client import Client, client_factory
from a2a.compat.v0_3.grpc_transport import CompatGrpcTransport
from a2a.types import Message, Part, Role, SendMessageRequest, TaskState

from tests.installed import npm_package, python_packages, run_python
from tests.server.a2a.clients.test_sdk import INTERFACES, connected
from tests.server.ai_sdk.pages import CAPABILITIES, all_pages, pages_of
from tests.server.ai_sdk.serving import answers, texts

from .approving import ANSWER, KEY, LIMIT, QUESTION, Server, approving

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
pytestmark = pytest.mark.timeout(120)  # the first run installs the clients


class Case(NamedTuple):
    """An answer, what is deleted after it, and what the model and the user see as its result."""

    approved: bool
    reason: str = ""
    path: str | None = None  # instead of the one that was shown
    deleted: tuple[str, ...] = ()
    result: str = ""


YES = Case(approved=True, deleted=("x",), result="deleted x")
NO = Case(
    approved=False,
    reason="use a copy",
    result="Error: the user did not allow this call: use a copy",
)
OTHER = Case(
    approved=True,
    path="y",
    deleted=("y",),
    result='The user changed the arguments of this call to {"path":"y"}.\ndeleted y',
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with approving(tmp_path_factory.mktemp("approving")) as server, all_pages():
        yield server


class Judge(Protocol):
    """A client that checks what it gets: a question, and then the rest of the answer."""

    def ask(self, url: str) -> Any:
        """Ask the agent until it asks back; return what the client keeps."""

    def answer(self, url: str, asked: Any, case: Case) -> None:
        """Answer the question, and check that the answer is whole."""


def check(server: Server, judge: Judge, case: Case, *, restarts: bool) -> None:
    asked = judge.ask(server.url)
    assert server.deleted() == []
    if restarts:
        server.restart()
    judge.answer(server.url, asked, case)
    assert server.deleted() == [*case.deleted]


RESTARTS = pytest.mark.parametrize("restarts", [False, True], ids=["", "restarted"])


# A2A.


class SDK(NamedTuple):
    """The client of a2a-sdk 1.3."""

    binding: str
    version: str

    def ask(self, url: str) -> Any:
        return asyncio.run(asyncio.wait_for(self._ask(url), LIMIT))

    async def _ask(self, url: str) -> Any:
        async with self._connected(url) as client:
            events = [event async for event in client.send_message(said("Delete it"))]
        status = events[-1].status_update.status
        assert status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        assert [part.text for part in status.message.parts] == [QUESTION]
        return events[0].task

    def answer(self, url: str, asked: Any, case: Case) -> None:
        asyncio.run(asyncio.wait_for(self._answer(url, asked, case), LIMIT))

    async def _answer(self, url: str, task: Any, case: Case) -> None:
        ids = {"task_id": task.id, "context_id": task.context_id}
        text = "yes" if case.approved else f"No, {case.reason}"
        metadata = {"answer": {"approved": True, "arguments": {"path": case.path}}}
        message = said(text, metadata if case.path else None, **ids)
        async with self._connected(url) as client:
            events = [event async for event in client.send_message(message)]
        assert events[0].task.id == task.id
        assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
        pieces = [event.artifact_update.artifact for event in events]
        assert "".join(part.text for piece in pieces for part in piece.parts) == ANSWER

    @asynccontextmanager
    async def _connected(self, url: str) -> AsyncIterator[Client]:
        async with connected(url, self.binding, self.version) as client:
            yield client


def said(text: str, metadata: Mapping[str, Any] | None = None, **ids: str) -> SendMessageRequest:
    message = Message(message_id=str(uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)], **ids)
    return SendMessageRequest(message=message, metadata=metadata)


@RESTARTS
@pytest.mark.parametrize("case", [YES, NO, OTHER], ids=["yes", "no", "other"])
@pytest.mark.parametrize(("binding", "version"), INTERFACES)
def test_a2a_sdk(
    server: Server,
    binding: str,
    version: str,
    case: Case,
    restarts: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The imports of the package are circular, so it is missing if another module came first.
    monkeypatch.setattr(client_factory, "CompatGrpcTransport", CompatGrpcTransport)
    check(server, SDK(binding, version), case, restarts=restarts)


class OlderSDK:
    """The client of a2a-sdk 0.3, in a separate process."""

    def _run(self, url: str, *words: str) -> Any:
        folder = str(python_packages("a2a-sdk==0.3.26", "httpx-sse==0.4.3"))
        command = ["-m", "tests.agents.older_a2a", url, KEY, *words]
        libraries = (folder, "a2a.client", "httpx")
        return run_python(command, {"PYTHONPATH": folder}, ROOT, libraries=libraries)

    def ask(self, url: str) -> Any:
        asked = self._run(url, "Delete it")
        assert (asked["state"], asked["question"]) == ("input-required", QUESTION)
        return asked

    def answer(self, url: str, asked: Any, case: Case) -> None:
        text = "yes" if case.approved else f"No, {case.reason}"
        answered = self._run(url, text, asked["task"], asked["context"])
        assert (answered["state"], answered["task"]) == ("completed", asked["task"])
        assert answered["text"] == ANSWER


@RESTARTS
@pytest.mark.parametrize("case", [YES, NO], ids=["yes", "no"])
def test_a2a_sdk_0_3(server: Server, case: Case, restarts: bool) -> None:
    check(server, OlderSDK(), case, restarts=restarts)


# AI SDK. It has no way to change the arguments.


class Page(NamedTuple):
    """A page with `useChat`; after a restart it is loaded again, with the messages that it had."""

    version: int
    chat_id: str

    def _open(self, url: str, messages: list[Any]) -> Any:
        body = {"capabilities": CAPABILITIES[self.version]}
        api = f"{url}/api/chat"
        pages = pages_of(self.version)
        return pages.chat(api, self.chat_id, key=KEY, body=body, messages=messages)

    def ask(self, url: str) -> Any:
        shown = self._open(url, []).send("Delete it")
        assert (shown["status"], shown["error"]) == ("ready", None)
        part = tool_part(shown)
        assert (part["toolName"], part["input"]) == ("delete", {"path": "x"})
        assert part["state"] == "approval-requested"
        assert texts(shown)[-1] == QUESTION
        return shown

    def answer(self, url: str, asked: Any, case: Case) -> None:
        chat = self._open(url, asked["messages"])
        question = tool_part(asked)["approval"]["id"]
        waiting = tool_part(chat.approve(question, case.approved, case.reason or None))
        assert waiting["state"] == "approval-responded"
        shown = chat.send()
        assert (shown["status"], shown["error"]) == ("ready", None)
        part = tool_part(shown)
        if case.approved:
            assert (part["state"], part["output"]) == ("output-available", case.result)
        else:
            assert (part["state"], part["errorText"]) == ("output-error", case.result)
        assert texts(shown)[-1].endswith(ANSWER)


def tool_part(shown: Mapping[str, Any]) -> Any:
    [message] = answers(shown)  # the answer goes on in the same message
    [part] = [part for part in message["parts"] if part["type"] == "dynamic-tool"]
    return part


@RESTARTS
@pytest.mark.parametrize("case", [YES, NO], ids=["yes", "no"])
@pytest.mark.parametrize("version", [6, 7])
def test_ai_sdk(server: Server, version: int, case: Case, restarts: bool) -> None:
    check(server, Page(version, str(uuid4())), case, restarts=restarts)


# AG-UI.


@cache
def node() -> subprocess.Popen[str]:
    """A process that has loaded the package, which takes a second."""
    folder, pipe = npm_package("@ag-ui/client@1.0.0"), subprocess.PIPE
    command = ["node", str(HERE / "approvals.mjs"), str(folder)]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)


@pytest.fixture(scope="module", autouse=True)
def end_of_node() -> Iterator[None]:
    yield
    if node.cache_info().currsize:
        node().communicate(timeout=LIMIT)
        node.cache_clear()


class Run:
    """`HttpAgent`; each run is that of a new one, as in a client that was loaded again."""

    def _run(self, url: str, **asked: Any) -> Any:
        process = node()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{json.dumps({'url': f'{url}/ag-ui', 'key': KEY, **asked})}\n")
        process.stdin.flush()
        assert select.select([process.stdout], [], [], LIMIT)[0], "the client has not answered"
        return json.loads(process.stdout.readline())

    def ask(self, url: str) -> Any:
        thread = str(uuid4())
        messages = [{"id": "u1", "role": "user", "content": "Delete it"}]
        found = self._run(url, threadId=thread, messages=messages)
        assert found["outcome"] == "interrupt"
        [interrupt] = found["pending"]
        assert (interrupt["reason"], interrupt["message"]) == ("tool_call", QUESTION)
        [call] = [call for one in found["messages"] for call in one.get("toolCalls", ())]
        assert call["id"] == interrupt["toolCallId"]
        assert call["function"] == {"name": "delete", "arguments": '{"path":"x"}'}
        return {"threadId": thread, **found}

    def answer(self, url: str, asked: Any, case: Case) -> None:
        [interrupt] = asked["pending"]
        payload: dict[str, Any] = {"approved": case.approved}
        if case.reason:
            payload["reason"] = case.reason
        if case.path:
            payload["arguments"] = {"path": case.path}
        entry = {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}
        thread = {name: asked[name] for name in ("threadId", "messages")}
        found = self._run(url, **thread, resume=entry)
        assert (found["outcome"], found["pending"]) == ("success", [])
        assert found["results"] == [case.result]
        assert found["messages"][-1]["content"] == ANSWER
        results = [one["content"] for one in found["messages"] if one["role"] == "tool"]
        assert results == [case.result]


@RESTARTS
@pytest.mark.parametrize("case", [YES, NO, OTHER], ids=["yes", "no", "other"])
def test_ag_ui(server: Server, case: Case, restarts: bool) -> None:
    check(server, Run(), case, restarts=restarts)


def test_ag_ui_cancels(server: Server) -> None:
    """A client that only knows `cancelled` denies without a reason."""
    judge = Run()
    asked = judge.ask(server.url)
    [interrupt] = asked["pending"]
    entry = {"interruptId": interrupt["id"], "status": "cancelled"}
    thread = {name: asked[name] for name in ("threadId", "messages")}
    found = judge._run(server.url, **thread, resume=entry)
    assert found["results"] == ["Error: the user did not allow this call"]
    assert found["messages"][-1]["content"] == ANSWER
    assert server.deleted() == []


@pytest.mark.parametrize("judge", [SDK("JSONRPC", "1.0"), Page(7, str(uuid4())), Run()])
def test_a_durable_agent_goes_on_after_its_approval(
    judge: Judge, server: Server, tmp_path: Path
) -> None:
    """It is a function that asks with `stream.approve`; the pages of `server` are used too."""
    with approving(tmp_path, "durable") as durable:
        check(durable, judge, YES, restarts=True)
