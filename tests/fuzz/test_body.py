"""The body and the head of a request, wrong in every way: a stream or a problem, never a 500."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coreason_client.server import AgentApp, AgentStream
from coreason_manifest.definitions.service import ServiceRequest
from tests.fuzz.corpus import JSON_TEXTS, REQUESTS, STREAM_ID
from tests.fuzz.inprocess import Answered, InProcess, in_process
from tests.fuzz.strategies import CANARY, anything, damaged, examples, mutated, wire

MOST_BYTES = 200_000
TYPE = (b"content-type", b"application/json")
REAL = [wire(request) for request in REQUESTS]


async def hello(request: ServiceRequest, stream: AgentStream) -> None:
    request.to_json()  # what was accepted can be written down again
    await stream.write("hello")


@pytest.fixture(scope="module")
def server() -> Iterator[InProcess]:
    with in_process(AgentApp(hello, max_body_bytes=MOST_BYTES)) as server:
        yield server


def assert_sound(answer: Answered, *statuses: int) -> None:
    """It is the whole stream, or a problem document that repeats nothing of the body."""
    if answer.status == 200:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert b'"op":"CLOSE"' in answer.body
        assert b"agent_error" not in answer.body
        return
    assert answer.status in statuses
    assert len(answer.body) < 20_000
    told = answer.body.decode()
    assert answer.problem
    assert not any(piece in told for piece in (CANARY, "canary", "☠", "X-Injected"))


def with_body(place: str, value: Any) -> bytes:
    body = {**REQUESTS[0], place: value}
    del body["request_id"]
    return wire(body)


@examples(80)
@given(
    body=mutated(REQUESTS).map(wire)
    | anything("request_id", "context", "payload", "messages", "user").map(wire)
)
@example(body=wire({**REQUESTS[0], "request_id": CANARY}))
@example(body=wire({**REQUESTS[0], CANARY: CANARY}))
@example(body=with_body("payload", {"messages": [{"role": CANARY, "parts": [{"type": CANARY}]}]}))
@example(body=with_body("payload", {"payload": {CANARY: 1}, "timestamp": CANARY}))
@example(body=with_body("payload", {"payload": {}, "timestamp": 10**40}))
@example(body=with_body("payload", {"payload": {"n": float("nan")}}))
@example(body=with_body("payload", {"payload": {"s": "\ud800"}}))
@example(body=with_body("context", {"session_id": "s", "user": {"user_id": CANARY}}))
@example(body=with_body("context", {"session_id": "s", "user_id": "a", "user": {"user_id": "b"}}))
@example(body=with_body("context", {"session_id": "s", "user_id": "u", "permissions": [7] * 50}))
def test_a_request_that_is_almost_right(server: InProcess, body: bytes) -> None:
    assert_sound(server.ask(body, [TYPE]), 409, 422)


@examples(60)
@given(
    body=damaged(REAL) | st.binary(max_size=200), places=st.lists(st.integers(0, 500), max_size=5)
)
def test_damaged_bytes_in_any_chunks(server: InProcess, body: bytes, places: list[int]) -> None:
    places = sorted({place % (len(body) + 1) for place in places})
    chunks = [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True)]
    assert_sound(server.ask(chunks, [TYPE]), 409, 422)


@pytest.mark.parametrize("text", JSON_TEXTS, ids=range(len(JSON_TEXTS)))
def test_the_seeds(server: InProcess, text: bytes) -> None:
    assert_sound(server.ask(text, [TYPE]), 413, 422)
    # The same inside a request that is in order otherwise, where anything may stand.
    inside = REAL[1].replace(b'{"free": {"form": [1, 2.5, null]}}', b'{"x":' + text + b"}")
    assert inside != REAL[1]
    assert_sound(server.ask(inside, [TYPE]), 409, 413, 422)


HEADERS = st.sampled_from(
    [
        *(b"accept", b"authorization", b"content-type", b"content-length", b"content-encoding"),
        *(b"x-request-id", b"last-event-id", b"traceparent", b"tracestate", b"baggage", b"host"),
        *(b"transfer-encoding", b"origin", b"cookie", b"expect", b"range", b"connection"),
    ]
)
HEADER_VALUES = st.one_of(
    damaged(
        [
            *(b"application/json", b"100", b"Bearer key", STREAM_ID.encode(), b"chunked"),
            b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            b"vendor=value,other=1",
        ]
    ),
    st.binary(max_size=40),
    st.just(b"9" * 5_000),
).map(lambda value: value.replace(b"\r", b"").replace(b"\n", b"").replace(b"\0", b""))


@examples(60)
@given(
    headers=st.lists(st.tuples(HEADERS, HEADER_VALUES), max_size=5),
    method=st.sampled_from(["POST", "GET", "DELETE", "HEAD", "OPTIONS", "PUT", "X"]),
    path=st.sampled_from(
        ["/assist", "/v1/assist", "/health", "/openapi.json", f"/streams/{STREAM_ID}", "/metrics"]
    )
    | st.text(max_size=30).map(lambda text: f"/{text}")
    | st.text(max_size=50).map(lambda text: f"/streams/{text}"),
    locked=st.booleans(),
)
@example([TYPE, (b"content-length", b"\xb2")], "POST", "/assist", False)
@example([TYPE, (b"content-length", b"9" * 5_000)], "POST", "/assist", False)
@example(
    [TYPE, (b"traceparent", b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01")],
    *("POST", "/assist"),
    False,
)
@example([(b"authorization", b"Bearer \xff\xed\xa0\x80")], "POST", "/assist", True)
@example([], "DELETE", "/streams/\ud800", False)
def test_any_head(
    server: InProcess,
    locked_server: InProcess,
    headers: list[tuple[bytes, bytes]],
    method: str,
    path: str,
    locked: bool,
) -> None:
    answer = (locked_server if locked else server).ask(
        REAL[1], [TYPE, *headers], method=method, path=path
    )
    assert answer.status < 500
    if answer.status >= 400 and method != "HEAD":
        assert answer.problem
    if locked and path in {"/assist", "/v1/assist"} and method == "POST":
        assert answer.status == 401
    sent = {value.decode("latin-1") for name, value in headers if len(value) > 8}
    known = {"application/json", STREAM_ID}
    assert not any(value in answer.headers.values() for value in sent - known)


@pytest.fixture(scope="module")
def locked_server() -> Iterator[InProcess]:
    app = AgentApp(hello, api_keys=["the-key-nobody-guesses"], metrics=True)
    with in_process(app) as server:
        yield server
