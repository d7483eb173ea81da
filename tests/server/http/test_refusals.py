"""Every refusal: its status, a document that names the cause, and a running stream unharmed."""

import json
import socket
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from coreason_client.server import AgentApp, AgentStream, LogUnavailable, MemoryStreamLog, running
from coreason_client.server.log import NewStream, Opened
from coreason_manifest.definitions.service import ServiceRequest

from ..conftest import Serve
from ..log.backends import Clock
from ..peer import LIMIT, Gate, Peer, envelope

SECRET = "sk-very-secret-0123456789"


async def hello(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("hello")


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    """A server that several tests may share, since none of them changes it."""
    with running(AgentApp(hello)) as server:
        shared = Peer(server.url)
        yield shared
        shared.close()


@pytest.fixture(scope="module")
def locked() -> Iterator[Peer]:
    """The same, with keys."""
    with running(AgentApp(hello, api_keys=["key-a", "key-b"])) as server:
        shared = Peer(server.url)
        yield shared
        shared.close()


def without(name: str) -> dict[str, Any]:
    body = envelope()
    del body[name]
    return body


def message_part(part: dict[str, Any]) -> dict[str, Any]:
    body = envelope()
    body["payload"]["messages"][0]["parts"] = [part]
    return body


@pytest.mark.parametrize(
    ("body", "loc"),
    [
        (without("context"), ["context"]),
        (without("payload"), ["payload"]),
        (envelope(request_id=SECRET), ["request_id"]),
        (envelope(context={"session_id": 7, "user_id": "u"}), ["context", "session_id"]),
        (message_part({"type": SECRET}), ["payload", "messages", 0, "parts", 0]),
        (
            message_part({"type": "text", "content": {"key": SECRET}}),
            ["payload", "messages", 0, "parts", 0, "text", "content"],
        ),
        (envelope(payload={}), ["payload"]),
        ([], []),
        (b"", []),
        (b"{" + SECRET.encode(), []),
        (b"\xff\xfe", []),
        (b"[" * 40_000, []),
    ],
)
def test_a_body_that_is_not_valid_gets_422_and_names_the_field(
    peer: Peer, body: object, loc: list[str | int]
) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = peer.ask(content)
    assert answer.status == 422
    assert answer.problem.keys() == {"type", "title", "status", "detail", "errors"}
    assert answer.problem["errors"][0].keys() == {"loc", "msg"}
    assert answer.problem["errors"][0]["loc"] == loc
    assert SECRET not in answer.raw.decode()
    assert ".".join(map(str, loc)) in answer.problem["detail"]


@pytest.mark.proves("RES2-12c")
def test_a_body_that_is_too_large_gets_413(serve: Serve) -> None:
    peer = serve(hello, max_body_bytes=1000)
    assert peer.ask(envelope("x" * 1000)).status == 413

    def chunks() -> Any:
        yield from [b"x" * 400] * 4

    headers = {"Content-Type": "application/json"}  # and no length
    assert peer.http.post("/assist", content=chunks(), headers=headers).status_code == 413
    assert peer.ask(envelope("x" * 100)).status == 200


@pytest.mark.parametrize(
    ("limits", "many", "status", "problem"),
    [
        ({"max_messages": 3}, {"messages": 4}, 422, "too-many-messages"),
        ({"max_messages": 3}, {"messages": 3}, 200, None),
        ({"max_parts": 5}, {"messages": 2, "parts": 3}, 422, "too-many-parts"),
        ({"max_parts": 6}, {"messages": 2, "parts": 3}, 200, None),
        ({"max_json_values": 50}, {"messages": 10}, 413, "body-too-complex"),
        ({"max_json_values": 50}, {"messages": 5}, 200, None),
        ({}, {"messages": 2000}, 200, None),
        ({}, {"messages": 2001}, 422, "too-many-messages"),
        ({}, {"parts": 10_001}, 422, "too-many-parts"),
    ],
)
def test_a_request_has_a_number_of_messages_parts_and_values(
    limits: dict[str, int], many: dict[str, int], status: int, problem: str | None
) -> None:
    body = envelope()
    (message,) = body["payload"]["messages"]
    message["parts"] *= many.get("parts", 1)
    body["payload"]["messages"] = [message] * many.get("messages", 1)
    with TestClient(AgentApp(hello, **limits)) as client:  # type: ignore[arg-type]
        answer = client.post("/assist", json=body)
    assert answer.status_code == status
    if problem is not None:
        assert answer.json()["type"] == f"urn:coreason:problem:{problem}"
        assert answer.json()["detail"].startswith("A request may have at most ")


@pytest.mark.parametrize("option", ["max_messages", "max_parts", "max_json_values"])
def test_a_limit_is_above_nothing(option: str) -> None:
    with pytest.raises(ValueError, match=f"{option} must be greater than 0"):
        AgentApp(hello, **{option: 0})  # type: ignore[arg-type]


@pytest.mark.proves("RES2-12c")
def test_headers_that_are_too_large_get_431(serve: Serve) -> None:
    peer = serve(hello, max_header_bytes=1000)
    assert peer.ask(X_Filler="x" * 1000).status == 431
    for path in ("/health", "/ready", "/openapi.json", "/nothing"):
        assert peer.http.get(path, headers={"X-Filler": "x" * 1000}).status_code == 431, path
        assert peer.http.get(path).status_code != 431
    assert peer.ask().status == 200


def test_a_body_that_does_not_come_gets_408(serve: Serve) -> None:
    peer = serve(hello, body_timeout=0.05)
    address = (peer.http.base_url.host, peer.http.base_url.port)
    with socket.create_connection(address, timeout=LIMIT) as slow:
        slow.sendall(
            b"POST /assist HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
        assert slow.recv(100).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("content_type", ["text/plain", "", "application/x-www-form-urlencoded"])
def test_a_wrong_content_type_gets_415(peer: Peer, content_type: str) -> None:
    assert peer.ask(Content_Type=content_type).status == 415


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/x+json"]
)
def test_json_by_any_name_is_json(peer: Peer, content_type: str) -> None:
    assert peer.ask(Content_Type=content_type).status == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/assist", 405),
        ("PUT", "/v1/assist", 405),
        ("POST", "/health", 405),
        ("GET", "/streams/123e4567-e89b-12d3-a456-426614174000", 404),
        ("GET", "/nothing", 404),
        ("DELETE", "/streams/nothing", 404),
        ("DELETE", "/streams/123e4567-e89b-12d3-a456-426614174000", 404),
        ("DELETE", "/streams/123e4567-e89b-12d3-a456-426614174000:1", 404),
    ],
)
def test_paths_and_methods(peer: Peer, method: str, path: str, status: int) -> None:
    answer = peer.http.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    if status == 405:
        assert answer.headers["allow"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/assist/", 200),
        ("POST", "/v1/assist/", 200),
        ("GET", "/health/", 200),
        ("GET", "/openapi.json/", 200),
        ("DELETE", "/streams/123e4567-e89b-12d3-a456-426614174000/", 404),
        ("GET", "/assist/", 405),
        ("GET", "/nothing/", 404),
        ("POST", "/assist//", 404),
    ],
)
def test_a_slash_at_the_end_is_no_redirect(peer: Peer, method: str, path: str, status: int) -> None:
    """A redirect would send the client, and its body, wherever the Host header says."""
    answer = peer.http.request(method, path, json=envelope(), headers={"Host": "localhost"})
    assert answer.status_code == status
    assert "location" not in answer.headers


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer wrong", "Basic key-a", "key-a", "Bearer key-a x", "é"],
)
def test_without_a_known_key_there_is_a_401(locked: Peer, authorization: str | None) -> None:
    headers = {} if authorization is None else {b"Authorization": authorization.encode()}
    for method, path in (("POST", "/assist"), ("DELETE", f"/streams/{uuid4()}")):
        answer = locked.http.request(method, path, json=envelope(), headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.json()["type"] == "urn:coreason:problem:unauthorized"


@pytest.mark.proves("RES2-12a")
def test_a_foreign_stream_is_not_there(serve: Serve) -> None:
    peer = serve(hello, key="a", api_keys={"a": "ann", "a2": "ann", "b": "bob"})
    body = envelope()
    mine = peer.ask(body)
    stranger, friend = Peer(str(peer.http.base_url), "b"), Peer(str(peer.http.base_url), "a2")
    foreign = stranger.ask(body, f"{mine.stream_id}:1")
    missing = stranger.ask(body, f"{uuid4()}:1")
    assert foreign.status == missing.status == 404
    assert foreign.problem.keys() == missing.problem.keys()
    assert foreign.problem["type"] == missing.problem["type"]
    assert stranger.cancel(mine.stream_id) == 404
    # The request_id of another principal is free, and a second key of the same one is not another.
    assert stranger.ask(body).stream_id != mine.stream_id
    assert friend.ask(body, f"{mine.stream_id}:1").seqs == [2]
    stranger.close()
    friend.close()


@pytest.mark.proves("RES2-2c", "RES2-2d")
@pytest.mark.parametrize("cursor", ["", "nonsense", "7", f"{UUID(int=1)}:x", f"{UUID(int=1)}:1:0"])
def test_a_bad_position_gets_400(peer: Peer, cursor: str) -> None:
    answer = peer.ask(cursor=cursor)
    assert answer.status == 400
    assert "Last-Event-ID" in answer.problem["detail"]


def test_two_positions_get_400(peer: Peer) -> None:
    """Nobody can know which one is meant, so none is taken."""
    body = envelope()
    stream_id = peer.ask(body).stream_id
    headers = [("Last-Event-ID", f"{stream_id}:1"), ("Last-Event-ID", f"{stream_id}:2")]
    assert peer.http.post("/assist", json=body, headers=headers).status_code == 400


def test_a_position_that_was_never_reached_gets_410(peer: Peer) -> None:
    """It is what a client has whose packets the store has lost."""
    body = envelope()
    whole = peer.ask(body)
    answer = peer.ask(body, f"{whole.stream_id}:3")
    assert (answer.status, answer.problem["type"]) == (410, "urn:coreason:problem:position-gone")


def test_a_resume_never_starts_a_stream(serve: Serve) -> None:
    calls = []

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        calls.append(request)

    assert serve(agent).ask(envelope(), f"{uuid4()}:4").status == 404
    assert calls == []


def test_another_body_under_a_known_request_gets_409(peer: Peer) -> None:
    body = envelope("one")
    whole = peer.ask(body)
    other = {**envelope("two"), "request_id": body["request_id"]}
    repeated = peer.ask(other)
    assert repeated.status == 409
    assert "use a new one for a new body" in repeated.problem["detail"]
    for wrong, difference in ((other, "another body"), (envelope(), "another request_id")):
        refused = peer.ask(wrong, f"{whole.stream_id}:1")
        assert refused.problem == {
            "type": "urn:coreason:problem:request-conflict",
            "title": "Conflict",
            "status": 409,
            "detail": f"The stream was opened by a request with {difference}. Resume with the "
            "request that opened the stream (its request_id and body): save both with "
            "`stream.bookmark()`.",
        }
    assert peer.ask(body).status == 200


@pytest.mark.proves("RES2-7a", "RES2-7b", "RES2-7c")
def test_a_position_that_is_gone_gets_410_for_a_day() -> None:
    clock, calls = Clock(), []

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        calls.append(request)
        await stream.write("hello")

    app = AgentApp(agent, log=MemoryStreamLog(clock=clock))
    with TestClient(app) as client:

        def ask(body: dict[str, Any], cursor: str | None = None) -> Any:
            headers = {} if cursor is None else {"Last-Event-ID": cursor}
            return client.post("/assist", json=body, headers=headers)

        def expire() -> None:
            assert app._runtime is not None
            app._runtime.upkeep._expired_at = -1e9
            client.portal.call(app._runtime.upkeep.once)  # type: ignore[union-attr]

        body = envelope()
        stream_id = ask(body).headers["x-stream-id"]
        clock.forward(899)
        expire()
        assert ask(body, f"{stream_id}:1").status_code == 200
        clock.forward(2)
        expire()
        for cursor in (None, stream_id, f"{stream_id}:1"):
            gone = ask(body, cursor)
            assert gone.status_code == 410
            assert "have been deleted" in gone.json()["detail"]
        assert ask(body, f"{stream_id}:2").status_code == 204
        clock.forward(86_400)
        expire()
        assert ask(body, f"{stream_id}:1").status_code == 404
        assert len(calls) == 1
        assert ask(body).headers["x-stream-id"] != stream_id


@pytest.mark.proves("RES2-12c")
def test_a_key_has_a_number_of_streams(serve: Serve) -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await gate.wait()

    peer = serve(agent, key="a", api_keys=["a", "b"], max_streams_per_key=2)
    other = Peer(str(peer.http.base_url), "b")
    body = envelope()
    with peer.open(body) as one, peer.open() as two:
        one.until(1)
        two.until(1)
        full = peer.ask(envelope())
        assert (full.status, full.headers["retry-after"]) == (429, "1")
        with peer.open(body) as three:  # a known request is not a new stream
            assert three.until(1).stream_id == one.stream_id
        with other.open() as theirs:
            assert theirs.until(1).status == 200
        gate.open()
        one.rest()
        two.rest()
    assert peer.ask(envelope()).status == 200
    other.close()


@pytest.mark.proves("RES2-12c")
def test_a_key_has_a_number_of_readers(serve: Serve) -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await gate.wait()

    peer = serve(agent, key="a", api_keys=["a", "b"], max_readers_per_key=2)
    other = Peer(str(peer.http.base_url), "b")
    body = envelope()
    with peer.open(body) as one, peer.open(body) as two:
        one.until(1)
        two.until(1)
        full = peer.ask(body)
        assert (full.status, full.headers["retry-after"]) == (429, "1")
        with other.open() as theirs:
            assert theirs.until(1).status == 200
        gate.open()
        assert one.rest().last.op == two.rest().last.op == "CLOSE"
    other.close()


def test_a_log_that_fails_gets_503_and_does_not_talk_about_itself(serve: Serve) -> None:
    class Broken(MemoryStreamLog):
        async def open(self, stream: NewStream, owner: str) -> Opened:
            raise LogUnavailable("disk /dev/sda1 of 10.1.2.3 is full")

    answer = serve(hello, log=Broken()).ask()
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert "10.1.2.3" not in answer.raw.decode()


def test_nothing_of_it_disturbs_a_running_stream(serve: Serve) -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await gate.wait()
        await stream.write("b")

    peer = serve(agent, key="a", api_keys=["a", "b"], max_body_bytes=2000)
    stranger = Peer(str(peer.http.base_url), "b")
    body = envelope()
    with peer.open(body) as answer:
        answer.until(1)
        id_ = answer.stream_id
        statuses = [
            peer.ask(b"{").status,
            peer.ask(envelope("x" * 3000)).status,
            peer.ask({**envelope("other"), "request_id": body["request_id"]}).status,
            peer.ask(body, "nonsense").status,
            peer.ask(body, f"{id_}:1:7").status,
            stranger.ask(body, id_).status,
            stranger.cancel(id_),
            peer.http.get("/assist").status_code,
        ]
        assert statuses == [422, 413, 409, 400, 410, 404, 404, 405]
        gate.open()
        assert answer.rest().text == "ab"
    stranger.close()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["request_id", "context", "payload", "messages", "session_id", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


def test_no_body_and_no_position_breaks_the_server() -> None:
    with TestClient(AgentApp(hello), raise_server_exceptions=True) as client:

        @settings(max_examples=150, deadline=None)
        @given(
            body=st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()),
            cursor=st.none() | st.binary(max_size=80).map(lambda raw: raw.replace(b"\n", b"")),
        )
        def ask(body: bytes, cursor: bytes | None) -> None:
            headers = [(b"content-type", b"application/json")]
            if cursor is not None:
                headers.append((b"last-event-id", cursor))
            answer = client.post("/assist", content=body, headers=headers)
            assert answer.status_code in {200, 400, 422}
            if answer.status_code != 200:
                assert answer.json()["status"] == answer.status_code

        ask()


@pytest.mark.parametrize(("key", "status"), [("wrong", 401), ("a", 413)])
def test_a_refusal_is_not_overtaken_by_a_reset(serve: Serve, key: str, status: int) -> None:
    """The head comes first, the body when the server has long made up its mind."""
    peer = serve(hello, key="a", api_keys=["a"], max_body_bytes=100)
    address = peer.http.base_url
    with socket.create_connection((address.host, address.port or 80), timeout=10) as sock:
        head = (
            "POST /assist HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {key}\r\nContent-Length: 200000\r\n\r\n"
        )
        sock.sendall(head.encode())
        for _ in range(200):
            sock.sendall(b"x" * 1000)
        with sock.makefile("rb") as reader:
            answer = reader.readline()
    assert answer.split()[1] == str(status).encode()
