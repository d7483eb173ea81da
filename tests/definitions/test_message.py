"""Messages and their parts (RFC 004, section 1)."""

from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError

from coreason_manifest.definitions import message
from coreason_manifest.definitions._base import CoReasonBaseModel
from coreason_manifest.definitions.message import (
    BlobPart,
    ChatMessage,
    FilePart,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolCallResponsePart,
    UriPart,
)

Fields = dict[str, Any]

# The type of a part, its class, the fields that it needs, and those that it may have.
PARTS: list[tuple[str, type[CoReasonBaseModel], Fields, Fields]] = [
    ("text", TextPart, {"content": "Hi"}, {}),
    ("blob", BlobPart, {"content": "QQ=="}, {"mime_type": "image/png", "modality": "image"}),
    ("file", FilePart, {"file_id": "f"}, {"mime_type": "text/csv", "modality": "document"}),
    ("uri", UriPart, {"uri": "https://e.com"}, {"mime_type": "audio/ogg", "modality": "audio"}),
    ("tool_call", ToolCallPart, {"name": "add"}, {"id": "1", "arguments": {"a": [1, None]}}),
    ("tool_call_response", ToolCallResponsePart, {}, {"id": "1", "response": {"sum": 3}}),
    ("reasoning", ReasoningPart, {"content": "Hm"}, {}),
]

every_part = pytest.mark.parametrize(
    ("type_", "model", "needed", "optional"), PARTS, ids=[part[0] for part in PARTS]
)


def parse(part: object) -> Any:
    return ChatMessage.model_validate({"role": "user", "parts": [part]}).parts[0]


@every_part
@pytest.mark.proves("R16k")
def test_parts_are_told_apart_by_type(
    type_: str, model: type[CoReasonBaseModel], needed: Fields, optional: Fields
) -> None:
    least = {"type": type_, **needed}
    most = least | optional
    assert type(parse(least)) is type(parse(most)) is model
    assert parse(least).dump() == least
    assert parse(most).dump() == most


@every_part
@pytest.mark.proves("R16k")
def test_a_part_needs_its_fields_and_no_others(
    type_: str, model: type[CoReasonBaseModel], needed: Fields, optional: Fields
) -> None:
    assert model.model_validate(needed).dump() == {"type": type_, **needed}
    for name in optional:
        assert model.model_validate(needed)[name] is None
    for name in needed:
        with pytest.raises(ValidationError, match=name):
            parse({"type": type_, **needed} | {name: None})
        with pytest.raises(ValidationError, match=name):
            parse({"type": type_, **optional})


@pytest.mark.parametrize(
    "part",
    [
        {"type": "hologram", "content": "x"},
        {"type": "TEXT", "content": "x"},
        {"type": None, "content": "x"},
        {"content": "x"},
        {},
        "x",
        None,
    ],
)
@pytest.mark.proves("R16k")
def test_a_part_of_no_known_type_is_refused(part: object) -> None:
    with pytest.raises(ValidationError):
        parse(part)


@pytest.mark.proves("R16k")
def test_a_part_class_takes_no_other_type() -> None:
    with pytest.raises(ValidationError):
        TextPart.model_validate({"type": "reasoning", "content": "x"})


@pytest.mark.proves("R16j")
def test_a_message_has_role_parts_and_name() -> None:
    values = {
        "role": "assistant",
        "parts": [{"type": "reasoning", "content": "Hm"}, {"type": "text", "content": "Hi"}],
        "name": "Ada",
    }
    example = ChatMessage.model_validate(values)
    assert example.role is Role.ASSISTANT
    assert example.parts == [ReasoningPart(content="Hm"), TextPart(content="Hi")]
    assert example.name == "Ada"
    assert example.dump() == values
    assert ChatMessage.model_validate_json(example.to_json()) == example


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "narrator", "parts": []},
        {"role": "user"},
        {"parts": []},
        {"role": "user", "parts": "Hi"},
    ],
)
@pytest.mark.proves("R16j")
def test_a_message_needs_a_role_and_parts(wrong: Fields) -> None:
    with pytest.raises(ValidationError):
        ChatMessage.model_validate(wrong)


@pytest.mark.parametrize(
    ("built", "dumped"),
    [
        (
            ChatMessage.user("Analyze this data."),
            {"role": "user", "parts": [{"type": "text", "content": "Analyze this data."}]},
        ),
        (
            ChatMessage.user("Hi", name="Ada"),
            {"role": "user", "parts": [{"type": "text", "content": "Hi"}], "name": "Ada"},
        ),
        (
            ChatMessage.assistant("Hello"),
            {"role": "assistant", "parts": [{"type": "text", "content": "Hello"}]},
        ),
        (
            ChatMessage.assistant("Hello", "Bot"),
            {"role": "assistant", "parts": [{"type": "text", "content": "Hello"}], "name": "Bot"},
        ),
        (
            ChatMessage.tool("call_1", {"sum": 3}, "add"),
            {
                "role": "tool",
                "parts": [{"type": "tool_call_response", "id": "call_1", "response": {"sum": 3}}],
                "name": "add",
            },
        ),
        (
            ChatMessage.tool(None, "3"),
            {"role": "tool", "parts": [{"type": "tool_call_response", "response": "3"}]},
        ),
        (
            ChatMessage.tool(content="3", tool_call_id="call_1"),
            {
                "role": "tool",
                "parts": [{"type": "tool_call_response", "id": "call_1", "response": "3"}],
            },
        ),
        (
            ChatMessage.tool(response="3", tool_call_id="call_1", name="add"),
            {
                "role": "tool",
                "parts": [{"type": "tool_call_response", "id": "call_1", "response": "3"}],
                "name": "add",
            },
        ),
        (
            ChatMessage.tool(response="3"),
            {"role": "tool", "parts": [{"type": "tool_call_response", "response": "3"}]},
        ),
        (
            ChatMessage.tool(UUID(int=1), "3"),
            {
                "role": "tool",
                "parts": [{"type": "tool_call_response", "id": str(UUID(int=1)), "response": "3"}],
            },
        ),
    ],
)
@pytest.mark.proves("R16l")
def test_the_factories(built: ChatMessage, dumped: Fields) -> None:
    assert built.dump() == dumped
    assert ChatMessage.model_validate(dumped) == built


@pytest.mark.parametrize(
    "arguments", [{}, {"tool_call_id": "call_1"}, {"content": "3", "response": "3"}]
)
def test_a_tool_message_has_its_content_once(arguments: Fields) -> None:
    with pytest.raises(TypeError, match=r"ChatMessage\.tool\(tool_call_id, content\)"):
        ChatMessage.tool(**arguments)


def test_an_id_that_is_not_one_is_refused() -> None:
    """As from code for the earlier order, with the content first."""
    with pytest.raises(ValidationError, match="id"):
        ChatMessage.tool({"sum": 3}, "call_1")  # type: ignore[call-overload]


def test_text_joins_the_text_parts_alone() -> None:
    parts = [
        TextPart(content="Hel"),
        ReasoningPart(content="Hm"),
        BlobPart(content="QQ=="),
        TextPart(content="lo"),
    ]
    assert ChatMessage(role=Role.ASSISTANT, parts=parts).text == "Hello"
    assert ChatMessage(role=Role.ASSISTANT, parts=[]).text == ""


@pytest.mark.proves("RFC004-1-message", "R15a")
def test_the_module_defines_messages_and_roles() -> None:
    assert {"ChatMessage", "Role"} <= set(message.__all__)
    assert list(Role) == ["system", "user", "assistant", "tool"]
