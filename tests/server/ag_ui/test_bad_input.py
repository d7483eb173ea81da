"""Inputs that are refused with one sentence that names the field, and settings."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from coreason_client.errors import ArgumentError
from coreason_client.server import AGUI, AgentApp
from coreason_client.server.ag_ui._request import RunRequest, run_input
from coreason_client.server.app import parts_of as parts_of_app
from coreason_client.server.http._problems import Problem

from .serving import Site, run_body, site, user

MAX_BODY = 20_000
OPTIONS = parts_of_app(AgentApp(lambda request: "x")).options


@pytest.fixture(scope="module")
def server() -> Iterator[Site]:
    with site(max_body_bytes=MAX_BODY, max_messages=5) as server:
        yield server


def message(role: Any = "user", **members: Any) -> dict[str, Any]:
    return {"messages": [{"id": "1", "role": role, **members}]}


def content(*parts: Any) -> dict[str, Any]:
    return message(content=[*parts])


def call(**members: Any) -> dict[str, Any]:
    return message("assistant", toolCalls=[{"id": "c", "type": "function", **members}])


def source(kind: Any, value: Any, **members: Any) -> dict[str, Any]:
    return content({"type": "image", "source": {"type": kind, "value": value, **members}})


def resume(*entries: Any) -> dict[str, Any]:
    return {"resume": [*entries]}


# Members of an input, and how the refusal begins.
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"threadId": None}, "threadId must be an id"),
    ({"threadId": 7}, "threadId must be an id"),
    ({"threadId": ""}, "threadId must be an id"),
    ({"threadId": "x" * 257}, "threadId must be an id"),
    ({"threadId": "a\nb"}, "threadId must be an id"),
    ({"threadId": {}}, "threadId must be an id"),
    ({"runId": None}, "runId must be an id"),
    ({"runId": True}, "runId must be an id"),
    ({"runId": ""}, "runId must be an id"),
    ({"runId": "x" * 257}, "runId must be an id"),
    ({"runId": "\x00"}, "runId must be an id"),
    ({"runId": ["r"]}, "runId must be an id"),
    ({"parentRunId": 7}, "parentRunId must be an id"),
    ({"parentRunId": ""}, "parentRunId must be an id"),
    ({"protocolVersion": 1.0}, "protocolVersion must be text"),
    ({"messages": None}, "messages must be a list"),
    ({"messages": "Hello"}, "messages must be a list"),
    ({"messages": {}}, "messages must be a list"),
    ({"messages": ["Hello"]}, "messages must be a list of objects"),
    ({"messages": [None]}, "messages must be a list of objects"),
    ({"messages": [{"role": "user", "content": "x"}]}, "messages.0.id must be text"),
    ({"messages": [{"id": 1, "role": "user", "content": "x"}]}, "messages.0.id must be text"),
    ({"messages": [user("x"), {"id": "2"}]}, "messages.1.role must be one of user, assistant"),
    (message(None, content="x"), "messages.0.role must be one of"),
    (message(7, content="x"), "messages.0.role must be one of"),
    (message("robot", content="x"), "messages.0.role must be one of"),
    (message(["user"], content="x"), "messages.0.role must be one of"),
    (message(), "messages.0.content must be text or a list"),
    (message(content=None), "messages.0.content must be text or a list"),
    (message(content=7), "messages.0.content must be text or a list"),
    (message(content={}), "messages.0.content must be text or a list"),
    (content("x"), "messages.0.content.0 must be a part"),
    (content(None), "messages.0.content.0 must be a part"),
    (content({}), "messages.0.content.0 must be a part"),
    (content({"type": ["text"]}), "messages.0.content.0 must be a part"),
    (content({"type": "text"}), "messages.0.content.0 must be a part"),
    (content({"type": "text", "text": 7}), "messages.0.content.0 must be a part"),
    (content({"type": "text", "text": "x"}, {"type": "poem"}), "messages.0.content.1 must be"),
    (content({"type": "image"}), "messages.0.content.0 must be a part"),
    (content({"type": "image", "source": "x"}), "messages.0.content.0 must be a part"),
    (source("data", "eA=="), "messages.0.content.0 must be a part"),
    (source("data", 7, mimeType="image/png"), "messages.0.content.0 must be a part"),
    (source("url", None), "messages.0.content.0 must be a part"),
    (source("url", "https://a.example", mimeType=7), "messages.0.content.0 must be a part"),
    (source("url", "data:text/plain,x"), "messages.0.content.0 must be a part"),
    (source("other", "x"), "messages.0.content.0 must be a part"),
    (source(["url"], "x"), "messages.0.content.0 must be a part"),
    (content({"type": "binary"}), "messages.0.content.0 must be a part"),
    (content({"type": "binary", "mimeType": 7, "data": "x"}), "messages.0.content.0 must be"),
    (content({"type": "binary", "mimeType": "a/b", "url": 7}), "messages.0.content.0 must be"),
    (content({"type": "binary", "data": "x"}), "messages.0.content.0 must be a part"),
    (message("system"), "messages.0.content must be text"),
    (message("system", content=[]), "messages.0.content must be text"),
    (message("developer", content=7), "messages.0.content must be text"),
    (message("reasoning"), "messages.0.content must be text"),
    (message("reasoning", content={}), "messages.0.content must be text"),
    (message("assistant", content=7), "messages.0.content must be text or a list"),
    (message("assistant", toolCalls=7), "messages.0.toolCalls must be a list of objects"),
    (message("assistant", toolCalls=["c"]), "messages.0.toolCalls must be a list of objects"),
    (call(), "messages.0.toolCalls.0 must have an id and a function"),
    (call(function="f"), "messages.0.toolCalls.0 must have an id and a function"),
    (call(id=None, function={"name": "f"}), "messages.0.toolCalls.0 must have an id"),
    (call(function={}), "messages.0.toolCalls.0: a call needs a name and an id"),
    (call(function={"name": 7}), "messages.0.toolCalls.0: a call needs a name and an id"),
    (message("tool", toolCallId="c"), "messages.0.content must be text or a list"),
    (message("tool", content="x"), "messages.0.toolCallId must be text"),
    (message("tool", content="x", toolCallId=7), "messages.0.toolCallId must be text"),
    (message("tool", content=[7], toolCallId="c"), "messages.0.content.0 must be a part"),
    (message("tool", content="x", toolCallId="c", error=7), "messages.0.error must be text"),
    ({"tools": 7}, "tools must be a list of objects"),
    ({"tools": ["f"]}, "tools must be a list of objects"),
    ({"tools": [{}]}, "tools.0.name must be text"),
    ({"tools": [{"name": "f"}, {"name": 7}]}, "tools.1.name must be text"),
    ({"context": "x"}, "context must be a list of objects"),
    ({"context": [7]}, "context must be a list of objects"),
    ({"resume": 7}, "resume must be a list of objects"),
    (resume(7), "resume must be a list of objects"),
    (resume({}), "resume.0.interruptId must be text"),
    (resume({"interruptId": 7, "status": "resolved"}), "resume.0.interruptId must be text"),
    (resume({"interruptId": "x"}), "resume.0.status must be resolved or cancelled"),
    (resume({"interruptId": "x", "status": ["resolved"]}), "resume.0.status must be"),
    ({"messages": [user("x", str(n)) for n in range(6)]}, "A request may have at most 5 messages"),
]


@pytest.mark.parametrize(("members", "detail"), REFUSED, ids=lambda value: str(value)[:60])
def test_an_input_is_refused(server: Site, members: dict[str, Any], detail: str) -> None:
    answer = server.post(run_body(**members))
    assert answer.status_code == 400, answer.text
    problem = answer.json()
    assert problem["detail"].startswith(detail)
    assert problem["detail"].endswith(".")
    assert problem["errors"][0]["msg"] == problem["detail"]
    assert not server.agent.runs


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b'"x"', 400),
        (b"{}", 400),
        (b"\xff{}", 400),
        (b'{"threadId": "\\ud800"}', 400),
        (b"{" + b" " * MAX_BODY + b"}", 413),
        (b"[" * 10_000, 400),
    ],
)
def test_a_body_is_refused(server: Site, body: bytes, status: int) -> None:
    answer = server.post(body)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


def test_another_content_type_is_refused(server: Site) -> None:
    headers = {"Authorization": "Bearer ann-key", "Content-Type": "text/plain"}
    body = json.dumps(run_body()).encode()
    assert server.http.post("/ag-ui", content=body, headers=headers).status_code == 415


ACCEPTED: list[dict[str, Any]] = [
    {"messages": []},
    {"tools": None, "context": None, "state": None, "forwardedProps": None, "resume": None},
    {"parentRunId": None, "protocolVersion": None, "resume": []},
    {"tools": [], "context": [], "state": [1], "forwardedProps": "x", "unknown": 7},
    message(content="x", name=None),
    message(content="x", toolCalls=7),
    message("assistant"),
    message("assistant", content=None, toolCalls=None, name="n"),
    message("activity", activityType="a", content={"b": 1}),
    call(function={"name": "f", "arguments": "{not json"}),
    message("tool", toolCallId="c", content="", error=None),
    source("file", "file-1", provider="openai"),
]


@pytest.mark.parametrize("members", ACCEPTED, ids=lambda value: str(value)[:60])
def test_an_input_is_accepted(members: dict[str, Any]) -> None:
    with site() as server:
        body = run_body(**members)
        for _ in range(2):  # the second gets a snapshot
            assert server.events(body)[-1]["type"] == "RUN_FINISHED"


_NAMES = st.sampled_from(
    [
        *("id", "role", "content", "toolCalls", "toolCallId", "error", "name", "type", "text"),
        *("source", "value", "mimeType", "function", "arguments", "interruptId", "status", "data"),
    ]
)
_VALUES = st.sampled_from(
    [
        *("", "x", "user", "assistant", "tool", "reasoning", "activity", "system", "text", "image"),
        *("binary", "url", "file", "resolved", "cancelled", "data:,x", f"question_{'0' * 32}"),
    ]
)
_ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 1) | st.floats(allow_nan=False) | _VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=5),
    max_leaves=12,
)
_MESSAGE = st.dictionaries(_NAMES, _ANY, max_size=4).map(lambda one: {"id": "1", **one})
_BODY = st.dictionaries(
    st.sampled_from(["threadId", "runId", "parentRunId", "tools", "context", "resume", "state"]),
    _ANY,
)


@given(_BODY, st.lists(_MESSAGE | _ANY, max_size=3) | _ANY)
def test_any_body_is_read_or_refused(body: dict[str, Any], messages: Any) -> None:
    asked = RunRequest(Request({"type": "http", "headers": []}), OPTIONS)
    values = {"threadId": "t", "runId": "r", **body, "messages": messages}
    refusal = None
    try:
        asked.parse(json.dumps(values).encode())
    except Problem as problem:
        refusal = (problem.status, problem.detail[-1])
    else:
        assert asked.run.tools is not None
        assert asked.run.call_ids is not None
    assert refusal in (None, (400, "."))


# What the parts of messages become.


def parts_of(members: dict[str, Any]) -> list[dict[str, Any]]:
    [read] = run_input(run_body(**members)).messages
    return [part.model_dump(exclude_none=True) for part in read.parts]


def test_parts_of_a_user_message() -> None:
    parts = parts_of(
        content(
            {"type": "text", "text": "Look:"},
            {"type": "image", "source": {"type": "data", "value": "eA==", "mimeType": "image/png"}},
            {"type": "audio", "source": {"type": "url", "value": "https://a.example/b"}},
            {"type": "video", "source": {"type": "url", "value": "data:video/x;base64,eA=="}},
            {"type": "document", "source": {"type": "file", "value": "f1", "mimeType": "a/b"}},
            {"type": "image", "source": {"type": "url", "value": "u", "mimeType": "image/x"}},
            {"type": "binary", "mimeType": "image/png", "data": "eA=="},
            {"type": "binary", "mimeType": "text/plain", "url": "https://a.example/c"},
            {"type": "binary", "mimeType": "audio/x", "id": "f2"},
        )
    )
    assert parts == [
        {"type": "text", "content": "Look:"},
        {"type": "blob", "content": "eA==", "mime_type": "image/png", "modality": "image"},
        {"type": "uri", "uri": "https://a.example/b", "modality": "audio"},
        {"type": "blob", "content": "eA==", "mime_type": "video/x", "modality": "video"},
        {"type": "file", "file_id": "f1", "mime_type": "a/b", "modality": "document"},
        {"type": "uri", "uri": "u", "mime_type": "image/x", "modality": "image"},
        {"type": "blob", "content": "eA==", "mime_type": "image/png", "modality": "image"},
        {
            "type": "uri",
            "uri": "https://a.example/c",
            "mime_type": "text/plain",
            "modality": "document",
        },
        {"type": "file", "file_id": "f2", "mime_type": "audio/x", "modality": "audio"},
    ]


def test_messages_of_other_roles() -> None:
    assert parts_of(message("developer", content="Be short.")) == [
        {"type": "text", "content": "Be short."}
    ]
    assert parts_of(message("reasoning", content="Hm.")) == [
        {"type": "reasoning", "content": "Hm."}
    ]
    made = message("assistant", content="Yes", **call(function={"name": "f", "arguments": "[1]"}))
    made["messages"][0] |= call(function={"name": "f", "arguments": "[1]"})["messages"][0]
    assert parts_of(made) == [
        {"type": "text", "content": "Yes"},
        {"type": "tool_call", "name": "f", "id": "c", "arguments": [1]},
    ]
    assert parts_of(message("tool", toolCallId="c", content="x")) == [
        {"type": "tool_call_response", "id": "c", "response": "x"}
    ]
    failed = message("tool", toolCallId="c", content="x", error="No.")
    assert parts_of(failed)[0]["response"] == {"content": "x", "error": "No."}
    roles = [("system", "system"), ("developer", "system"), ("reasoning", "assistant")]
    for role, ours in roles:
        [read] = run_input(run_body(**message(role, content="x"))).messages
        assert str(read.role) == ours
    assert not run_input(run_body(**message("activity", content={}))).messages


# Settings.


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *(("path", one) for one in ("", "/", "ag-ui", "/ag-ui/", "/a{b}", "//", "/a b", None)),
        *(("interrupts", one) for one in (1, "yes", None)),
        *(("max_tool_result", one) for one in (-1, 1.0, "1", True)),
    ],
)
def test_a_setting_is_refused(argument: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=argument):
        AGUI(**{argument: value})


def test_other_settings_are_refused() -> None:
    with pytest.raises(ArgumentError, match="must be True, False or an AGUI"):
        AgentApp(lambda request: "x", ag_ui="/ag-ui")  # type: ignore[arg-type]


def test_without_the_setting_there_is_no_route() -> None:
    with site(ag_ui=False) as server:
        assert server.post(run_body()).status_code == 404
