"""A CAP agent behind an inspector: the page gets its bytes, its losses and never its key."""

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from coreason_client import CAPClient, CAPError, CAPRuntimeError
from coreason_client._retry import Backoff
from coreason_client.cap import _protocol
from coreason_client.inspector import CAPTarget, Inspector
from coreason_client.server import AgentApp, AgentStream, RunningServer, running
from coreason_manifest.definitions.service import ServiceRequest
from tests.a2a.loopback import as_json, serve
from tests.cap.test_fault_table import ROWS, Row, is_transient, make_request
from tests.faults import FaultServer, Run
from tests.server.peer import Gate, Peer, envelope
from tests.server.test_inbox import send

from .inspecting import KEY, LIMIT, TOKEN, Switch, inspecting, url_of

WORDS = [f"w{number} " for number in range(20)]


async def count(request: ServiceRequest, stream: AgentStream) -> None:
    for word in WORDS:
        await stream.write(word)


@pytest.fixture(scope="module")
def agent() -> Iterator[RunningServer]:
    with running(AgentApp(count, agent_id="count", api_keys=[KEY]), log_config=None) as server:
        yield server


@pytest.fixture(scope="module")
def page(agent: RunningServer) -> Iterator[httpx2.Client]:
    with inspecting(CAPTarget(agent.url, KEY, agent_id="count", version="7")) as page:
        yield page


# What passes


def test_the_bytes_of_a_stream_are_those_of_the_agent(
    agent: RunningServer, page: httpx2.Client
) -> None:
    body = envelope()
    with closing(Peer(url_of(page), TOKEN)) as tab, closing(Peer(agent.url, KEY)) as peer:
        through, direct = tab.ask(body), peer.ask(body)
        again = tab.ask(body, cursor=f"{direct.stream_id}:15")
    assert through.raw == direct.raw
    assert through.text == "".join(WORDS)
    for name in ("content-type", "x-stream-id", "x-request-id", "cache-control"):
        assert through.headers[name] == direct.headers[name]
    assert again.seqs == list(range(16, 22))
    assert direct.raw.endswith(again.raw)


@pytest.mark.parametrize("inbox", [True, False])
def test_a_message_goes_to_the_running_answer(inbox: bool) -> None:
    go_on = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("ready ")
        if inbox:
            await stream.write((await anext(stream.inbox)).text)
        await go_on.wait()

    with (
        running(AgentApp(agent, inbox=inbox)) as server,
        inspecting(CAPTarget(server.url)) as page,
        closing(Peer(url_of(page), TOKEN)) as tab,
        tab.open(envelope()) as answer,
    ):
        answer.until(1)
        response = send(tab, answer.stream_id, "louder")
        go_on.open()
        answer.rest()
    if inbox:
        assert (response.status_code, answer.text) == (202, "ready louder")
    else:
        assert (response.status_code, answer.text) == (404, "ready ")
        assert response.json()["detail"] == "The agent takes no messages while it answers."


def test_another_tab_reads_and_cancels_the_same_stream(
    agent: RunningServer, page: httpx2.Client
) -> None:
    with closing(Peer(url_of(page), TOKEN)) as tab:
        answer = tab.ask()
    path = f"/streams/{answer.stream_id}"
    assert page.get(path).content == answer.raw
    cursor = {"Last-Event-ID": f"{answer.stream_id}:20"}
    assert page.get(path, headers=cursor).content == answer.raw[answer.raw.rindex(b"id: ") :]
    assert page.delete(path).status_code == 204
    unknown = page.get(f"/streams/{uuid4()}")
    assert (unknown.status_code, unknown.json()["type"]) == (
        404,
        "urn:coreason:problem:stream-not-found",
    )


