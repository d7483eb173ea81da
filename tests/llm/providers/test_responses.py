"""The adapter of the Responses API, beyond its wire table."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm._answer import Billing, Malformed, RawToolCall
from coreason_client.llm._call import ModelCall
from coreason_client.llm._check_call import check_call
from coreason_client.llm._profile import ProviderProfile
from coreason_client.llm.providers.openai import ADAPTER as OPENAI
from coreason_client.llm.providers.profiles import PROFILES
from coreason_client.llm.providers.responses import ADAPTER
from tests.llm.providers.responses_events import ANYTHING, OBJECTS, outputs

PROFILE = ProviderProfile(name="p", wire="responses", responses=True)


@given(reply=OBJECTS | st.builds(lambda output: {"output": output}, st.lists(OBJECTS, max_size=3)))
def test_any_object_is_an_answer_or_malformed(reply: dict[str, Any]) -> None:
    with suppress(Malformed):
        answer = ADAPTER.answer(reply)
        assert answer.content is None or isinstance(answer.content, str)
        assert isinstance(answer.reasoning, str)
        assert all(isinstance(call, RawToolCall) for call in answer.calls)
        assert answer.end in ("stop", "length", "filtered")
        assert all(isinstance(item, dict) for item in answer.items)


@given(reply=ANYTHING | OBJECTS)
def test_any_value_is_an_error_or_none(reply: Any) -> None:
    fault = ADAPTER.fault(reply)
    if fault is not None:
        assert fault.message
        assert all(code and isinstance(code, str) for code in fault.codes)


def parsed(call: RawToolCall) -> tuple[str | None, str, Any]:
    return call.id, call.name, json.loads(str(call.arguments))


def message_of(output: list[dict[str, Any]]) -> dict[str, Any]:
    """The message that a caller appends to the conversation."""
    answer = ADAPTER.answer({"output": output})
    calls = [dict(zip(("id", "name", "arguments"), parsed(c), strict=True)) for c in answer.calls]
    carried = {"provider_items": {"p": answer.items}} if answer.items else {}
    content = answer.content or (None if calls else "")
    return {"role": "assistant", "content": content, "tool_calls": calls, **carried}


def sent_after(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The items that are sent for a message in the middle of a conversation."""
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": "r"}
        for call in message["tool_calls"]
    ]
    conversation = [{"role": "user", "content": "q"}, message, *results]
    call = check_call(conversation, "m", None, 0.7, 9)
    sent: list[dict[str, Any]] = ADAPTER.body(call, PROFILE)["input"]
    assert sent[0] == {"type": "message", "role": "user", "content": "q"}
    end = len(sent) - len(results)
    assert all(item["type"] == "function_call_output" for item in sent[end:])
    return sent[1:end]


@given(output=outputs())
def test_what_was_received_is_sent_back(output: list[dict[str, Any]]) -> None:
    """Unchanged and in order if there is reasoning to carry, otherwise as text and calls."""
    sent = sent_after(message_of(output))
    if any(item["type"] == "reasoning" for item in output):
        assert sent == output
    again = ADAPTER.answer({"output": sent})
    before = ADAPTER.answer({"output": output})
    assert again.content == before.content
    assert list(map(parsed, again.calls)) == list(map(parsed, before.calls))


