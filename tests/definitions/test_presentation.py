"""Packets, errors and presentation events (RFC 002, RFC 005)."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from typing import Any, assert_never
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from coreason_manifest.definitions import presentation
from coreason_manifest.definitions._base import CoReasonBaseModel
from coreason_manifest.definitions.presentation import (
    CitationBlock,
    CitationItem,
    ClosePacket,
    DeltaPacket,
    ErrorPacket,
    ErrorSeverity,
    EventPacket,
    MediaCarousel,
    MediaItem,
    Packet,
    PresentationEvent,
    PresentationEventType,
    ProgressUpdate,
    StreamError,
    StreamOpCode,
    StreamPacket,
    parse_packet,
)
from tests.each import each
from tests.fuzz.strategies import examples

Fields = dict[str, Any]

# As printed in RFC 002, section 2.
PRINTED_DELTA = b"""{
  "stream_id": "123e4567-e89b-12d3-a456-426614174000",
  "seq": 1,
  "op": "DELTA",
  "t": "2023-10-27T10:00:00+00:00",
  "p": "Hello"
}"""
PRINTED_EVENT = b"""{
  "stream_id": "123e4567-e89b-12d3-a456-426614174000",
  "seq": 2,
  "op": "EVENT",
  "t": "2023-10-27T10:00:01+00:00",
  "p": {
    "id": "987fcdeb-51a2-11e1-fad2-0242ac130003",
    "timestamp": "2023-10-27T10:00:01+00:00",
    "type": "CITATION_BLOCK",
    "data": {
      "citations": [
        {
          "source_id": "src_1",
          "uri": "https://example.com",
          "title": "Example",
          "confidence": 0.99
        }
      ]
    }
  }
}"""

STREAM_ID = "123e4567-e89b-12d3-a456-426614174000"
CITATION = {"source_id": "s", "uri": "https://example.com", "title": "T", "confidence": 0.5}
EVENT: Fields = {
    "id": "987fcdeb-51a2-11e1-fad2-0242ac130003",
    "timestamp": "2023-10-27T10:00:01Z",
    "type": "CITATION_BLOCK",
    "data": {"citations": [CITATION]},
}
ERROR: Fields = {"code": "rate_limit_exceeded", "message": "Slow down", "severity": "TRANSIENT"}


def fields(op: str = "DELTA", p: object = "Hello", **others: object) -> Fields:
    return {
        "stream_id": STREAM_ID,
        "seq": 1,
        "op": op,
        "t": "2023-10-27T10:00:00Z",
        "p": p,
    } | others


def without(values: Fields, key: str) -> Fields:
    return {name: value for name, value in values.items() if name != key}


# Every way in which a packet comes into being. The first three also take Python objects.

CLASSES: dict[str, type[StreamPacket]] = {
    "DELTA": DeltaPacket,
    "EVENT": EventPacket,
    "ERROR": ErrorPacket,
    "CLOSE": ClosePacket,
}


def by_call(values: Fields) -> StreamPacket:
    return StreamPacket(**values)


def by_class(values: Fields) -> StreamPacket:
    return CLASSES[values["op"]](**values)


def by_validate(values: Fields) -> StreamPacket:
    return StreamPacket.model_validate(values)


def by_validate_json(values: Fields) -> StreamPacket:
    return StreamPacket.model_validate_json(json.dumps(values))


def by_class_json(values: Fields) -> StreamPacket:
    return CLASSES[values["op"]].model_validate_json(json.dumps(values))


def by_parse_packet(values: Fields) -> StreamPacket:
    return parse_packet(json.dumps(values).encode())


Way = Callable[[Fields], StreamPacket]
PYTHON_WAYS: list[Way] = [by_call, by_class, by_validate]
WAYS: list[Way] = [*PYTHON_WAYS, by_validate_json, by_class_json, by_parse_packet]
# Those that see an `op` as a value and not as the choice of a class.
GENERIC_WAYS: list[Way] = [by_call, by_validate, by_validate_json, by_parse_packet]

every_way = each("way", WAYS)
every_python_way = each("way", PYTHON_WAYS)
every_generic_way = each("way", GENERIC_WAYS)

PROVES = {
    "DELTA": pytest.mark.proves("RFC002-1-delta", "R15b"),
    "EVENT": pytest.mark.proves("RFC002-1-event", "R15c", "R15f", "R15h"),
    "ERROR": pytest.mark.proves(
        "RFC002-1-error",
        "R15d",
        "RFC005-3-reject-strings",
        "RFC005-3-coerce-dicts",
        "RFC005-3-reject-others",
    ),
    "CLOSE": pytest.mark.proves("RFC002-1-close", "R15e"),
}

# Name, payload, and what it becomes under each op; under an op that is not named it is refused.
PAYLOADS: list[tuple[str, object, dict[str, type]]] = [
    ("text", "Hello", {"DELTA": str, "CLOSE": str}),
    ("empty text", "", {"DELTA": str, "CLOSE": str}),
    ("text that looks like JSON", '{"a": 1}', {"DELTA": str, "CLOSE": str}),
    ("null", None, {}),
    ("true", True, {"CLOSE": bool}),
    ("false", False, {"CLOSE": bool}),
    ("integer", 7, {"CLOSE": int}),
    ("zero", 0, {"CLOSE": int}),
    ("number", 1.5, {"CLOSE": float}),
    ("array", ["Hello"], {"CLOSE": list}),
    ("empty array", [], {"CLOSE": list}),
    ("empty object", {}, {"EVENT": dict, "CLOSE": dict}),
    ("object", {"a": {"b": None}}, {"EVENT": dict, "CLOSE": dict}),
    ("event", EVENT, {"EVENT": PresentationEvent, "CLOSE": dict}),
    (
        "event of free data",
        EVENT | {"type": "THOUGHT_TRACE", "data": {"a": None}},
        {"EVENT": PresentationEvent, "CLOSE": dict},
    ),
    (
        "event whose data does not fit its type",
        EVENT | {"data": {"citations": 3}},
        {"EVENT": PresentationEvent, "CLOSE": dict},
    ),
    ("event of unknown type", EVENT | {"type": "HOLOGRAM"}, {"EVENT": dict, "CLOSE": dict}),
    ("event without an id", without(EVENT, "id"), {"EVENT": dict, "CLOSE": dict}),
    ("event without a timestamp", without(EVENT, "timestamp"), {"EVENT": dict, "CLOSE": dict}),
    ("event without a type", without(EVENT, "type"), {"EVENT": dict, "CLOSE": dict}),
    ("event without data", without(EVENT, "data"), {"EVENT": dict, "CLOSE": dict}),
    ("event with another key", EVENT | {"more": 1}, {"EVENT": dict, "CLOSE": dict}),
    ("event with a bad id", EVENT | {"id": "x"}, {"EVENT": dict, "CLOSE": dict}),
    ("event with a bad timestamp", EVENT | {"timestamp": "x"}, {"EVENT": dict, "CLOSE": dict}),
    ("event whose data is text", EVENT | {"data": "x"}, {"EVENT": dict, "CLOSE": dict}),
    ("event whose data is null", EVENT | {"data": None}, {"EVENT": dict, "CLOSE": dict}),
    ("error", ERROR, {"EVENT": dict, "ERROR": StreamError, "CLOSE": dict}),
    (
        "error with details",
        ERROR | {"details": {"retry_after": 60, "more": None}},
        {"EVENT": dict, "ERROR": StreamError, "CLOSE": dict},
    ),
    ("error without a code", without(ERROR, "code"), {"EVENT": dict, "CLOSE": dict}),
    ("error without a message", without(ERROR, "message"), {"EVENT": dict, "CLOSE": dict}),
    ("error without a severity", without(ERROR, "severity"), {"EVENT": dict, "CLOSE": dict}),
    ("error with another key", ERROR | {"more": 1}, {"EVENT": dict, "CLOSE": dict}),
    ("error of unknown severity", ERROR | {"severity": "MILD"}, {"EVENT": dict, "CLOSE": dict}),
    ("error with a number as code", ERROR | {"code": 7}, {"EVENT": dict, "CLOSE": dict}),
    ("error with text as details", ERROR | {"details": "x"}, {"EVENT": dict, "CLOSE": dict}),
    ("error of the old kind", {"error": "timeout"}, {"EVENT": dict, "CLOSE": dict}),
]

every_payload = pytest.mark.parametrize(
    ("op", "payload", "becomes"),
    [
        pytest.param(op, payload, becomes.get(op), id=f"{op} {name}", marks=PROVES[op])
        for op in CLASSES
        for name, payload, becomes in PAYLOADS
    ],
)


def plain(payload: object) -> object:
    return payload.dump() if isinstance(payload, CoReasonBaseModel) else payload


@every_way
@every_payload
@pytest.mark.proves("RFC004-2.1-validate", "RFC005-2-union")
def test_a_payload_is_checked_by_op(
    way: Way, op: str, payload: object, becomes: type | None
) -> None:
    if becomes is None:
        with pytest.raises(ValueError):
            way(fields(op, payload))
    else:
        packet = way(fields(op, payload))
        assert type(packet.p) is becomes
        assert plain(packet.p) == payload


@every_way
@pytest.mark.parametrize("op", CLASSES)
@pytest.mark.proves("RFC002-1-p", "RFC004-2.1-validate")
def test_a_packet_needs_every_field(way: Way, op: str) -> None:
    payload = {"DELTA": "x", "EVENT": {}, "ERROR": ERROR, "CLOSE": "x"}[op]
    assert way(fields(op, payload)).p is not None
    for name in StreamPacket.model_fields:
        if name == "op" and way in (by_class, by_class_json):
            continue
        with pytest.raises(ValueError):
            way(without(fields(op, payload), name))


@every_way
@pytest.mark.proves("R17d")
def test_a_packet_refuses_unknown_fields(way: Way) -> None:
    with pytest.raises(ValidationError):
        way(fields(payload="Hello"))


@every_generic_way
@pytest.mark.parametrize("op", ["delta", "DELTAS", "OPEN", "", None, 1, ["DELTA"]])
@pytest.mark.proves("RFC002-1-op")
def test_another_op_is_refused(way: Way, op: Any) -> None:
    with pytest.raises(ValidationError):
        way(fields() | {"op": op})


@every_python_way
@pytest.mark.parametrize(
    ("op", "payload"),
    [
        ("EVENT", PresentationEvent(type=PresentationEventType.MARKDOWN_BLOCK, data={"a": 1})),
        ("ERROR", StreamError(code="c", message="m", severity=ErrorSeverity.FATAL)),
        ("CLOSE", StreamError(code="c", message="m", severity=ErrorSeverity.FATAL)),
    ],
)
@pytest.mark.proves("R15c", "R15d", "R15e")
def test_a_model_as_payload_is_kept(way: Way, op: str, payload: CoReasonBaseModel) -> None:
    assert way(fields(op, payload)).p is payload


@every_python_way
@pytest.mark.parametrize(
    ("op", "payload"),
    [
        ("DELTA", StreamError(code="c", message="m", severity=ErrorSeverity.FATAL)),
        ("DELTA", ("Hello",)),
        ("EVENT", StreamError(code="c", message="m", severity=ErrorSeverity.FATAL)),
        ("EVENT", CitationBlock(citations=[])),
        ("EVENT", [("a", 1)]),
        ("ERROR", PresentationEvent(type=PresentationEventType.MARKDOWN_BLOCK, data={})),
        ("ERROR", [("code", "c")]),
        ("ERROR", ValueError("x")),
    ],
)
@pytest.mark.proves("R15b", "R15c", "R15d", "RFC005-3-reject-others")
def test_an_object_of_another_kind_is_refused(way: Way, op: str, payload: object) -> None:
    with pytest.raises(ValidationError):
        way(fields(op, payload))


@every_python_way
@pytest.mark.proves("R15b")
def test_a_delta_refuses_bytes(way: Way) -> None:
    with pytest.raises(ValidationError):
        way(fields("DELTA", b"Hello"))


# The fields beside the payload


@every_way
@pytest.mark.parametrize("seq", [0, 1, 2**31, 2**53 - 1])
@pytest.mark.proves("RFC002-1-seq", "R15j")
def test_seq_is_an_integer_from_0_on(way: Way, seq: int) -> None:
    assert way(fields(seq=seq)).seq == seq


@every_way
@pytest.mark.parametrize(
    "seq", [-1, "1", "", 1.0, 1.5, True, False, None, [1], 1e300, 2**53, int("9" * 4000)]
)
@pytest.mark.proves("RFC002-1-seq", "R15j")
def test_seq_is_nothing_but_an_integer(way: Way, seq: object) -> None:
    with pytest.raises(ValidationError):
        way(fields(seq=seq))


@every_way
@pytest.mark.proves("RFC002-1-stream-id")
def test_stream_id_is_a_uuid(way: Way) -> None:
    assert way(fields()).stream_id == UUID(STREAM_ID)
    for wrong in ("", "x", STREAM_ID[:-1], 7, None):
        with pytest.raises(ValidationError):
            way(fields(stream_id=wrong))


@every_way
@pytest.mark.parametrize(
    "text",
    [
        "2023-10-27T10:00:00Z",
        "2023-10-27T10:00:00+00:00",
        "2023-10-27T12:00:00+02:00",
        "2023-10-27T10:00:00",
    ],
)
@pytest.mark.proves("RFC002-1-t")
def test_t_is_a_moment_and_without_a_zone_in_utc(way: Way, text: str) -> None:
    t = way(fields(t=text)).t
    assert t == datetime(2023, 10, 27, 10, tzinfo=UTC)
    assert t.utcoffset() is not None


@every_way
@pytest.mark.parametrize("t", ["", "yesterday", "2023-13-01T00:00:00Z", None, True, []])
@pytest.mark.proves("RFC002-1-t")
def test_t_is_nothing_but_a_moment(way: Way, t: object) -> None:
    with pytest.raises(ValidationError):
        way(fields(t=t))


@pytest.mark.parametrize(
    "wire",
    [b"", b"null", b"[]", b'"DELTA"', b"{}", b"{", b"\xff", PRINTED_DELTA[:-1], PRINTED_DELTA * 2],
)
@pytest.mark.proves("RFC004-2.1-validate")
def test_what_is_no_packet_is_refused(wire: bytes) -> None:
    for parse in (parse_packet, StreamPacket.model_validate_json):
        with pytest.raises(ValidationError):
            parse(wire)


def test_invalid_utf_8_in_a_packet_is_a_validation_error() -> None:
    with pytest.raises(ValidationError):
        parse_packet(PRINTED_DELTA.replace(b"Hello", b"H\xffllo"))


# The printed examples. `t` is written with a Z, which is the same moment as +00:00.


def with_z(printed: bytes) -> Any:
    return json.loads(printed.replace(b"+00:00", b"Z"))


@pytest.mark.parametrize("parse", [parse_packet, StreamPacket.model_validate_json])
@pytest.mark.proves("RFC002-2-delta-example", "RFC004-1-presentation", "RFC002-1-p")
def test_the_printed_delta(parse: Callable[[bytes], StreamPacket]) -> None:
    packet = parse(PRINTED_DELTA)
    assert packet.stream_id == UUID(STREAM_ID)
    assert packet.seq == 1
    assert packet.op is StreamOpCode.DELTA
    assert packet.t == datetime(2023, 10, 27, 10, tzinfo=UTC)
    assert packet.p == "Hello"
    assert packet.dump() == json.loads(packet.to_json()) == with_z(PRINTED_DELTA)


@pytest.mark.parametrize("parse", [parse_packet, StreamPacket.model_validate_json])
@pytest.mark.proves("RFC002-2-event-example")
def test_the_printed_event(parse: Callable[[bytes], StreamPacket]) -> None:
    packet = parse(PRINTED_EVENT)
    assert packet.p == PresentationEvent(
        id=UUID("987fcdeb-51a2-11e1-fad2-0242ac130003"),
        timestamp=datetime(2023, 10, 27, 10, 0, 1, tzinfo=UTC),
        type=PresentationEventType.CITATION_BLOCK,
        data=CitationBlock(
            citations=[
                CitationItem(
                    source_id="src_1", uri="https://example.com", title="Example", confidence=0.99
                )
            ]
        ),
    )
    assert type(packet.p.data) is CitationBlock
    assert packet.dump() == json.loads(packet.to_json()) == with_z(PRINTED_EVENT)


@pytest.mark.parametrize("parse", [parse_packet, StreamPacket.model_validate_json])
@pytest.mark.proves("RFC004-4-scenario-b-models", "R15l")
def test_the_printed_reading_of_a_citation(parse: Callable[[bytes], StreamPacket]) -> None:
    packet = parse(PRINTED_EVENT)
    assert packet.op == StreamOpCode.EVENT
    event = packet.p
    assert event["type"] == "CITATION_BLOCK"
    assert event["data"]["citations"][0]["uri"] == "https://example.com"


@pytest.mark.proves("R15l", "R15h")
def test_an_event_that_stays_a_dict_is_read_the_same_way() -> None:
    packet = parse_packet(PRINTED_EVENT.replace(b'"type"', b'"more": 1, "type"'))
    assert isinstance(packet, EventPacket)
    assert isinstance(packet.p, dict)
    assert packet.p["data"]["citations"][0]["uri"] == "https://example.com"


@pytest.mark.proves("RFC005-1-module", "RFC005-1-stream-error")
def test_the_printed_error() -> None:
    error = StreamError(
        code="internal_error",
        message="Database connection failed",
        severity=ErrorSeverity.TRANSIENT,
    )
    assert error.details is None
    packet = StreamPacket(**fields("ERROR", error))
    assert packet.p is error


@every_way
@pytest.mark.proves("RFC005-client-switch")
def test_the_printed_switch_of_a_client(way: Way) -> None:
    packet = way(fields("ERROR", ERROR))
    assert packet.op == StreamOpCode.ERROR
    error: StreamError = packet.p
    assert error.severity == ErrorSeverity.TRANSIENT
    assert error.severity == "TRANSIENT"


# Enums


@pytest.mark.parametrize(
    ("enum", "values"),
    [
        (StreamOpCode, "DELTA EVENT ERROR CLOSE"),
        pytest.param(
            ErrorSeverity, "FATAL TRANSIENT WARNING", marks=pytest.mark.proves("RFC005-1-severity")
        ),
        (
            PresentationEventType,
            "THOUGHT_TRACE CITATION_BLOCK PROGRESS_INDICATOR MEDIA_CAROUSEL MARKDOWN_BLOCK",
        ),
    ],
)
@pytest.mark.proves("R15a", "RFC002-1-op")
def test_the_enums_are_strings_with_exactly_these_values(enum: type[Enum], values: str) -> None:
    assert issubclass(enum, str)
    assert [str(member) for member in enum] == values.split()
    assert [member.value for member in enum] == values.split()
    assert [member.name for member in enum] == values.split()


# StreamError


@pytest.mark.parametrize("code", ["rate_limit_exceeded", "RateLimit", "429", "", "with space", "é"])
@pytest.mark.proves("R17g")
def test_a_received_error_may_have_any_code(code: str) -> None:
    packet = parse_packet(json.dumps(fields("ERROR", ERROR | {"code": code})).encode())
    assert isinstance(packet, ErrorPacket)
    assert packet.p.code == code


@pytest.mark.parametrize("missing", ["code", "message", "severity"])
@pytest.mark.proves("RFC005-1-stream-error")
def test_an_error_needs_code_message_and_severity(missing: str) -> None:
    with pytest.raises(ValidationError):
        StreamError.model_validate(without(ERROR, missing))


@pytest.mark.proves("RFC005-3-coerce-dicts", "R17d")
def test_the_refusal_of_an_error_says_which_field_was_wrong() -> None:
    with pytest.raises(ValidationError, match="severity: Field required"):
        StreamPacket(**fields("ERROR", without(ERROR, "severity")))


@pytest.mark.proves("RFC005-3-reject-strings")
def test_the_refusal_of_a_string_error_says_so() -> None:
    with pytest.raises(ValidationError, match="not a string"):
        StreamPacket(**fields("ERROR", "Error: Rate limit exceeded"))


# Presentation events

DATA: list[tuple[str, Fields, type]] = [
    ("CITATION_BLOCK", {"citations": []}, CitationBlock),
    ("CITATION_BLOCK", {"citations": [CITATION, CITATION | {"snippet": "s"}]}, CitationBlock),
    ("PROGRESS_INDICATOR", {"label": "l", "status": "running"}, ProgressUpdate),
    (
        "PROGRESS_INDICATOR",
        {"label": "l", "status": "complete", "progress_percent": 50.0},
        ProgressUpdate,
    ),
    ("MEDIA_CAROUSEL", {"items": [{"url": "u", "mime_type": "image/png"}]}, MediaCarousel),
    ("THOUGHT_TRACE", {"citations": []}, dict),
    ("MARKDOWN_BLOCK", {"content": "# Hi", "more": None}, dict),
]

UNFIT_DATA: list[tuple[str, Fields]] = [
    ("CITATION_BLOCK", {}),
    ("CITATION_BLOCK", {"citations": [without(CITATION, "uri")]}),
    ("CITATION_BLOCK", {"citations": [], "more": 1}),
    ("CITATION_BLOCK", {"citations": [CITATION | {"more": 1}]}),
    ("PROGRESS_INDICATOR", {"label": "l", "status": "asleep"}),
    ("PROGRESS_INDICATOR", {"citations": []}),
    ("MEDIA_CAROUSEL", {"items": [{"url": "u"}]}),
]


def from_json(values: Fields) -> PresentationEvent:
    return PresentationEvent.model_validate_json(json.dumps(values))


def in_packet(values: Fields) -> Any:
    return parse_packet(json.dumps(fields("EVENT", values)).encode()).p


BUILDERS = [PresentationEvent.model_validate, from_json]


@pytest.mark.parametrize("build", [*BUILDERS, in_packet])
@pytest.mark.parametrize(("event_type", "data", "becomes"), DATA)
@pytest.mark.proves("R15g")
def test_the_data_of_an_event_is_typed_by_its_type(
    build: Callable[[Fields], Any], event_type: str, data: Fields, becomes: type
) -> None:
    event = build(EVENT | {"type": event_type, "data": data})
    assert type(event.data) is becomes
    assert event.dump() == EVENT | {"type": event_type, "data": data}


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize(("event_type", "data"), UNFIT_DATA)
@pytest.mark.proves("R15i", "R17d")
def test_data_that_does_not_fit_is_refused_in_direct_construction(
    build: Callable[[Fields], Any], event_type: str, data: Fields
) -> None:
    with pytest.raises(ValidationError, match="data"):
        build(EVENT | {"type": event_type, "data": data})


@every_way
@pytest.mark.parametrize(("event_type", "data"), UNFIT_DATA)
@pytest.mark.proves("R15g")
def test_data_that_does_not_fit_stays_plain_inside_a_packet(
    way: Way, event_type: str, data: Fields
) -> None:
    packet = way(fields("EVENT", EVENT | {"type": event_type, "data": data}))
    assert isinstance(packet.p, PresentationEvent)
    assert packet.p.data == data
    assert packet.dump()["p"]["data"] == json.loads(packet.to_json())["p"]["data"] == data


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize(
    "wrong",
    [
        EVENT | {"type": "HOLOGRAM"},
        EVENT | {"type": "citation_block"},
        EVENT | {"more": 1},
        EVENT | {"id": "x"},
        EVENT | {"timestamp": "x"},
        EVENT | {"data": "x"},
        EVENT | {"data": None},
        EVENT | {"type": "MARKDOWN_BLOCK", "data": "# Hi"},
        EVENT | {"type": "MARKDOWN_BLOCK", "data": ["# Hi"]},
        without(EVENT, "type"),
        without(EVENT, "data"),
    ],
)
@pytest.mark.proves("R15i", "R17d")
def test_an_event_that_does_not_fit_is_refused_in_direct_construction(
    build: Callable[[Fields], Any], wrong: Fields
) -> None:
    with pytest.raises(ValidationError):
        build(wrong)


@pytest.mark.proves("R15i")
def test_data_of_another_type_is_refused_as_a_model_too() -> None:
    progress = ProgressUpdate(label="l", status="failed")
    for event_type in (PresentationEventType.CITATION_BLOCK, PresentationEventType.THOUGHT_TRACE):
        with pytest.raises(ValidationError):
            PresentationEvent(type=event_type, data=progress)


def test_an_event_gets_an_id_and_the_present_time() -> None:
    before = datetime.now(UTC)
    events = [
        PresentationEvent(type=PresentationEventType.THOUGHT_TRACE, data={"n": n}) for n in (1, 2)
    ]
    assert events[0].id != events[1].id
    assert all(before <= event.timestamp <= datetime.now(UTC) for event in events)


# What a parsed packet is


def shown(packet: Packet) -> str:
    """Narrow as a caller does; a type checker sees that no case is missing."""
    match packet:
        case DeltaPacket(p=text):
            return text.upper()
        case EventPacket(p=shape):
            return shape.type.lower() if isinstance(shape, PresentationEvent) else ",".join(shape)
        case ErrorPacket(p=error):
            return error.code
        case ClosePacket():
            return "end"
        case _:
            assert_never(packet)


@pytest.mark.parametrize(
    ("op", "payload", "expected"),
    [
        ("DELTA", "Hello", "HELLO"),
        ("EVENT", EVENT, "citation_block"),
        ("EVENT", {"a": 1, "b": 2}, "a,b"),
        ("ERROR", ERROR, "rate_limit_exceeded"),
        ("CLOSE", "done", "end"),
    ],
)
@pytest.mark.proves("RFC005-2-union", "RFC002-1-op")
def test_match_tells_parsed_packets_apart(op: str, payload: object, expected: str) -> None:
    packet = parse_packet(json.dumps(fields(op, payload)).encode())
    assert type(packet) is CLASSES[op]
    assert isinstance(packet, StreamPacket)
    assert shown(packet) == expected


@pytest.mark.parametrize("other", StreamOpCode)
@pytest.mark.parametrize("op", CLASSES)
def test_a_class_takes_no_other_op(op: str, other: StreamOpCode) -> None:
    values = fields(op, {"DELTA": "x", "EVENT": {}, "ERROR": ERROR, "CLOSE": "x"}[op])
    for spelt in (other, other.value):
        if other == op:
            assert CLASSES[op].model_validate(values | {"op": spelt}).op is other
        else:
            with pytest.raises(ValidationError):
                CLASSES[op].model_validate(values | {"op": spelt})
    if other != op:
        with pytest.raises(ValidationError):
            CLASSES[op].model_validate_json(json.dumps(values | {"op": other}))


@pytest.mark.proves("RFC004-1-presentation", "RFC005-1-module")
def test_the_module_exports_what_the_documents_name() -> None:
    assert {"StreamPacket", "StreamOpCode", "StreamError", "ErrorSeverity"} <= set(
        presentation.__all__
    )
    assert all(hasattr(presentation, name) for name in presentation.__all__)


# Any packet survives its own JSON. JSON has no NaN and no infinity.

texts = st.text(max_size=20)
numbers = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, json_values, max_size=4)
moments = st.datetimes(
    timezones=st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m))),
    min_value=datetime(1600, 1, 1),
)
citations = st.builds(
    CitationItem,
    source_id=texts,
    uri=texts,
    title=texts,
    snippet=st.none() | texts,
    confidence=numbers,
)
events = st.one_of(
    st.builds(
        PresentationEvent,
        id=st.uuids(),
        timestamp=moments,
        type=st.just(PresentationEventType.CITATION_BLOCK),
        data=st.builds(CitationBlock, citations=st.lists(citations, max_size=2)),
    ),
    st.builds(
        PresentationEvent,
        id=st.uuids(),
        timestamp=moments,
        type=st.just(PresentationEventType.PROGRESS_INDICATOR),
        data=st.builds(
            ProgressUpdate,
            label=texts,
            status=st.sampled_from(["running", "complete", "failed"]),
            progress_percent=st.none() | numbers,
        ),
    ),
    st.builds(
        PresentationEvent,
        id=st.uuids(),
        timestamp=moments,
        type=st.just(PresentationEventType.MEDIA_CAROUSEL),
        data=st.builds(
            MediaCarousel,
            items=st.lists(
                st.builds(MediaItem, url=texts, mime_type=texts, alt_text=st.none() | texts),
                max_size=2,
            ),
        ),
    ),
    st.builds(
        PresentationEvent,
        id=st.uuids(),
        timestamp=moments,
        type=st.sampled_from(["THOUGHT_TRACE", "MARKDOWN_BLOCK"]).map(PresentationEventType),
        data=objects,
    ),
)
errors = st.builds(
    StreamError,
    code=texts,
    message=texts,
    severity=st.sampled_from(ErrorSeverity),
    details=st.none() | objects,
)
payloads: dict[str, st.SearchStrategy[object]] = {
    "DELTA": texts,
    "EVENT": events | objects,
    "ERROR": errors,
    "CLOSE": json_values.filter(lambda value: value is not None),
}


@st.composite
def packets(draw: st.DrawFn) -> StreamPacket:
    op = draw(st.sampled_from(sorted(CLASSES)))
    return CLASSES[op](
        stream_id=draw(st.uuids()),
        seq=draw(st.integers(0, 2**53 - 1)),
        op=StreamOpCode(op),
        t=draw(moments),
        p=draw(payloads[op]),
    )


@given(packets())
@examples(300)
@pytest.mark.proves("RFC004-2.1-validate", "R17b")
def test_a_packet_parsed_from_its_own_json_is_equal(packet: StreamPacket) -> None:
    parsed = parse_packet(packet.to_json().encode())
    assert parsed == packet
    assert type(parsed) is type(packet)
    assert parsed.dump() == packet.dump() == json.loads(packet.to_json())


@given(packets())
@examples(100)
def test_the_general_packet_carries_the_same(packet: StreamPacket) -> None:
    general = StreamPacket.model_validate_json(packet.to_json())
    assert general.to_json() == packet.to_json()
    assert general.p == packet.p
