"""Turns of blocks, made with the blocks of an invented format."""

import re
from typing import Any

import pytest

from coreason_client.llm.providers._claude import (
    call_input,
    escaped_id,
    lone_prompts,
    make_turns,
    signed_blocks,
    tool_parts,
    with_calls,
)


def blocks(message: Any) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"text": content}] if content and message["role"] != "system" else []


def call(name: str, signature: str | None = None, arguments: str = "{}") -> dict[str, Any]:
    signed = {} if signature is None else {"signature": signature}
    return {"id": name, "function": {"name": name, "arguments": arguments}, **signed}


def is_signed(block: Any) -> bool:
    return isinstance(block, dict) and "seal" in block


def tool_use(call: Any) -> dict[str, Any]:
    return {"use": call["id"]}


@pytest.mark.parametrize(
    ("messages", "turns"),
    [
        ([], []),
        ([("system", "be brief")], []),
        ([("user", "a"), ("user", ""), ("tool", "b")], [("user", ["a", "b"])]),
        (
            [("user", "a"), ("system", "s"), ("assistant", "b "), ("user", "c ")],
            [("user", ["a"]), ("assistant", ["b "]), ("user", ["c "])],
        ),
        # Only the end of an unfinished answer is stripped.
        (
            [("user", "a "), ("assistant", "b "), ("assistant", "c ")],
            [("user", ["a "]), ("assistant", ["b ", "c"])],
        ),
    ],
)
def test_messages_of_one_role_are_one_turn(messages: list[Any], turns: list[Any]) -> None:
    made = make_turns([{"role": role, "content": text} for role, text in messages], blocks)
    shown = [(turn["role"], [block["text"] for block in turn["content"]]) for turn in made]
    assert shown == turns


def test_a_turn_that_ends_with_a_call_is_not_stripped() -> None:
    made = make_turns(
        [{"role": "assistant", "content": "a "}],
        lambda message: [*blocks(message), {"use": "f"}],
    )
    assert made == [{"role": "assistant", "content": [{"text": "a "}, {"use": "f"}]}]


def test_lone_prompts_are_a_user_turn() -> None:
    assert lone_prompts([{"text": "s"}]) == [{"role": "user", "content": [{"text": "s"}]}]
    assert lone_prompts([]) == []


def test_a_turn_begins_with_its_reasoning_and_later_reasoning_precedes_its_call() -> None:
    calls = [call("f", '[{"seal": 1}]'), call("g", '[{"seal": 2}, {"seal": 3}]'), call("h")]
    assert with_calls([{"text": "so"}], calls, is_signed, tool_use) == [
        {"seal": 1},
        {"text": "so"},
        {"use": "f"},
        {"seal": 2},
        {"seal": 3},
        {"use": "g"},
        {"use": "h"},
    ]


@pytest.mark.parametrize("signature", [None, "", "a Gemini signature", "{}", "[1, {}]", 5])
def test_a_signature_of_another_provider_has_no_blocks(signature: Any) -> None:
    assert list(signed_blocks(signature, is_signed)) == []


def test_arguments_may_be_empty_or_contain_control_characters() -> None:
    assert call_input(call("f", arguments="")) == {}
    assert call_input(call("f", arguments='{"a": "x\ny"}')) == {"a": "x\ny"}


def test_a_character_that_is_not_allowed_in_an_id_is_its_number() -> None:
    assert escaped_id("call:1/\u00e4", re.compile(r"[^a-z0-9]")) == "call_3a_1_2f__e4_"


def test_the_parts_of_a_tool() -> None:
    assert tool_parts({"name": "f"}) == ({"name": "f"}, {"type": "object"})
    parameters = {"properties": {"a": {"type": "string", "minLength": 1}}}
    tool, schema = tool_parts({"name": "f", "description": "d", "parameters": parameters})
    assert (tool, schema) == ({"name": "f", "description": "d"}, {"type": "object", **parameters})
    tool, schema = tool_parts({"name": "f", "parameters": parameters, "strict": True})
    assert tool == {"name": "f", "strict": True}
    assert "minLength" not in schema["properties"]["a"]