class Odd:
    """An agent that sends bytes which no server of ours would send, and has no other route."""

    CHUNKS = (
        b"\xef\xbb\xbfdata: 1\r\n\r",
        b"\n",
        b"data:\xff\x00\xfe\r\r",
        b"\n\n",
        b"id",
        b": \xf0\x9f",
    )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        known = scope["method"] == "POST"
        content_type = b"text/event-stream; charset=utf-8" if known else b"text/plain"
        status, headers = 200 if known else 405, [(b"content-type", content_type)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for chunk in self.CHUNKS if known else ():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def test_bytes_pass_unchanged_and_a_missing_route_is_reported() -> None:
    with (
        running(Odd(), log_config=None, lifespan="off") as agent,
        inspecting(CAPTarget(agent.url)) as page,
    ):
        answer = page.post("/assist", json=envelope())
        missing = page.get(f"/streams/{uuid4()}")
    assert answer.content == b"".join(Odd.CHUNKS)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert (missing.status_code, missing.headers["content-type"]) == (405, "text/plain")


def test_refusals_of_the_agent_pass(page: httpx2.Client) -> None:
    wrong = page.post("/assist", json={})
    assert wrong.status_code == 422
    assert wrong.headers["content-type"] == "application/problem+json"
    assert page.get("/health").json()["agent_id"] == "count"
    assert page.get("/ready").json() == {"status": "ready"}


PATHS = [
    ("GET", "/streams/.."),
    ("GET", "/streams/%2e%2e"),
    ("DELETE", "/streams/%2e%2e%2fhealth"),
    ("GET", "/streams/a/b"),
    ("GET", "/openapi.json"),
    ("GET", "/metrics"),
    ("GET", "/http://evil.example/"),
    ("POST", "/v1/other"),
]


def test_no_other_path_reaches_the_agent() -> None:
    with serve() as agent, inspecting(CAPTarget(agent.url)) as page:
        agent.rules.append(lambda _: as_json({}))
        for method, path in PATHS:
            # Not with a client, which would normalize the path.
            with socket.create_connection(("127.0.0.1", page.base_url.port or 0), LIMIT) as raw:
                head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
                token = f"Authorization: Bearer {TOKEN}\r\nContent-Length: 0\r\n\r\n"
                raw.sendall(f"{head}{token}".encode())
                answer = b"".join(iter(partial(raw.recv, 65536), b""))
            assert answer.startswith(b"HTTP/1.1 404 "), path
        page.get("/health")
    assert [seen.path for seen in agent.seen] == ["/health"]


def test_a_body_has_a_limit(page: httpx2.Client) -> None:
    refused = page.post("/assist", content=b" " * (4 * 1024 * 1024 + 1))
    assert refused.status_code == 413


# Who may use it


def test_without_the_token_nothing_but_files_is_served(page: httpx2.Client) -> None:
    with httpx2.Client(base_url=url_of(page)) as stranger:
        assert stranger.get("/").status_code == 200
        assert stranger.get("/page/page.js").status_code == 200
        for method, path in (
            ("GET", "/page/config.json"),
            ("POST", "/page/cut"),
            ("POST", "/assist"),
            ("GET", "/health"),
            ("DELETE", f"/streams/{uuid4()}"),
        ):
            for headers in ({}, {"Authorization": f"Bearer {KEY}"}):
                refused = stranger.request(method, path, headers=headers, json=envelope())
                assert refused.status_code == 401
                assert "coreason inspect" in refused.json()["detail"]


def test_a_foreign_page_is_refused_even_with_the_token(page: httpx2.Client) -> None:
    rebound = page.get("/health", headers={"Host": f"evil.example:{page.base_url.port}"})
    assert rebound.status_code == 421
    assert page.get("/", headers={"Host": "evil.example"}).status_code == 421
    foreign = page.post("/assist", json=envelope(), headers={"Origin": "http://evil.example"})
    assert foreign.status_code == 403


def test_neither_the_key_nor_the_headers_reach_the_page(
    agent: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    target = CAPTarget(agent.url, KEY, {"X-Tenant-Token": "secret-of-the-tenant"})
    with inspecting(target) as page:
        config = page.get("/page/config.json").json()
        answers = [page.get("/"), page.get("/health"), page.post("/assist", json=envelope())]
    assert config == {
        "agent_id": f"127.0.0.1:{agent.port}",
        "version": "",
        "protocol": "cap",
        "target": agent.url,
        "needs_key": False,
        "adds_key": True,
        "curl_option": ["-H", "Authorization: Bearer {key}"],
        "cut": True,
        "inbox": True,
        "documents": False,
        "card": None,
    }
    shown = "".join(f"{answer.headers}{answer.text}" for answer in answers) + repr(target)
    for secret in (KEY, "secret-of-the-tenant", TOKEN):
        assert secret not in shown + caplog.text + json.dumps(config)


def test_the_agent_gets_its_own_key_and_nothing_of_the_browser() -> None:
    with FaultServer() as server:
        run = server.run("correct")
        with inspecting(CAPTarget(run.base_url, KEY, {"X-Tenant": "blue"})) as page:
            page.post("/assist", json=envelope(), headers={"Cookie": "a=b", "Referer": "http://x"})
    [request] = run.requests
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["x-tenant"] == "blue"
    assert not {"cookie", "referer", "origin"} & request.headers.keys()
    assert TOKEN not in str(request.raw_headers)


# Losses, as a client of the page sees them

# Those of the fault table that concern the connection; what is inside of packets only passes.
LOSSES = [
    row
    for row in ROWS
    if row.fault
    in {
        "correct",
        "rst_mid_event",
        "fin_mid_event_chunked",
        "fin_mid_event_close_delimited",
        "clean_end_without_close",
        "stall",
        "cut_inside_utf8",
        "cut_in_chunk_header",
        "burst_then_rst",
        "refuse_first",
        "status_first",
        "html_first",
        "no_content_first",
        "html_on_reconnect",
        "redirect",
        "redirect_loop",
        "ignores_last_event_id",
        "different_stream_after_reconnect",
        "no_ids",
        "slow_drip",
        "gzip",
        "retry_field",
        "accept_and_close",
    }
    or (row.fault == "status_on_reconnect" and row.options["status"] in (204, 404, 429, 503))
]


@pytest.fixture(scope="module")
def faults() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


@pytest.fixture(scope="module")
def switch(faults: FaultServer) -> Iterator[tuple[Switch, str, list[Run]]]:
    inspectors, runs = Switch(), list[Run]()
    with running(inspectors, log_config=None) as server:
        yield inspectors, server.url, runs
    assert all(run.wait_all_closed() for run in runs), "a connection leaked"


@pytest.mark.parametrize("row", LOSSES, ids=lambda row: row.name)
def test_a_client_of_the_proxy_sees_what_a_client_of_the_agent_sees(
    row: Row,
    faults: FaultServer,
    switch: tuple[Switch, str, list[Run]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(_protocol, "Backoff", lambda **given: Backoff(0.01, 0.02, **given))
    run = faults.run(row.fault, **row.options)
    inspectors, url, runs = switch
    runs.append(run)
    inspectors.inspect(CAPTarget(run.base_url, KEY, timeout=0.5))
    packets, error = read(url)
    expected = [packet.seq for packet in run.packets if not is_transient(packet)]
    if row.error is None:
        assert error is None, repr(error)
        assert packets == expected
    else:
        assert type(error).__name__ == row.error
        assert packets == expected[: row.delivered]
    if row.requests is not None:
        assert len(run.requests) == row.requests
    for request in run.requests:
        foreign = request.origin != run.requests[0].origin
        assert ("authorization" in request.headers) is not foreign
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def read(url: str) -> tuple[list[int], CAPError | None]:
    packets: list[int] = []
    with CAPClient(url, TOKEN, timeout=LIMIT, max_retries=3, deadline=20) as client:
        try:
            packets.extend(packet.seq for packet in client.assist(make_request()))
        except CAPError as error:
            return packets, error
    return packets, None


@pytest.mark.parametrize("fault", ["rst_mid_event", "fin_mid_event_chunked", "burst_then_rst"])
def test_a_lost_connection_is_no_regular_end(fault: str, faults: FaultServer) -> None:
    run = faults.run(fault)
    with (
        inspecting(CAPTarget(run.base_url, KEY)) as page,
        closing(Peer(url_of(page), TOKEN)) as tab,
        tab.open() as answer,
        pytest.raises(httpx2.TransportError),
    ):
        answer.rest()
    assert answer.seqs[:5] == [1, 2, 3, 4, 5]


def test_an_agent_that_cannot_be_reached_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    with inspecting(CAPTarget(url, KEY)) as page:
        answer = page.get("/health")
    assert answer.status_code == 502
    assert answer.json()["type"] == "urn:coreason:problem:target-unreachable"
    assert "onnect" in answer.json()["detail"]


# Leaving, and the end


class Held:
    """An agent that writes a word and waits; knows how many readers its server has had."""

    def __init__(self) -> None:
        self.gate = Gate()

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("begun")
        await self.gate.wait()


class Watched:
    """An ASGI application that tells when a response of it has ended."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.ended = threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await self._app(scope, receive, send)
        finally:
            if scope.get("path") == "/assist":
                self.ended.set()


def test_a_browser_that_leaves_closes_the_connection_to_the_agent() -> None:
    held = Held()
    watched = Watched(AgentApp(held, drain_timeout=0, cancel_grace=1))
    with running(watched, log_config=None) as agent, inspecting(CAPTarget(agent.url)) as page:
        with closing(Peer(url_of(page), TOKEN)) as tab, tab.open() as answer:
            answer.until(1)
            assert not watched.ended.is_set()
        assert watched.ended.wait(LIMIT)
        held.gate.open()


def test_a_server_that_stops_ends_open_responses_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    held = Held()
    agent_app = AgentApp(held, drain_timeout=0, cancel_grace=1)
    with running(agent_app, log_config=None) as agent:
        inspector = Inspector(CAPTarget(agent.url), TOKEN)
        with ExitStack() as later:
            with running(inspector, log_config=None) as server:
                tab = later.enter_context(closing(Peer(server.url, TOKEN)))
                answer = later.enter_context(tab.open()).until(1)
            with pytest.raises(httpx2.TransportError):
                answer.rest()
        held.gate.open()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize(
    ("key", "what"), [("another-key", "did not accept the key"), (None, "needs a key")]
)
def test_a_wrong_key_is_an_error_of_the_agent_and_not_of_the_token(
    agent: RunningServer, key: str | None, what: str
) -> None:
    with (
        inspecting(CAPTarget(agent.url, key)) as page,
        CAPClient(url_of(page), TOKEN) as client,
        pytest.raises(CAPRuntimeError) as caught,
    ):
        client.ask("hi")
    assert caught.value.status_code == 401
    assert "another-key" not in str(caught.value)
    detail = f"The agent {what}: start `coreason inspect` again with the right --api-key."
    assert detail in str(caught.value)


def test_a_websocket_is_refused() -> None:
    sent: list[Any] = []

    async def main() -> None:
        async def send(message: Any) -> None:
            sent.append(message)

        inspector = Inspector(CAPTarget("http://127.0.0.1:1"), TOKEN)
        await inspector({"type": "websocket"}, None, send)  # type: ignore[arg-type]

    asyncio.run(main())
    assert sent == [{"type": "websocket.close"}]
