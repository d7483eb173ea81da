"""A model with tools that need an approval, as an agent: asked in one turn, made in the next."""

import asyncio
import json
from collections import Counter
from itertools import product
from typing import Any

import pytest

from coreason_client.agents.llm import llm_agent
from coreason_client.llm import Tool
from coreason_client.server import AgentApp, ServiceRequest, running
from tests.cli.models import MODEL, chunk, model, spoken, streamed
from tests.llm.server import Replied
from tests.llm.tools.answers import response
from tests.llm.tools.scripted import Model
from tests.server.durable.simulated import Answer, MortalLog, survive
from tests.server.peer import Peer, envelope

from . import durable
from .test_llm import events, llm_client, read, request, serving, text

QUESTION = 'May I call delete with {"path":"x"}?'


class Files:
    """A tool, and what it did."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.tools = [Tool(self.delete, requires_approval=True)]

    def delete(self, path: str) -> str:
        """Delete a file."""
        self.done[path] += 1
        return f"deleted {path}"


def called(*paths: str) -> Replied:
    calls = [
        {
            "index": number,
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": "delete", "arguments": json.dumps({"path": path})},
        }
        for number, path in enumerate(paths)
    ]
    return streamed([chunk(tool_calls=calls), *spoken(finish="tool_calls")])


def kinds(packets: Any) -> list[str]:
    return [event["type"] for event in events(packets) if isinstance(event, dict)]


@pytest.mark.parametrize(
    ("answer", "metadata", "done"),
    [
        ("yes", {}, {"x": 1}),
        ("No, never", {}, {}),
        ("What is it?", {}, {}),
        ("", {"answer": {"approved": True, "arguments": {"path": "y"}}}, {"y": 1}),
    ],
)
def test_the_next_message_is_the_answer(answer: str, metadata: Any, done: dict[str, int]) -> None:
    files = Files()
    with (
        model(called("x"), streamed(spoken("All ", "done."))) as served,
        serving(served, tools=files.tools) as client,
    ):
        asked = read(client, request("Delete it", session="s"))
        assert text(asked) == QUESTION
        assert kinds(asked) == ["USAGE", "TOOL_CALL", "QUESTION"]
        assert isinstance(asked[-1].p, dict)
        assert asked[-1].p["reason"] == "input_required"
        packets = read(client, request(answer, session="s", metadata=metadata))
        assert text(packets) == "All done."
        assert kinds(packets) == ["TOOL_CALL", "TOOL_RESULT", "USAGE"]
        assert len(served.received) == 2
    assert files.done == done


def test_calls_are_asked_for_one_after_the_other() -> None:
    files = Files()
    with (
        model(called("x", "y", "z"), streamed(spoken("Done."))) as served,
        serving(served, tools=files.tools) as client,
    ):
        said = [
            text(read(client, request(word, session="s"))) for word in ("go", "yes", "no", "ok")
        ]
    ask = 'May I call delete with {{"path":"{}"}}?'.format
    assert said == [ask("x"), ask("y"), ask("z"), "Done."]
    assert files.done == {"x": 1, "z": 1}


def test_hidden_calls_are_asked_for_too() -> None:
    files = Files()
    with (
        model(called("x"), streamed(spoken("Done."))) as served,
        serving(served, tools=files.tools, tool_events=False) as client,
    ):
        asked = read(client, request("go", session="s"))
        assert (text(asked), kinds(asked)) == (QUESTION, ["USAGE", "QUESTION"])
        assert text(read(client, request("yes", session="s"))) == "Done."
    assert files.done == {"x": 1}


def test_the_page_of_the_ai_sdk_and_a_run_of_ag_ui_approve() -> None:
    files = Files()
    replies = [called("x"), streamed(spoken("Done."))] * 2
    with model(*replies) as served:
        agent = llm_agent(MODEL, client=llm_client(served), tools=files.tools)
        with running(AgentApp(agent, ai_sdk=True, ag_ui=True)) as server:
            peer = Peer(server.url)
            _approve_as_page(peer)
            _approve_as_run(peer)
            peer.close()
    assert files.done == {"x": 2}


def _approve_as_page(peer: Peer) -> None:
    user = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "go"}]}
    able = {"id": "c", "capabilities": ["tool-approval-request", "tool-approval-response"]}
    chunks = _data(peer.http.post("/api/chat", json={**able, "messages": [user]}).text)
    [asked] = [one for one in chunks if one["type"] == "tool-approval-request"]
    tool = {
        "type": "dynamic-tool",
        "toolName": "delete",
        "toolCallId": asked["toolCallId"],
        "input": {"path": "x"},
        "state": "approval-responded",
        "approval": {"id": asked["approvalId"], "approved": True},
    }
    [start] = [one for one in chunks if one["type"] == "start"]
    answer = {"id": start["messageId"], "role": "assistant", "parts": [tool]}
    rest = _data(peer.http.post("/api/chat", json={**able, "messages": [user, answer]}).text)
    assert "".join(one["delta"] for one in rest if one["type"] == "text-delta") == "Done."
    [output] = [one for one in rest if one["type"] == "tool-output-available"]
    assert output["toolCallId"] == asked["toolCallId"]


def _approve_as_run(peer: Peer) -> None:
    thread = {"threadId": "t", "messages": [{"id": "1", "role": "user", "content": "go"}]}
    *_, finished = _data(peer.http.post("/ag-ui", json={**thread, "runId": "1"}).text)
    [interrupt] = finished["outcome"]["interrupts"]
    assert interrupt["reason"] == "tool_call"
    entry = {"interruptId": interrupt["id"], "status": "resolved"}
    rest = _data(peer.http.post("/ag-ui", json={**thread, "runId": "2", "resume": [entry]}).text)
    assert "".join(one["delta"] for one in rest if one["type"] == "TEXT_MESSAGE_CONTENT") == "Done."


def test_a_call_is_made_once_although_its_turn_fails_and_is_approved_again() -> None:
    files = Files()
    replies = (called("x"), Replied(500), streamed(spoken("Done.")))
    thread = {"threadId": "t", "messages": [{"id": "1", "role": "user", "content": "go"}]}
    with model(*replies) as served:
        agent = llm_agent(MODEL, client=llm_client(served), tools=files.tools)
        with running(AgentApp(agent, ag_ui=True)) as server:
            peer = Peer(server.url)
            *_, asked = _data(peer.http.post("/ag-ui", json={**thread, "runId": "1"}).text)
            entry = {"interruptId": asked["outcome"]["interrupts"][0]["id"], "status": "resolved"}
            ends = []
            for run in ("2", "3"):
                body = {**thread, "runId": run, "resume": [entry]}
                ends.append(_data(peer.http.post("/ag-ui", json=body).text)[-1]["type"])
            peer.close()
    assert ends == ["RUN_ERROR", "RUN_FINISHED"]
    assert files.done == {"x": 1}


def _data(stream: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in stream.splitlines()]
    return [json.loads(line) for line in lines if line.startswith("{")]


def test_an_approval_survives_its_processes_at_every_append() -> None:
    """Each turn has a death at every append, before or after it is stored."""
    script = [response(("delete", {"path": "x"})), response()]
    files = Files()

    def agent() -> Any:
        client: Any = Model(*script)
        return llm_agent("m", client=client, tools=files.tools)

    async def turns(first: Any, second: Any) -> tuple[Answer, Answer]:
        log = MortalLog([])
        log._deaths, log._until_death = [*first], first[0][0] if first else -1
        asked = await survive(agent(), _said("go"), first, log=log)
        log._deaths, log._until_death = [*second], second[0][0] if second else -1
        return asked, await survive(agent(), _said("yes"), second, log=log)

    async def go() -> None:
        for which, number, stored in product((0, 1), range(12), (False, True)):
            files.done.clear()
            deaths: list[Any] = [[], []]
            deaths[which] = [(number, stored)]
            asked, answered = await asyncio.wait_for(turns(*deaths), 20)
            assert (durable.text(asked), asked.outcome) == (QUESTION, "complete")
            # A call that a death interrupts is not made again: nobody knows whether it took effect.
            assert files.done == {"x": 1} or answered.outcome == "step_uncertain"
            assert files.done["x"] <= 1
            if answered.outcome != "step_uncertain":
                assert (durable.text(answered), answered.outcome) == ("done", "complete")

    asyncio.run(go())


def _said(text: str) -> Any:
    return ServiceRequest.model_validate(envelope(text))
