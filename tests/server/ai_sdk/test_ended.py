"""A page that has not seen the end of an answer reads it again by its chat, with `ended=true`."""

import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from coreason_client.server import AgentApp, AgentStream, ServiceRequest, running

CHAT = "a-chat-with-a-long-id"


async def agent(request: ServiceRequest, stream: AgentStream) -> None:
    approval = request.payload.metadata["ai_sdk"].get("approval")
    if approval is not None:
        await stream.tool_call("delete", approval["arguments"], id=approval["call_id"])
        await stream.tool_result(approval["call_id"], "deleted")
    elif "delete" in stream.question:
        await stream.tool_call("delete", {}, id="call-1")
        await stream.ask("May I?", call_id="call-1")
    elif "fail" in stream.question:
        await stream.fail("broken", "It is broken.")
    else:
        await stream.write("Hello.")


@pytest.fixture
def client() -> Iterator[httpx2.Client]:
    app = AgentApp(agent, ai_sdk=True)
    with running(app) as server, httpx2.Client(base_url=server.url) as client:
        yield client


def user(text: str) -> dict[str, Any]:
    return {"id": text, "role": "user", "parts": [{"type": "text", "text": text}]}


def post(client: httpx2.Client, *messages: dict[str, Any]) -> str:
    body = {
        "id": CHAT,
        "messages": messages,
        "capabilities": ["tool-approval-request", "tool-approval-response"],
    }
    response = client.post("/api/chat", json=body)
    assert response.status_code == 200
    return response.text


def read(client: httpx2.Client, query: str) -> httpx2.Response:
    return client.get(f"/api/chat/{CHAT}/stream{query}")


def test_an_answer_that_has_ended_is_sent_only_if_the_page_asks_for_it(
    client: httpx2.Client,
) -> None:
    assert read(client, "?ended=true").status_code == 204
    sent = post(client, user("Hello?"))
    for query in ("", "?ended=false", "?ended=1"):
        assert read(client, query).status_code == 204
    response = read(client, "?ended=true")
    assert response.status_code == 200
    assert response.text == sent


def test_an_answer_that_failed_fails_again(client: httpx2.Client) -> None:
    sent = post(client, user("fail"))
    assert '"type":"error"' in sent
    assert read(client, "?ended=true").text == sent


def test_it_is_the_newest_answer(client: httpx2.Client) -> None:
    post(client, user("fail"))
    sent = post(client, user("fail"), user("Hello?"))
    assert read(client, "?ended=true").text == sent


def test_a_continued_message_begins_with_its_earlier_parts(client: httpx2.Client) -> None:
    asked = post(client, user("delete"))
    message_id, approval_id = (
        asked.partition(f'"{name}":"')[2].partition('"')[0] for name in ("messageId", "approvalId")
    )
    part = {
        "type": "dynamic-tool",
        "toolName": "delete",
        "toolCallId": "call-1",
        "state": "approval-responded",
        "input": {},
        "approval": {"id": approval_id, "approved": True},
    }
    post(client, user("delete"), {"id": message_id, "role": "assistant", "parts": [part]})
    kinds = [
        line.partition('"type":"')[2].partition('"')[0]
        for line in read(client, "?ended=true").text.splitlines()
        if line.startswith("data: {") and "message-metadata" not in line
    ]
    assert kinds == [
        "start",
        "start-step",
        "tool-input-available",
        "tool-approval-request",
        "text-start",
        "text-delta",
        "text-end",
        "finish-step",
        "tool-approval-response",
        "start-step",
        "tool-output-available",
        "finish-step",
        "finish",
    ]


def test_an_answer_that_has_expired_is_nothing() -> None:
    app = AgentApp(agent, ai_sdk=True, retention=0.0)
    with running(app) as server, httpx2.Client(base_url=server.url) as client:
        post(client, user("Hello?"))
        deadline = time.monotonic() + 10
        while (response := read(client, "?ended=true")).status_code == 200:
            assert time.monotonic() < deadline
        assert response.status_code == 204
