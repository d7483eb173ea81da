"""The table of the members of a card, against the proto file, and the signed forms."""

from typing import Any

from a2a.types import a2a_pb2
from google.api import field_behavior_pb2  # type: ignore[import-untyped]

from coreason_client.a2a._card_signatures import CARD, Field, Fields, signed_forms


def fields_of(descriptor: Any) -> Fields:
    """Return the table for a message of the proto file, as its own descriptor defines it."""
    return {
        field.json_name: field_of(field)
        for field in descriptor.fields
        if field.json_name != "signatures"
    }


def field_of(field: Any) -> Field:
    behaviors = field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
    is_required = field_behavior_pb2.REQUIRED in behaviors
    message = field.message_type
    is_map = bool(message and message.GetOptions().map_entry)
    if is_map:
        message = message.fields_by_name["value"].message_type
    is_struct = message is not None and message.full_name.startswith("google.protobuf")
    return Field(
        is_kept=is_required or field.has_presence,
        message=fields_of(message) if message and not is_struct else None,
        is_list=field.is_repeated and not is_map,
        is_map=is_map,
    )


def test_the_table_is_that_of_the_proto_file() -> None:
    assert fields_of(a2a_pb2.AgentCard.DESCRIPTOR) == CARD


def test_the_three_forms() -> None:
    document: dict[str, Any] = {
        "name": "A",
        "description": "",
        "url": "https://old.example",
        "documentationUrl": "",
        "provider": None,
        "skills": [],
        "securityRequirements": [{"schemes": {"key": {"list": []}}}],
        "capabilities": {
            "streaming": False,
            "unknown": 1,
            "extensions": [{"uri": "x", "required": False, "params": {"a": "", "b": [0]}}],
        },
        "signatures": [{"protected": "p"}],
    }
    as_received, specified, of_the_sdk = signed_forms(document)
    assert as_received.payload == {k: v for k, v in document.items() if k != "signatures"}
    known = {
        "name": "A",
        "description": "",
        "documentationUrl": "",
        "skills": [],
        "securityRequirements": [{"schemes": {"key": {}}}],
        "capabilities": {
            "streaming": False,
            "extensions": [{"uri": "x", "params": {"a": "", "b": [0]}}],
        },
    }
    assert specified.payload == specified.content == of_the_sdk.content == known
    assert of_the_sdk.payload == {
        "name": "A",
        "capabilities": {
            "streaming": False,
            "extensions": [{"uri": "x", "params": {"b": [0]}}],
        },
    }
