"""An answer to a question is given once over every protocol, whichever use of the log fails."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import httpx2
import pytest

from coreason_client.server import (
    AgentApp,
    AgentStream,
    LogUnavailable,
    ServiceRequest,
    SQLiteStreamLog,
)
from coreason_client.server.engine import _order, _writer
from coreason_client.server.log import NewStream, Opened

from .conftest import Serve
from .peer import LIMIT, Gate, Peer, envelope

CALL: Final = {"path": "x"}
_USES = {"open", "find", "meta", "turns", "add_turn", "close", "request_cancel", "follow"}
Answer = Callable[[], str]


class Away(SQLiteStreamLog):
    """A log of which one use fails: the `left`-th one; `done` says if it took effect all the same.

    Its streams have a lease that no test waits for.
    """

    left = 0
    done = False

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name not in _USES:
            return value
        self.left -= 1
        if self.left:
            return value

        async def fail(*given: Any) -> Any:
            if self.done:
                await value(*given)
            raise LogUnavailable("not now")

        def refuse(*_: Any) -> Any:
            raise LogUnavailable("not now")

        return refuse if name == "follow" else fail


class Careful:
    """Asks before it deletes; `deleted` counts what it did."""

    def __init__(self) -> None:
        self.deleted = 0

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        answered = await stream.answered_question()
        if answered is not None and answered.approved:
            self.deleted += 1
            await stream.tool_result(answered.call_id or "", "gone")
            await stream.write("Deleted.")
        elif stream.question == "ask":
            await stream.ask("May I?", call_id=await stream.tool_call("delete", CALL, "call-1"))


def read(send: Callable[[int], httpx2.Response]) -> str:
    """Return a whole response to a request that is sent again while there is none."""
    for number in range(9):
        try:
            response = send(number)
        except httpx2.TransportError:
            continue
        if response.status_code != 503:
            return response.text
    raise AssertionError("there is no response")


def frames(text: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


def over_cap(peer: Peer) -> Answer:
    session = uuid4().hex
    name = peer.ask(envelope("ask", session)).stream_id
    body = envelope("yes", session)
    body["payload"]["metadata"] = {"answer": {"question_id": name, "approved": True}}
    return lambda: read(lambda _: peer.http.post("/assist", json=body))


def over_ai_sdk(peer: Peer, *, stored: bool = False) -> Answer:
    user = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "ask"}]}
    kinds = ["reset-step", "tool-approval-request", "tool-approval-response"]
    body: dict[str, Any] = {"id": uuid4().hex, "messages": [user], "capabilities": kinds}
    chunks = frames(peer.http.post("/api/chat", json=body).text)
    [name] = [one["approvalId"] for one in chunks if "approvalId" in one]
    call = {"type": "dynamic-tool", "toolName": "delete", "toolCallId": "call-1", "input": CALL}
    given = {"state": "approval-responded", "approval": {"id": name, "approved": True}}
    answer = {"id": chunks[0]["messageId"], "role": "assistant", "parts": [{**call, **given}]}
    if stored:
        del body["messages"]
    body |= {"message": answer} if stored else {"messages": [user, answer]}
    return lambda: read(lambda _: peer.http.post("/api/chat", json=body))


def over_ag_ui(peer: Peer) -> Answer:
    user = {"id": "u", "role": "user", "content": "ask"}
    body: dict[str, Any] = {"threadId": uuid4().hex, "runId": uuid4().hex, "messages": [user]}
    last = frames(peer.http.post("/ag-ui", json=body).text)[-1]
    [interrupt] = last["outcome"]["interrupts"]
    resume = [{"interruptId": interrupt["id"], "status": "resolved"}]
    body |= {"runId": uuid4().hex, "resume": resume}
    return lambda: read(lambda _: peer.http.post("/ag-ui", json=body))


def over_responses(peer: Peer, *, stream: bool = False) -> Answer:
    body: dict[str, Any] = {"model": "agent", "input": "ask"}
    name = peer.http.post("/v1/responses", json=body).json()["id"]
    body |= {"input": "yes", "previous_response_id": name, "stream": stream}

    def send(number: int) -> httpx2.Response:
        headers = {"x-stainless-retry-count": f"{number}"}
        return peer.http.post("/v1/responses", json=body, headers=headers)

    return lambda: read(send)


WAYS: Final[dict[str, Callable[[Peer], Answer]]] = {
    "CAP": over_cap,
    "AI SDK": over_ai_sdk,
    "AI SDK with a stored chat": lambda peer: over_ai_sdk(peer, stored=True),
    "AG-UI": over_ag_ui,
    "OpenAI": over_responses,
    "OpenAI streamed": lambda peer: over_responses(peer, stream=True),
}


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_an_approved_call_is_made_once(
    serve: Serve, way: str, done: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each use of the log fails once, from the answer to the end of its stream."""
    monkeypatch.setattr(_order, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(_writer, "_LOG_POLL", 0.01)
    log, agent, number = Away(tmp_path / "log.db", lease=600.0), Careful(), 0
    app = AgentApp(agent, agent_id="agent", log=log, ai_sdk=True, ag_ui=True, openai=True)
    peer = serve(app)
    while log.left <= 0:
        number, log.left = number + 1, 0
        answer = WAYS[way](peer)
        log.left, log.done = number, done
        text = answer()
        assert agent.deleted == number
        assert "Deleted." in text
        for error in ('"ERROR"', "RUN_ERROR", "errorText", '"failed"'):
            assert error not in text
    assert number > 10


@pytest.mark.parametrize("stored", [False, True])
def test_an_answer_does_not_become_a_message_when_the_one_that_it_joins_fails(
    serve: Serve, stored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream ends between the look for it and its opening."""
    log, gate, begun = SQLiteStreamLog(tmp_path / "log.db"), Gate(), list[UUID]()

    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        if stream.question == "ask":
            await stream.ask("May I?", call_id=await stream.tool_call("delete", CALL, "call-1"))
        else:
            begun.append(stream.stream_id)
            await gate.wait()
            await stream.fail("told", "As it was told.")

    peer = serve(AgentApp(agent, log=log, ai_sdk=True))
    answer = over_ai_sdk(peer, stored=stored)
    begin = log.open

    async def late(stream: NewStream, owner: str) -> Opened:
        gate.open()
        while (await log.meta(begun[0])).outcome is None:  # noqa: ASYNC110 - the log tells no event
            await asyncio.sleep(0.01)
        return await begin(stream, owner)

    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(answer)
        gate.seen()
        monkeypatch.setattr(log, "open", late)
        assert "urn:coreason:problem:question-not-open" in answer()
        assert "As it was told." in first.result(LIMIT)
    assert len(begun) == 1
