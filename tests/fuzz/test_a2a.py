"""Anything that an A2A agent sends (card, answer, stream) is a typed object or an A2AError."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coreason_client._drive import Reply, Wait
from coreason_client._http._types import Headers, Request, ResponseHead
from coreason_client._retry import Backoff
from coreason_client.a2a import A2AError, A2AJSONError, AgentCard
from coreason_client.a2a._bindings import JsonRpcChannel, RestChannel
from coreason_client.a2a._call import Settings
from coreason_client.a2a._card import CardRules, read_card
from coreason_client.a2a._dialects import OPERATIONS, V03, V10
from coreason_client.a2a._v03._rest import V03_REST
from coreason_client.server.a2a._v03._conversions import event_to_v03
from coreason_client.sse import encode_event
from tests.a2a.paper import SHELLS, machine_for, route_to
from tests.cap.scripted import Connection, Network, failure
from tests.fuzz.corpus import AGENT_CARDS, EVENTS, JSON_TEXTS
from tests.fuzz.strategies import anything, damaged, examples, mutated, wire

SETTINGS = Settings(max_retries=2, backoff=Backoff())
OLD_EVENTS = tuple(event_to_v03(event) for event in EVENTS)
RESULTS = (
    *(event["task"] for event in EVENTS if "task" in event),
    {"tasks": [EVENTS[0]["task"]], "nextPageToken": "n", "pageSize": 1, "totalSize": 1},
    {"taskId": "t", "id": "p", "url": "https://x.example", "token": "t"},
    {"configs": [{"taskId": "t", "id": "p", "url": "https://x.example"}]},
    [{"taskId": "t", "pushNotificationConfig": {"id": "p", "url": "https://x.example"}}],
    *AGENT_CARDS,
    *EVENTS,
    *OLD_EVENTS,
)
ERRORS = (
    {"code": -32001, "message": "no such task", "data": [{"@type": "x", "reason": "r"}]},
    {"code": 404, "status": "NOT_FOUND", "message": "m", "details": [{"reason": "TASK_NOT_FOUND"}]},
)


def assert_short(error: A2AError) -> None:
    """An agent cannot fill the log of its reader."""
    assert len(str(error)) < 2_000


def assert_card(found: object) -> None:
    assert isinstance(found, AgentCard)


# The card


@examples(60)
@given(
    mutated(AGENT_CARDS).map(wire)
    | damaged([wire(card) for card in AGENT_CARDS])
    | anything("name", "url", "skills", "securitySchemes", "supportedInterfaces").map(wire)
)
@example(wire({"name": "x", "additionalInterfaces": [7]}))
@example(wire({"name": "x", "securitySchemes": {"a": {"type": []}}}))
@example(wire({"name": "x", "securitySchemes": {"a": {"type": {}}}}))
@example(wire({"name": "x", "security": [{"a": 7}], "url": 7}))
@example(wire({"name": "\ud800"}))
@example(b'{"name":"x","capabilities":' + b"[" * 300 + b"]" * 300 + b"}")
def test_a_card_or_an_error_of_ours(body: bytes) -> None:
    try:
        card = read_card(body)
    except A2AJSONError as error:
        assert_short(error)
    else:
        assert isinstance(card, AgentCard)


@pytest.mark.parametrize("text", JSON_TEXTS, ids=range(len(JSON_TEXTS)))
def test_the_seeds_as_a_card(text: bytes) -> None:
    for body in (text, b'{"name":"x","skills":' + text + b"}", b'{"name":' + text + b"}"):
        try:
            read_card(body)
        except A2AJSONError as error:
            assert_short(error)


@examples(40)
@given(
    status=st.sampled_from([200, 204, 301, 302, 304, 307, 400, 404, 405, 410, 500]),
    headers=st.lists(
        st.tuples(
            st.sampled_from(["cache-control", "etag", "location", "content-type", "retry-after"]),
            st.one_of(
                damaged([b"max-age=60", b'W/"x"', b"https://b.example/c.json", b"/c", b"no-store"]),
                st.binary(max_size=20),
            ).map(lambda raw: raw.decode("latin-1").translate({10: "", 13: "", 0: ""})),
        ),
        max_size=3,
    ),
    body=mutated(AGENT_CARDS).map(wire),
)
@example(status=200, headers=[("cache-control", "max-age=" + "9" * 9)], body=wire(AGENT_CARDS[0]))
@example(status=302, headers=[("location", "http://[")], body=b"")
@example(status=302, headers=[("location", "//")], body=b"")
@example(status=302, headers=[("location", "http://x:99999/")], body=b"")
def test_a_card_is_looked_for_within_bounds(
    status: int, headers: list[tuple[str, str]], body: bytes
) -> None:
    rules = CardRules(clock=lambda: 0.0)
    asked = 0
    for _ in range(2):  # the second time with what was kept of the first
        flow = rules.resolve("https://a.example")
        sent: Reply | None = None
        try:
            while True:
                step = flow.send(sent)
                if isinstance(step, Wait):
                    assert 0 <= step.seconds <= 60
                    sent = None
                    continue
                assert isinstance(step, Request)
                assert step.url.startswith(("http://", "https://"))
                asked += 1
                assert asked < 40
                sent = Reply(ResponseHead(status, Headers(headers)), body)
        except StopIteration as done:
            assert_card(done.value)
        except A2AError as error:
            assert_short(error)


# Whole answers


def channels() -> list[Any]:
    ids = count(1)
    return [
        JsonRpcChannel("https://a.example", V10, SETTINGS, ids),
        JsonRpcChannel("https://a.example", V03, SETTINGS, ids),
        RestChannel("https://a.example", SETTINGS),
        RestChannel("https://a.example", SETTINGS, None, V03_REST),
    ]


ANSWERS = st.one_of(
    mutated(RESULTS).map(lambda value: {"jsonrpc": "2.0", "id": 1, "result": value}),
    mutated(ERRORS).map(lambda value: {"jsonrpc": "2.0", "id": 1, "error": value}),
    mutated(ERRORS).map(lambda value: {"error": value}),
    mutated([{"jsonrpc": "2.0", "id": 1, "result": EVENTS[0]}]),
    mutated(RESULTS),
    anything("jsonrpc", "id", "result", "error"),
)


def check_call(call: Any, status: int, body: bytes) -> None:
    """Read a body in each way that there is."""
    for read in (
        (call.parse_response, call.parse_event)
        if call.operation.streams
        else (call.parse_response,)
    ):
        try:
            read(body)
        except A2AError as error:
            assert_short(error)
    head = ResponseHead(status, Headers({"content-type": "application/json"}.items()))
    assert isinstance(call.response_error(head, body), A2AError)


@examples(40)
@given(
    body=ANSWERS.map(wire) | damaged([wire(result) for result in RESULTS]) | st.binary(max_size=60),
    status=st.sampled_from([200, 400, 401, 404, 429, 500]),
    name=st.sampled_from(sorted(OPERATIONS)),
)
@example(body=wire({"id": 1, "result": {"task": 7}}), status=200, name="send_message")
@example(body=wire({"id": 1, "error": {"code": "x"}}), status=200, name="get_task")
@example(
    body=wire({"id": 1, "error": {"code": 1e400, "message": None}}), status=500, name="get_task"
)
@example(body=wire({"error": {"details": 7, "code": []}}), status=404, name="get_task")
def test_an_answer_or_an_error_of_ours(body: bytes, status: int, name: str) -> None:
    for channel in channels():
        if name not in channel.dialect.methods:
            continue
        check_call(channel.call(OPERATIONS[name], {"id": "t"}), status, body)


@pytest.mark.parametrize("text", JSON_TEXTS, ids=range(len(JSON_TEXTS)))
def test_the_seeds_as_answers(text: bytes) -> None:
    for name in ("resubscribe", "get_task", "list_push_configs", "get_extended_card"):
        for channel in channels():
            call = channel.call(OPERATIONS[name], {"id": "t"})
            for body in (text, b'{"id":1,"result":' + text + b"}", b'{"error":' + text + b"}"):
                check_call(call, 400, body)


# Streams


PIECES = st.one_of(
    mutated(EVENTS),
    mutated(OLD_EVENTS),
    st.sampled_from(EVENTS),
    mutated(ERRORS).map(lambda error: {"!error": error}),
)
EVENT_IDS = st.none() | st.text(max_size=8)
LEGS = st.lists(
    st.tuples(st.lists(st.tuples(PIECES, EVENT_IDS), max_size=4), st.booleans()),
    min_size=1,
    max_size=4,
)


def told(request: Request, piece: Any, event_id: str | None) -> bytes:
    member = {"error": piece["!error"]} if "!error" in piece else {"result": piece}
    if request.content:
        member |= {"jsonrpc": "2.0", "id": json.loads(request.content).get("id")}
    try:
        return encode_event(wire(member), id=event_id)
    except (ValueError, UnicodeEncodeError):
        return b"id: \xff\x85\ndata: " + wire(member) + b"\n\n"


class Agent:
    """Tells its legs, one for each connection, then nothing more."""

    def __init__(self, legs: list[Any]) -> None:
        self._legs = iter(legs)

    def __call__(self, request: Request) -> Connection:
        pieces, broken = next(self._legs, ([], False))
        if "Task" in str(request.content) and "Get" in str(request.content) and pieces:
            body = told(request, pieces[0][0], None).partition(b"data: ")[2]
            return Connection([body], headers={"content-type": "application/json"}, body=body)
        return Connection(list(self._events(request, pieces)), failure() if broken else None)

    def _events(self, request: Request, pieces: list[Any]) -> Iterator[bytes]:
        for piece, event_id in pieces:
            yield told(request, piece if isinstance(piece, dict) else {"x": piece}, event_id)


@examples(25)
@given(
    legs=LEGS,
    version=st.sampled_from(["1.0", "0.3", "rest"]),
    shell=st.sampled_from(sorted(SHELLS)),
)
@example(legs=[([(EVENTS[0], "\x9b\u202e")], True)], version="1.0", shell="sync")
@example(
    legs=[([(EVENTS[0], " x")], True), ([(EVENTS[3], None)], True)], version="1.0", shell="sync"
)
def test_a_stream_ends_with_events_or_an_error_of_ours(
    legs: list[Any], version: str, shell: str
) -> None:
    rest = version == "rest"
    route, _ = route_to("1.0" if rest else version, settings=SETTINGS, rest=rest)
    network = Network(Agent(legs))
    outcome = SHELLS[shell](machine_for(route), network)
    assert len(network.requests) < 100
    assert outcome.error is None or len(str(outcome.error)) < 3_000
    for cursor in network.cursors:
        assert cursor is None or (cursor.isprintable() and cursor == cursor.strip())