@given(output=outputs(), text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_changed_text_is_sent_as_changed(output: list[dict[str, Any]], text: str) -> None:
    message = message_of(output)
    message["content"] = (message["content"] or "") + text
    sent = sent_after(message)
    assert sent[0] == {"type": "message", "role": "assistant", "content": message["content"]}


def test_every_kind_of_part() -> None:
    file = {"file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}
    parts = [
        {"type": "text", "text": "Read."},
        {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}},
        {"type": "file", "file": file},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]
    body = ADAPTER.body(
        ModelCall(model="m", messages=[{"role": "user", "content": parts}]), PROFILE
    )
    assert body["input"][0]["content"] == [
        {"type": "input_text", "text": "Read."},
        {"type": "input_image", "image_url": "https://x.example/a.png", "detail": "auto"},
        {"type": "input_file", **file},
        {"type": "input_file", "file_id": "file-1"},
    ]


def test_audio_cannot_be_sent() -> None:
    part = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
    for profile in PROFILES:
        problem = ADAPTER.part_problem(part, profile)
        assert problem is not None
        assert problem.startswith("which the Responses API does not accept: send a transcript")


FILE_URL = {"file_url": "https://x.example/a.csv"}
FILE_DATA = {"file_data": "data:text/csv;base64,YSxi", "filename": "a.csv"}
FILE_ID = {"file_id": "file-1"}


@pytest.mark.parametrize(
    ("provider", "accepted"),
    [
        ("openai", [FILE_URL, FILE_DATA, FILE_ID]),
        ("azure", [FILE_URL, FILE_DATA, FILE_ID]),
        ("openrouter", [FILE_URL, FILE_DATA]),
        ("llamacpp", []),
        ("vllm", []),
    ],
)
def test_which_files_can_be_sent(provider: str, accepted: list[Any]) -> None:
    [profile] = [profile for profile in PROFILES if profile.name == provider]
    for file in (FILE_URL, FILE_DATA, FILE_ID):
        problem = ADAPTER.part_problem({"type": "file", "file": file}, profile)
        assert (problem is None) is (file in accepted), problem
    image = {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}
    assert ADAPTER.part_problem(image, profile) is None


def test_cached_prompts_have_a_key_where_the_provider_knows_it() -> None:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]
    call = ModelCall(model="m", messages=messages, prompt_cache="5m")
    with_keys = ProviderProfile(name="p", cache_keys=True)
    key = ADAPTER.body(call, with_keys)["prompt_cache_key"]
    assert key == OPENAI.body(call, with_keys)["prompt_cache_key"]
    assert "prompt_cache_key" not in ADAPTER.body(call, PROFILE)
    assert "prompt_cache_key" not in ADAPTER.body(replace(call, prompt_cache=None), with_keys)


@pytest.mark.parametrize(
    ("usage", "dollars"), [({"cost": 0.25}, 0.25), ({"cost_in_usd_ticks": 5 * 10**9}, 0.5)]
)
def test_what_the_provider_billed_is_known(usage: dict[str, Any], dollars: float) -> None:
    counted = {"input_tokens": 3, "output_tokens": 2, **usage}
    reply = {"output": [], "usage": counted, "model": "m-2", "service_tier": "flex"}
    tokens = ADAPTER.answer(reply).tokens
    reader = ADAPTER.reader()
    reader.read(json.dumps({"type": "response.completed", "response": reply}).encode(), b"")
    for found in (tokens, reader.tokens):
        assert found is not None
        assert found.billing == Billing("m-2", "flex", dollars)


def test_defaults_of_the_provider_are_left_to_it() -> None:
    messages = [{"role": "user", "content": "q"}]
    call = ModelCall(model="m", messages=messages, temperature=None, max_tokens=None)
    assert ADAPTER.body(call, PROFILE).keys() == {"model", "input", "store"}


def test_a_developer_message_keeps_its_role() -> None:
    messages = [{"role": "developer", "content": "d"}, {"role": "user", "content": "q"}]
    body = ADAPTER.body(ModelCall(model="m", messages=messages), PROFILE)
    assert [item["role"] for item in body["input"]] == ["developer", "user"]


@pytest.mark.parametrize(
    ("model", "encrypted", "expected"),
    [
        ("gpt-4o", "reasoning models", False),
        ("gpt-5", "reasoning models", True),
        ("openai/o3", "reasoning models", True),
        ("grok-4", "all models", True),
        ("gpt-5", None, False),
    ],
)
def test_who_is_asked_for_encrypted_reasoning(
    model: str, encrypted: Any, *, expected: bool
) -> None:
    profile = ProviderProfile(name="p", encrypted_reasoning=encrypted)
    body = ADAPTER.body(
        ModelCall(model=model, messages=[{"role": "user", "content": "q"}]), profile
    )
    assert ("include" in body) is expected


def test_a_body_leaves_the_call_as_it_was() -> None:
    message = message_of([{"type": "reasoning", "encrypted_content": "x", "summary": []}])
    call = check_call([{"role": "user", "content": "q"}, message], "m", None, 0.7, 9, stream=True)
    before = json.dumps(call.messages)
    body = ADAPTER.body(call, PROFILE)
    body["input"].append(1)
    assert json.dumps(call.messages) == before
    assert body["stream"] is True
    assert ADAPTER.url("https://x.example/v1", call) == "https://x.example/v1/responses"
