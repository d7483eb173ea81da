"""The agent for the A2A conformance kit does what its docstring says."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from coreason_client.server import AgentApp
from coreason_client.server import running as running_app
from examples import a2a_conformance
from tests.e2e.test_examples import EXAMPLES, RUN
from tests.ports import free_port
from tests.server.program import Program


@pytest.mark.parametrize(
    ("message_id", "expected"),
    [
        ("tck-artifact-file-url-1", a2a_conformance.link_artifact),
        ("tck-artifact-file-1", a2a_conformance.file_artifact),
        ("tck-message-response", a2a_conformance.message),
        ("anything else", a2a_conformance.complete),
    ],
)
def test_the_longest_prefix_counts(message_id: str, expected: Any) -> None:
    assert a2a_conformance.behaviour_for(message_id) is expected


@pytest.mark.parametrize(
    ("content_type", "waits"), [(b"text/event-stream; charset=utf-8", 1), (b"application/json", 0)]
)
def test_only_streams_of_0_3_begin_later(
    content_type: bytes, waits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = {"type": "http.response.start", "headers": [(b"content-type", content_type)]}
    seen: list[Any] = []

    async def answer(_: object, scope: object, receive: object, send: Any) -> None:
        await send(head)

    async def sleep(seconds: float) -> None:
        seen.append(seconds)

    async def send(message: Any) -> None:
        seen.append(message)

    monkeypatch.setattr(AgentApp, "__call__", answer)
    app: Any = a2a_conformance.make_app("0.3")
    assert type(a2a_conformance.make_app("1.0")) is AgentApp
    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "sleep", sleep)
        asyncio.run(app({}, None, send))
    assert seen == [a2a_conformance.PUSH_SECONDS] * waits + [head]


def test_a_task_can_be_subscribed_to_for_eight_seconds() -> None:
    assert a2a_conformance.RESUBSCRIBE_SECONDS >= 8


@pytest.mark.parametrize("protocol", ["1.0", "0.3"])
def test_the_program_can_need_a_key(protocol: str) -> None:
    program = Path(EXAMPLES, "a2a_conformance.py")
    options = ["--port", free_port(), "--protocol", protocol, "--api-key", "tck-key"]
    with Program(RUN, program, *options) as running, httpx2.Client(timeout=20) as http:
        url = running.url()
        card = http.get(f"{url}/.well-known/agent-card.json").json()
        assert list(card["securitySchemes"]) == ["bearer"]
        assert card["defaultInputModes"] == list(a2a_conformance.INPUT_MODES)
        tasks = f"{url}/a2a/tasks"
        statuses = [
            http.get(tasks, headers={"A2A-Version": "1.0", **headers}).status_code
            for headers in ({}, {"Authorization": "Bearer no"}, {"Authorization": "Bearer tck-key"})
        ]
    assert statuses == [401, 401, 200]


def test_an_unknown_media_type_is_refused() -> None:
    app = a2a_conformance.make_app()
    part = {"url": "https://example.com/a", "mediaType": "application/x-unknown"}
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [part]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    with running_app(app) as server:
        got = httpx2.post(f"{server.url}/a2a", json=body, headers={"A2A-Version": "1.0"}).json()
    assert got["error"]["code"] == -32005


@pytest.mark.parametrize(
    ("protocol", "method", "role", "part"),
    [
        ("1.0", "SendMessage", "ROLE_USER", {"text": "Hi."}),
        ("0.3", "message/send", "user", {"kind": "text", "text": "Hi."}),
    ],
)
def test_the_program_serves_the_agent(
    protocol: str, method: str, role: str, part: dict[str, str]
) -> None:
    program = Path(EXAMPLES, "a2a_conformance.py")
    message = {"messageId": "tck-artifact-text-1", "role": role, "parts": [part]}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}
    with Program(RUN, program, "--port", free_port(), "--protocol", protocol) as running:
        url = running.url()
        headers = {"A2A-Version": protocol}
        with httpx2.Client(headers=headers, timeout=20) as http:
            card = http.get(f"{url}/.well-known/agent-card.json").json()
            interface = card["supportedInterfaces"][0]
            result = http.post(interface["url"], json=body).json()["result"]
    assert ("url" in card) == (protocol == "0.3")
    task = result.get("task", result)
    assert task["artifacts"][0]["parts"][0]["text"] == "Generated text content"
