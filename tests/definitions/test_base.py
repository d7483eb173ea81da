"""The common rules of all wire models."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from importlib import import_module
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from coreason_manifest.definitions._base import (
    CoReasonBaseModel,
    StrictModel,
    Timestamp,
    explain,
    utc_now,
)
from coreason_manifest.definitions.message import (
    BlobPart,
    ChatMessage,
    FilePart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolCallResponsePart,
    UriPart,
)
from coreason_manifest.definitions.presentation import (
    CitationBlock,
    CitationItem,
    ClosePacket,
    DeltaPacket,
    ErrorPacket,
    EventPacket,
    MediaCarousel,
    MediaItem,
    PresentationEvent,
    ProgressUpdate,
    StreamError,
    StreamPacket,
    parse_packet,
)
from coreason_manifest.definitions.request import AgentRequest, ClientCapabilities
from coreason_manifest.definitions.service import (
    HealthCheckResponse,
    ServiceRequest,
    ServiceResponse,
)
from coreason_manifest.definitions.session import SessionContext, TraceContext, UserContext

Fields = dict[str, Any]

ID = "123e4567-e89b-12d3-a456-426614174000"
TIME = "2023-10-27T10:00:00Z"
CITATION: Fields = {"source_id": "s", "uri": "u", "title": "t", "confidence": 0.5}
ERROR: Fields = {"code": "c", "message": "m", "severity": "FATAL"}
EVENT: Fields = {"id": ID, "timestamp": TIME, "type": "CITATION_BLOCK"}
EVENT["data"] = {"citations": [CITATION]}
CONTEXT: Fields = {"session_id": "s", "user_id": "u"}
MESSAGE: Fields = {"role": "user", "parts": [{"type": "text", "content": "Hi"}]}


def packet(op: str, p: object) -> Fields:
    return {"stream_id": ID, "seq": 1, "op": op, "t": TIME, "p": p}


# One example of every model: those that refuse unknown fields, and those that ignore them.
STRICT: list[tuple[type[CoReasonBaseModel], Fields]] = [
    (CitationBlock, {"citations": [CITATION]}),
    (CitationItem, CITATION),
    (ClosePacket, packet("CLOSE", "end")),
    (DeltaPacket, packet("DELTA", "Hi")),
    (ErrorPacket, packet("ERROR", ERROR)),
    (EventPacket, packet("EVENT", EVENT)),
    (MediaCarousel, {"items": [{"url": "u", "mime_type": "m"}]}),
    (MediaItem, {"url": "u", "mime_type": "m"}),
    (PresentationEvent, EVENT),
    (ProgressUpdate, {"label": "l", "status": "running"}),
    (StreamError, ERROR),
    (StreamPacket, packet("DELTA", "Hi")),
]
LENIENT: list[tuple[type[CoReasonBaseModel], Fields]] = [
    (AgentRequest, {"messages": [MESSAGE]}),
    (BlobPart, {"content": "QQ=="}),
    (ChatMessage, MESSAGE),
    (ClientCapabilities, {}),
    (FilePart, {"file_id": "f"}),
    (
        HealthCheckResponse,
        {"status": "ok", "agent_id": "a", "version": "1", "uptime_seconds": 1.5},
    ),
    (ReasoningPart, {"content": "Hm"}),
    (ServiceRequest, {"context": CONTEXT, "payload": {"messages": [MESSAGE]}}),
    (ServiceResponse, {"request_id": ID, "output": {}}),
    (SessionContext, CONTEXT),
    (TextPart, {"content": "Hi"}),
    (ToolCallPart, {"name": "n"}),
    (ToolCallResponsePart, {}),
    (TraceContext, {"trace_id": "t", "span_id": "s"}),
    (UriPart, {"uri": "u"}),
    (UserContext, {"user_id": "u"}),
]


def by_name(value: object) -> str | None:
    return value.__name__ if isinstance(value, type) else "" if isinstance(value, dict) else None


every_model = pytest.mark.parametrize(("model", "values"), STRICT + LENIENT, ids=by_name)
strict_models = pytest.mark.parametrize(("model", "values"), STRICT, ids=by_name)
lenient_models = pytest.mark.parametrize(("model", "values"), LENIENT, ids=by_name)


def test_the_examples_above_are_all_models_there_are() -> None:
    names = ["message", "presentation", "request", "service", "session"]
    modules = [import_module(f"coreason_manifest.definitions.{name}") for name in names]
    exported = [getattr(module, name) for module in modules for name in module.__all__]
    models = {
        value for value in exported if isinstance(value, type) and issubclass(value, BaseModel)
    }
    assert models == {model for model, _ in STRICT + LENIENT}


@every_model
@pytest.mark.proves("R17c")
def test_a_model_is_immutable(model: type[CoReasonBaseModel], values: Fields) -> None:
    example = model.model_validate(values)
    before = example.dump()
    for name in model.model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(example, name, None)
        with pytest.raises(ValidationError, match="frozen"):
            delattr(example, name)
    assert example.dump() == before


@strict_models
@pytest.mark.proves("R17d")
def test_an_unknown_field_is_refused(model: type[CoReasonBaseModel], values: Fields) -> None:
    assert issubclass(model, StrictModel)
    for unknown in ({"more": 1}, {"more": None}):
        with pytest.raises(ValidationError, match="more"):
            model.model_validate(values | unknown)
        with pytest.raises(ValidationError, match="more"):
            model.model_validate_json(json.dumps(values | unknown))


@lenient_models
@pytest.mark.proves("R17e")
def test_an_unknown_field_is_ignored(model: type[CoReasonBaseModel], values: Fields) -> None:
    example = model.model_validate_json(json.dumps(values | {"more": 1}))
    assert "more" not in example.dump()
    assert not hasattr(example, "more")


@every_model
@pytest.mark.proves("R17a", "R17b")
def test_dump_and_to_json_say_the_same_and_parse_back(
    model: type[CoReasonBaseModel], values: Fields
) -> None:
    example = model.model_validate(values)
    dumped = example.dump()
    assert json.loads(json.dumps(dumped)) == dumped
    assert json.loads(example.to_json()) == dumped
    assert None not in dumped.values()
    assert dumped.keys() == {name for name in model.model_fields if example[name] is not None}
    assert model.model_validate(dumped) == model.model_validate_json(example.to_json()) == example


@pytest.mark.proves("R17b")
def test_to_json_is_compact() -> None:
    assert StreamError.model_validate(ERROR).to_json() == (
        '{"code":"c","message":"m","severity":"FATAL"}'
    )


@every_model
def test_a_model_has_a_json_schema_of_its_fields(
    model: type[CoReasonBaseModel], values: Fields
) -> None:
    schema = model.model_json_schema()
    assert schema["properties"].keys() == model.model_fields.keys()
    assert set(schema.get("required", [])) <= values.keys()


# None is left out where it is the value of a field, not where a user's own object holds it.
WITH_NULLS: Fields = {"a": None, "b": [None, {"c": None}]}


@pytest.mark.parametrize(
    ("model", "values", "path"),
    [
        (ClosePacket, packet("CLOSE", WITH_NULLS), ["p"]),
        (EventPacket, packet("EVENT", WITH_NULLS), ["p"]),
        (StreamPacket, packet("CLOSE", WITH_NULLS), ["p"]),
        (StreamPacket, packet("EVENT", WITH_NULLS), ["p"]),
        (
            EventPacket,
            packet("EVENT", EVENT | {"type": "MARKDOWN_BLOCK", "data": WITH_NULLS}),
            ["p", "data"],
        ),
        (EventPacket, packet("EVENT", EVENT | {"data": WITH_NULLS}), ["p", "data"]),
        (ErrorPacket, packet("ERROR", ERROR | {"details": WITH_NULLS}), ["p", "details"]),
        (AgentRequest, {"payload": WITH_NULLS}, ["payload"]),
        (AgentRequest, {"payload": {}, "metadata": WITH_NULLS}, ["metadata"]),
        (ToolCallPart, {"name": "n", "arguments": WITH_NULLS}, ["arguments"]),
        (ToolCallResponsePart, {"response": WITH_NULLS}, ["response"]),
        (ServiceResponse, {"request_id": ID, "output": WITH_NULLS}, ["output"]),
    ],
    ids=by_name,
)
@pytest.mark.proves("R17a", "R17b")
def test_a_null_inside_a_users_object_survives(
    model: type[CoReasonBaseModel], values: Fields, path: list[str]
) -> None:
    example = model.model_validate(values)
    for found in (example.dump(), json.loads(example.to_json())):
        for key in path:
            found = found[key]
        assert found == WITH_NULLS


# Reading by key


@every_model
@pytest.mark.proves("R15l")
def test_a_field_is_read_by_key_as_by_attribute(
    model: type[CoReasonBaseModel], values: Fields
) -> None:
    example = model.model_validate(values)
    for name in model.model_fields:
        assert name in example
        assert example[name] is example.get(name) is getattr(example, name)


@pytest.mark.parametrize("key", ["more", "dump", "model_fields", "__class__", "", 0, None])
@pytest.mark.proves("R15l")
def test_what_is_no_field_is_no_key(key: Any) -> None:
    example = StreamError.model_validate(ERROR)
    assert key not in example
    assert example.get(key) is None
    assert example.get(key, 7) == 7
    with pytest.raises(KeyError):
        example[key]


@pytest.mark.proves("R15l")
def test_a_field_that_is_none_is_a_key_all_the_same() -> None:
    example = StreamError.model_validate(ERROR)
    assert "details" in example
    assert example["details"] is None
    assert example.get("details", 7) is None


@pytest.mark.proves("R15l")
def test_nested_models_and_items_of_lists_are_read_by_key() -> None:
    example: Any = EventPacket.model_validate(packet("EVENT", EVENT))
    assert example["p"]["data"]["citations"][0]["uri"] == "u"
    assert example["p"].get("data").get("citations")[0].get("title") == "t"
    message: Any = ChatMessage.model_validate(MESSAGE)
    assert message["parts"][0]["content"] == "Hi"


# Moments


@pytest.mark.parametrize(
    ("model", "values", "name"),
    [
        (StreamPacket, packet("DELTA", "Hi"), "t"),
        (DeltaPacket, packet("DELTA", "Hi"), "t"),
        (PresentationEvent, EVENT, "timestamp"),
        (SessionContext, CONTEXT, "created_at"),
        (AgentRequest, {"payload": {}}, "timestamp"),
        (ServiceResponse, {"request_id": ID, "output": {}}, "created_at"),
    ],
    ids=by_name,
)
@pytest.mark.proves("RFC002-1-t")
def test_a_moment_without_a_zone_is_in_utc(
    model: type[CoReasonBaseModel], values: Fields, name: str
) -> None:
    naive = datetime(2024, 2, 29, 23, 59, 58, 123456)
    expected = naive.replace(tzinfo=UTC)
    in_python = model.model_validate(values | {name: naive})
    in_json = model.model_validate_json(json.dumps(values | {name: naive.isoformat()}))
    assert in_python[name] == in_json[name] == expected
    assert in_python.dump()[name] == in_json.dump()[name] == "2024-02-29T23:59:58.123456Z"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2024-01-01T00:00:00Z", datetime(2024, 1, 1, tzinfo=UTC)),
        ("2024-01-01T00:00:00", datetime(2024, 1, 1, tzinfo=UTC)),
        ("2024-01-01T01:30:00+01:30", datetime(2024, 1, 1, tzinfo=UTC)),
        ("2024-01-01", datetime(2024, 1, 1, tzinfo=UTC)),
        (datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)),
        (
            datetime(2023, 12, 31, 19, tzinfo=timezone(-timedelta(hours=5))),
            datetime(2024, 1, 1, tzinfo=UTC),
        ),
    ],
)
def test_a_zone_that_is_given_counts(value: object, expected: datetime) -> None:
    moment: datetime = TypeAdapter[datetime](Timestamp).validate_python(value)
    assert moment == expected
    assert moment.utcoffset() is not None


@pytest.mark.parametrize("value", ["", "soon", None, True, [], {}])
def test_what_is_no_moment_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter[datetime](Timestamp).validate_python(value)


def test_now_is_in_utc() -> None:
    before = datetime.now(UTC)
    assert before <= utc_now() <= datetime.now(UTC)
    assert utc_now().tzinfo is UTC


# Explaining what was wrong

SECRET = "sk_very_secret"


def refusal(values: Fields) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        parse_packet(json.dumps(values).encode())
    return caught.value


def test_explain_names_the_fields_and_the_reason() -> None:
    said = explain(refusal(packet("DELTA", "Hi") | {"seq": -1}))
    assert said == "DELTA.seq: Input should be greater than or equal to 0"


def test_explain_names_at_most_three_problems() -> None:
    said = explain(refusal({"op": "DELTA", "seq": -1}))
    assert said.count("; ") == 3
    assert said.endswith("; and 1 more")
    assert explain(refusal(packet("DELTA", "Hi") | {"a": 1, "b": 1, "c": 1})).count("; ") == 2


def test_explain_says_value_where_the_whole_is_wrong() -> None:
    with pytest.raises(ValidationError) as caught:
        parse_packet(b"nonsense")
    assert explain(caught.value).startswith("value: Invalid JSON")


@pytest.mark.parametrize(
    "values",
    [
        packet("DELTA", {"key": SECRET}),
        packet("ERROR", SECRET),
        packet("ERROR", ERROR | {"severity": SECRET}),
        packet("EVENT", SECRET),
        packet("DELTA", "Hi") | {"seq": SECRET},
        packet("DELTA", "Hi") | {"stream_id": SECRET},
        packet("DELTA", "Hi") | {"t": SECRET},
        packet("DELTA", "Hi") | {"more": SECRET},
    ],
)
def test_explain_repeats_no_value(values: Fields) -> None:
    error = refusal(values)
    assert SECRET in str(error)
    assert SECRET not in explain(error)


def test_explain_does_not_repeat_an_unknown_op() -> None:
    assert SECRET not in explain(refusal(packet(SECRET, "Hi")))


def test_equal_content_is_equal() -> None:
    one, two = (StreamPacket.model_validate(packet("DELTA", "Hi")) for _ in range(2))
    assert one == two
    assert one != StreamPacket.model_validate(packet("DELTA", "Ho"))
    assert one.stream_id == UUID(ID)


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine's own zone is Asia/Tokyo, written so that no zone database is needed."""
    if not hasattr(time, "tzset"):
        pytest.skip("Windows has no tzset")
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("tokyo")
@pytest.mark.parametrize("value", ["2024-01-01T00:00:00", datetime(2024, 1, 1)])
def test_a_moment_without_a_zone_is_in_utc_wherever_the_machine_is(value: object) -> None:
    assert datetime(2024, 1, 1).astimezone().utcoffset() == timedelta(hours=9)
    moment: datetime = TypeAdapter[datetime](Timestamp).validate_python(value)
    assert moment == datetime(2024, 1, 1, tzinfo=UTC)
    assert moment.utcoffset() == timedelta()


