"""Output items: what they contain, and which of them a message carries."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm._answer import RawToolCall
from coreason_client.llm.providers._responses_items import (
    call_of,
    carried_items,
    image_of,
    items_of_message,
    message_text,
    reasoning_text,
    texts_of,
)
from tests.llm.providers.responses_events import OBJECTS

THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1}'}
SAID = {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}
KNOWN_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}


@given(item=OBJECTS)
def test_any_item_can_be_read(item: dict[str, Any]) -> None:
    assert isinstance(message_text(item)[0], str)
    assert isinstance(reasoning_text(item), str)
    assert isinstance(call_of(item).name, str)
    assert isinstance(image_of(item), list)
    assert all(None not in carried.values() for carried in carried_items([item]))


def test_the_texts_of_messages() -> None:
    refusal = {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}
    assert texts_of([SAID, THOUGHT, {"type": "message", "content": "!"}]) == ("Hi!", False)
    assert texts_of([SAID, refusal]) == ("HiNo.", True)
    assert texts_of([]) == ("", False)


def test_the_reasoning_of_an_item() -> None:
    item = {"content": [{"text": "A"}, {"text": ""}], "summary": [{"text": "B"}, 7]}
    assert reasoning_text(item) == "A\n\nB"


@pytest.mark.parametrize(
    ("item", "call"),
    [
        (CALL, RawToolCall("c", "f", '{"a": 1}')),
        ({"id": "fc", "name": "f"}, RawToolCall("fc", "f", "")),
        ({"arguments": {"a": 1}}, RawToolCall(None, "", '{"a":1}')),
    ],
)
def test_a_call(item: dict[str, Any], call: RawToolCall) -> None:
    assert call_of(item) == call


def test_what_is_carried() -> None:
    assert carried_items([SAID, CALL]) == []
    assert carried_items([THOUGHT, CALL, 7, {}]) == [THOUGHT, CALL]
    assert carried_items([{**THOUGHT, "encrypted_content": None}, SAID]) == []
    assert carried_items([{**THOUGHT, "status": None, "summary": None}]) == [THOUGHT]
    assert carried_items([{**SAID, "phase": "commentary"}]) == [{**SAID, "phase": "commentary"}]
    assert carried_items([{"type": "web_search_call"}, SAID]) == [
        {"type": "web_search_call"},
        SAID,
    ]


def message(*items: Any, content: str | None = "Hi", calls: Any = (KNOWN_CALL,)) -> dict[str, Any]:
    carried = {"provider_items": {"openai": list(items)}}
    return {"role": "assistant", "content": content, "tool_calls": list(calls), **carried}


def test_the_items_of_a_message() -> None:
    items = [THOUGHT, SAID, CALL]
    assert items_of_message(message(*items), "openai") == items
    assert items_of_message(message(*items), "azure") == ()
    assert items_of_message(message(THOUGHT, CALL, content=None), "openai") == [THOUGHT, CALL]
    assert items_of_message({"role": "assistant", "content": "Hi"}, "openai") == ()


@pytest.mark.parametrize(
    "changed",
    [
        {"content": "Hello"},
        {"content": None},
        {"tool_calls": []},
        {"tool_calls": [KNOWN_CALL, KNOWN_CALL]},
        {"tool_calls": [{**KNOWN_CALL, "id": "d"}]},
        {"tool_calls": [{**KNOWN_CALL, "function": {"name": "g", "arguments": '{"a":1}'}}]},
        {"tool_calls": [{**KNOWN_CALL, "function": {"name": "f", "arguments": '{"a":2}'}}]},
        {"tool_calls": [{**KNOWN_CALL, "function": {"name": "f", "arguments": "{}"}}]},
    ],
)
def test_a_message_that_was_changed_has_no_items(changed: dict[str, Any]) -> None:
    assert items_of_message({**message(THOUGHT, SAID, CALL), **changed}, "openai") == ()


@given(text=st.text(max_size=5))
def test_a_lone_surrogate_in_arguments_is_compared(text: str) -> None:
    item = {**CALL, "arguments": text}
    assert items_of_message(message(item, content=""), "openai") in ((), [item])
