"""The envelope of a request: session, request and service (RFC 004)."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from coreason_manifest.definitions import service
from coreason_manifest.definitions.message import ChatMessage
from coreason_manifest.definitions.presentation import PresentationEventType
from coreason_manifest.definitions.request import AgentRequest, ClientCapabilities
from coreason_manifest.definitions.service import (
    HealthCheckResponse,
    ServiceRequest,
    ServiceResponse,
)
from coreason_manifest.definitions.session import SessionContext, TraceContext, UserContext

Fields = dict[str, Any]

IDS = [f"00000000-0000-0000-0000-00000000000{n}" for n in range(1, 5)]
CONTEXT: Fields = {"session_id": "sess_abc", "user_id": "user_123"}
MESSAGE: Fields = {"role": "user", "parts": [{"type": "text", "content": "Hi"}]}
REQUEST: Fields = {"request_id": IDS[0], "context": CONTEXT, "payload": {"messages": [MESSAGE]}}


def printed_request(request_id: UUID) -> ServiceRequest:
    """Build the envelope with the calls of RFC 004, scenario B."""
    context = SessionContext(
        user_id="user_123",
        session_id="sess_abc",
    )
    payload = AgentRequest(
        messages=[
            ChatMessage.user("Analyze this data."),
        ]
    )
    return ServiceRequest(request_id=request_id, context=context, payload=payload)


@pytest.mark.proves("RFC004-4-scenario-b-models", "R16a", "R16b")
def test_the_printed_envelope() -> None:
    request_id = uuid4()
    request = printed_request(request_id)
    assert request.request_id == request_id
    assert request.context.user_id == "user_123"
    assert request.context.session_id == "sess_abc"
    assert request.payload.messages == [ChatMessage.user("Analyze this data.")]


@pytest.mark.proves("RFC004-2.1-envelope", "RFC004-1-service")
def test_an_envelope_parses_back_from_its_json() -> None:
    request = printed_request(uuid4())
    assert list(request.dump()) == ["request_id", "context", "payload"]
    assert ServiceRequest.model_validate_json(request.to_json()) == request
    assert ServiceRequest.model_validate(request.dump()) == request


@pytest.mark.proves("RFC004-2.1-envelope")
def test_an_envelope_gets_an_id_of_its_own() -> None:
    values = {name: REQUEST[name] for name in ("context", "payload")}
    one, two = (ServiceRequest.model_validate(values) for _ in range(2))
    assert one.request_id != two.request_id


@pytest.mark.parametrize(
    "wrong",
    [
        {"context": None},
        {"payload": None},
        {"request_id": None},
        {"request_id": "x"},
        {"request_id": 7},
        {"context": "sess_abc"},
        {"context": {"user_id": "user_123"}},
        {"context": {"session_id": "sess_abc"}},
        {"context": CONTEXT | {"session_id": 7}},
        {"payload": "Hi"},
        {"payload": []},
        {"payload": {}},
        {"payload": {"messages": "Hi"}},
        {"payload": {"messages": ["Hi"]}},
        {"payload": {"messages": [{"role": "user"}]}},
    ],
    ids=json.dumps,
)
@pytest.mark.proves("RFC004-2.1-envelope-invalid")
def test_an_ill_typed_envelope_is_refused(wrong: Fields) -> None:
    with pytest.raises(ValidationError):
        ServiceRequest.model_validate(REQUEST | wrong)
    with pytest.raises(ValidationError):
        ServiceRequest.model_validate_json(json.dumps(REQUEST | wrong))


@pytest.mark.parametrize("missing", ["context", "payload"])
@pytest.mark.proves("RFC004-2.1-envelope-invalid")
def test_an_incomplete_envelope_is_refused(missing: str) -> None:
    values = {name: value for name, value in REQUEST.items() if name != missing}
    with pytest.raises(ValidationError, match=missing):
        ServiceRequest(**values)


@pytest.mark.proves("RFC004-1-service")
def test_the_module_defines_the_envelope() -> None:
    assert "ServiceRequest" in service.__all__


# The context


@pytest.mark.proves("R16a", "R16c")
def test_a_context_has_defaults_for_all_but_session_and_user() -> None:
    before = datetime.now(UTC)
    context = SessionContext(user_id="user_123", session_id="sess_abc")
    assert (context.agent_id, context.user, context.trace) == (None, None, None)
    assert context.permissions == []
    assert before <= context.created_at <= datetime.now(UTC)
    assert context.dump().keys() == {"session_id", "user_id", "permissions", "created_at"}


@pytest.mark.proves("R16c")
def test_a_context_takes_every_field() -> None:
    values = CONTEXT | {
        "agent_id": "agent_1",
        "user": {
            "user_id": "user_123",
            "email": "a@example.com",
            "tier": "pro",
            "locale": "de-DE",
        },
        "trace": {"trace_id": "t", "span_id": "s", "parent_id": "p"},
        "permissions": ["read", "write"],
        "created_at": "2023-10-27T10:00:00Z",
    }
    context = SessionContext.model_validate(values)
    assert context.user == UserContext(
        user_id="user_123", email="a@example.com", tier="pro", locale="de-DE"
    )
    assert context.trace == TraceContext(trace_id="t", span_id="s", parent_id="p")
    assert context.dump() == values


@pytest.mark.parametrize("user", [{"user_id": "user_123"}, UserContext(user_id="user_123")])
@pytest.mark.proves("R16c")
def test_the_user_may_be_named_inside_user_alone(user: Any) -> None:
    context = SessionContext.model_validate({"session_id": "s", "user": user})
    assert context.user_id == "user_123"
    assert SessionContext.model_validate_json(context.to_json()) == context


@pytest.mark.parametrize(
    "values",
    [
        {"session_id": "s", "user": {"user_id": "one"}, "user_id": "two"},
        {"session_id": "s", "user": {"email": "a@example.com"}},
        {"session_id": "s", "user": "one"},
        {"session_id": "s", "user": None},
        {"session_id": "s", "trace": {"trace_id": "t"}, "user_id": "one"},
        "sess_abc",
        None,
    ],
)
@pytest.mark.proves("R16c")
def test_a_context_that_contradicts_itself_or_names_no_user_is_refused(values: object) -> None:
    with pytest.raises(ValidationError):
        SessionContext.model_validate(values)


def test_building_a_context_does_not_change_the_callers_dict() -> None:
    values = {"session_id": "s", "user": {"user_id": "one"}}
    SessionContext.model_validate(values)
    assert values == {"session_id": "s", "user": {"user_id": "one"}}


# The request


@pytest.mark.proves("R16b", "R16d", "R16e")
def test_a_request_has_defaults_for_all_but_its_messages() -> None:
    before = datetime.now(UTC)
    request = AgentRequest(messages=[ChatMessage.user("Hi")])
    assert (request.session_id, request.parent_request_id) == (None, None)
    assert (request.payload, request.capabilities) == (None, None)
    assert request.metadata == {}
    assert before <= request.timestamp <= datetime.now(UTC)
    assert request.root_request_id == request.request_id
    assert request.request_id != AgentRequest(payload={}).request_id


@pytest.mark.proves("R16d")
def test_a_request_takes_every_field() -> None:
    values = {
        "request_id": IDS[0],
        "session_id": "sess_abc",
        "root_request_id": IDS[1],
        "parent_request_id": IDS[2],
        "timestamp": "2023-10-27T10:00:00Z",
        "messages": [MESSAGE],
        "payload": {"question": None},
        "capabilities": {
            "supported_events": ["CITATION_BLOCK", "HOLOGRAM"],
            "prefers_markdown": False,
            "image_resolution": "1024x768",
        },
        "metadata": {"a": [1]},
    }
    request = AgentRequest.model_validate(values)
    assert request.capabilities == ClientCapabilities(
        supported_events=[PresentationEventType.CITATION_BLOCK, "HOLOGRAM"],
        prefers_markdown=False,
        image_resolution="1024x768",
    )
    assert request.dump() == values


@pytest.mark.proves("R16d")
def test_capabilities_have_defaults() -> None:
    assert ClientCapabilities().dump() == {"supported_events": [], "prefers_markdown": True}


@pytest.mark.parametrize(
    ("root", "parent", "expected"),
    [
        pytest.param(None, None, IDS[0], marks=pytest.mark.proves("R16e"), id="its own root"),
        pytest.param(IDS[1], None, IDS[1], id="a root alone"),
        pytest.param(IDS[1], IDS[2], IDS[1], id="a root and a parent"),
        pytest.param(
            None, IDS[2], None, marks=pytest.mark.proves("R16f"), id="a parent without a root"
        ),
    ],
)
def test_the_root_of_a_request(root: str | None, parent: str | None, expected: str | None) -> None:
    values = {"request_id": IDS[0], "payload": {}}
    values |= {"root_request_id": root} if root else {}
    values |= {"parent_request_id": parent} if parent else {}
    if expected is None:
        with pytest.raises(ValidationError, match="root_request_id"):
            AgentRequest.model_validate(values)
        return
    request = AgentRequest.model_validate(values)
    assert str(request.root_request_id) == request.dump()["root_request_id"] == expected
    assert AgentRequest.model_validate_json(request.to_json()) == request


@pytest.mark.parametrize(
    ("values", "accepted"),
    [
        ({"messages": [MESSAGE]}, True),
        ({"payload": {"a": 1}}, True),
        ({"payload": {}}, True),
        ({"messages": [MESSAGE], "payload": {"a": 1}}, True),
        ({"messages": None, "payload": {"a": 1}}, True),
        ({}, False),
        ({"messages": None}, False),
        ({"payload": None}, False),
        ({"messages": None, "payload": None}, False),
        ({"metadata": {"a": 1}}, False),
    ],
)
@pytest.mark.proves("R16g")
def test_a_request_has_messages_or_a_payload(values: Fields, accepted: bool) -> None:
    if accepted:
        assert (
            AgentRequest.model_validate(values).dump().items()
            >= {name: value for name, value in values.items() if value is not None}.items()
        )
    else:
        with pytest.raises(ValidationError, match="messages, payload or both"):
            AgentRequest.model_validate(values)


# The answers


def test_the_answer_to_a_unary_call() -> None:
    answer = ServiceResponse(request_id=UUID(IDS[0]), output={"text": None})
    assert answer.metrics is None
    assert answer.created_at.tzinfo is UTC
    assert ServiceResponse.model_validate_json(answer.to_json()) == answer


@pytest.mark.parametrize("wrong", [{}, {"request_id": IDS[0]}, {"output": {}}])
def test_an_answer_needs_its_request_and_an_output(wrong: Fields) -> None:
    with pytest.raises(ValidationError):
        ServiceResponse.model_validate(wrong)


@pytest.mark.parametrize(
    ("status", "accepted"),
    [("ok", True), ("degraded", True), ("maintenance", True), ("ill", False)],
)
def test_the_health_check(status: str, accepted: bool) -> None:
    values = {"status": status, "agent_id": "a", "version": "1.0", "uptime_seconds": 2.5}
    if accepted:
        assert HealthCheckResponse.model_validate(values).dump() == values
    else:
        with pytest.raises(ValidationError, match="status"):
            HealthCheckResponse.model_validate(values)


# Any envelope survives its own JSON.

texts = st.text(max_size=10)
objects = st.dictionaries(
    texts,
    st.none() | st.booleans() | st.integers() | texts | st.lists(texts, max_size=2),
    max_size=3,
)
messages = st.one_of(
    st.builds(ChatMessage.user, texts, st.none() | texts),
    st.builds(ChatMessage.assistant, texts, st.none() | texts),
    st.builds(ChatMessage.tool, st.none() | texts, objects, st.none() | texts),
)
envelopes = st.builds(
    ServiceRequest,
    request_id=st.uuids(),
    context=st.builds(
        SessionContext,
        session_id=texts,
        user_id=texts,
        agent_id=st.none() | texts,
        trace=st.none()
        | st.builds(TraceContext, trace_id=texts, span_id=texts, parent_id=st.none() | texts),
        permissions=st.lists(texts, max_size=2),
    ),
    payload=st.builds(
        AgentRequest,
        session_id=st.none() | texts,
        root_request_id=st.none() | st.uuids(),
        messages=st.lists(messages, max_size=2),
        payload=st.none() | objects,
        capabilities=st.none()
        | st.builds(
            ClientCapabilities,
            supported_events=st.lists(st.sampled_from(PresentationEventType), max_size=2),
            prefers_markdown=st.booleans(),
        ),
        metadata=objects,
    ),
)


@given(envelopes)
@settings(max_examples=100, deadline=None)
@pytest.mark.proves("RFC004-2.1-envelope")
def test_any_envelope_parses_back_from_its_json(envelope: ServiceRequest) -> None:
    parsed = ServiceRequest.model_validate_json(envelope.to_json())
    assert parsed == envelope
    assert parsed.to_json() == envelope.to_json()
