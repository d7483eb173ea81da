"""Anthropic's adapter, beyond what its wire table shows."""

import json
import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm._answer import (
    FaultReceived,
    Malformed,
    ModelAnswer,
    ProviderFault,
    RawToolCall,
    Tokens,
)
from coreason_client.llm._call import ModelCall, Schema
from coreason_client.llm._profile import ProviderProfile
from coreason_client.llm.providers.anthropic import ADAPTER
from coreason_client.llm.types import ReasoningDelta, TextDelta, ToolCallDelta

ANTHROPIC = ProviderProfile(name="anthropic", wire="anthropic", auth="x-api-key")
MODEL = "claude-sonnet-4-5"
KEYS = st.sampled_from(
    [
        "type", "content", "text", "thinking", "signature", "data", "id", "name", "input", "index",
        "stop_reason", "usage", "input_tokens", "output_tokens", "cache_read_input_tokens",
        "cache_creation_input_tokens", "cache_creation", "ephemeral_1h_input_tokens",
        "output_tokens_details", "thinking_tokens", "message", "content_block", "delta",
        "partial_json", "error", "code", "details", "error_code",
    ]
)  # fmt: skip
KINDS = st.sampled_from(
    [
        "message", "text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "error",
        "ping", "message_start", "content_block_start", "content_block_delta",
        "content_block_stop", "message_delta", "message_stop", "text_delta", "thinking_delta",
        "input_json_delta", "signature_delta", "end_turn", "refusal", "overloaded_error",
    ]
)  # fmt: skip
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | KINDS
)  # fmt: skip
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=6)
        | st.builds(
            lambda kind, more: {**more, "type": kind},
            KINDS,
            st.dictionaries(KEYS, inner, max_size=4),
        )
    ),
    max_leaves=20,
)
OBJECTS = st.dictionaries(KEYS, ANYTHING, max_size=6)


def wire(value: Any) -> bytes:
    return json.dumps(value).encode()


def read(*events: Any) -> ModelAnswer:
    reader = ADAPTER.reader()
    for event in events:
        assert not reader.done
        reader.read(wire(event), b"")
    assert reader.done
    return reader.answer()


def parsed(answer: ModelAnswer) -> ModelAnswer:
    """The same answer, all arguments as objects."""
    for call in answer.calls:
        if isinstance(call.arguments, str):
            call.arguments = json.loads(call.arguments or "{}")
    return answer