# Ids.

NAMES: dict[type[CoReasonBaseModel], tuple[str, ...]] = {
    SessionContext: ("session_id", "user_id", "agent_id"),
    UserContext: ("user_id",),
    TraceContext: ("trace_id", "span_id", "parent_id"),
    AgentRequest: ("session_id", "request_id", "root_request_id", "parent_request_id"),
    FilePart: ("file_id",),
    ToolCallPart: ("id",),
    ToolCallResponsePart: ("id",),
    CitationItem: ("source_id",),
    HealthCheckResponse: ("agent_id",),
}
OTHERS: dict[type[CoReasonBaseModel], dict[str, Any]] = {
    AgentRequest: {"payload": {}},
    ToolCallPart: {"name": "add"},
    CitationItem: {"uri": "u", "title": "t", "confidence": 1.0},
    HealthCheckResponse: {"status": "ok", "version": "1", "uptime_seconds": 1.0},
}


@pytest.mark.parametrize("model", list(NAMES), ids=lambda model: model.__name__)
def test_an_id_may_be_a_uuid(model: type[CoReasonBaseModel]) -> None:
    ids = {name: uuid4() for name in NAMES[model]}
    built = model(**ids, **OTHERS.get(model, {}))
    assert {name: built.dump()[name] for name in ids} == {n: str(id_) for n, id_ in ids.items()}
    assert model.model_validate_json(built.to_json()) == built


def test_the_user_of_a_session_may_have_a_uuid() -> None:
    id_ = uuid4()
    for user in (UserContext(user_id=id_), {"user_id": id_}):
        context = SessionContext.model_validate({"session_id": id_, "user": user})
        assert (context.session_id, context.user_id) == (str(id_), str(id_))


@pytest.mark.parametrize("model", list(NAMES), ids=lambda model: model.__name__)
@pytest.mark.parametrize("wrong", [7, True, ["a"], {}])
def test_an_id_in_json_is_a_string(model: type[CoReasonBaseModel], wrong: object) -> None:
    values = {name: str(uuid4()) for name in NAMES[model]} | OTHERS.get(model, {})
    model.model_validate_json(json.dumps(values))
    name = NAMES[model][0]
    with pytest.raises(ValidationError) as caught:
        model.model_validate_json(json.dumps(values | {name: wrong}))
    assert [error["type"] for error in caught.value.errors()] == ["string_type"]
    schema = model.model_json_schema()["properties"][name]
    assert {"type": "string"} in schema.get("anyOf", [{"type": schema.get("type")}])
