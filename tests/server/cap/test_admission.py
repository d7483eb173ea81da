"""The order of the checks: of several faults, the one that costs least to find is answered."""

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from starlette.responses import Response
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from coreason_client.server import AgentApp, AgentStream, MemoryStreamLog, running
from coreason_client.server.http import _gate as gate
from coreason_client.server.log import NewStream, Opened, StreamMeta
from coreason_manifest.definitions.service import ServiceRequest

from ..interrupted_log import InterruptedLog
from ..peer import Peer, envelope

LONG = "x" * 3000
# What is wrong, in the order of the checks; each fault is a change of a good request.
FAULTS: list[tuple[int, dict[str, str]]] = [
    (431, {"X-Filler": LONG}),
    (401, {"Authorization": "Bearer wrong"}),
    (400, {"Last-Event-ID": "nonsense"}),
    (415, {"Content-Type": "text/plain"}),
    (413, {"Content-Length": "5000"}),
    (404, {"Last-Event-ID": f"{uuid4()}:1"}),
]


class Watched(MemoryStreamLog):
    """Writes down what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def meta(self, stream_id: Any) -> StreamMeta:
        self.asked.append("meta")
        return await super().meta(stream_id)

    async def find(self, principal: str, request_id: Any) -> StreamMeta | None:
        self.asked.append("find")
        return await super().find(principal, request_id)

    async def open(self, stream: NewStream, owner: str) -> Opened:
        self.asked.append("open")
        return await super().open(stream, owner)


async def hello(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("hello")


log = Watched()


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    app = AgentApp(hello, log=log, api_keys=["k"], max_header_bytes=2000, max_body_bytes=4000)
    with TestClient(app) as client:
        yield client


def ask(client: TestClient, body: Any, **headers: str) -> Any:
    good = {"Authorization": "Bearer k", "Content-Type": "application/json"}
    log.asked.clear()
    return client.post("/assist", content=body, headers=good | headers)


@pytest.mark.parametrize("first", range(len(FAULTS)))
def test_the_first_fault_is_answered_and_the_body_is_not_parsed(
    client: TestClient, first: int
) -> None:
    status = FAULTS[first][0]
    headers = {
        name: value for _, fault in reversed(FAULTS[first:]) for name, value in fault.items()
    }
    answer = ask(client, b"{ this is no JSON", **headers)
    assert answer.status_code == status
    assert log.asked == (["meta"] if status == 404 else [])


def test_a_request_that_is_new_costs_the_log_one_call(client: TestClient) -> None:
    body = ServiceRequest.model_validate(envelope()).to_json()
    answer = ask(client, body)
    assert (answer.status_code, log.asked) == (200, ["open"])
    stream_id = answer.headers["x-stream-id"]
    answer = ask(client, body, **{"Last-Event-ID": f"{stream_id}:1"})
    assert (answer.status_code, log.asked) == (200, ["meta"])


def test_a_rate_that_is_used_up_asks_the_log_only_for_what_the_head_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate, "monotonic_ns", lambda: 10**15)
    app = AgentApp(hello, log=log, api_keys=["k"], max_requests_per_minute=1)
    with TestClient(app) as client:
        assert ask(client, ServiceRequest.model_validate(envelope()).to_json()).status_code == 200
        for headers, asked in (
            ({}, []),
            ({"X-Request-ID": "no UUID"}, []),
            ({"X-Request-ID": str(uuid4())}, ["find"]),
            ({"Last-Event-ID": str(uuid4())}, ["meta"]),
        ):
            answer = ask(client, b"{ this is no JSON", **headers)
            assert (answer.status_code, log.asked) == (429, asked)


@pytest.mark.parametrize("opens", [True, False])
def test_a_request_that_is_cancelled_while_it_opens_its_stream_starts_the_agent(
    *, opens: bool
) -> None:
    log, runs = InterruptedLog(opens=opens), []

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        runs.append(request.request_id)
        await stream.write("hello")

    app = AgentApp(agent, log=log, max_streams_per_key=1, max_readers_per_key=1)

    async def hurried(scope: Scope, receive: Receive, send: Send) -> None:
        """Answer in time, as a middleware with a deadline does."""
        if scope["type"] == "http" and (b"x-hurry", b"1") in scope["headers"]:
            await log.interrupt(asyncio.ensure_future(app(scope, receive, send)))
            await Response(status_code=504)(scope, receive, send)
        else:
            await app(scope, receive, send)

    body = envelope()
    with running(hurried) as server:
        peer = Peer(server.url)
        assert peer.ask(body, x_hurry="1").status == 504
        assert peer.ask(body).text == "hello"
        assert peer.ask().text == "hello"  # no limit counts the cancelled request
        peer.close()
    assert len(runs) == 2