def body(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return ADAPTER.body(ModelCall(model=MODEL, messages=messages, **more), ANTHROPIC)


# Whatever comes, nothing but what the interface says comes out.


def is_sound(answer: ModelAnswer) -> bool:
    return (
        answer.content != ""
        and answer.end in ("stop", "length", "tool_calls", "filtered")
        and all(call.id is None or call.id for call in answer.calls)
        and all(isinstance(call.arguments, str | dict | None) for call in answer.calls)
        and (answer.tokens is None or min(answer.tokens.cached, answer.tokens.cache_write) >= 0)
    )


@given(reply=OBJECTS)
def test_any_object_is_an_answer_or_malformed(reply: dict[str, Any]) -> None:
    try:
        answer = ADAPTER.answer(reply)
    except Malformed:
        assert not isinstance(reply.get("stop_reason"), str) or reply["stop_reason"] == ""
        return
    assert is_sound(answer)


@given(reply=ANYTHING)
def test_any_json_is_a_fault_or_none(reply: Any) -> None:
    fault = ADAPTER.fault(reply)
    if fault is None:
        assert not isinstance(reply, dict) or not reply.get("error")
    else:
        assert fault.message
        assert all(fault.codes)


@given(
    events=st.lists(
        st.tuples(
            OBJECTS.map(wire) | ANYTHING.map(wire) | st.binary(max_size=20),
            st.binary(max_size=5) | KINDS.map(str.encode),
        ),
        max_size=6,
    )
)
def test_any_events_are_read_or_refused(events: Sequence[tuple[bytes, bytes]]) -> None:
    reader = ADAPTER.reader()
    for data, name in events:
        try:
            pieces = reader.read(data, name)
        except (Malformed, FaultReceived):
            continue
        assert all(isinstance(p, TextDelta | ReasoningDelta | ToolCallDelta) for p in pieces)
        assert is_sound(reader.answer())


# A stream says what the whole answer says.

WORDS = st.text(min_size=1, max_size=12)
SIGNATURES = st.text("abc+/=", min_size=1, max_size=8)
ARGUMENTS = st.dictionaries(st.text(max_size=4), st.text(max_size=6) | st.integers(), max_size=3)
BLOCKS = st.one_of(
    st.builds(lambda words: {"type": "text", "text": words}, WORDS),
    st.builds(
        lambda words, seal: {"type": "thinking", "thinking": words, "signature": seal},
        st.just("") | WORDS,
        SIGNATURES,
    ),
    st.builds(lambda words: {"type": "redacted_thinking", "data": words}, WORDS),
    st.builds(
        lambda id_, name, given: {"type": "tool_use", "id": id_, "name": name, "input": given},
        st.from_regex(r"toolu_[0-9A-Za-z]{4}", fullmatch=True),
        st.sampled_from(["get_weather", "get_time"]),
        ARGUMENTS,
    ),
)
COUNTS = st.fixed_dictionaries(
    {
        "input_tokens": st.integers(0, 10_000),
        "cache_read_input_tokens": st.integers(0, 10_000),
        "cache_creation_input_tokens": st.integers(0, 10_000),
    }
)


def cut(words: str, draw: st.DataObject) -> list[str]:
    ends = draw.draw(st.lists(st.integers(0, len(words)), max_size=4).map(sorted))
    return [words[a:b] for a, b in pairwise([0, *ends, len(words)])]


def streamed(index: int, block: dict[str, Any], draw: st.DataObject) -> Iterator[dict[str, Any]]:
    """The events that a block is made of, cut anywhere."""
    forms: dict[str, list[tuple[str, dict[str, Any], str, str]]] = {
        "text": [("text", {"text": ""}, "text_delta", "text")],
        "thinking": [
            ("thinking", {"thinking": "", "signature": ""}, "thinking_delta", "thinking"),
            ("signature", {}, "signature_delta", "signature"),
        ],
        "tool_use": [("input", {"input": {}}, "input_json_delta", "partial_json")],
    }
    grown = forms.get(block["type"], [])
    begin = dict(block)
    for _, empty, _, _ in grown:
        begin.update(empty)
    yield {"type": "content_block_start", "index": index, "content_block": begin}
    for key, _, delta, part in grown:
        whole = block[key] if isinstance(block[key], str) else json.dumps(block[key])
        for piece in cut(whole, draw):
            more = {"type": delta, part: piece}
            yield {"type": "content_block_delta", "index": index, "delta": more}
            if draw.draw(st.booleans()):
                yield {"type": "ping"}
    yield {"type": "content_block_stop", "index": index}


@given(
    blocks=st.lists(BLOCKS, max_size=5),
    counts=COUNTS,
    output=st.integers(1, 10_000),
    reason=st.sampled_from(["end_turn", "max_tokens", "tool_use", "refusal"]),
    draw=st.data(),
)
@pytest.mark.proves("AI-5-same-shape")
def test_a_stream_gives_what_the_whole_answer_gives(
    blocks: list[dict[str, Any]],
    counts: dict[str, int],
    output: int,
    reason: str,
    draw: st.DataObject,
) -> None:
    usage = {**counts, "output_tokens": output}
    whole = {"type": "message", "content": blocks, "stop_reason": reason, "usage": usage}
    begun: dict[str, Any] = {
        "content": [],
        "stop_reason": None,
        "usage": {**counts, "output_tokens": 1},
    }
    events: list[dict[str, Any]] = [{"type": "message_start", "message": begun}]
    for index, block in enumerate(blocks):
        events += streamed(index, block, draw)
    ended = {"stop_reason": reason}
    events.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": output}})
    events.append({"type": "message_stop"})
    assert parsed(read(*events)) == parsed(ADAPTER.answer(whole))


def test_blocks_may_grow_in_turns() -> None:
    def delta(index: int, part: str) -> dict[str, Any]:
        more = {"type": "input_json_delta", "partial_json": part}
        return {"type": "content_block_delta", "index": index, "delta": more}

    def start(index: int, name: str) -> dict[str, Any]:
        block = {"type": "tool_use", "id": f"id{index}", "name": name, "input": {}}
        return {"type": "content_block_start", "index": index, "content_block": block}

    answer = read(
        start(2, "b"),
        start(5, "e"),
        delta(2, '{"x"'),
        delta(5, '{"y"'),
        delta(9, "lost"),
        delta(2, ":1}"),
        delta(5, ":2}"),
        {"type": "message_stop"},
    )
    assert answer.calls == [RawToolCall("id2", "b", '{"x":1}'), RawToolCall("id5", "e", '{"y":2}')]


def test_a_thought_without_a_signature_is_not_kept_with_a_call() -> None:
    answer = ADAPTER.answer(
        {
            "content": [
                {"type": "thinking", "thinking": "Hm."},
                {"type": "tool_use", "id": "a", "name": "get_time", "input": {}},
            ]
        }
    )
    assert answer == ModelAnswer(calls=[RawToolCall("a", "get_time", {})], reasoning="Hm.")


def test_the_end_is_not_known_before_it_is_said() -> None:
    reader = ADAPTER.reader()
    reader.read(b'{"type":"message_start","message":{"stop_reason":"end_turn"}}', b"")
    reader.read(b'{"type":"message_delta","delta":{"stop_reason":null}}', b"")
    assert (reader.end, reader.done, reader.started) == (None, False, False)
    reader.read(b'{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}', b"")
    assert (reader.end, reader.done) == ("length", False)
    reader.read(b'{"type":"message_stop"}', b"message_stop")
    assert reader.done


def test_counts_of_a_stream_never_become_less() -> None:
    reader = ADAPTER.reader()
    for usage in (
        {"input_tokens": 5, "output_tokens": 1, "cache_read_input_tokens": 7},
        {"input_tokens": 0, "output_tokens": 9, "cache_read_input_tokens": None},
        {"input_tokens": "x", "output_tokens": 8},
    ):
        reader.read(wire({"type": "message_delta", "usage": usage}), b"")
    assert reader.tokens == Tokens(prompt=12, completion=9, cached=7)


def test_an_hour_in_the_cache_is_counted_apart() -> None:
    kept = {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4}
    usage = {"input_tokens": 1, "output_tokens": 2, "cache_creation": kept}
    expected = Tokens(prompt=8, completion=2, cache_write=7, cache_write_1h=4)
    assert ADAPTER.answer({"content": "Hello!", "usage": usage}).tokens == expected
    usage["cache_creation_input_tokens"] = 2  # no part is more than the whole
    expected = Tokens(prompt=3, completion=2, cache_write=2, cache_write_1h=2)
    assert ADAPTER.answer({"content": "Hello!", "usage": usage}).tokens == expected


# What is sent.

TEXTS = st.sampled_from(["", " ", "\n", "Hi", "Be brief.", " Go on "])
IMAGE = {"type": "image_url", "image_url": {"url": "https://pictures.example/1.png"}}
MESSAGES = st.one_of(
    st.builds(
        lambda role, words: {"role": role, "content": words, "name": "Architect"},
        st.sampled_from(["system", "user", "assistant"]),
        TEXTS,
    ),
    st.builds(
        lambda words: {"role": "user", "content": [{"type": "text", "text": words}, IMAGE]}, TEXTS
    ),
    st.builds(
        lambda words, thoughts: {
            "role": "assistant",
            "content": words,
            "reasoning": "Hm.",
            "tool_calls": [
                {
                    "id": "call.1",
                    "type": "function",
                    "function": {"name": "f", "arguments": "{}"},
                    "signature": thoughts,
                }
            ],
        },
        st.none() | TEXTS,
        st.sampled_from(
            [
                '[{"type":"thinking","thinking":"x","signature":"y"}]',
                "[",
                '[{"type":[]}, 7]',
                "7",
                "",
                "Cg",
            ]
        ),
    ),
    st.builds(lambda words: {"role": "tool", "tool_call_id": "call.1", "content": words}, TEXTS),
)


def texts(content: Any) -> list[str]:
    """All that a content says, but for blanks."""
    if not isinstance(content, list):
        return [content.strip()] if content and content.strip() else []
    words = [part["text"].strip() for part in content if part["type"] == "text"]
    return [word for word in words if word]


@given(messages=st.lists(MESSAGES, max_size=8))
@pytest.mark.proves("AI-1-prompts")
def test_any_conversation_is_sent_in_turns_and_nothing_is_added(
    messages: list[dict[str, Any]],
) -> None:
    before = deepcopy(messages)
    sent = body(*messages)
    assert messages == before
    turns = sent["messages"]
    assert all(one["role"] != next_["role"] for one, next_ in pairwise(turns))
    assert all(turn["content"] for turn in turns)
    blocks = [block for turn in turns for block in turn["content"]]
    assert all(block["text"].strip() for block in blocks if block["type"] == "text")
    others = [m for m in messages if m["role"] not in ("system", "tool")]
    prompts = [word for m in messages if m["role"] == "system" for word in texts(m["content"])]
    told = [word for m in others for word in texts(m["content"])]
    if "system" in sent or not prompts:
        assert [word.strip() for word in sent.get("system", "").split("\n\n") if word] == prompts
        assert texts(blocks) == told
    else:  # there was nothing else to send
        assert told == []
        assert texts(blocks) == prompts
    results = [block for block in blocks if block["type"] == "tool_result"]
    said = [texts(m["content"]) for m in messages if m["role"] == "tool"]
    assert [texts(result.get("content")) for result in results] == said
    assert all(result.get("content", True) for result in results)


@given(id_=st.text(min_size=1))
def test_any_id_is_made_one_that_is_taken(id_: str) -> None:
    call = {"id": id_, "type": "function", "function": {"name": "f", "arguments": ""}}
    turns = body(
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": id_, "content": "x"},
    )["messages"]
    use, result = turns[0]["content"][0], turns[1]["content"][0]
    assert re.fullmatch(r"[a-zA-Z0-9_-]+", use["id"], re.ASCII)
    assert use["id"] == result["tool_use_id"]
    assert use["id"] == id_ or not re.fullmatch(r"[a-zA-Z0-9_-]+", id_, re.ASCII)
    assert use["input"] == {}


def test_ids_of_parallel_calls_stay_apart() -> None:
    ids = ["f.0", "f:0", "f_0", "f-0"]
    calls = [{"id": i, "function": {"name": "f", "arguments": "{}"}} for i in ids]
    turn = body({"role": "assistant", "content": "", "tool_calls": calls})["messages"][0]
    assert len({block["id"] for block in turn["content"]}) == len(ids)


def test_control_characters_in_arguments_are_sent() -> None:
    function = {"name": "f", "arguments": '{"a": "\x0f"}'}
    message = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "x", "function": function}],
    }
    assert body(message)["messages"][0]["content"][0]["input"] == {"a": "\x0f"}


