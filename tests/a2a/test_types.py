"""The types: real-shaped objects in, attributes out, nothing lost, nothing fatal without need."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from pydantic import BaseModel, ValidationError

from coreason_client.a2a import (
    AgentCard,
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
    UnknownEvent,
    types,
)
from coreason_client.a2a._wire import BARE, ENVELOPES, FROM_PYTHON, event_of
from tests.a2a.test_dialects import events, messages, tasks

CARD: dict[str, Any] = {
    "name": "Weather",
    "description": "Tells the weather.",
    "supportedInterfaces": [
        {
            "url": "https://w.example/rpc",
            "protocolBinding": "JSONRPC",
            "protocolVersion": "1.0",
            "tenant": "north",
        }
    ],
    "provider": {"url": "https://w.example", "organization": "W"},
    "version": "1.2",
    "capabilities": {"streaming": True, "extensions": [{"uri": "https://x", "required": True}]},
    "securitySchemes": {
        "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
        "login": {
            "oauth2SecurityScheme": {
                "flows": {"clientCredentials": {"tokenUrl": "https://t"}},
                "oauth2MetadataUrl": "https://m",
            }
        },
    },
    "securityRequirements": [{"schemes": {"key": {"list": []}}}],
    "defaultInputModes": ["text/plain"],
    "skills": [{"id": "s", "name": "S", "description": "", "tags": ["t"], "inputModes": ["x"]}],
    "signatures": [{"protected": "p", "signature": "s", "header": {"kid": "k"}}],
    "iconUrl": None,
    "fromTheFuture": {"x": 1},
}


def test_a_card() -> None:
    card = AgentCard.model_validate(CARD)
    assert card.supported_interfaces[0].protocol_binding == "JSONRPC"
    assert card.supported_interfaces[0].tenant == "north"
    assert card.capabilities.extensions[0].required
    assert card.default_output_modes == []
    login = card.security_schemes["login"].oauth2_security_scheme
    assert login is not None
    assert login.oauth2_metadata_url == "https://m"
    assert card.skills[0].input_modes == ["x"]
    assert card.model_extra == {"fromTheFuture": {"x": 1}}
    again = AgentCard.model_validate(card.dump())
    assert again == card.model_copy(update={"icon_url": None})


def model_dump(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(exclude_none=True)


@pytest.mark.parametrize("kind", [getattr(types, name) for name in types.__all__])
def test_every_model_takes_nulls_where_protojson_leaves_things_out(kind: Any) -> None:
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return
    required = {
        str(field.alias): "x" for field in kind.model_fields.values() if field.is_required()
    }
    for name, value in (("message", {"messageId": "m"}), ("artifact", {})):
        if name in required:
            required[name] = value  # type: ignore[assignment]
    plain: Any = kind.model_validate(required)
    lists = {
        str(field.alias): None
        for name, field in kind.model_fields.items()
        if isinstance(getattr(plain, name), list | str | bool)
        and not field.is_required()
        and not isinstance(getattr(plain, name), TaskState | Role)
    }
    if kind is Message:
        assert kind.model_validate({**required, **lists}).message_id == ""
    elif kind.model_fields:
        assert model_dump(kind.model_validate({**required, **lists})) == model_dump(plain)


def test_enums_keep_what_they_do_not_know() -> None:
    def state(value: object) -> object:
        return TaskStatus.model_validate({"state": value}).state

    assert state("TASK_STATE_WORKING") is TaskState.WORKING
    assert [state(number) for number in range(9)] == list(TaskState)
    assert state("TASK_STATE_DREAMING") == "TASK_STATE_DREAMING"
    assert state(42) == 42
    assert Message.model_validate({"role": 2}).role is Role.AGENT
    assert Message.model_validate({"role": "ROLE_GHOST"}).role == "ROLE_GHOST"
    assert not TaskStatus(state="TASK_STATE_DREAMING").is_terminal
    assert [s.name for s in TaskState if s.is_terminal] == [
        "COMPLETED",
        "FAILED",
        "CANCELED",
        "REJECTED",
    ]
    assert [s.name for s in TaskState if s.is_interrupted] == ["INPUT_REQUIRED", "AUTH_REQUIRED"]


def test_text_is_everywhere() -> None:
    parts = [Part(text="a"), Part(data={}), Part(text=""), Part(text="b")]
    said = Message(parts=parts)
    artifact = Artifact(artifact_id="1", parts=parts)
    asking = TaskStatus(state=TaskState.INPUT_REQUIRED, message=said)
    assert said.text == artifact.text == asking.text == "ab"
    assert TaskStatus().text == ""
    assert Task(id="t", artifacts=[artifact, artifact]).text == "abab"
    assert Task(id="t", status=asking).text == "ab"
    assert TaskStatusUpdateEvent(status=asking).text == "ab"
    assert TaskArtifactUpdateEvent(artifact=artifact).text == "ab"
    assert UnknownEvent.model_validate({"x": 1}).payload == {"x": 1}


def test_parts() -> None:
    assert Part(data=None).dump() == {"data": None}
    assert Part(text="x").dump() == {"text": "x"}
    assert json.loads(Message(message_id="1", parts=[Part(data=None)]).to_json())["parts"] == [
        {"data": None}
    ]
    assert Part(text="x").content is None
    with pytest.raises(ValueError):
        _ = Part(raw="?").content
    with pytest.raises(ValidationError):
        Part(text="x").text = "y"  # type: ignore[misc]


@settings(max_examples=40)
@given(events)
def test_the_three_readers_agree(event: dict[str, Any]) -> None:
    data = json.dumps(event).encode()
    typed = event_of(BARE["event"](data))
    assert typed == event_of(FROM_PYTHON["event"](event))
    envelope = ENVELOPES["event"](b'{"id":1,"result":%s}' % data)
    assert event_of(envelope["result"]) == typed


@settings(max_examples=40)
@given(tasks)
def test_nothing_of_a_task_is_lost(task: dict[str, Any]) -> None:
    typed = Task.model_validate(task)
    dumped = typed.dump()
    again = Task.model_validate(dumped)
    assert again.dump() == dumped == json.loads(typed.to_json())
    assert (again.id, again.text, again.status.state) == (typed.id, typed.text, typed.status.state)


@settings(max_examples=40)
@given(messages)
def test_nothing_of_a_message_is_lost(message: dict[str, Any]) -> None:
    typed = Message.model_validate(message)
    dumped = typed.dump()
    assert {k: v for k, v in dumped.items() if v != [] or k in message} == {
        k: v for k, v in message.items() if v is not None
    }
