"""Requests that are refused: one sentence names the field, and it is never the server's error."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.errors import ArgumentError
from coreason_client.server import AISDK, AgentApp

from .pages import Pages
from .serving import KEY, Agent, Site, body, peer, said, site, user

MAX_BODY = 20_000
ASKED = body("c", user("Hi"))
FILE: dict[str, Any] = {"type": "file", "mediaType": "image/png", "url": "https://a.example/x.png"}
TOOL: dict[str, Any] = {
    "type": "dynamic-tool",
    "toolName": "f",
    "toolCallId": "c1",
    "state": "output-available",
    "input": {},
    "output": 1,
}
ANSWERED: dict[str, Any] = {
    **TOOL,
    "state": "approval-responded",
    "approval": {"id": f"question_{'0' * 32}", "approved": True},
}


def message(*parts: Any, role: Any = "user", **more: Any) -> dict[str, Any]:
    return {"id": "m", "role": role, "parts": [*parts], **more}


def asked(**values: Any) -> dict[str, Any]:
    return {**ASKED, **values}


def in_message(*parts: Any, **more: Any) -> dict[str, Any]:
    return asked(messages=[message(*parts, **more)])


def only(**values: Any) -> dict[str, Any]:
    """Return a body with one message of a conversation that the server knows."""
    return {"id": "c", "message": user("Hi"), **values}


def without(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {other: value for other, value in values.items() if other != name}


@pytest.fixture(scope="module")
def server() -> Iterator[Site]:
    with site(max_body_bytes=MAX_BODY, max_messages=5, max_parts=8) as server:
        yield server


@pytest.fixture(scope="module")
def http(server: Site) -> Iterator[httpx2.Client]:
    with peer(server.url) as http:
        yield http


BODIES: list[tuple[Any, str]] = [
    (asked(messages=None), "messages"),
    (asked(messages="Hi"), "messages"),
    (asked(messages=7), "messages"),
    (asked(messages={}), "messages"),
    (asked(messages=[]), "messages"),
    ({"id": "c"}, "messages"),
    ({}, "messages"),
    ({"message": None, "id": "c"}, "messages"),
    (asked(messages=[None]), "messages.0"),
    (asked(messages=["Hi"]), "messages.0"),
    (asked(messages=[7]), "messages.0"),
    (asked(messages=[[]]), "messages.0"),
    (asked(messages=[user("Hi"), 7]), "messages.1"),
    (asked(messages=[{}]), "messages.0.role"),
    (asked(messages=[{"parts": []}]), "messages.0.role"),
    (in_message(role=None), "messages.0.role"),
    (in_message(role=7), "messages.0.role"),
    (in_message(role=["user"]), "messages.0.role"),
    (in_message(role={"user": 1}), "messages.0.role"),
    (in_message(role="tool"), "messages.0.role"),
    (in_message(role="User"), "messages.0.role"),
    (in_message(role="data"), "messages.0.role"),
    (asked(messages=[{"role": "user"}]), "messages.0.parts"),
    (asked(messages=[{"role": "user", "content": "Hi"}]), "messages.0.parts"),
    (asked(messages=[{"role": "user", "parts": None}]), "messages.0.parts"),
    (asked(messages=[{"role": "user", "parts": "Hi"}]), "messages.0.parts"),
    (asked(messages=[{"role": "user", "parts": {}}]), "messages.0.parts"),
    (in_message(None), "messages.0.parts.0"),
    (in_message("Hi"), "messages.0.parts.0"),
    (in_message(7), "messages.0.parts.0"),
    (in_message([]), "messages.0.parts.0"),
    (in_message({}), "messages.0.parts.0"),
    (in_message({"type": None}), "messages.0.parts.0"),
    (in_message({"type": 7}), "messages.0.parts.0"),
    (in_message({"type": ["text"]}), "messages.0.parts.0"),
    (in_message({"type": "text"}), "messages.0.parts.0.text"),
    (in_message({"type": "text", "text": None}), "messages.0.parts.0.text"),
    (in_message({"type": "text", "text": 7}), "messages.0.parts.0.text"),
    (in_message({"type": "text", "text": ["Hi"]}), "messages.0.parts.0.text"),
    (in_message({"type": "text", "text": "Hi"}, {"type": "text"}), "messages.0.parts.1.text"),
    (in_message({"type": "reasoning"}), "messages.0.parts.0.text"),
    (in_message({"type": "reasoning", "text": 7}), "messages.0.parts.0.text"),
    (in_message({"type": "file"}), "messages.0.parts.0.mediaType"),
    (in_message({**FILE, "mediaType": 7}), "messages.0.parts.0.mediaType"),
    (in_message({**FILE, "url": None}), "messages.0.parts.0.url"),
    (in_message({**FILE, "url": 7}), "messages.0.parts.0.url"),
    (in_message({**FILE, "url": "data:image/png,x"}), "messages.0.parts.0.url"),
    (in_message({**FILE, "url": "data:"}), "messages.0.parts.0.url"),
    (in_message({"type": "dynamic-tool"}), "messages.0.parts.0"),
    (in_message({**TOOL, "toolName": None}), "messages.0.parts.0"),
    (in_message({**TOOL, "toolName": 7}), "messages.0.parts.0"),
    (in_message({**TOOL, "toolCallId": 7}), "messages.0.parts.0"),
    (in_message({**TOOL, "toolCallId": {}}), "messages.0.parts.0"),
    (in_message({**TOOL, "toolCallId": None}), "messages.0.parts.0"),
    (in_message({**ANSWERED, "toolCallId": None}, role="assistant"), "messages.0.parts.0"),
    (in_message({**ANSWERED, "toolCallId": 7}, role="assistant"), "messages.0.parts.0"),
    (in_message(without(ANSWERED, "toolCallId"), role="assistant"), "messages.0.parts.0"),
    (in_message({"type": "tool-f", "toolCallId": 7}), "messages.0.parts.0"),
    (in_message({"type": "tool-f"}), "messages.0.parts.0"),
    (asked(messages=[user("Hi"), {**said("Ho"), "id": None}]), "messages"),
    (asked(messages=[user("Hi"), {**said("Ho"), "id": 7}]), "messages"),
    (asked(messages=[user("Hi"), {**said("Ho"), "id": ""}]), "messages"),
    (asked(messages=[user("Hi"), {**said("Ho"), "id": "x" * 257}]), "messages"),
    (asked(messages=[user("Hi"), {**said("Ho"), "id": "a\nb"}]), "messages"),
    (asked(id=""), "id"),
    (asked(id=7), "id"),
    (asked(id=[]), "id"),
    (asked(id={}), "id"),
    (asked(id=False), "id"),
    (asked(id="x" * 257), "id"),
    (asked(id="a\x00b"), "id"),
    (asked(id="a/b"), "id"),
    (asked(id=f"run_{'a' * 32}"), "id"),
    (asked(trigger="submit"), "trigger"),
    (asked(trigger="submit-tool-result"), "trigger"),
    (asked(trigger=7), "trigger"),
    (asked(trigger=["submit-message"]), "trigger"),
    (asked(trigger={"a": 1}), "trigger"),
    (asked(capabilities="reset-step"), "capabilities"),
    (asked(capabilities=7), "capabilities"),
    (asked(capabilities={}), "capabilities"),
    (asked(capabilities=[7]), "capabilities"),
    (asked(capabilities=[["reset-step"]]), "capabilities"),
    (only(id=None), "id"),
    (only(id=""), "id"),
    (only(message="Hi"), "message"),
    (only(message=7), "message"),
    (only(message=[user("Hi")]), "message"),
    (only(message={"role": "user"}), "message.parts"),
    (only(message=message(role="x")), "message.role"),
    (only(message=message({"type": "text"})), "message.parts.0.text"),
    (only(trigger="regenerate-message"), "message"),
    (
        {"messages": [user("Hi"), message(ANSWERED, role="assistant")]},
        "id",
    ),
    (asked(messages=[user("Hi")] * 6), "messages"),
    (in_message(*[{"type": "text", "text": "x"}] * 9), "messages"),
]


@pytest.mark.parametrize(("given_body", "field"), BODIES, ids=range(len(BODIES)))
def test_a_body_is_refused(http: httpx2.Client, given_body: Any, field: str) -> None:
    check(http.post("/api/chat", json=given_body), field)


def check(refused: httpx2.Response, field: str) -> None:
    assert refused.status_code == 400, refused.text
    assert refused.headers["content-type"] == "application/problem+json"
    document = refused.json()
    [error] = document["errors"]
    assert error["loc"] == [field]
    detail = document["detail"]
    assert detail == error["msg"]
    assert detail.endswith(".")
    assert "\n" not in detail


BROKEN: list[tuple[bytes, int]] = [
    (b"", 400),
    (b"{", 400),
    (b"null", 400),
    (b"[]", 400),
    (b'"Hi"', 400),
    (b"7", 400),
    (b"\xff\xfe", 400),
    (b'{"messages": [NaN', 400),
    (b'{"id": "\\ud800", "messages": []}', 400),
    (b'{"messages": ' + b"[" * 5000 + b"]" * 5000 + b"}", 400),
    (b'{"messages": [' + b"9" * 5000 + b"]}", 400),
    (json.dumps(asked(messages=[user("x" * MAX_BODY)])).encode(), 413),
]


@pytest.mark.parametrize(("content", "status"), BROKEN, ids=range(len(BROKEN)))
def test_a_body_that_is_no_object_is_refused(
    http: httpx2.Client, content: bytes, status: int
) -> None:
    for kind in ("application/json", "text/plain"):
        refused = http.post("/api/chat", content=content, headers={"Content-Type": kind})
        assert refused.status_code == status, refused.text
        assert refused.json()["detail"].endswith(".")


@pytest.mark.parametrize(
    "given_index",
    ["", "x", "1.5", "+1", "1_000", "--1", "- 1", "٣", "1" * 16, "0x1", "1e3", "null", "NaN", " 1"],
)
def test_a_start_index_is_refused(http: httpx2.Client, given_index: str) -> None:
    for name in ("c", f"run_{'0' * 32}"):
        path = f"/api/chat/{name}/stream?startIndex={quote(given_index)}"
        check(http.get(path), "startIndex")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/chat", 405),
        ("PUT", "/api/chat", 405),
        ("DELETE", "/api/chat", 405),
        ("POST", "/api/chat/c/stream", 405),
        ("PUT", "/api/chat/c/stream", 405),
        ("GET", "/api/chat/", 405),
        ("GET", "/api/chat/c", 404),
        ("GET", "/api/chat//stream", 404),
        ("GET", "/api/chat/a%2Fb/stream", 404),
        ("GET", "/api/chat/unknown/stream/", 204),
        ("GET", f"/api/chat/run_{'0' * 32}/stream", 404),
        ("GET", f"/api/chat/run_{'0' * 32}/stream?startIndex=3", 404),
        ("GET", f"/api/chat/run_{'0' * 32}/stream?startIndex=-3", 404),
        ("DELETE", f"/api/chat/run_{'0' * 32}/stream", 204),
        ("GET", f"/api/chat/run_{'g' * 32}/stream", 204),
        ("GET", f"/api/chat/run_{'A' * 32}/stream", 204),
        ("GET", f"/api/chat/run_{'0' * 31}/stream", 204),
        ("GET", f"/api/chat/{'x' * 257}/stream", 400),
        ("DELETE", f"/api/chat/{'x' * 257}/stream", 400),
        ("GET", "/api/chat/a%0Ab/stream", 400),
        ("GET", "/api/chat/%00/stream", 400),
        ("GET", "/api/chat/%FF/stream", 204),
        ("GET", "/api/chat/unknown/stream?startIndex=5", 404),
        ("DELETE", "/api/chat/unknown/stream", 204),
        ("DELETE", "/api/chat/unknown/stream?startIndex=x", 204),
    ],
)
def test_paths(http: httpx2.Client, method: str, path: str, status: int) -> None:
    answer = http.request(method, path)
    assert answer.status_code == status
    if status >= 400:
        assert answer.json()["detail"]


def test_an_answer_to_an_unknown_question_is_refused(http: httpx2.Client) -> None:
    for question in (f"question_{'0' * 32}", "question_1", "", None, 7, {"a": 1}):
        part = {**ANSWERED, "approval": {"id": question, "approved": True}}
        given_body = asked(messages=[user("Hi"), message(part, role="assistant")])
        refused = http.post("/api/chat", json=given_body)
        assert refused.status_code == 409, refused.text
        assert refused.json()["type"] == "urn:coreason:problem:question-not-open"


def test_parts_that_only_a_page_needs_are_accepted(http: httpx2.Client) -> None:
    parts = [{"type": kind} for kind in ("step-start", "source-url", "data-x", "custom", "new")]
    posted = http.post("/api/chat", json=in_message(*parts))
    assert posted.status_code == 200
    part = {**ANSWERED, "approval": 7}
    posted = http.post("/api/chat", json=asked(messages=[message(part, role="assistant")]))
    assert posted.status_code == 200


_JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
_KNOWN: dict[str, list[Any]] = {
    "text": ["Hi"],
    "toolCallId": ["c1"],
    "toolName": ["f"],
    "state": ["output-available", "approval-responded", "output-error"],
    "input": [{}],
    "output": [1],
    "approval": [{"id": f"question_{'0' * 32}", "approved": True}],
    "mediaType": ["image/png"],
    "url": ["data:image/png;base64,aGk="],
}
_KINDS = st.sampled_from(["text", "reasoning", "file", "dynamic-tool", "tool-f", "x"])
_PARTS: Any = st.fixed_dictionaries(
    {"type": _KINDS | _JSON},
    optional={name: _JSON | st.sampled_from(known) for name, known in _KNOWN.items()},
)
_MESSAGES: Any = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "system"]) | _JSON,
        "parts": st.lists(_PARTS | _JSON, max_size=3) | _JSON,
    },
    optional={"id": st.just("m") | _JSON, "metadata": _JSON},
)
_BODIES: Any = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["c", "d"]) | _JSON,
        "messages": st.lists(_MESSAGES | _JSON, max_size=3) | _JSON,
        "message": _MESSAGES | _JSON,
        "trigger": st.sampled_from(["submit-message", "regenerate-message"]) | _JSON,
        "capabilities": st.lists(st.sampled_from(["reset-step", "x"])) | _JSON,
        "messageId": _JSON,
        "extra": _JSON,
    },
)


@given(_BODIES | _JSON)
def test_no_body_is_an_error_of_the_server(http: httpx2.Client, given_body: Any) -> None:
    content = json.dumps(given_body).encode()
    answer = http.post("/api/chat", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 400, 409)
    if answer.status_code == 200:
        assert answer.content.endswith(b"data: [DONE]\n\n")


def test_a_page_shows_why_a_request_was_refused(pages: Pages, server: Site) -> None:
    chat = pages.chat(server.api, f"run_{'0' * 32}", key=KEY)
    shown = chat.send("Hi")
    assert shown["status"] == "error"
    assert "id must not be the id of a run." in shown["error"]


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"path": "api/chat"}, "path"),
        ({"path": "/"}, "path"),
        ({"path": 7}, "path"),
        ({"path": "/assist"}, "path"),
        ({"path": "/v1/chat"}, "path"),
        ({"max_tool_result": -1}, "max_tool_result"),
        ({"max_tool_result": True}, "max_tool_result"),
        ({"max_tool_result": 1.5}, "max_tool_result"),
    ],
)
def test_settings_that_are_not_valid(settings: Any, name: str) -> None:
    with pytest.raises(ArgumentError, match=name):
        AISDK(**settings)


def test_the_switch_is_checked() -> None:
    wrong: Any = "yes"
    with pytest.raises(ArgumentError, match="ai_sdk"):
        AgentApp(Agent(), ai_sdk=wrong)