@given(blocks=st.lists(BLOCKS, max_size=5))
def test_thoughts_come_back_as_they_were(blocks: list[dict[str, Any]]) -> None:
    answer = ADAPTER.answer({"content": blocks, "stop_reason": "tool_use"})
    calls = [
        {
            "id": call.id,
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            "signature": call.signature,
        }
        for call in answer.calls
    ]
    sent = body({"role": "assistant", "content": answer.content, "tool_calls": calls})["messages"]
    again = [block for turn in sent for block in turn["content"] if block["type"] != "text"]
    uses = [index for index, block in enumerate(blocks) if block["type"] == "tool_use"]
    until_last_use = blocks[: uses[-1] + 1] if uses else []
    assert again == [block for block in until_last_use if block["type"] != "text"]


SCHEMA = {
    "type": "object",
    "properties": {
        "format": {"type": "string", "format": ["odd"]},
        "properties": {"properties": {"maximum": {"maximum": 1}}},
    },
    "anyOf": "odd",
    "items": [{"minLength": 1}],
    "default": {"minimum": 1},
    "enum": [{"minimum": 1}],
    "required": ["format"],
}


def test_a_schema_is_fitted_without_a_change_to_the_callers() -> None:
    before = deepcopy(SCHEMA)
    sent = body({"role": "user", "content": "Hi"}, schema=Schema("answer", SCHEMA))
    assert before == SCHEMA
    fitted = sent["output_config"]["format"]["schema"]
    assert fitted == {
        **SCHEMA,
        "properties": {
            "format": {"type": "string"},
            "properties": {"properties": {"maximum": {}}, "additionalProperties": False},
        },
        "additionalProperties": False,
    }
    again = body({"role": "user", "content": "Hi"}, schema=Schema("answer", fitted))
    assert again["output_config"]["format"]["schema"] == fitted


KEYWORDS = st.sampled_from(
    ["type", "properties", "$defs", "anyOf", "oneOf", "items", "format", "minItems", "maximum"]
)
SCHEMAS = st.dictionaries(
    KEYWORDS,
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@given(schema=SCHEMAS)
def test_any_schema_is_sent(schema: dict[str, Any]) -> None:
    assert "output_config" in body({"role": "user", "content": "Hi"}, schema=Schema("a", schema))


# Errors.


def test_the_most_special_code_comes_first() -> None:
    error = {
        "type": "rate_limit_error",
        "message": "You have reached your API usage limits.",
        "details": {"error_code": "enforced_spend_limit_reached"},
    }
    codes = ("enforced_spend_limit_reached", "rate_limit_error")
    expected = ProviderFault(error["message"], codes)  # type: ignore[arg-type]
    assert ADAPTER.fault({"type": "error", "error": error}) == expected


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ({"error": "no such route"}, ProviderFault("no such route")),
        ({"type": "error", "message": "No."}, ProviderFault("No.")),
        ({"type": "error"}, ProviderFault('{"type":"error"}')),
        ({"error": {"code": 429, "message": "No."}}, ProviderFault("No.", ("429",), status=429)),
        ({"error": {"code": 7, "message": "No."}}, ProviderFault("No.", ("7",))),
        ({"error": [1]}, ProviderFault('{"error":[1]}')),
        ({"type": "message", "content": [], "error": None}, None),
        ([], None),
        (None, None),
    ],
)
def test_a_fault_of_an_odd_form(reply: Any, fault: ProviderFault | None) -> None:
    assert ADAPTER.fault(reply) == fault


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"upstream timed out", "upstream timed out"),
        (b'"upstream timed out"', '"upstream timed out"'),
        (b'{"message":"No."}', "No."),
        (b'{"type":"error","error":{"message":"No."}}', "No."),
        (b"{}", "{}"),
    ],
)
def test_an_event_that_is_named_an_error_is_one(data: bytes, message: str) -> None:
    with pytest.raises(FaultReceived) as caught:
        ADAPTER.reader().read(data, b"error")
    assert caught.value.fault.message == message


@pytest.mark.parametrize("data", [b"<html>", b'{"type":"pi', b"[]", b"7", b"null"])
def test_an_event_that_is_no_object_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed, match="must be a JSON object"):
        ADAPTER.reader().read(data, b"content_block_delta")


def test_the_end_mark_of_other_providers_is_one() -> None:
    reader = ADAPTER.reader()
    assert reader.read(b"[DONE]", b"") == ()
    assert reader.done
